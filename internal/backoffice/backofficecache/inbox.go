package backofficecache

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/inbox"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/redis"
)

// Lifetimes of mirrors (DATA_MODEL §3.2), and how long the last good one stands in
// for a service that fails.
const (
	suggestionsFresh = 60 * time.Second
	alertsFresh      = 30 * time.Second
	inboxStale       = 10 * time.Minute
	// notFoundFor is how long "there is no such property" is believed.
	notFoundFor = 10 * time.Second
	inboxBytes  = 16 << 20
)

// Inboxes mirrors the inboxes of other services.
type Inboxes struct {
	keys   redis.Keys
	feed   inbox.Feed
	caches map[inbox.Inbox]*cache.Cache
	now    func() time.Time
}

var _ inbox.Mirrors = (*Inboxes)(nil)

// NewInboxes returns mirrors of what a feed has.
func NewInboxes(store *cache.Store, keys redis.Keys, feed inbox.Feed, now func() time.Time) (*Inboxes, error) {
	i := &Inboxes{keys: keys, feed: feed, caches: map[inbox.Inbox]*cache.Cache{}, now: now}
	for of, fresh := range map[inbox.Inbox]time.Duration{inbox.Suggestions: suggestionsFresh, inbox.Alerts: alertsFresh} {
		opened, err := cache.New(store, cache.Config{
			Name: string(of) + "-inbox", Shared: true, Raw: true, MaxBytes: inboxBytes,
			TTL: func() cache.TTL { return cache.TTL{Fresh: fresh, Stale: inboxStale} },
		})
		if err != nil {
			return nil, err
		}
		i.caches[of] = opened
	}
	return i, nil
}

// part is what events make void.
func part(of inbox.Inbox) backoffice.Part {
	if of == inbox.Suggestions {
		return backoffice.PartAIInbox
	}
	return backoffice.PartAlertInbox
}

// listTags are those of a property's copy. That of all properties is void when one of
// theirs is: it has a tag of its own, because theirs all bear the tenant's.
func listTags(p backoffice.Part, tenant, property bff.ID) []string {
	tags := p.Tags(tenant, property)
	if property.IsZero() {
		tags = append(tags, wholeTag(p, tenant))
	}
	return tags
}

func wholeTag(p backoffice.Part, tenant bff.ID) string {
	return string(p) + ":" + tenant.String() + ":*"
}

// ListInbox implements inbox.Mirrors.
func (i *Inboxes) ListInbox(ctx context.Context, of inbox.Inbox, tenant, property bff.ID) (inbox.Mirror, error) {
	keys, err := i.keys.Tenant(tenant)
	if err != nil {
		return inbox.Mirror{}, err
	}
	kept, key := i.caches[of], inboxKey(keys, of, property)
	entry, st, err := kept.Get(ctx, key, func(ctx context.Context) (cache.Fill, error) {
		// The tag of what this process has saves the list from being sent, read and
		// kept again.
		var etag string
		before, has := kept.Peek(key)
		if has {
			etag = string(before.Meta())
		}
		fetched, err := i.feed.FetchInbox(ctx, of, tenant, property, etag)
		switch {
		case bff.CodeOf(err) == bff.CodeResourceNotFound:
			return cache.Fill{}, cache.Negative(err, notFoundFor)
		case err != nil:
			return cache.Fill{}, err
		}
		fill := cache.Fill{Tags: listTags(part(of), tenant, property), Meta: []byte(fetched.ETag), Value: fetched.Entries}
		if fetched.Unchanged && has {
			entries, err := entriesOf(before)
			fill.Body, fill.Value = before.Body(), entries
			return fill, err
		}
		fill.Body, err = json.Marshal(fetched.Entries)
		return fill, err
	})
	if err != nil {
		return inbox.Mirror{}, err
	}
	entries, err := entriesOf(entry)
	return inbox.Mirror{Entries: entries, AsOf: i.now().Add(-entry.Age()), Stale: st.Result == cache.Stale}, err
}

func entriesOf(e *cache.Entry) ([]inbox.Entry, error) {
	v, err := e.Value(func(body []byte) (any, error) {
		var entries []inbox.Entry
		if err := json.Unmarshal(body, &entries); err != nil {
			return nil, fmt.Errorf("decode inbox from cache: %w", err)
		}
		return entries, nil
	})
	entries, _ := v.([]inbox.Entry)
	return entries, err
}
