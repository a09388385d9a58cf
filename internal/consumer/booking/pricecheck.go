package booking

import (
	"context"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
)

// Price is an amount for a whole stay as it was at one moment, in minor units.
type Price struct {
	Minor      string        `json:"minor"`
	Currency   bff.Currency  `json:"currency"`
	CapturedAt bff.Timestamp `json:"capturedAt"`
}

// PriceVerdict says what became of the price that a guest was shown.
type PriceVerdict string

// The verdicts.
const (
	PriceMatched     PriceVerdict = "matched"
	PriceChanged     PriceVerdict = "changed"
	PriceUnavailable PriceVerdict = "unavailable" // pricing sells this stay no more
	PriceUnchecked   PriceVerdict = "unchecked"   // nothing was shown, or pricing did not answer in time
)

// Receipt is the price that a guest was shown and how it compares with the
// price at the moment of the hand-off. Current is there when it changed.
type Receipt struct {
	Shown   *Price
	Verdict PriceVerdict
	Current *Price
}

// Snapshots finds prices that pricing said a moment ago.
type Snapshots interface {
	// FindRate returns the newest price of the request's one property that is
	// kept, however old, and whether there is one. It asks no upstream.
	FindRate(ctx context.Context, req hotel.PriceRequest) (hotel.RateSnapshot, bool)
}

// priceBudget is how long a hand-off looks for the price. It never waits longer:
// the booking service asks again in any case.
const priceBudget = 120 * time.Millisecond

// checkPrice begins to compare a shown price with the price of now and returns
// the function that waits for the verdict. It never fails.
func (d *HandoffDesk) checkPrice(ctx context.Context, req HandoffRequest, now time.Time) func() Receipt {
	unchecked := Receipt{Shown: req.Shown, Verdict: PriceUnchecked}
	if req.Shown == nil || d.cfg.Prices == nil {
		return func() Receipt { return unchecked }
	}
	ctx, cancel := context.WithTimeout(ctx, priceBudget)
	verdict := make(chan Receipt, 1)
	go func() {
		defer cancel()
		verdict <- d.compare(ctx, req, now)
	}()
	return func() Receipt {
		select {
		case r := <-verdict:
			return r
		case <-ctx.Done():
		}
		select { // it ended because it was done
		case r := <-verdict:
			return r
		default:
			return unchecked
		}
	}
}

// compare compares with a price that was said a moment ago, or else with what
// pricing says now.
func (d *HandoffDesk) compare(ctx context.Context, req HandoffRequest, now time.Time) Receipt {
	r := Receipt{Shown: req.Shown, Verdict: PriceUnchecked}
	ask := hotel.PriceRequest{
		Properties: []hotel.PropertyRef{{PropertyID: req.PropertyID, TenantID: req.TenantID}}, Dates: req.Dates, Occupancy: req.Occupancy,
		Currency: req.Shown.Currency, Locale: req.Locale,
	}
	for _, s := range d.cfg.Snapshots {
		// One from before the guest was shown a price says nothing of that price. A client
		// that does not say when is taken to have shown what is kept.
		if rate, ok := s.FindRate(ctx, ask); ok && !rate.CapturedAt.Before(req.Shown.CapturedAt.Time) {
			if r.against(rate, now); r.Verdict != PriceUnchecked {
				return r
			}
		}
	}
	rates, err := d.cfg.Prices.Preview(ctx, ask)
	if err != nil {
		return r
	}
	switch rate, ok := rates[req.PropertyID]; {
	case rate != nil:
		r.against(*rate, now)
	case ok:
		r.Verdict = PriceUnavailable
	}
	return r
}

// against compares with a price, unless that is too old or of another currency.
func (r *Receipt) against(rate hotel.RateSnapshot, now time.Time) {
	switch {
	case rate.Expired(now), rate.Currency != r.Shown.Currency: // not to be compared
	case rate.TotalForStayMinor == r.Shown.Minor:
		r.Verdict = PriceMatched
	default:
		r.Verdict = PriceChanged
		r.Current = &Price{Minor: rate.TotalForStayMinor, Currency: rate.Currency, CapturedAt: rate.CapturedAt}
	}
}
