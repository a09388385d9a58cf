package consumercache

import (
	"context"
	"sync"
	"sync/atomic"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
)

// Peeks returns brands, each under its own key. What neither tier has is
// fetched in one call for all: the first fill asks for all of them.
func (c *Caches) Peeks(ctx context.Context, tenants []bff.ID) (map[bff.ID]hotel.BrandPeek, error) {
	var (
		mu       sync.Mutex
		out      = make(map[bff.ID]hotel.BrandPeek, len(tenants))
		first    error
		wg       sync.WaitGroup
		asked    atomic.Bool
		answered = make(chan struct{})
		all      map[bff.ID]hotel.BrandPeek
		batchErr error
	)
	one := func(id bff.ID) {
		b, _, err := c.brands.get(ctx, c.brandKey(id), func(ctx context.Context) (hotel.BrandPeek, []string, error) {
			if asked.CompareAndSwap(false, true) {
				defer close(answered)
				all, batchErr = c.cfg.Brands.Peeks(ctx, c.absent(tenants))
			} else {
				<-answered
			}
			if batchErr != nil {
				return hotel.BrandPeek{}, nil, batchErr
			}
			b, known := all[id]
			if !known {
				return b, nil, &bff.Error{Code: bff.CodeResourceNotFound}
			}
			return b, []string{discovery.BrandTag(id)}, nil
		})
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			out[id] = b
		case first == nil && bff.CodeOf(err) != bff.CodeResourceNotFound:
			first = err
		}
	}
	for _, id := range tenants {
		if _, here := c.brands.cache.Peek(c.brandKey(id)); here {
			one(id)
			continue
		}
		wg.Go(func() { one(id) })
	}
	wg.Wait()
	return out, first
}

// absent are the tenants that memory does not have.
func (c *Caches) absent(tenants []bff.ID) []bff.ID {
	var out []bff.ID
	for _, id := range tenants {
		if _, here := c.brands.cache.Peek(c.brandKey(id)); !here {
			out = append(out, id)
		}
	}
	if len(out) == 0 { // all arrived meanwhile; the caller still needs its own
		return tenants
	}
	return out
}

func (c *Caches) brandKey(id bff.ID) string {
	return c.cfg.Keys.Key("cache", "brand-peek", id.String())
}
