package discovery

import (
	"context"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
)

// Regions knows in which region of the platform tenants live.
type Regions interface {
	// ListRegions returns what is known, by tenant; an unknown region is absent.
	ListRegions(ctx context.Context, tenants []bff.ID) map[bff.ID]string
}

// extras are what a card shows besides its listing, by property and tenant.
// What could not be had is absent, and the errors say why.
type extras struct {
	rates             hotel.Previews
	brands            map[bff.ID]hotel.BrandPeek
	regions           map[bff.ID]string
	rateErr, brandErr error
	unpriced, shed    bool // prices were not asked for: without a stay, under load
}

// extras asks for the brands and regions of listings and, unless prices is nil,
// for their prices, all at once; what the rung of the ladder sheds is left out.
func (f *Finder) extras(ctx context.Context, prices *hotel.PriceRequest, items []hotel.Listing, rung Rung) extras {
	var (
		out = extras{unpriced: prices == nil, shed: rung >= RungListPrice}
		wg  sync.WaitGroup
	)
	if len(items) == 0 {
		return out
	}
	tenants := tenantsOf(items)
	if prices != nil && !out.shed {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, f.cfg.Budgets.Rates)
			defer cancel()
			out.rates, out.rateErr = f.cfg.Prices.Preview(ctx, prices.Of(items))
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
func (f *Finder) peeks(ctx context.Context, tenants []bff.ID) (map[bff.ID]hotel.BrandPeek, error) {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Budgets.Brand)
	defer cancel()
	return f.cfg.Brands.Peeks(ctx, tenants)
}

// regions asks where tenants live, within the budget of a brand. It does not say
// what is missing: a card without the badge claims nothing.
func (f *Finder) regions(ctx context.Context, tenants []bff.ID) map[bff.ID]string {
	if f.cfg.Regions == nil || f.cfg.Region == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Budgets.Brand)
	defer cancel()
	return f.cfg.Regions.ListRegions(ctx, tenants)
}

// rate returns the price of a hotel, which says whether it is still current, and why
// it is there or not.
func (x extras) rate(property bff.ID, now time.Time) (*hotel.RateSnapshot, hotel.RateState) {
	switch r, ok := x.rates[property]; {
	case x.unpriced:
		return nil, ""
	case r != nil:
		rate := *r
		rate.IsStale = rate.Expired(now)
		return &rate, rate.State()
	case ok:
		return nil, hotel.RateSoldOut
	case x.shed:
		return nil, hotel.RateShed
	}
	return nil, hotel.RateUnanswered
}

// missing says what of the cards of listings is missing or old. A hotel that pricing
// says is sold out, and a tenant that theme-config answered without a brand, which has
// none, are not degraded.
func (x extras) missing(items []hotel.Listing, rung Rung, now time.Time) (out Degradations) {
	noBrand, old, oldest, states := 0, 0, time.Duration(0), map[hotel.RateState]int{}
	for i := range items {
		rate, state := x.rate(items[i].PropertyID, now)
		states[state]++
		if state == hotel.RateStale && x.rateErr != nil {
			old, oldest = old+1, max(oldest, now.Sub(rate.CapturedAt.Time))
		}
		if _, ok := x.brands[items[i].TenantID]; !ok {
			noBrand++
		}
	}
	out.shed(PartRates, states[hotel.RateShed])
	out.add(PartRates, bff.ReasonOf(x.rateErr), states[hotel.RateUnanswered])
	out.old(PartRates, oldest, old)
	switch {
	case rung >= RungBrand:
		out.shed(PartBrand, noBrand)
	case x.brandErr != nil:
		out.add(PartBrand, bff.ReasonOf(x.brandErr), noBrand)
	}
	return out
}

func tenantsOf(items []hotel.Listing) []bff.ID {
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
