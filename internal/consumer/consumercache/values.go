package consumercache

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/cache"
)

// values is a cache of values. Entries travel between processes as JSON; within
// one, an entry is decoded once, because a window of 200 hotels takes
// milliseconds to decode and each of its pages needs it. Values are shared:
// nobody may change what get returns.
type values[T any] struct {
	cache *cache.Cache
	// known are the values of the entries that memory holds, and of no others: a
	// value goes when its entry does.
	known sync.Map // weak.Pointer[cache.Entry] → T
}

func newValues[T any](c *cache.Cache) *values[T] { return &values[T]{cache: c} }

// filled is a value with the body that was made of it.
type filled[T any] struct {
	value T
	body  []byte
}

// get reads a value through the cache. The age is zero unless the value is stale.
func (c *values[T]) get(ctx context.Context, key string, fetch func(context.Context) (T, []string, error)) (v T, staleAge time.Duration, err error) {
	var ours atomic.Pointer[filled[T]] // a fill may go on in the background
	entry, st, err := c.cache.Get(ctx, key, func(ctx context.Context) (cache.Fill, error) {
		v, tags, err := fetch(ctx)
		if bff.CodeOf(err) == bff.CodeResourceNotFound {
			return cache.Fill{}, cache.Negative(err, notFoundFor)
		}
		if err != nil {
			return cache.Fill{}, err
		}
		body, err := json.Marshal(&v)
		if err != nil {
			return cache.Fill{}, fmt.Errorf("encode for cache: %w", err)
		}
		ours.Store(&filled[T]{v, body})
		return cache.Fill{Body: body, Tags: tags}, nil
	})
	if err != nil {
		return v, 0, err
	}
	if st.Result == cache.Stale {
		staleAge = entry.Age()
	}
	v, err = c.value(entry, ours.Load())
	return v, staleAge, err
}

// value returns the value of an entry.
func (c *values[T]) value(entry *cache.Entry, ours *filled[T]) (v T, err error) {
	name := weak.Make(entry)
	if known, ok := c.known.Load(name); ok {
		return known.(T), nil
	}
	body := entry.Body()
	if ours != nil && len(body) > 0 && len(ours.body) > 0 && &ours.body[0] == &body[0] {
		v = ours.value
	} else if err := json.Unmarshal(body, &v); err != nil {
		return v, fmt.Errorf("decode from cache: %w", err)
	}
	if _, known := c.known.LoadOrStore(name, v); !known {
		runtime.AddCleanup(entry, func(name weak.Pointer[cache.Entry]) { c.known.Delete(name) }, name)
	}
	return v, nil
}
