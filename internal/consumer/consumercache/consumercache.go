// Package consumercache wraps what the domain reads from upstreams in the
// two-tier cache: windows of listings, the projection's word on one hotel,
// brands, descriptions and the regions of tenants. Prices are asked for anew; the
// last ones are remembered in memory, for when pricing fails. The composer does
// not hear of it.
package consumercache

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
	"melmastoon.ghasi.io/bff/internal/memo"
	"melmastoon.ghasi.io/bff/internal/redis"
)

// Lifetimes of DATA_MODEL §5.
const (
	listTTL     = 60 * time.Second
	campaignTTL = 5 * time.Minute
	propertyTTL = 5 * time.Minute
	brandTTL    = 15 * time.Minute
	// A tenant hardly ever moves to another region.
	regionTTL = 6 * time.Hour

	// staleFor is how long the last good answer may stand in for a dead upstream.
	staleFor = 10 * time.Minute
	// notFoundFor is how long "there is none" is believed.
	notFoundFor = 10 * time.Second
)

// Config is what the wrappers stand on.
type Config struct {
	Store *cache.Store
	Keys  redis.Keys
	// Campaign reports campaign mode: lists live longer, prices do not.
	Campaign func() bool

	Search     discovery.Searcher
	Prices     discovery.Pricer
	Brands     discovery.Brander
	Properties discovery.Properties
	Tenants    consumer.Tenants
	Searches   consumer.Searches
	// Seen is told of the tenants that the projection names; nil = nothing is.
	Seen func(tenants ...bff.ID)
}

// Caches implements the domain's Searcher, Pricer, Snapshots, Brander, Properties
// and Regions.
type Caches struct {
	discovery.Searcher // what is not cached here: the finished answers are

	cfg      Config
	windows  *values[hotel.Listings]
	hotels   *values[hotel.Projected]
	brands   *values[hotel.BrandPeek]
	property *values[hotel.Property]
	regions  *values[string]
	rates    *memo.Memo[stayed, hotel.RateSnapshot] // the last price of each stay that was received
}

// New returns the wrappers.
func New(cfg Config) (*Caches, error) {
	if cfg.Seen == nil {
		cfg.Seen = func(...bff.ID) {}
	}
	var errs []error
	open := func(name string, fresh func() time.Duration, grace time.Duration, bytes int64) *cache.Cache {
		opened, err := cache.New(cfg.Store, cache.Config{
			Name: name, Shared: true, Raw: true, MaxBytes: bytes,
			TTL: func() cache.TTL { return cache.TTL{Fresh: fresh(), Grace: grace, Stale: staleFor} },
		})
		errs = append(errs, err)
		return opened
	}
	always := func(d time.Duration) func() time.Duration { return func() time.Duration { return d } }
	lists := func() time.Duration {
		if cfg.Campaign() {
			return campaignTTL
		}
		return listTTL
	}
	// The bounds are of bodies; a value takes about twice as much beside its body.
	c := &Caches{
		Searcher: cfg.Search, cfg: cfg,
		windows: newValues[hotel.Listings](open("listings", lists, 0, 24<<20)),
		hotels:  newValues[hotel.Projected](open("projected", always(listTTL), 0, 8<<20)),
		// A colour or a photo may be a little old: no reader waits for a refresh.
		brands:   newValues[hotel.BrandPeek](open("brand-peek", always(brandTTL), staleFor, 4<<20)),
		property: newValues[hotel.Property](open("property", always(propertyTTL), staleFor, 16<<20)),
		regions:  newValues[string](open("region", always(regionTTL), regionTTL, 1<<20)),
		rates:    memo.New[stayed, hotel.RateSnapshot](heardRates),
	}
	return c, errors.Join(errs...)
}

// Search returns a page, cut from windows that all pages of a query share.
func (c *Caches) Search(ctx context.Context, q consumer.SearchQuery) (hotel.Listings, error) {
	page := q.Page
	var out hotel.Listings
	for start := consumer.WindowOf(page.Offset) * consumer.Window; start < page.Offset+page.Limit; start += consumer.Window {
		w, err := c.window(ctx, q, start)
		if err != nil {
			return hotel.Listings{}, err
		}
		from := max(page.Offset-start, 0)
		to := min(page.Offset+page.Limit-start, len(w.Items))
		if from < to {
			out.Items = append(out.Items, w.Items[from:to]...)
		}
		if out.Order == (consumer.Hash{}) {
			out.Order = w.Order
		}
		if out.Around == nil {
			out.Around = slices.Clip(w.Items) // shared: to be read only
		} else {
			out.Around = append(out.Around, w.Items...)
		}
		out.Total, out.AIProvenance, out.QueryRewriteHint = w.Total, w.AIProvenance, w.QueryRewriteHint
		out.StaleAge = max(out.StaleAge, w.StaleAge)
		if start+consumer.Window >= w.Total {
			break
		}
	}
	return out, nil
}

func (c *Caches) window(ctx context.Context, q consumer.SearchQuery, start int) (hotel.Listings, error) {
	q.Page = consumer.Page{Limit: consumer.Window, Offset: start}
	key := c.cfg.Keys.Key("cache", "search", "window", hexOf(q.CacheKey()))
	w, stale, err := c.windows.get(ctx, key, func(ctx context.Context) (hotel.Listings, []string, error) {
		found, err := c.cfg.Search.Search(ctx, q)
		if err != nil {
			return found, nil, err
		}
		found.Order = discovery.OrderName(found.Items)
		c.pin(ctx, found)
		c.see(found.Items)
		return found, TagsOf(found.Items), nil
	})
	w.StaleAge = stale
	return w, err
}

// Pins and Similar are not cached here; the tenants that they name are noted.

// Pins returns a page of a map.
func (c *Caches) Pins(ctx context.Context, q consumer.SearchQuery) (discovery.Pins, error) {
	pins, err := c.cfg.Search.Pins(ctx, q)
	for i := range pins.Items {
		c.cfg.Seen(pins.Items[i].TenantID)
	}
	return pins, err
}

// Similar returns hotels like the given one.
func (c *Caches) Similar(ctx context.Context, id bff.ID, limit int, locale bff.Locale) ([]hotel.Listing, error) {
	items, err := c.cfg.Search.Similar(ctx, id, limit, locale)
	c.see(items)
	return items, err
}

func (c *Caches) see(items []hotel.Listing) {
	for i := range items {
		c.cfg.Seen(items[i].TenantID)
	}
}

// pin keeps the order for the guests who see it. Without it their paging is
// not stable, and their answers say so.
func (c *Caches) pin(ctx context.Context, found hotel.Listings) {
	hotels := make([]bff.ID, len(found.Items))
	for i, l := range found.Items {
		hotels[i] = l.PropertyID
	}
	_ = c.cfg.Searches.SaveOrder(ctx, found.Order, hotels)
}

// maxTags bounds the tags of one entry: a window of 200 hotels has cells and
// tenants, and busting by property finds them through the cell.
const maxTags = 400

// TagsOf returns the tags of an answer that shows these hotels.
func TagsOf(items []hotel.Listing) []string {
	seen := make(map[string]struct{}, 2*len(items))
	out := make([]string, 0, 2*len(items))
	add := func(tag string) {
		if _, dup := seen[tag]; !dup && len(out) < maxTags {
			seen[tag] = struct{}{}
			out = append(out, tag)
		}
	}
	for _, l := range items {
		add(discovery.TenantTag(l.TenantID))
	}
	for _, l := range items {
		if l.GeoCell != "" {
			add(discovery.CellTag(l.GeoCell))
		}
	}
	return out
}

// FindProperty resolves a property to its listing.
func (c *Caches) FindProperty(ctx context.Context, id bff.ID) (hotel.Projected, error) {
	key := c.cfg.Keys.Key("cache", "projected", id.String())
	p, stale, err := c.hotels.get(ctx, key, func(ctx context.Context) (hotel.Projected, []string, error) {
		p, err := c.cfg.Search.FindProperty(ctx, id)
		if err == nil {
			c.cfg.Seen(p.Listing.TenantID)
		}
		return p, []string{discovery.PropertyTag(id), discovery.TenantTag(p.Listing.TenantID)}, err
	})
	p.StaleAge = stale
	return p, err
}

// Describe returns a hotel's description.
func (c *Caches) Describe(ctx context.Context, id bff.ID, locale bff.Locale) (hotel.Property, error) {
	key := c.cfg.Keys.Key("cache", "property", id.String(), string(locale))
	p, stale, err := c.property.get(ctx, key, func(ctx context.Context) (hotel.Property, []string, error) {
		p, err := c.cfg.Properties.Describe(ctx, id, locale)
		return p, []string{discovery.PropertyTag(id), discovery.TenantTag(p.TenantID)}, err
	})
	p.StaleAge = stale
	return p, err
}

func hexOf(h consumer.Hash) string { return hex.EncodeToString(h[:]) }
