package consumer

import (
	"context"
	"time"

	"melmastoon.ghasi.io/bff"
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

// priceBudget is how long a hand-off asks for the price. It never waits longer:
// the booking service asks again in any case.
const priceBudget = 120 * time.Millisecond

// checkPrice begins to compare a shown price with the price of now and returns
// the function that waits for the verdict. It never fails.
func checkPrice(ctx context.Context, prices Pricer, req HandoffRequest, now time.Time) func() Receipt {
	unchecked := Receipt{Shown: req.Shown, Verdict: PriceUnchecked}
	if req.Shown == nil || prices == nil {
		return func() Receipt { return unchecked }
	}
	ctx, cancel := context.WithTimeout(ctx, priceBudget)
	verdict := make(chan Receipt, 1)
	go func() {
		defer cancel()
		verdict <- compare(ctx, prices, req, now)
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

func compare(ctx context.Context, prices Pricer, req HandoffRequest, now time.Time) Receipt {
	r := Receipt{Shown: req.Shown, Verdict: PriceUnchecked}
	rates, err := prices.Preview(ctx, PriceRequest{
		Properties: []PropertyRef{{req.PropertyID, req.TenantID}}, Dates: req.Dates, Occupancy: req.Occupancy,
		Currency: req.Shown.Currency, Locale: req.Locale,
	})
	if err != nil {
		return r
	}
	rate, ok := rates[req.PropertyID]
	switch {
	case !ok:
		r.Verdict = PriceUnavailable
	case rate.expired(now), rate.Currency != req.Shown.Currency: // not to be compared
	case rate.TotalForStayMinor == req.Shown.Minor:
		r.Verdict = PriceMatched
	default:
		r.Verdict = PriceChanged
		r.Current = &Price{Minor: rate.TotalForStayMinor, Currency: rate.Currency, CapturedAt: rate.CapturedAt}
	}
	return r
}
