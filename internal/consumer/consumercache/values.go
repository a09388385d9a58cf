package consumercache

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/cache"
)

// values is a cache of values. Entries travel between processes as JSON; within
// one, an entry keeps its value, because a window of 200 hotels takes
// milliseconds to decode and each of its pages needs it. Values are shared:
// callers must not change what get returns.
type values[T any] struct{ cache *cache.Cache }

func newValues[T any](c *cache.Cache) *values[T] { return &values[T]{cache: c} }

// get reads a value through the cache. The age is zero unless the value stands in
// for one that could not be fetched; one that is only being renewed does not.
func (c *values[T]) get(ctx context.Context, key string, fetch func(context.Context) (T, []string, error)) (v T, staleAge time.Duration, err error) {
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
		return cache.Fill{Body: body, Value: v, Tags: tags}, nil
	})
	if err != nil {
		return v, 0, err
	}
	if st.Result == cache.Stale && st.Err != nil {
		staleAge = entry.Age()
	}
	v, err = valueOf[T](entry)
	return v, staleAge, err
}

func valueOf[T any](entry *cache.Entry) (T, error) {
	kept, err := entry.Value(func(body []byte) (any, error) {
		var v T
		if err := json.Unmarshal(body, &v); err != nil {
			return nil, fmt.Errorf("decode from cache: %w", err)
		}
		return v, nil
	})
	v, _ := kept.(T)
	return v, err
}
