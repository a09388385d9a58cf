package consumerupstream

import (
	"context"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// Pricing previews prices, read-only.
type Pricing struct{ client *upstream.Client }

type quote struct {
	PropertyID      bff.ID    `json:"propertyId" upstream:"required"`
	CheapestNightly string    `json:"cheapestNightly" upstream:"required"`
	TotalForStay    string    `json:"totalForStay" upstream:"required"`
	DisplayPolicy   string    `json:"currencyDisplayPolicy"`
	FxSnapshotID    string    `json:"fxSnapshotId"`
	CapturedAt      time.Time `json:"capturedAt" upstream:"required"`
	RatePlan        struct {
		Sharia bool `json:"shariaCompliant"`
	} `json:"ratePlan"`
	Taxes []struct {
		Code     string `json:"code"`
		Amount   string `json:"amount"`
		Included bool   `json:"included"`
	} `json:"taxes"`
}

// previewRoute is the only route of pricing that this service may call.
const previewRoute = "/v1/pricing/quotes/preview"

// Preview returns the cheapest prices by property. A quote that does not read
// exactly is dropped and reported: a guessed price is worse than none.
func (p *Pricing) Preview(ctx context.Context, req consumer.PriceRequest) (map[bff.ID]consumer.RateSnapshot, error) {
	type ref struct {
		PropertyID bff.ID `json:"propertyId"`
		TenantID   bff.ID `json:"tenantId"`
	}
	body := struct {
		Properties []ref         `json:"properties"`
		Dates      bff.StayDates `json:"dates"`
		Occupancy  bff.Occupancy `json:"occupancy"`
		Currency   bff.Currency  `json:"currency"`
		Locale     bff.Locale    `json:"locale"`
	}{Dates: req.Dates, Occupancy: req.Occupancy, Currency: req.Currency, Locale: req.Locale}
	for _, r := range req.Properties {
		body.Properties = append(body.Properties, ref{r.PropertyID, r.TenantID})
	}
	var out struct {
		Quotes []quote `json:"quotes" upstream:"required"`
	}
	if err := p.client.Post(ctx, previewRoute, previewRoute, body, &out, upstream.Idempotent()); err != nil {
		return nil, failed(err)
	}
	rates := make(map[bff.ID]consumer.RateSnapshot, len(out.Quotes))
	for _, q := range out.Quotes {
		if rate, ok := p.snapshot(q); ok {
			rates[q.PropertyID] = rate
		}
	}
	return rates, nil
}

func (p *Pricing) snapshot(q quote) (consumer.RateSnapshot, bool) {
	nightly, err1 := bff.ParseMicros(q.CheapestNightly)
	total, err2 := bff.ParseMicros(q.TotalForStay)
	if err1 != nil || err2 != nil || nightly.Currency != total.Currency {
		p.client.Drift(previewRoute, "cheapestNightly")
		return consumer.RateSnapshot{}, false
	}
	rate := consumer.NewRateSnapshot(nightly, total, q.DisplayPolicy, q.CapturedAt).WithSharia(q.RatePlan.Sharia)
	rate.FxSnapshotID = q.FxSnapshotID
	for _, t := range q.Taxes {
		amount, err := bff.ParseMicros(t.Amount)
		if err != nil {
			p.client.Drift(previewRoute, "taxes.amount")
			continue
		}
		rate.Taxes = append(rate.Taxes, consumer.Tax{
			Code: t.Code, Minor: amount.MinorString(), Currency: amount.Currency, Included: t.Included,
		})
	}
	return rate, true
}
