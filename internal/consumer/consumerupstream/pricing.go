package consumerupstream

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
	"melmastoon.ghasi.io/bff/internal/jsonscan"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// Pricing previews prices, read-only.
type Pricing struct{ client *upstream.Client }

// quote is a price in pricing's words.
type quote struct {
	propertyID                bff.ID
	cheapestNightly           string
	totalForStay              string
	displayPolicy, fxSnapshot string
	capturedAt                time.Time
	sharia                    bool
	calendar                  []night
	taxes                     []tax
}

type night struct {
	date     bff.Date
	cheapest string
}

type tax struct {
	code, amount string
	included     bool
}

func readQuote(r *jsonscan.Reader) (q quote) {
	for name := range r.Object() {
		switch name {
		case "propertyId":
			q.propertyID = readID(r, bff.PrefixProperty)
		case "cheapestNightly":
			q.cheapestNightly = r.String()
		case "totalForStay":
			q.totalForStay = r.String()
		case "currencyDisplayPolicy":
			q.displayPolicy = r.String()
		case "fxSnapshotId":
			q.fxSnapshot = r.String()
		case "capturedAt":
			q.capturedAt = readTime(r)
		case "ratePlan":
			for name := range r.Object() {
				if name == "shariaCompliant" {
					q.sharia = r.Bool()
				}
			}
		case "calendar":
			for range r.Array() {
				q.calendar = append(q.calendar, readNight(r))
			}
		case "taxes":
			for range r.Array() {
				q.taxes = append(q.taxes, readTax(r))
			}
		}
	}
	r.Require(!q.propertyID.IsZero(), "quotes.propertyId")
	r.Require(q.cheapestNightly != "", "quotes.cheapestNightly")
	r.Require(q.totalForStay != "", "quotes.totalForStay")
	r.Require(!q.capturedAt.IsZero(), "quotes.capturedAt")
	return q
}

func readNight(r *jsonscan.Reader) (n night) {
	for name := range r.Object() {
		switch name {
		case "date":
			n.date = readDate(r)
		case "cheapest":
			n.cheapest = r.String()
		}
	}
	return n
}

func readTax(r *jsonscan.Reader) (t tax) {
	for name := range r.Object() {
		switch name {
		case "code":
			t.code = r.String()
		case "amount":
			t.amount = r.String()
		case "included":
			t.included = r.Bool()
		}
	}
	return t
}

// previewRoute is the only route of pricing that this service may call.
const previewRoute = "/v1/pricing/quotes/preview"

// preview writes the body of the request. Everything in it has one of a few
// forms that need no escaping: ids, dates, codes of closed sets.
func preview(req hotel.PriceRequest, calendarDays int) json.RawMessage {
	b := make([]byte, 0, 256+100*len(req.Properties))
	b = append(b, `{"properties":[`...)
	for i, p := range req.Properties {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, `{"propertyId":"`...), p.PropertyID.String()...)
		b = append(append(b, `","tenantId":"`...), p.TenantID.String()...)
		b = append(b, `"}`...)
	}
	b = append(append(b, `],"dates":{"checkIn":"`...), req.Dates.CheckIn.String()...)
	b = append(append(b, `","checkOut":"`...), req.Dates.CheckOut.String()...)
	b = strconv.AppendInt(append(b, `"},"occupancy":{"adults":`...), int64(req.Occupancy.Adults), 10)
	b = strconv.AppendInt(append(b, `,"children":`...), int64(req.Occupancy.Children), 10)
	b = strconv.AppendInt(append(b, `,"rooms":`...), int64(req.Occupancy.Rooms), 10)
	for i, age := range req.Occupancy.ChildrenAges {
		if i == 0 {
			b = append(b, `,"childrenAges":[`...)
		} else {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(age), 10)
	}
	if len(req.Occupancy.ChildrenAges) > 0 {
		b = append(b, ']')
	}
	b = append(append(b, `},"currency":"`...), req.Currency...)
	b = append(append(b, `","locale":"`...), req.Locale...)
	b = append(b, '"')
	if calendarDays > 0 {
		b = strconv.AppendInt(append(b, `,"calendarDays":`...), int64(calendarDays), 10)
	}
	return append(b, '}')
}

// quotes returns prices, and the properties that pricing has none for.
func (p *Pricing) quotes(ctx context.Context, req hotel.PriceRequest, calendarDays int) (out []quote, soldOut []bff.ID, err error) {
	err = p.client.Post(ctx, previewRoute, previewRoute, preview(req, calendarDays), upstream.Reading(func(r *jsonscan.Reader) {
		there := false
		for name := range r.Object() {
			switch {
			case name == "quotes" && !r.Null():
				there = true
				for range r.Array() {
					out = append(out, readQuote(r))
				}
			case name == "missing" && !r.Null():
				for range r.Array() {
					if id, err := bff.ParseID(bff.PrefixProperty, r.String()); err == nil {
						soldOut = append(soldOut, id)
					}
				}
			}
		}
		r.Require(there, "quotes")
	}), upstream.Idempotent())
	if err != nil {
		return nil, nil, failed(err)
	}
	return out, soldOut, nil
}

// Preview returns the cheapest prices by property. A quote that does not read
// exactly is dropped and reported: a guessed price is worse than none.
func (p *Pricing) Preview(ctx context.Context, req hotel.PriceRequest) (hotel.Previews, error) {
	quotes, soldOut, err := p.quotes(ctx, req, 0)
	if err != nil {
		return nil, err
	}
	rates := make(hotel.Previews, len(quotes)+len(soldOut))
	for _, id := range soldOut {
		rates[id] = nil
	}
	for _, q := range quotes {
		if rate, ok := p.snapshot(q); ok {
			rates[q.propertyID] = &rate
		}
	}
	return rates, nil
}

// Quote returns the price of one property and of the nights around it.
func (p *Pricing) Quote(ctx context.Context, req hotel.PriceRequest, calendarDays int) (hotel.Quote, error) {
	quotes, soldOut, err := p.quotes(ctx, req, calendarDays)
	out := hotel.Quote{SoldOut: len(soldOut) > 0}
	if err != nil || len(quotes) == 0 {
		return out, err
	}
	if rate, ok := p.snapshot(quotes[0]); ok {
		out.Rate = &rate
	}
	for _, d := range quotes[0].calendar {
		m, err := bff.ParseMicros(d.cheapest)
		if err != nil {
			p.client.Drift(previewRoute, "calendar.cheapest")
			continue
		}
		out.Calendar = append(out.Calendar, hotel.CalendarDay{Date: d.date, CheapestMinor: m.MinorString(), Currency: m.Currency})
	}
	return out, nil
}

// displayPolicies say in whose currency a price is shown.
var displayPolicies = []string{"tenant", "user-preferred", "fallback"}

func (p *Pricing) snapshot(q quote) (hotel.RateSnapshot, bool) {
	nightly, err1 := bff.ParseMicros(q.cheapestNightly)
	total, err2 := bff.ParseMicros(q.totalForStay)
	if err1 != nil || err2 != nil || nightly.Currency != total.Currency {
		p.client.Drift(previewRoute, "cheapestNightly")
		return hotel.RateSnapshot{}, false
	}
	if !slices.Contains(displayPolicies, q.displayPolicy) {
		// The set is closed: front ends branch on it. The price is right all the
		// same, and fallback claims the least about its currency.
		p.client.Drift(previewRoute, "currencyDisplayPolicy")
		q.displayPolicy = "fallback"
	}
	rate := hotel.NewRateSnapshot(nightly, total, q.displayPolicy, q.capturedAt)
	rate.FxSnapshotID, rate.Sharia = q.fxSnapshot, q.sharia
	for _, t := range q.taxes {
		amount, err := bff.ParseMicros(t.amount)
		if err != nil {
			p.client.Drift(previewRoute, "taxes.amount")
			continue
		}
		rate.Taxes = append(rate.Taxes, hotel.Tax{
			Code: t.code, Minor: amount.MinorString(), Currency: amount.Currency, Included: t.included,
		})
	}
	return rate, true
}
