package consumer

import (
	"context"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
)

// Regions knows in which region of the platform tenants live.
type Regions interface {
	// ListRegions returns what is known, by tenant; an unknown region is absent.
	ListRegions(ctx context.Context, tenants []bff.ID) map[bff.ID]string
}

// extras are what a card shows besides its listing, by property and tenant.
// What could not be had is absent, and the errors say why.
type extras struct {
	rates             map[bff.ID]RateSnapshot
	brands            map[bff.ID]BrandPeek
	regions           map[bff.ID]string
	rateErr, brandErr error
	unpriced          bool // prices were not asked for
}

// extras asks for the brands and regions of listings and, unless prices is nil,
// for their prices, all at once; what the rung of the ladder sheds is left out.
func (f *Finder) extras(ctx context.Context, prices *PriceRequest, items []Listing, rung Rung) extras {
	var (
		out = extras{unpriced: prices == nil}
		wg  sync.WaitGroup
	)
	if len(items) == 0 {
		return out
	}
	tenants := tenantsOf(items)
	if prices != nil && rung < RungListPrice {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, f.Budgets.Rates)
			defer cancel()
			out.rates, out.rateErr = f.Prices.Preview(ctx, prices.of(items))
		})
	}
	wg.Go(func() { out.regions = f.regions(ctx, tenants) })
	if rung < RungBrand {
		out.brands, out.brandErr = f.peeks(ctx, tenants)
	}
	wg.Wait()
	return out
}

// peeks asks for brands within their budget.
func (f *Finder) peeks(ctx context.Context, tenants []bff.ID) (map[bff.ID]BrandPeek, error) {
	ctx, cancel := context.WithTimeout(ctx, f.Budgets.Brand)
	defer cancel()
	return f.Brands.Peeks(ctx, tenants)
}

// regions asks where tenants live, within the budget of a brand. It does not say
// what is missing: a card without the badge claims nothing.
func (f *Finder) regions(ctx context.Context, tenants []bff.ID) map[bff.ID]string {
	if f.Regions == nil || f.Region == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, f.Budgets.Brand)
	defer cancel()
	return f.Regions.ListRegions(ctx, tenants)
}

// rate returns the price of a hotel, which says whether it is still current;
// nil when there is none.
func (x extras) rate(hotel bff.ID, now time.Time) *RateSnapshot {
	r, ok := x.rates[hotel]
	if !ok {
		return nil
	}
	r.IsStale = r.expired(now)
	return &r
}

// missing says what of the cards of listings is missing or old. A hotel that
// pricing answered without a price is sold out, and a tenant that theme-config
// answered without a brand has none: neither is degraded.
func (x extras) missing(items []Listing, rung Rung, now time.Time) (out Degradations) {
	noRate, noBrand, old, oldest := 0, 0, 0, time.Duration(0)
	for i := range items {
		if r, ok := x.rates[items[i].PropertyID]; !ok {
			noRate++
		} else if x.rateErr != nil && r.expired(now) {
			old, oldest = old+1, max(oldest, now.Sub(r.CapturedAt.Time))
		}
		if _, ok := x.brands[items[i].TenantID]; !ok {
			noBrand++
		}
	}
	switch {
	case x.unpriced:
	case rung >= RungListPrice:
		out.shed(PartRates, noRate)
	case x.rateErr != nil:
		out.add(PartRates, reasonOf(x.rateErr), noRate)
		out.old(PartRates, oldest, old)
	}
	switch {
	case rung >= RungBrand:
		out.shed(PartBrand, noBrand)
	case x.brandErr != nil:
		out.add(PartBrand, reasonOf(x.brandErr), noBrand)
	}
	return out
}

func tenantsOf(items []Listing) []bff.ID {
	seen := make(map[bff.ID]bool, len(items))
	var out []bff.ID
	for _, l := range items {
		if !seen[l.TenantID] {
			seen[l.TenantID] = true
			out = append(out, l.TenantID)
		}
	}
	return out
}
