package hotel

import (
	"encoding/json"
	"time"

	"melmastoon.ghasi.io/bff"
)

// Amount is money as front ends read and send it: minor units in a decimal string.
type Amount struct {
	Minor    string       `json:"minor"`
	Currency bff.Currency `json:"currency"`
}

// CalendarDay is the cheapest price of one night.
type CalendarDay struct {
	Date          bff.Date     `json:"date"`
	CheapestMinor string       `json:"cheapestMinor"`
	Currency      bff.Currency `json:"currency"`
}

// Cheapest returns the price.
func (d *CalendarDay) Cheapest() Amount { return Amount{d.CheapestMinor, d.Currency} }

// MarshalJSON writes the price in both of its forms.
func (d CalendarDay) MarshalJSON() ([]byte, error) {
	type members CalendarDay
	return json.Marshal(struct {
		members
		Cheapest Amount `json:"cheapest"`
	}{members(d), d.Cheapest()})
}

// Quote is a price with the calendar around it.
type Quote struct {
	Rate     *RateSnapshot
	SoldOut  bool // pricing says that it has no price for the stay
	Calendar []CalendarDay
}

// PriceRequest asks for the cheapest prices of hotels for one stay.
type PriceRequest struct {
	Properties []PropertyRef
	Dates      bff.StayDates
	Occupancy  bff.Occupancy
	Currency   bff.Currency
	Locale     bff.Locale
}

// PropertyRef names a property of a tenant.
type PropertyRef struct{ PropertyID, TenantID bff.ID }

// Of returns the request for the prices of listings.
func (p PriceRequest) Of(items []Listing) PriceRequest {
	p.Properties = make([]PropertyRef, len(items))
	for i := range items {
		p.Properties[i] = PropertyRef{items[i].PropertyID, items[i].TenantID}
	}
	return p
}

// RateLifetime is how long a price may be shown as current.
const RateLifetime = 60 * time.Second

// RateSnapshot is a price as pricing said it at one moment. Amounts are minor
// units in decimal strings; the service never computes with them.
type RateSnapshot struct {
	CheapestNightlyMinor  string        `json:"cheapestNightlyMinor"`
	TotalForStayMinor     string        `json:"totalForStayMinor"`
	Currency              bff.Currency  `json:"currency"`
	CurrencyDisplayPolicy string        `json:"currencyDisplayPolicy"`
	FxSnapshotID          string        `json:"fxSnapshotId,omitempty"`
	CapturedAt            bff.Timestamp `json:"capturedAt"`
	TTLExpiresAt          bff.Timestamp `json:"ttlExpiresAt"`
	IsStale               bool          `json:"isStale"`
	Taxes                 []Tax         `json:"taxes,omitempty"`
	Sharia                bool          `json:"-"` // the rate plan's, for the badge
}

// Nightly returns the price of the cheapest night.
func (r *RateSnapshot) Nightly() Amount { return Amount{r.CheapestNightlyMinor, r.Currency} }

// Total returns the price of the stay.
func (r *RateSnapshot) Total() Amount { return Amount{r.TotalForStayMinor, r.Currency} }

// MarshalJSON writes the prices in both of their forms.
func (r RateSnapshot) MarshalJSON() ([]byte, error) {
	type members RateSnapshot
	return json.Marshal(struct {
		members
		Nightly Amount `json:"nightly"`
		Total   Amount `json:"total"`
	}{members(r), r.Nightly(), r.Total()})
}

// Tax is a charge that pricing names; it is passed on and never inferred.
type Tax struct {
	Code     string       `json:"code"`
	Minor    string       `json:"minor"`
	Currency bff.Currency `json:"currency"`
	Included bool         `json:"included"`
}

// Previews are prices by property. A property whose price is nil is sold out for the
// stay, because pricing says so; one that is absent was not answered.
type Previews map[bff.ID]*RateSnapshot

// RateState says why a card has a price or none, so that a page need not guess: a null
// price is not "sold out".
type RateState string

// The closed set of states.
const (
	RatePriced     RateState = "priced"
	RateStale      RateState = "stale"      // there is one, no longer current
	RateSoldOut    RateState = "sold_out"   // pricing has none for the stay
	RateUnanswered RateState = "unanswered" // pricing did not say
	RateShed       RateState = "shed"       // left out under load
)

// RateStates lists every state.
func RateStates() []RateState {
	return []RateState{RatePriced, RateStale, RateSoldOut, RateUnanswered, RateShed}
}

// State is the state of a price that is there.
func (r *RateSnapshot) State() RateState {
	if r.IsStale {
		return RateStale
	}
	return RatePriced
}

// NewRateSnapshot returns what pricing said at the moment captured.
func NewRateSnapshot(nightly, total bff.Money, policy string, captured time.Time) RateSnapshot {
	return RateSnapshot{
		CheapestNightlyMinor: nightly.MinorString(), TotalForStayMinor: total.MinorString(), Currency: nightly.Currency,
		CurrencyDisplayPolicy: policy, CapturedAt: bff.At(captured), TTLExpiresAt: bff.At(captured.Add(RateLifetime)),
	}
}

// Expired reports whether a price is no longer current.
func (r *RateSnapshot) Expired(now time.Time) bool { return !now.Before(r.TTLExpiresAt.Time) }
