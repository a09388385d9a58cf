package backofficehttp_test

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/action"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficecache"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficehttp"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/backoffice/inbox"
	"melmastoon.ghasi.io/bff/internal/backoffice/lock"
	"melmastoon.ghasi.io/bff/internal/backoffice/stream"
	"melmastoon.ghasi.io/bff/internal/cache"
)

// actionsFake carries actions out, each key once. Everything is at the house.
type actionsFake struct {
	mu      sync.Mutex
	err     error               // of the next calls
	away    error               // of the next questions whose a resource is
	missing map[bff.ID]bool     // resources that are not there
	moved   map[bff.ID]bool     // resources of another property
	done    map[string]struct{} // by key
	calls   int
	last    action.Command

	conflicts map[string]bool // paths of actions whose state does not allow them
}

func newActionsFake() *actionsFake {
	return &actionsFake{missing: map[bff.ID]bool{}, moved: map[bff.ID]bool{}, done: map[string]struct{}{}}
}

// carried is how often something was really done, and how often it was asked for.
func (h *actionsFake) carried() (done, calls int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.done), h.calls
}

// FindProperty implements action.Upstream.
func (h *actionsFake) FindProperty(_ context.Context, _ bff.ID, a *backoffice.Action, id bff.ID) (bff.ID, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.away != nil:
		return bff.ID{}, h.away
	case h.missing[id]:
		return bff.ID{}, bff.Errorf(bff.CodeResourceNotFound, "there is no such %s", a.Words())
	case h.moved[id]:
		return bff.MustParseID(bff.PrefixProperty, other), nil
	}
	return bff.MustParseID(bff.PrefixProperty, house), nil
}

// Execute implements action.Upstream.
func (h *actionsFake) Execute(_ context.Context, _, _ bff.ID, c *action.Command) (action.Done, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	h.last = *c
	if h.err != nil {
		return nil, h.err
	}
	if h.conflicts[strings.Replace(c.Action.Path, "{"+c.Action.Member+"}", c.ID.String(), 1)] {
		return nil, bff.Errorf(bff.CodeStateConflict, "its present state does not allow this")
	}
	h.done[c.Once.Key] = struct{}{}
	at := bff.At(time.Unix(1_800_000_000, 0))
	id := c.ID
	if c.Action.New {
		id = bff.IDFromBytes(c.Action.ID, [16]byte{1})
	}
	done := action.Done{"guestName": "Zarghuna Ahmadzai", c.Action.Member: id.String()} // of which the name is not kept
	if c.Action.Body == backoffice.BodyPosting {
		done["entryId"], done["postedAt"] = bff.IDFromBytes(backoffice.PrefixPosting, [16]byte{1}).String(), at
	} else {
		done["status"], done["version"], done["updatedAt"] = "done", 2, at
	}
	return done, nil
}

// FindEntry implements inbox.EntryFinder.
func (n *neighbours) FindEntry(_ context.Context, of inbox.Inbox, tenant, property bff.ID, id string) (inbox.Entry, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return inbox.Entry{}, n.err
	}
	for _, e := range n.inbox[inboxOf(of, tenant, property.String())] {
		if e.ID == id {
			return e, nil
		}
	}
	return inbox.Entry{}, bff.Errorf(bff.CodeResourceNotFound, "there is no such entry")
}

// mark is what the ledger does with a decision or an acknowledgement. The caller holds
// the lock.
func (n *neighbours) mark(f *backoffice.Finished, e backoffice.Effect) error {
	switch e := e.(type) {
	case device.PreferencesCopy:
		if n.copies[e.Owner].Version < e.Version {
			n.copies[e.Owner] = e.Preferences
		}
	case inbox.Decision:
		key := inboxOf(inbox.Suggestions, e.Tenant, e.SuggestionID)
		if len(n.marks[key]) > 0 {
			return inbox.ErrAlreadyDecided()
		}
		n.marks[key] = []inbox.Mark{{Operator: e.Operator, At: e.At, Outcome: e.Outcome}}
		n.decisions = append(n.decisions, e)
		f.Events = append(f.Events, e.Events...)
	case inbox.Acknowledgement:
		key := inboxOf(inbox.Alerts, e.Tenant, e.AlertID)
		for _, m := range n.marks[key] {
			if m.Operator == e.Operator {
				e.At = m.At
				f.Answer = e.Answer()
				return nil
			}
		}
		n.marks[key] = append(n.marks[key], inbox.Mark{Operator: e.Operator, At: e.At})
		f.Events = append(f.Events, e.Events...)
	case lock.Settlement:
		f.Events = append(f.Events, e.Events...)
	}
	return nil
}

// CountCharge implements action.Charges.
func (n *neighbours) CountCharge(_ context.Context, c action.Charged, within func(action.Sums) bool) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	sums := action.Sums{c.Amount.Currency: c.Amount.Minor}
	for key, other := range n.charges {
		if key != c.Once.Key && other.Tenant == c.Tenant && other.Operator == c.Operator && other.Folio == c.Folio && other.Day == c.Day {
			sums[other.Amount.Currency] += other.Amount.Minor
		}
	}
	if _, again := n.charges[c.Once.Key]; !again && !within(sums) {
		return false, n.lost
	}
	n.charges[c.Once.Key] = c
	return true, n.lost
}

// FindDone implements action.Traces.
func (n *neighbours) FindDone(_ context.Context, a *backoffice.Action, of backoffice.Activity) (*bff.Known, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, did := range slices.Backward(n.did) {
		if did.Resource == of.Resource && did.Outcome == backoffice.Succeeded && slices.Contains(a.TakenBack(), backoffice.ActionName(did.Action)) {
			break
		}
		if did.Resource == of.Resource && did.Outcome == backoffice.Succeeded && did.Action == string(a.Name) {
			at := bff.At(did.At)
			return &bff.Known{Outcome: string(did.Outcome), At: &at, OperatorID: did.Operator}, n.lost
		}
	}
	return nil, n.lost
}

// FindKey implements action.Traces: what was refused for a role has no trace here.
func (n *neighbours) FindKey(context.Context, bff.ID, string, string) (*bff.Known, error) {
	return nil, n.lost
}

// UncountCharge implements action.Charges.
func (n *neighbours) UncountCharge(_ context.Context, c action.Charged) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.charges, c.Once.Key)
	return n.lost
}

// openActions adds to an API what operators do.
func (n *neighbours) openActions(f *front, store *cache.Store, news *backoffice.Envelopes, notices backoffice.Notifier, cfg *backofficehttp.Config) error {
	notifier := stream.NewChangeNotifier(backofficecache.NewInvalidator(store), notices)
	thresholds, err := action.ReadThresholds("AFN=100,USD=5")
	cfg.Proxy = action.NewProxy(action.ProxyConfig{
		Journal: f.outbox, Upstream: cmp.Or[action.Upstream](f.cfg.actions, f.actions), Mutations: cmp.Or[backoffice.Mutations](f.cfg.mutations, n),
		Attestations: cfg.Attestations, Thresholds: thresholds, Charges: n, Traces: n, Today: cfg.Calendar.Date, Notifier: notifier, News: news, Now: f.clock,
	})
	cfg.Replays = action.NewReplays(action.ReplaysConfig{Proxy: cfg.Proxy, Again: cfg.Access.Again, Traces: n, Now: f.clock})
	cfg.InboxActions = inbox.NewActions(inbox.ActionsConfig{Mirrors: n.mirrors, Finder: n, Mutations: n, Notices: notices, News: news, Now: f.clock})
	return err
}

// advise adds a suggestion and returns its id.
func (f *front) advise() string {
	id := bff.NewID("sug", f.clock()).String()
	f.behindUs.add(inbox.Suggestions, f.tenant, id, f.clock(), ``)
	return id
}

// actionNames are those of everything that operators do about a resource or an entry of
// an inbox.
func actionNames() []string {
	all := []string{"decide", "acknowledge"}
	for _, a := range backoffice.Actions() {
		all = append(all, string(a.Name))
	}
	return all
}

// action is a good request of an action, with a second factor where one is needed.
func (s *sender) action(name string) *request {
	s.f.tb.Helper()
	const at = "?propertyId=" + house
	switch name {
	case "decide":
		return s.keyed(base+"/ai/suggestions/"+s.f.advise()+"/decide"+at, `{"outcome":"rejected"}`)
	case "acknowledge":
		return s.keyed(base+"/alerts/alr_2/acknowledge"+at, `{"notes":"seen"}`)
	}
	a, _ := backoffice.FindAction(backoffice.ActionName(name))
	body, ok := map[backoffice.Body]string{
		"":                       "",
		backoffice.BodyPosting:   `{"amount":{"minor":"9900","currency":"AFN"},"description":"Tea"}`,
		backoffice.BodyWorkOrder: `{"title":"Leaking tap","severity":"low","roomNumber":"204"}`,
	}[a.Body]
	if !ok {
		s.f.tb.Fatalf("%s: there is no good body of a %s", name, a.Body)
	}
	id := bff.NewID(a.ID, s.f.clock()).String()
	r := s.keyed(base+strings.Replace(a.Path, "{"+a.Member+"}", id, 1)+at, body)
	if a.Scope != "" && !a.Large {
		r.header.Set("X-Mfa-Attestation", s.attest(a.Scope, id))
	}
	return r
}

// attest is a second factor; empty if it was not given.
func (s *sender) attest(scope backoffice.AttestationScope, resource string) string {
	s.f.tb.Helper()
	w := s.from(0, http.MethodPost, "/auth/mfa/step-up", `{"scope":"`+string(scope)+`","code":"000000","resourceId":"`+resource+`"}`)
	var doc struct{ AttestationID string }
	_ = json.Unmarshal(w.Body.Bytes(), &doc) // a refusal has none
	return doc.AttestationID
}
