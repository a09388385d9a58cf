package sim

import (
	"melmastoon.ghasi.io/bff"
)

type previewRequest struct {
	Properties []struct {
		PropertyID string `json:"propertyId"`
		TenantID   string `json:"tenantId"`
	} `json:"properties"`
	Dates        bff.StayDates `json:"dates"`
	Occupancy    bff.Occupancy `json:"occupancy"`
	Currency     string        `json:"currency"`
	Locale       string        `json:"locale"`
	CalendarDays int           `json:"calendarDays"`
}

// Quote is the price of a stay in one house.
type Quote struct {
	PropertyID            string        `json:"propertyId"`
	CheapestNightly       string        `json:"cheapestNightly"`
	TotalForStay          string        `json:"totalForStay"`
	CurrencyDisplayPolicy string        `json:"currencyDisplayPolicy"`
	FxSnapshotID          string        `json:"fxSnapshotId,omitempty"`
	CapturedAt            bff.Timestamp `json:"capturedAt"`
	RatePlan              RatePlan      `json:"ratePlan"`
	Taxes                 []Charge      `json:"taxes,omitempty"`
	Calendar              []CalendarDay `json:"calendar,omitempty"`
}

// RatePlan is what the cheapest night is sold under.
type RatePlan struct {
	ID              string `json:"id"`
	ShariaCompliant bool   `json:"shariaCompliant"`
}

// Charge is a tax or fee on the whole stay.
type Charge struct {
	Code     string `json:"code"`
	Amount   string `json:"amount"`
	Included bool   `json:"included"`
}

// CalendarDay is the cheapest night of one date.
type CalendarDay struct {
	Date     bff.Date `json:"date"`
	Cheapest string   `json:"cheapest"`
}

const (
	maxPreview      = 50
	maxCalendarDays = 62
)

func (s *Sim) pricingRoutes() {
	s.handle("pricing", "POST /v1/pricing/quotes/preview", s.preview)
}

func (s *Sim) preview(c *call) (any, error) {
	var req previewRequest
	if err := c.decode(&req); err != nil {
		return nil, err
	}
	var bad bff.FieldErrors
	bad.Check(len(req.Properties) > 0, "properties", bff.FieldRequired)
	bad.Check(len(req.Properties) <= maxPreview, "properties", bff.FieldCount)
	bad.Under("dates", req.Dates.Validate())
	bad.Under("occupancy", req.Occupancy.Validate())
	bad.Check(req.Currency != "", "currency", bff.FieldRequired)
	currency := currencyOf(&bad, "currency", req.Currency)
	bad.Check(req.CalendarDays >= 0 && req.CalendarDays <= maxCalendarDays, "calendarDays", bff.FieldRange)
	if err := refused(bad); err != nil {
		return nil, err
	}
	out := struct {
		Quotes  []Quote  `json:"quotes"`
		Missing []string `json:"missing"`
	}{Quotes: make([]Quote, 0, len(req.Properties)), Missing: []string{}}
	for _, want := range req.Properties {
		p := s.data.propertyByID[want.PropertyID]
		if p == nil || p.tenant.id != want.TenantID || !p.sells(req.Dates, req.Occupancy) {
			out.Missing = append(out.Missing, want.PropertyID)
			continue
		}
		q := s.quote(p, &req, currency)
		q.CapturedAt = bff.At(c.now)
		out.Quotes = append(out.Quotes, q)
	}
	return out, nil
}

func (s *Sim) quote(p *property, req *previewRequest, want bff.Currency) Quote {
	currency, policy := p.quoteCurrency(want)
	var least, total int64
	for night := req.Dates.CheckIn; night < req.Dates.CheckOut; night++ {
		minor := convert(p.nightCents(night, req.Occupancy), currency).Minor
		if total += minor; least == 0 || minor < least {
			least = minor
		}
	}
	amount := func(minor int64) string { return micros(bff.Money{Minor: minor, Currency: currency}) }
	q := Quote{
		PropertyID: p.id, CheapestNightly: amount(least), TotalForStay: amount(total), CurrencyDisplayPolicy: policy,
		RatePlan: RatePlan{ID: p.ratePlanID, ShariaCompliant: p.sharia},
	}
	if policy == "user-preferred" {
		q.FxSnapshotID = derivedID(bff.PrefixFxSnapshot, s.data.seed, kindFx, uint64(req.Dates.CheckIn)) //nolint:gosec // a date is not negative
	}
	for _, t := range p.country.taxes {
		share := total * t.percent / 100
		if t.included { // the part of the total that is tax
			share = total * t.percent / (100 + t.percent)
		}
		q.Taxes = append(q.Taxes, Charge{Code: t.code, Amount: amount(share), Included: t.included})
	}
	for i := range req.CalendarDays {
		day := req.Dates.CheckIn + bff.Date(i)
		if p.roomsLeft(day) >= req.Occupancy.Rooms {
			q.Calendar = append(q.Calendar, CalendarDay{day, micros(convert(p.nightCents(day, req.Occupancy), currency))})
		}
	}
	return q
}
