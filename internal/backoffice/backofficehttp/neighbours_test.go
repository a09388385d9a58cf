package backofficehttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/action"
	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficecache"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficehttp"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/backoffice/inbox"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/idempotency"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

var errAway = &bff.Error{Code: bff.CodeUpstreamUnavailable, RetryAfter: time.Second, Err: errors.New("away")}

// neighbours are the services behind inboxes, preferences and shortcuts, and what we
// keep of them, in memory.
type neighbours struct {
	mu      sync.Mutex
	err     error // of every service
	lost    error // of our own store
	inbox   map[string][]inbox.Entry
	fetches int // of inboxes that were sent, not those that were unchanged
	marks   map[string][]inbox.Mark
	prefs   map[device.PreferencesOwner]device.Preferences
	copies  map[device.PreferencesOwner]device.Preferences
	done    map[string]device.Preferences // of tenant-service, by key
	answers map[string]*attempt
	charges map[string]action.Charged // by key
	// decisions that were recorded, and the mirrors of the newest instance.
	decisions []inbox.Decision
	mirrors   inbox.Mirrors
	did       []backoffice.Activity // that have ended
	events    func(...bff.Event) error
	recorded  []backoffice.Activity // the ledger, the newest first
	asked     audit.ActivityQuery
	// killed ends an attempt when tenant-service has accepted it.
	killed bool
}

func newNeighbours() *neighbours {
	return &neighbours{
		inbox: map[string][]inbox.Entry{}, marks: map[string][]inbox.Mark{},
		prefs: map[device.PreferencesOwner]device.Preferences{}, copies: map[device.PreferencesOwner]device.Preferences{},
		done: map[string]device.Preferences{}, answers: map[string]*attempt{}, charges: map[string]action.Charged{},
	}
}

// with changes something.
func (n *neighbours) with(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

func inboxOf(of inbox.Inbox, tenant bff.ID, property string) string {
	return string(of) + " " + tenant.String() + " " + property
}

// add puts an entry into an inbox of the house.
func (n *neighbours) add(of inbox.Inbox, tenant bff.ID, id string, at time.Time, more string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := inboxOf(of, tenant, house)
	name := map[inbox.Inbox]string{inbox.Suggestions: "suggestionId", inbox.Alerts: "alertId"}[of]
	e := inbox.Entry{
		ID: id, Property: bff.MustParseID(bff.PrefixProperty, house), Category: "power", Severity: "warning", Status: "open", At: at,
		Body: []byte(`{"` + name + `":"` + id + `"` + more),
	}
	n.inbox[key] = append(n.inbox[key], e)
	inbox.SortInbox(n.inbox[key])
}

// FetchInbox implements inbox.Feed.
func (n *neighbours) FetchInbox(_ context.Context, of inbox.Inbox, tenant, property bff.ID, etag string) (inbox.Fetched, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	entries, there := n.inbox[inboxOf(of, tenant, property.String())]
	if property.IsZero() {
		for key, more := range n.inbox {
			if strings.HasPrefix(key, inboxOf(of, tenant, "")) {
				entries, there = append(entries, more...), true
			}
		}
		inbox.SortInbox(entries)
	}
	if n.err != nil {
		return inbox.Fetched{}, n.err
	}
	if !there {
		return inbox.Fetched{}, bff.Errorf(bff.CodeResourceNotFound, "there is no such property")
	}
	tag := `"` + strconv.Itoa(len(entries)) + `"`
	if etag == tag {
		return inbox.Fetched{ETag: tag, Unchanged: true}, nil
	}
	n.fetches++
	return inbox.Fetched{Entries: entries, ETag: tag}, nil
}

// ListMarks implements inbox.Marks.
func (n *neighbours) ListMarks(_ context.Context, of inbox.Inbox, tenant bff.ID, ids []string) (map[string][]inbox.Mark, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := map[string][]inbox.Mark{}
	for _, id := range ids {
		if m := n.marks[inboxOf(of, tenant, id)]; m != nil {
			out[id] = m
		}
	}
	return out, n.lost
}

// ListActivities implements audit.Activities. It remembers what it was asked for,
// and filters nothing.
func (n *neighbours) ListActivities(_ context.Context, _ bff.ID, q audit.ActivityQuery) (audit.ActivityPage, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = q
	var page audit.ActivityPage
	after := q.After.ID.IsZero()
	for _, a := range n.recorded {
		switch {
		case !after:
			after = a.ID == q.After.ID && a.At.Equal(q.After.At)
		case len(page.Items) < q.Limit:
			page.Items = append(page.Items, a)
		case page.Next == nil:
			last := page.Items[q.Limit-1]
			page.Next = &audit.ActivityPosition{At: last.At, ID: last.ID}
		}
	}
	return page, n.lost
}

// FetchPreferences is tenant-service.
func (n *neighbours) FetchPreferences(_ context.Context, o device.PreferencesOwner) (device.Preferences, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.saved(o), n.err
}

func (n *neighbours) saved(o device.PreferencesOwner) device.Preferences {
	if p, ok := n.prefs[o]; ok {
		return p
	}
	return device.Preferences{Payload: json.RawMessage(`{}`), Version: 1, UpdatedAt: bff.At(time.Unix(0, 0))}
}

// ReplacePreferences implements device.PreferencesWriter.
func (n *neighbours) ReplacePreferences(_ context.Context, c device.PreferencesChange, key string) (device.Preferences, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return device.Preferences{}, n.err
	}
	if p, again := n.done[key]; again {
		return p, nil
	}
	before := n.saved(c.Owner)
	if before.Version != c.Seen {
		return before, bff.Errorf(bff.CodePreferencesVersionConflict, "the preferences were changed meanwhile")
	}
	p := device.Preferences{Payload: c.Payload, Version: c.Seen + 1, UpdatedAt: bff.At(time.Unix(1_800_000_000, 0))}
	n.prefs[c.Owner], n.done[key] = p, p
	return p, nil
}

// KeepPreferences implements backofficecache.PreferencesCopies.
func (n *neighbours) KeepPreferences(_ context.Context, c device.PreferencesCopy) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lost == nil && n.copies[c.Owner].Version < c.Version {
		n.copies[c.Owner] = c.Preferences
	}
	return n.lost
}

// FindKeptPreferences implements backofficecache.PreferencesCopies.
func (n *neighbours) FindKeptPreferences(_ context.Context, o device.PreferencesOwner) (device.Preferences, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p, ok := n.copies[o]
	if n.lost != nil || !ok {
		return p, errors.Join(n.lost, errors.New("no copy"))
	}
	p.Stale = true
	return p, nil
}

// FindThemeVersion implements backofficecache.ThemeSource.
func (n *neighbours) FindThemeVersion(_ context.Context, tenant bff.ID) (bff.ID, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return bff.IDFromBytes(bff.PrefixThemeVersion, tenant.Bytes()), n.err
}

// attempt is a claim on a key.
type attempt struct {
	n       *neighbours
	did     backoffice.Activity
	digest  [32]byte
	running bool
	answer  *backoffice.Answer
	failure error
}

// BeginMutation implements backoffice.Mutations.
func (n *neighbours) BeginMutation(_ context.Context, at backoffice.Attempt) (backoffice.Mutation, *backoffice.Answer, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lost != nil {
		return nil, nil, n.lost
	}
	a, o := at.Activity, at.Once
	key := a.Tenant.String() + o.Key
	before := n.answers[key]
	switch {
	case before == nil && !o.Young():
		return nil, nil, backoffice.ErrKeyExpired(nil)
	case before == nil:
	case before.digest != o.Digest:
		return nil, nil, bff.Errorf(bff.CodeStaffIdempotencyReused, "another body")
	case before.running:
		return nil, nil, bff.Errorf(bff.CodeStaffIdempotencyInFlight, "still running")
	case before.failure != nil:
		return nil, nil, before.failure
	case before.answer != nil:
		return nil, before.answer, nil
	}
	n.answers[key] = &attempt{n: n, did: a, digest: o.Digest, running: true}
	return n.answers[key], nil, nil
}

// Finish implements backoffice.Mutation.
func (a *attempt) Finish(_ context.Context, f backoffice.Finished) (backoffice.Answer, error) {
	n := a.n
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.killed {
		return backoffice.Answer{}, errors.New("the process was killed")
	}
	for _, e := range f.Effects {
		if err := n.mark(&f, e); err != nil {
			f.Failure = err
		}
	}
	n.did = append(n.did, a.did.Ended(f.Failure, f.At))
	if f.Failure != nil {
		if info := bff.CodeOf(f.Failure).Info(); !info.Retriable && idempotency.Final(info.Status) {
			a.failure = f.Failure
		}
		return backoffice.Answer{}, errors.Join(f.Failure, n.events(f.Events...))
	}
	a.answer = &f.Answer
	return f.Answer, n.events(f.Events...)
}

// Release implements backoffice.Mutation.
func (a *attempt) Release() { a.n.with(func() { a.running = false }) }

// open adds what neighbours have to an API.
func (n *neighbours) open(f *front, store *cache.Store, news *backoffice.Envelopes, cfg *backofficehttp.Config) error {
	n.with(func() {
		n.events = func(events ...bff.Event) error { return f.outbox.Record(context.Background(), nil, events...) }
	})
	keys := redis.NewKeys(f.prefix, "bff-backoffice")
	mirrors, err1 := backofficecache.NewInboxes(store, keys, n, f.clock)
	n.with(func() { n.mirrors = mirrors })
	reader, err2 := backofficecache.NewPreferences(backofficecache.PreferencesConfig{
		Store: store, Keys: keys, Source: n, Copies: n, Log: slog.New(slog.DiscardHandler),
	})
	shortcuts, err3 := backofficecache.NewShortcuts(store, keys, n)
	cfg.Inboxes = inbox.NewInboxes(mirrors, n)
	cfg.Inboxes.MarksTimeout = time.Minute
	cfg.Settings = device.NewSettings(device.SettingsConfig{
		Reader: reader, Writer: n, Mutations: n, News: news, Notices: f.streams[len(f.streams)-1].notices, Now: f.clock,
	})
	cfg.Shortcuts, cfg.Activities = shortcuts, n
	return errors.Join(err1, err2, err3)
}

// void has every instance ask anew for a house's inbox.
func (f *front) void(part backoffice.Part) {
	f.tb.Helper()
	property := bff.MustParseID(bff.PrefixProperty, house)
	if err := backofficecache.NewInvalidator(f.stores[0]).Invalidate(testkit.Context(f.tb), f.tenant, property, part); err != nil {
		f.tb.Fatal(err)
	}
}
