package discovery

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
)

// Stay is when and with whom a guest would come.
type Stay struct {
	Dates     bff.StayDates
	Occupancy bff.Occupancy
}

// DefaultStay is what a hotel's page shows before a guest has chosen: one
// night from tomorrow.
func DefaultStay(now time.Time) Stay {
	tomorrow := bff.DateOf(now) + 1
	return Stay{Dates: bff.StayDates{CheckIn: tomorrow, CheckOut: tomorrow + 1}, Occupancy: bff.DefaultOccupancy()}
}

// calendarDays is the length of the price preview.
const calendarDays = 7

// PropertySummary is the head of a hotel's page.
type PropertySummary struct {
	PropertyID            bff.ID               `json:"propertyId"`
	TenantID              bff.ID               `json:"tenantId"`
	TenantSlug            string               `json:"tenantSlug"`
	Name                  bff.LocalizedString  `json:"name"`
	Description           *bff.LocalizedString `json:"description,omitempty"`
	PropertyType          string               `json:"propertyType"`
	StarRating            *float64             `json:"starRating,omitempty"`
	GuestRating           *hotel.GuestRating   `json:"guestRating,omitempty"`
	Address               hotel.Address        `json:"address"`
	Geo                   hotel.LatLng         `json:"geo"`
	Badges                []hotel.Badge        `json:"badges"`
	TranslationProvenance json.RawMessage      `json:"translationProvenance,omitempty"`
}

// HandoffHint tells a page where to ask for a hand-off; it is never a token.
type HandoffHint struct {
	URL        string `json:"url"`
	TTLSeconds int    `json:"ttlSeconds"`
}

// HotelDetail is a hotel's page.
type HotelDetail struct {
	Property             PropertySummary         `json:"property"`
	Rooms                []hotel.RoomTypeSummary `json:"rooms"`
	Amenities            []hotel.Amenity         `json:"amenities"`
	Photos               []hotel.Photo           `json:"photos"`
	Policies             hotel.Policies          `json:"policies"`
	BrandPeek            hotel.BrandPeek         `json:"brandPeek"`
	CheapestRateSnapshot *hotel.RateSnapshot     `json:"cheapestRateSnapshot"`
	RateState            hotel.RateState         `json:"rateState"`
	PriceCalendarPreview []hotel.CalendarDay     `json:"priceCalendarPreview,omitempty"`
	SimilarProperties    []ListingCard           `json:"similarProperties,omitempty"`
	PopularitySignals    *hotel.Popularity       `json:"popularitySignals,omitempty"`
	HandoffHint          HandoffHint             `json:"handoffHint"`
	Degraded             Degradations            `json:"degraded"`
	Stale                bool                    `json:"stale"`

	Shed Rung `json:"-"` // the rung that parts were shed at; RungNone when none were
}

// MarkStale says of a page that could not be renewed how old it is, and
// whether its prices may still be believed.
func (d *HotelDetail) MarkStale(age time.Duration, now time.Time) {
	d.Stale = true
	d.Degraded.grow(age)
	d.Degraded.aged(PartProperty, age, 1)
	if n := len(d.PriceCalendarPreview); n > 0 && age >= hotel.RateLifetime { // its nights have no room to say it
		d.Degraded.aged(PartCalendar, age, n)
	}
	if r := d.CheapestRateSnapshot; r != nil {
		r.IsStale = r.Expired(now)
		d.RateState = r.State()
	}
	for i := range d.SimilarProperties {
		d.SimilarProperties[i].age(now)
	}
}

// PricesExpire is when the first price of the page is no longer current; zero
// when none is.
func (d *HotelDetail) PricesExpire() time.Time {
	first := earliest(time.Time{}, d.CheapestRateSnapshot)
	for i := range d.SimilarProperties {
		first = earliest(first, d.SimilarProperties[i].RateSnapshot)
	}
	return first
}

// Properties describes hotels.
type Properties interface {
	// Describe returns a hotel; a CodeResourceNotFound error when there is none.
	Describe(ctx context.Context, id bff.ID, locale bff.Locale) (hotel.Property, error)
}

// DetailRequest asks for a hotel's page.
type DetailRequest struct {
	PropertyID bff.ID
	Stay       Stay
	Locale     bff.Locale
	Currency   bff.Currency
}

// HandoffPath is where a page asks for a hand-off.
const HandoffPath = "/bff/consumer/v1/handoff"

// HandoffLifetime is how long a hand-off lives.
const HandoffLifetime = 30 * time.Minute

// ErrHidden is why a hotel is not found that is there: its tenant is suspended.
var ErrHidden = errors.New("the tenant is suspended")

// hidden is the answer for a hotel of a suspended tenant. It does not differ from
// that for no hotel.
func hidden() error {
	return &bff.Error{Code: bff.CodeResourceNotFound, Detail: "no such hotel", Err: ErrHidden}
}

// Detail composes a hotel's page from four services at once. The hotel itself,
// from property-service or, without its rooms and photos, from the projection,
// is all that is indispensable.
func (f *Finder) Detail(ctx context.Context, req DetailRequest, now time.Time) (HotelDetail, error) {
	var (
		wg                                   sync.WaitGroup
		prop                                 hotel.Property
		proj                                 hotel.Projected
		similar                              similar
		quote                                hotel.Quote
		brands                               map[bff.ID]hotel.BrandPeek
		regions                              map[bff.ID]string
		propErr, projErr, quoteErr, brandErr error
	)
	rung := f.Rung()
	shed := func(at Rung) bool { return rung >= at }
	wg.Go(func() { prop, propErr = f.cfg.Properties.Describe(ctx, req.PropertyID, req.Locale) })
	if !shed(RungSimilar) {
		wg.Go(func() { similar = f.similar(ctx, req, rung) })
	}
	// Price and brand need the tenant, which the projection knows. What need not
	// wait for another goroutine runs in this one.
	if proj, projErr = f.cfg.Search.FindProperty(ctx, req.PropertyID); projErr == nil && !f.cfg.Suspended.Has(proj.Listing.TenantID) {
		tenant := []bff.ID{proj.Listing.TenantID}
		if !shed(RungListPrice) {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, f.cfg.Budgets.Rates)
				defer cancel()
				quote, quoteErr = f.cfg.Prices.Quote(ctx, req.prices().Of([]hotel.Listing{proj.Listing}), calendarDays)
			})
		}
		wg.Go(func() { regions = f.regions(ctx, tenant) })
		if !shed(RungBrand) {
			brands, brandErr = f.peeks(ctx, tenant)
		}
	}
	wg.Wait()

	// The projection decides whether a hotel is on sale here; a hotel that it
	// does not know is not shown, whatever property-service still has.
	if bff.CodeOf(projErr) == bff.CodeResourceNotFound {
		return HotelDetail{}, bff.Errorf(bff.CodeResourceNotFound, "no such hotel")
	}
	if projErr != nil && propErr != nil {
		return HotelDetail{}, consumer.Unavailable(projErr)
	}
	if f.cfg.Suspended.Has(proj.Listing.TenantID) || projErr != nil && f.cfg.Suspended.Has(prop.TenantID) {
		return HotelDetail{}, hidden()
	}

	d := HotelDetail{
		Rooms: []hotel.RoomTypeSummary{}, Amenities: []hotel.Amenity{}, Photos: []hotel.Photo{}, Degraded: Degradations{},
		HandoffHint: HandoffHint{URL: HandoffPath, TTLSeconds: int(HandoffLifetime / time.Second)},
	}
	missing := func(part Part, err error) {
		if err != nil {
			d.Degraded.add(part, bff.ReasonOf(err), 1)
		}
	}
	d.describe(prop, proj, propErr, projErr, req.Locale)
	missing(PartProperty, propErr)
	missing(PartPopularity, projErr)
	missing(PartRates, projErr)
	missing(PartCalendar, projErr)
	missing(PartBrand, projErr)
	if propErr == nil && prop.StaleAge > 0 {
		d.Stale = true
		d.Degraded.old(PartProperty, prop.StaleAge, 1)
	}
	if projErr == nil && proj.StaleAge > 0 { // ratings and popularity are the projection's
		d.Stale = true
		d.Degraded.old(PartSearch, proj.StaleAge, 1)
	}
	d.Property.Badges = f.badges(
		regions[proj.Listing.TenantID], prop.Sharia || proj.Listing.Sharia || (quote.Rate != nil && quote.Rate.Sharia), proj.Listing.ListedAt, now,
	)
	d.BrandPeek = hotel.NeutralBrand(d.Property.Name)
	if b, ok := brands[d.Property.TenantID]; ok {
		d.BrandPeek = b
	}
	d.price(quote, quoteErr, projErr == nil && !shed(RungListPrice), now)
	if shed(RungListPrice) {
		d.RateState = hotel.RateShed
	}
	missing(PartBrand, brandErr)
	if !shed(RungPopularity) {
		d.PopularitySignals = proj.Popularity
	}
	if !shed(RungSimilar) {
		d.SimilarProperties = similar.cards(f, now)
		missing(PartSimilar, similar.err)
		d.Degraded.join(similar.missing(similar.items, rung, now))
	}
	for _, s := range []struct {
		at   Rung
		part Part
	}{{RungSimilar, PartSimilar}, {RungPopularity, PartPopularity}, {RungBrand, PartBrand}, {RungListPrice, PartRates}, {RungListPrice, PartCalendar}} {
		if shed(s.at) {
			d.Degraded.shed(s.part, 1)
			d.Shed = rung
		}
	}
	return d, nil
}

// prices asks for the prices of the page's stay.
func (r DetailRequest) prices() hotel.PriceRequest {
	return hotel.PriceRequest{Dates: r.Stay.Dates, Occupancy: r.Stay.Occupancy, Currency: r.Currency, Locale: r.Locale}
}

// price puts the price and the calendar on the page. While pricing fails the
// last price that it said may be there; it is not called current once it is old.
func (d *HotelDetail) price(q hotel.Quote, failure error, asked bool, now time.Time) {
	d.CheapestRateSnapshot, d.PriceCalendarPreview, d.RateState = q.Rate, q.Calendar, hotel.RateUnanswered
	switch {
	case q.Rate != nil:
		q.Rate.IsStale = q.Rate.Expired(now)
		if d.RateState = q.Rate.State(); q.Rate.IsStale && failure != nil {
			d.Degraded.old(PartRates, now.Sub(q.Rate.CapturedAt.Time), 1)
		}
	case q.SoldOut:
		d.RateState = hotel.RateSoldOut
	case failure != nil || asked:
		d.Degraded.add(PartRates, bff.ReasonOf(failure), 1)
	}
	if failure != nil && len(q.Calendar) == 0 {
		d.Degraded.add(PartCalendar, bff.ReasonOf(failure), 1)
	}
}

// describe fills the head of the page from whichever of the two services
// answered.
func (d *HotelDetail) describe(prop hotel.Property, proj hotel.Projected, propErr, projErr error, locale bff.Locale) {
	if propErr == nil {
		d.Property = PropertySummary{
			PropertyID: prop.PropertyID, TenantID: prop.TenantID, Name: prop.Name, Description: prop.Description,
			PropertyType: prop.PropertyType, StarRating: prop.StarRating, Address: prop.Address, Geo: prop.Geo,
			TranslationProvenance: prop.TranslationProvenance,
		}
		d.Rooms, d.Amenities, d.Photos, d.Policies = prop.Rooms, prop.Amenities, prop.Photos, prop.Policies
	} else {
		l := proj.In(locale)
		d.Property = PropertySummary{
			PropertyID: l.PropertyID, TenantID: l.TenantID, Name: l.Name, PropertyType: l.PropertyType, StarRating: l.StarRating,
			Address: hotel.Address{City: l.City, CityLabel: l.CityLabel, Region: l.Region, RegionLabel: l.RegionLabel, Country: l.Country}, Geo: l.Geo,
		}
		d.Photos = []hotel.Photo{{URL: l.Thumbnail.URL, Alt: l.Thumbnail.Alt, IsHero: true}}
	}
	at := &d.Property.Address
	at.CityLabel, at.RegionLabel = cmp.Or(at.CityLabel, at.City), cmp.Or(at.RegionLabel, at.Region)
	if projErr == nil {
		d.Property.TenantSlug, d.Property.GuestRating = proj.Listing.TenantSlug, proj.Listing.GuestRating
	}
}
