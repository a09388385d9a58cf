package backofficecache

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"melmastoon.ghasi.io/bff/internal/cache"
)

// found is what a service says, or our copy of it.
type found[T any] struct {
	value T
	tags  []string
	// stale: it is our copy, which is shown for as long as again before the service is
	// asked.
	stale bool
	again time.Duration
}

// read returns what a cache keeps under a key, and otherwise what fetch finds.
func read[T any](ctx context.Context, from *cache.Cache, key string, fetch func(ctx context.Context) (found[T], error)) (out T, err error) {
	entry, _, err := from.Get(ctx, key, func(ctx context.Context) (cache.Fill, error) {
		f, err := fetch(ctx)
		if err != nil {
			return cache.Fill{}, err
		}
		fill := cache.Fill{Tags: f.tags, Stale: f.stale}
		if f.stale {
			fill.TTL = cache.TTL{Fresh: f.again}
		}
		fill.Body, err = json.Marshal(&f.value)
		return fill, err
	})
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(entry.Body(), &out); err != nil {
		return out, fmt.Errorf("decode %T from cache: %w", out, err)
	}
	return out, nil
}
