package discovery

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
)

// Searcher is the cross-tenant search projection.
type Searcher interface {
	// Search returns the listings of a normalised query in the projection's order.
	Search(ctx context.Context, q consumer.SearchQuery) (hotel.Listings, error)
	// FindProperty resolves a property to its listing; a
	// CodeResourceNotFound error when there is none.
	FindProperty(ctx context.Context, propertyID bff.ID) (hotel.Projected, error)
	// Similar returns hotels like the given one.
	Similar(ctx context.Context, propertyID bff.ID, limit int, locale bff.Locale) ([]hotel.Listing, error)
	// Pins returns a page of at most 200 pins of a normalised query.
	Pins(ctx context.Context, q consumer.SearchQuery) (Pins, error)
	// Availability returns a hotel's calendar; a CodeResourceNotFound error when
	// there is no such hotel.
	Availability(ctx context.Context, req AvailabilityRequest) (Availability, error)
	// Facets returns what a region can be filtered by.
	Facets(ctx context.Context, country, region string, locale bff.Locale) (hotel.FacetCatalog, error)
	// Suggest completes what a guest typed.
	Suggest(ctx context.Context, typed string, limit int, locale bff.Locale) (hotel.Suggestions, error)
}

// Pricer previews prices; it cannot book.
type Pricer interface {
	// Preview returns what pricing says of each property. With an error there may be
	// earlier prices.
	Preview(ctx context.Context, req hotel.PriceRequest) (hotel.Previews, error)
	// Quote returns the price of the request's one property with the cheapest
	// nights around it.
	Quote(ctx context.Context, req hotel.PriceRequest, calendarDays int) (hotel.Quote, error)
}

// Brander knows what brands look like.
type Brander interface {
	// Peeks returns what is known, by tenant; an unknown brand is absent.
	Peeks(ctx context.Context, tenants []bff.ID) (map[bff.ID]hotel.BrandPeek, error)
}

// Budgets of the branches of a composition.
type Budgets struct {
	Rates time.Duration
	Brand time.Duration
}

// Finder composes what guests see of hotels.
type Finder struct{ cfg FinderConfig }

// FinderConfig is what a Finder works with.
type FinderConfig struct {
	Search     Searcher
	Prices     Pricer
	Brands     Brander
	Properties Properties
	Budgets    Budgets
	// Suspended tenants are left out of everything.
	Suspended *consumer.SuspendedTenants
	// Brownout is the rung of the ladder that the service stands on; nil = none.
	Brownout func() Rung
	// Region is the platform's region of this deployment, such as asia-south1:
	// hotels whose tenants live in another one carry the cross-region badge. ""
	// or without Regions none do.
	Region  string
	Regions Regions
}

// NewFinder returns a Finder.
func NewFinder(cfg FinderConfig) *Finder { return &Finder{cfg} }

// Suspended are the tenants that are left out of everything.
func (f *Finder) Suspended() *consumer.SuspendedTenants { return f.cfg.Suspended }

// Facets lists what hotels of a country can be filtered by.
func (f *Finder) Facets(ctx context.Context, country, region string, locale bff.Locale) (hotel.FacetCatalog, error) {
	c, err := f.cfg.Search.Facets(ctx, country, region, locale)
	return c, consumer.Unavailable(err)
}

// Suggest completes a destination.
func (f *Finder) Suggest(ctx context.Context, typed string, limit int, locale bff.Locale) (hotel.Suggestions, error) {
	s, err := f.cfg.Search.Suggest(ctx, typed, limit, locale)
	return s, consumer.Unavailable(err)
}

// SearchResult is a page of hotels.
type SearchResult struct {
	Results  []ListingCard `json:"results"`
	Page     ResultPage    `json:"page"`
	Degraded Degradations  `json:"degraded"`
	Stale    bool          `json:"stale"`

	AIProvenance     json.RawMessage `json:"aiProvenance,omitempty"`
	QueryRewriteHint json.RawMessage `json:"queryRewriteHint,omitempty"`

	Order consumer.Hash `json:"-"` // of the window that the page was cut from
	// Omitted are the suspended tenants whose hotels were left out.
	Omitted []bff.ID `json:"-"`
	Cells   []string `json:"-"` // the geo cells that the page shows, for invalidation
	Shed    Rung     `json:"-"` // the rung that parts were shed at; RungNone when none were
}

// MarkStale says of an answer that could not be renewed how old it is, and of
// each price whether it may still be believed.
func (r *SearchResult) MarkStale(age time.Duration, now time.Time) {
	r.Stale = true
	r.Degraded.grow(age)
	r.Degraded.aged(PartSearch, age, max(1, len(r.Results)))
	for i := range r.Results {
		r.Results[i].age(now)
	}
}

// PricesExpire is when the first price of the page is no longer current; zero
// when none is.
func (r *SearchResult) PricesExpire() time.Time {
	var first time.Time
	for i := range r.Results {
		first = earliest(first, r.Results[i].RateSnapshot)
	}
	return first
}

func earliest(t time.Time, r *hotel.RateSnapshot) time.Time {
	if r == nil || r.IsStale || (!t.IsZero() && t.Before(r.TTLExpiresAt.Time)) {
		return t
	}
	return r.TTLExpiresAt.Time
}

// ResultPage is the window that a result shows.
type ResultPage struct {
	Limit  int `json:"limit"`
	Offset int `json:"offset"`
	Total  int `json:"total"`
}

// Rung is the rung of the ladder that the service stands on.
func (f *Finder) Rung() Rung {
	if f.cfg.Brownout == nil {
		return RungNone
	}
	return f.cfg.Brownout()
}

// Find composes one page of hotels. Without the projection there is no answer;
// a missing price or brand costs nothing but its part.
func (f *Finder) Find(ctx context.Context, q consumer.SearchQuery, now time.Time) (SearchResult, error) {
	q = q.Normalise()
	found, err := f.cfg.Search.Search(ctx, q)
	if err != nil {
		return SearchResult{}, consumer.Unavailable(err)
	}
	return f.Compose(ctx, q, found, now)
}

// Compose adds prices and brands to the listings of one page. Hotels of
// suspended tenants are left out, and the total with them, because the
// projection learns of a suspension later than we do. What counts for the total
// is the whole window, so that its pages agree.
func (f *Finder) Compose(ctx context.Context, q consumer.SearchQuery, found hotel.Listings, now time.Time) (SearchResult, error) {
	items := make([]hotel.Listing, 0, len(found.Items))
	for _, l := range found.Items {
		if !f.cfg.Suspended.Has(l.TenantID) {
			items = append(items, l)
		}
	}
	if found.Around == nil {
		found.Around = found.Items
	}
	var omitted []bff.ID
	if !f.cfg.Suspended.Empty() {
		for i := range found.Around {
			if id := found.Around[i].TenantID; f.cfg.Suspended.Has(id) {
				omitted = append(omitted, id)
			}
		}
	}
	rung := f.Rung()
	with := f.extras(ctx, &hotel.PriceRequest{Dates: q.Dates, Occupancy: q.Occupancy, Currency: q.Currency, Locale: q.Locale}, items, rung)
	if err := ctx.Err(); err != nil { // the guest is gone: half an answer must not be kept
		return SearchResult{}, err
	}

	res := SearchResult{
		Results:  make([]ListingCard, 0, len(items)),
		Page:     ResultPage{Limit: q.Page.Limit, Offset: q.Page.Offset, Total: found.Total - len(omitted)},
		Degraded: Degradations{}, AIProvenance: found.AIProvenance, QueryRewriteHint: found.QueryRewriteHint, Order: found.Order,
		Omitted: omitted,
	}
	for _, l := range items {
		res.Results = append(res.Results, f.card(l, with, now))
		res.Cells = append(res.Cells, l.GeoCell)
	}
	if found.StaleAge > 0 {
		res.Stale = true
		res.Degraded.old(PartSearch, found.StaleAge, max(1, len(items)))
	}
	res.Degraded.join(with.missing(items, rung, now))
	if rung >= RungBrand && len(items) > 0 {
		res.Shed = rung
	}
	return res, nil
}

// FindPinned composes a page whose hotels and order are given: the page of a
// guest who saw another order than the projection's newest. Hotels that are
// gone meanwhile are left out, and the answer says how many.
func (f *Finder) FindPinned(ctx context.Context, q consumer.SearchQuery, hotels []bff.ID, now time.Time) (SearchResult, error) {
	q = q.Normalise()
	window := q
	window.Page = consumer.Page{Limit: consumer.Window, Offset: consumer.WindowOf(q.Page.Offset) * consumer.Window}
	found, err := f.cfg.Search.Search(ctx, window)
	if err != nil {
		return SearchResult{}, consumer.Unavailable(err)
	}
	byID := make(map[bff.ID]hotel.Listing, len(found.Items))
	for _, l := range found.Items {
		byID[l.PropertyID] = l
	}
	var (
		wg     sync.WaitGroup
		page   = make([]hotel.Listing, len(hotels))
		absent atomic.Int64
	)
	for i, id := range hotels {
		if l, here := byID[id]; here {
			page[i] = l
			continue
		}
		wg.Go(func() {
			p, err := f.cfg.Search.FindProperty(ctx, id)
			if err != nil {
				absent.Add(1)
				return
			}
			page[i] = p.In(q.Locale)
		})
	}
	wg.Wait()
	found.Around = found.Items
	found.Items = slices.DeleteFunc(page, func(l hotel.Listing) bool { return l.PropertyID.IsZero() })
	res, err := f.Compose(ctx, q, found, now)
	if n := int(absent.Load()); n > 0 && err == nil {
		res.Degraded.add(PartPaging, ReasonError, n)
	}
	return res, err
}

// OrderName names an order by what it is, so that equal ones are kept once.
func OrderName(items []hotel.Listing) consumer.Hash {
	h := sha256.New()
	for _, l := range items {
		b := l.PropertyID.Bytes()
		h.Write(b[:])
	}
	return consumer.Hash(h.Sum(nil))
}
