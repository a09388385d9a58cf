package discovery

import (
	"context"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
)

// MapPin is one hotel on the map. Only the pin under the cursor has a price.
type MapPin struct {
	PropertyID           bff.ID          `json:"propertyId"`
	Geo                  hotel.LatLng    `json:"geo"`
	CheapestNightlyMinor *string         `json:"cheapestNightlyMinor,omitempty"`
	Currency             bff.Currency    `json:"currency,omitempty"`
	Nightly              *hotel.Amount   `json:"nightly,omitempty"`
	RateState            hotel.RateState `json:"rateState,omitempty"` // of the cursor's pin
	BrandColor           string          `json:"brandColor"`
	TenantID             bff.ID          `json:"-"`
}

// price puts a price on the pin, or takes it off.
func (p *MapPin) price(nightly *hotel.Amount) {
	if p.Nightly, p.CheapestNightlyMinor, p.Currency = nightly, nil, ""; nightly != nil {
		p.CheapestNightlyMinor, p.Currency = &nightly.Minor, nightly.Currency
	}
}

// MaxPins is how many pins one map shows.
const MaxPins = 250

// mapPage is how many pins the projection gives at once.
const mapPage = 200

// wideBoxDegrees is the width from which a box counts as zoomed out and one
// tenant may not fill the map.
const wideBoxDegrees = 2.0

// tenantShare is the most pins of one tenant on a zoomed-out map.
const tenantShare = 25

// Pins is a window of the projection's map.
type Pins struct {
	Items []MapPin
	Total int
}

// MapResult is a map with its pins.
type MapResult struct {
	Pins      []MapPin     `json:"pins"`
	Total     int          `json:"total"`
	Truncated bool         `json:"truncated"`
	Degraded  Degradations `json:"degraded"`
	Stale     bool         `json:"stale"`

	Shed Rung `json:"-"` // the rung that parts were shed at; RungNone when none were
	// Omitted are the suspended tenants whose hotels were left out.
	Omitted []bff.ID `json:"-"`
}

// MarkStale says of a map that could not be renewed how old it is. Its one
// price is taken off: a pin has no room to say that it is old.
func (m *MapResult) MarkStale(age time.Duration, _ time.Time) {
	m.Stale = true
	m.Degraded.grow(age)
	m.Degraded.aged(PartSearch, age, max(1, len(m.Pins)))
	for i := range m.Pins {
		if m.Pins[i].CheapestNightlyMinor != nil {
			m.Pins[i].price(nil)
			m.Pins[i].RateState = hotel.RateUnanswered
			m.Degraded.aged(PartMapPrice, age, 1)
		}
	}
}

// Map composes a map. Cursor names the pin whose price is wanted; it may be zero.
func (f *Finder) Map(ctx context.Context, q consumer.SearchQuery, cursor bff.ID, now time.Time) (MapResult, error) {
	q = q.Normalise()
	pins, omitted, total, err := f.pins(ctx, q)
	if err != nil {
		return MapResult{}, consumer.Unavailable(err)
	}
	res := MapResult{Pins: pins, Total: total, Truncated: total > len(pins), Degraded: Degradations{}, Omitted: omitted}
	rung := f.Rung()
	var tenants []bff.ID
	seen := map[bff.ID]bool{}
	for _, p := range pins {
		if !seen[p.TenantID] {
			seen[p.TenantID] = true
			tenants = append(tenants, p.TenantID)
		}
	}
	var brands map[bff.ID]hotel.BrandPeek
	if rung < RungBrand && len(tenants) > 0 {
		if brands, err = f.peeks(ctx, tenants); err != nil {
			res.Degraded.add(PartBrand, bff.ReasonOf(err), len(pins))
		}
	} else if len(tenants) > 0 {
		res.Degraded.shed(PartBrand, len(pins))
		res.Shed = rung
	}
	for i := range pins {
		pins[i].BrandColor = hotel.NeutralColor
		if b, ok := brands[pins[i].TenantID]; ok {
			pins[i].BrandColor = b.PrimaryColor
		}
	}
	f.priceCursor(ctx, q, cursor, &res, now)
	return res, nil
}

// priceCursor puts a price on the one pin that the guest points at.
func (f *Finder) priceCursor(ctx context.Context, q consumer.SearchQuery, cursor bff.ID, res *MapResult, now time.Time) {
	if cursor.IsZero() {
		return
	}
	for i := range res.Pins {
		pin := &res.Pins[i]
		if pin.PropertyID != cursor {
			continue
		}
		if rung := f.Rung(); rung >= RungMapPrice {
			res.Degraded.shed(PartMapPrice, 1)
			res.Shed, pin.RateState = rung, hotel.RateShed
			return
		}
		ctx, cancel := context.WithTimeout(ctx, f.cfg.Budgets.Rates)
		defer cancel()
		rates, err := f.cfg.Prices.Preview(ctx, hotel.PriceRequest{
			Properties: []hotel.PropertyRef{{PropertyID: pin.PropertyID, TenantID: pin.TenantID}}, Dates: q.Dates, Occupancy: q.Occupancy,
			Currency: q.Currency, Locale: q.Locale,
		})
		switch r, ok := rates[cursor]; {
		case r != nil && (err == nil || !r.Expired(now)): // a pin has no room to say that its price is old
			nightly := r.Nightly()
			pin.price(&nightly)
			pin.RateState = hotel.RatePriced
		case ok && r == nil:
			pin.RateState = hotel.RateSoldOut
		default:
			pin.RateState = hotel.RateUnanswered
			res.Degraded.add(PartMapPrice, bff.ReasonOf(err), 1)
		}
		return
	}
}

// pins reads the projection's pages until the map is full. On a zoomed-out map
// a tenant with hundreds of hotels leaves room for the others.
func (f *Finder) pins(ctx context.Context, q consumer.SearchQuery) (out []MapPin, omitted []bff.ID, total int, err error) {
	wide := q.Geo.BoundingBox != nil && width(q.Geo.BoundingBox) > wideBoxDegrees
	perTenant := map[bff.ID]int{}
	var spare []MapPin
	out = []MapPin{}
	for offset := 0; offset < 2*mapPage; offset += mapPage {
		q.Page = consumer.Page{Limit: mapPage, Offset: offset}
		page, err := f.cfg.Search.Pins(ctx, q)
		if err != nil {
			return nil, nil, 0, err
		}
		total = page.Total
		for _, p := range page.Items {
			switch {
			case f.cfg.Suspended.Has(p.TenantID):
				total--
				omitted = append(omitted, p.TenantID)
			case wide && perTenant[p.TenantID] >= tenantShare:
				spare = append(spare, p)
			default:
				perTenant[p.TenantID]++
				out = append(out, p)
			}
		}
		if len(out) >= MaxPins || offset+mapPage >= page.Total {
			break
		}
	}
	// No other tenant wants the room that is left.
	if room := MaxPins - len(out); room > 0 {
		out = append(out, spare[:min(room, len(spare))]...)
	}
	return out[:min(len(out), MaxPins)], omitted, total, nil
}

// width is that of a box in degrees.
func width(b *consumer.BoundingBox) float64 {
	w := b.NeLng - b.SwLng
	if w < 0 {
		w += 360
	}
	return max(w, b.NeLat-b.SwLat)
}

// AvailabilityRequest asks which nights are free.
type AvailabilityRequest struct {
	PropertyID bff.ID
	From, To   bff.Date // To is not included
	Occupancy  bff.Occupancy
	Currency   bff.Currency
}

// Availability returns a hotel's calendar, and whose hotel it is.
func (f *Finder) Availability(ctx context.Context, req AvailabilityRequest) (Availability, bff.ID, error) {
	found, err := f.cfg.Search.FindProperty(ctx, req.PropertyID)
	if err != nil {
		return Availability{}, bff.ID{}, consumer.Unavailable(err)
	}
	tenant := found.Listing.TenantID
	if f.cfg.Suspended.Has(tenant) {
		return Availability{}, tenant, hidden()
	}
	days, err := f.cfg.Search.Availability(ctx, req)
	if err != nil {
		return Availability{}, tenant, consumer.Unavailable(err)
	}
	return days, tenant, nil
}

// MaxAvailabilityNights bounds one availability request.
const MaxAvailabilityNights = 62

// AvailabilityDay is one night.
type AvailabilityDay struct {
	Date                 bff.Date      `json:"date"`
	Available            bool          `json:"available"`
	RoomsLeft            *int          `json:"roomsLeft,omitempty"`
	CheapestNightlyMinor *string       `json:"cheapestNightlyMinor,omitempty"`
	Currency             bff.Currency  `json:"currency,omitempty"`
	Nightly              *hotel.Amount `json:"nightly,omitempty"`
	IsStale              bool          `json:"isStale,omitempty"` // the price is no longer current
}

// Availability is a hotel's calendar.
type Availability struct {
	PropertyID bff.ID            `json:"propertyId"`
	Days       []AvailabilityDay `json:"days"`
	Degraded   Degradations      `json:"degraded"`
	Stale      bool              `json:"stale,omitempty"`
}

// MarkStale says of a calendar that could not be renewed how old it is, and of
// each price whether it may still be believed.
func (a *Availability) MarkStale(age time.Duration, _ time.Time) {
	a.Stale = true
	a.Degraded.grow(age)
	a.Degraded.aged(PartAvailability, age, max(1, len(a.Days)))
	for i := range a.Days {
		a.Days[i].IsStale = a.Days[i].CheapestNightlyMinor != nil && age >= hotel.RateLifetime
	}
}
