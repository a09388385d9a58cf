package consumercache

import (
	"context"
	"sync"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
)

// regionCalls is how many tenants of one page are looked up at the same time.
const regionCalls = 8

// ListRegions returns the regions of tenants, each under its own key. One that
// could not be had is absent until the next request.
func (c *Caches) ListRegions(ctx context.Context, tenants []bff.ID) map[bff.ID]string {
	var (
		mu  sync.Mutex
		wg  sync.WaitGroup
		out = make(map[bff.ID]string, len(tenants))
		way = make(chan struct{}, regionCalls)
	)
	one := func(id bff.ID) {
		region, _, err := c.regions.get(ctx, c.regionKey(id), func(ctx context.Context) (string, []string, error) {
			t, err := c.cfg.Tenants.FindTenant(ctx, id)
			return t.Region, []string{discovery.TenantTag(id)}, err
		})
		if err == nil && region != "" {
			mu.Lock()
			defer mu.Unlock()
			out[id] = region
		}
	}
	for _, id := range tenants {
		if _, here := c.regions.cache.Peek(c.regionKey(id)); here {
			one(id)
			continue
		}
		wg.Go(func() {
			way <- struct{}{}
			defer func() { <-way }()
			one(id)
		})
	}
	wg.Wait()
	return out
}

func (c *Caches) regionKey(id bff.ID) string { return c.cfg.Keys.Key("cache", "region", id.String()) }
