package consumercache

import (
	"context"
	"slices"
	"strconv"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
)

// heardRates is how many prices are remembered; each takes about 400 bytes.
const heardRates = 1 << 14

// stayed is all that a price depends on.
type stayed struct {
	property                bff.ID
	dates                   bff.StayDates
	adults, children, rooms int
	ages                    string
	currency                bff.Currency
}

// stayOf names a request's stay at any hotel.
func stayOf(req hotel.PriceRequest) stayed {
	s := stayed{dates: req.Dates, adults: req.Occupancy.Adults, children: req.Occupancy.Children, rooms: req.Occupancy.Rooms, currency: req.Currency}
	for _, age := range slices.Sorted(slices.Values(req.Occupancy.ChildrenAges)) {
		s.ages += strconv.Itoa(age) + ","
	}
	return s
}

// Preview asks pricing. When that fails, the error comes with the last prices
// that were received, up to ten minutes old.
func (c *Caches) Preview(ctx context.Context, req hotel.PriceRequest) (hotel.Previews, error) {
	stay := stayOf(req)
	found, err := c.cfg.Prices.Preview(ctx, req)
	if err == nil {
		for id, rate := range found {
			if stay.property = id; rate != nil {
				c.rates.Put(stay, *rate)
			}
		}
		return found, nil
	}
	found = hotel.Previews{}
	for _, p := range req.Properties {
		stay.property = p.PropertyID
		if rate, ok := c.lastRate(stay); ok {
			found[p.PropertyID] = &rate
		}
	}
	return found, err
}

// Quote asks pricing. When that fails, the error comes with the last price that
// was received, up to ten minutes old, and no calendar.
func (c *Caches) Quote(ctx context.Context, req hotel.PriceRequest, calendarDays int) (hotel.Quote, error) {
	stay := stayOf(req)
	if len(req.Properties) > 0 {
		stay.property = req.Properties[0].PropertyID
	}
	q, err := c.cfg.Prices.Quote(ctx, req, calendarDays)
	switch {
	case err == nil && q.Rate != nil:
		c.rates.Put(stay, *q.Rate)
	case err != nil:
		if rate, ok := c.lastRate(stay); ok {
			q.Rate = &rate
		}
	}
	return q, err
}

// FindRate returns the last price of the request's property that was received.
func (c *Caches) FindRate(_ context.Context, req hotel.PriceRequest) (hotel.RateSnapshot, bool) {
	stay := stayOf(req)
	if len(req.Properties) > 0 {
		stay.property = req.Properties[0].PropertyID
	}
	return c.rates.Get(stay)
}

// lastRate returns a remembered price that may stand in for a failure.
func (c *Caches) lastRate(s stayed) (hotel.RateSnapshot, bool) {
	rate, ok := c.rates.Get(s)
	return rate, ok && time.Since(rate.CapturedAt.Time) < staleFor
}
