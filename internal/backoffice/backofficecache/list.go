package backofficecache

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/redis"
)

// Fetch asks a service for a list of a tenant's.
type Fetch[T any] func(ctx context.Context, tenant bff.ID) (T, error)

// Lists remembers what a service lists of each tenant.
type Lists[T any] struct {
	fetch Fetch[T]
	cache *cache.Cache
	keys  redis.Keys
	noun  string
	part  backoffice.Part // that events make void; empty: none do
	now   func() time.Time
}

const listBytes = 16 << 20

// NewPropertyLists remembers the properties of tenants, as long as each of them.
func NewPropertyLists(store *cache.Store, keys redis.Keys, fetch Fetch[[]board.Property], now func() time.Time) (*Lists[[]board.Property], error) {
	c, err := cache.New(store, cache.Config{
		Name: "property-list", Shared: true, Raw: true, MaxBytes: listBytes,
		TTL: func() cache.TTL { return cache.TTL{Fresh: propertyFresh, Stale: propertyStale} },
	})
	return &Lists[[]board.Property]{fetch, c, keys, "properties", backoffice.PartProperties, now}, err
}

// NewNames remembers the names of operators, by their ids. They are personal: this
// process alone has them (DATA_MODEL §11).
func NewNames(store *cache.Store, keys redis.Keys, fetch Fetch[map[string]string], now func() time.Time) (*Lists[map[string]string], error) {
	c, err := cache.New(store, cache.Config{
		Name: "name-list", Raw: true, MaxBytes: listBytes,
		TTL: func() cache.TTL { return cache.TTL{Fresh: memberFresh, Stale: memberStale - memberFresh} },
	})
	return &Lists[map[string]string]{fetch, c, keys, "names", "", now}, err
}

// List implements backoffice.Lists. A caller whose time is up gets the last good list;
// the call goes on, and its answer serves the next.
func (l *Lists[T]) List(ctx context.Context, tenant bff.ID) (backoffice.Listed[T], error) {
	var out backoffice.Listed[T]
	keys, err := l.keys.Tenant(tenant)
	if err != nil {
		return out, err
	}
	key := listKey(keys, l.noun)
	entry, st, err := l.cache.Get(ctx, key, func(ctx context.Context) (cache.Fill, error) {
		all, err := l.fetch(ctx, tenant)
		if err != nil {
			return cache.Fill{}, err
		}
		fill := cache.Fill{Value: all}
		if l.part != "" {
			fill.Tags = listTags(l.part, tenant, bff.ID{})
		}
		fill.Body, err = json.Marshal(all)
		return fill, err
	})
	out.Stale = st.Result == cache.Stale
	if err != nil {
		kept, ok := l.cache.Peek(key)
		if !ok || !errors.Is(err, context.DeadlineExceeded) {
			return out, err
		}
		entry, out.Stale = kept, true
	}
	out.AsOf = l.now().Add(-entry.Age())
	value, err := entry.Value(func(body []byte) (any, error) {
		var all T
		err := json.Unmarshal(body, &all)
		return all, err
	})
	out.All, _ = value.(T) // only these two make them
	return out, err
}
