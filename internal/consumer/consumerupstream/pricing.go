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
	Calendar []struct {
		Date     bff.Date `json:"date"`
		Cheapest string   `json:"cheapest"`
	} `json:"calendar"`
	Taxes []struct {
		Code     string `json:"code"`
		Amount   string `json:"amount"`
		Included bool   `json:"included"`
	} `json:"taxes"`
}

// previewRoute is the only route of pricing that this service may call.
const previewRoute = "/v1/pricing/quotes/preview"

// preview is the body of the request.
type preview struct {
	Properties   []previewRef  `json:"properties"`
	Dates        bff.StayDates `json:"dates"`
	Occupancy    bff.Occupancy `json:"occupancy"`
	Currency     bff.Currency  `json:"currency"`
	Locale       bff.Locale    `json:"locale"`
	CalendarDays int           `json:"calendarDays,omitempty"`
}

type previewRef struct {
	PropertyID bff.ID `json:"propertyId"`
	TenantID   bff.ID `json:"tenantId"`
}

func (p *Pricing) quotes(ctx context.Context, req consumer.PriceRequest, calendarDays int) ([]quote, error) {
	body := preview{Dates: req.Dates, Occupancy: req.Occupancy, Currency: req.Currency, Locale: req.Locale, CalendarDays: calendarDays}
	for _, r := range req.Properties {
		body.Properties = append(body.Properties, previewRef{r.PropertyID, r.TenantID})
	}
	var out struct {
		Quotes []quote `json:"quotes" upstream:"required"`
	}
	if err := p.client.Post(ctx, previewRoute, previewRoute, body, &out, upstream.Idempotent()); err != nil {
		return nil, failed(err)
	}
	return out.Quotes, nil
}

// Preview returns the cheapest prices by property. A quote that does not read
// exactly is dropped and reported: a guessed price is worse than none.
func (p *Pricing) Preview(ctx context.Context, req consumer.PriceRequest) (map[bff.ID]consumer.RateSnapshot, error) {
	quotes, err := p.quotes(ctx, req, 0)
	if err != nil {
		return nil, err
	}
	rates := make(map[bff.ID]consumer.RateSnapshot, len(quotes))
	for _, q := range quotes {
		if rate, ok := p.snapshot(q); ok {
			rates[q.PropertyID] = rate
		}
	}
	return rates, nil
}

// Quote returns the price of one property and of the nights around it.
func (p *Pricing) Quote(ctx context.Context, req consumer.PriceRequest, calendarDays int) (consumer.Quote, error) {
	quotes, err := p.quotes(ctx, req, calendarDays)
	if err != nil || len(quotes) == 0 {
		return consumer.Quote{}, err
	}
	var out consumer.Quote
	if rate, ok := p.snapshot(quotes[0]); ok {
		out.Rate = &rate
	}
	for _, d := range quotes[0].Calendar {
		m, err := bff.ParseMicros(d.Cheapest)
		if err != nil {
			p.client.Drift(previewRoute, "calendar.cheapest")
			continue
		}
		out.Calendar = append(out.Calendar, consumer.CalendarDay{Date: d.Date, CheapestMinor: m.MinorString(), Currency: m.Currency})
	}
	return out, nil
}

func (p *Pricing) snapshot(q quote) (consumer.RateSnapshot, bool) {
	nightly, err1 := bff.ParseMicros(q.CheapestNightly)
	total, err2 := bff.ParseMicros(q.TotalForStay)
	if err1 != nil || err2 != nil || nightly.Currency != total.Currency {
		p.client.Drift(previewRoute, "cheapestNightly")
		return consumer.RateSnapshot{}, false
	}
	rate := consumer.NewRateSnapshot(nightly, total, q.DisplayPolicy, q.CapturedAt)
	rate.FxSnapshotID, rate.Sharia = q.FxSnapshotID, q.RatePlan.Sharia
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
