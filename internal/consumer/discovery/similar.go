package discovery

import (
	"context"
	"slices"
	"time"

	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
)

// similarHotels is how many a page suggests.
const similarHotels = 4

// similar are hotels like the one of a page, with what their cards show.
type similar struct {
	items []hotel.Listing
	extras
	err error
}

// similar asks for hotels like the request's, and for their prices and brands.
func (f *Finder) similar(ctx context.Context, req DetailRequest, rung Rung) similar {
	items, err := f.cfg.Search.Similar(ctx, req.PropertyID, similarHotels, req.Locale)
	items = slices.DeleteFunc(items, func(l hotel.Listing) bool { return l.PropertyID == req.PropertyID || f.cfg.Suspended.Has(l.TenantID) })
	prices := req.prices()
	return similar{items: items, extras: f.extras(ctx, &prices, items, rung), err: err}
}

// cards are the cards of similar hotels; nil when there are none.
func (s similar) cards(f *Finder, now time.Time) []ListingCard {
	if len(s.items) == 0 {
		return nil
	}
	out := make([]ListingCard, len(s.items))
	for i, l := range s.items {
		out[i] = f.card(l, s.extras, now)
	}
	return out
}
