package consumer

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
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

// similarHotels is how many a page suggests.
const similarHotels = 4

// Address is where a hotel is.
type Address struct {
	Line    string `json:"line"`
	City    string `json:"city"`
	Region  string `json:"region"`
	Country string `json:"country"`
}

// PropertySummary is the head of a hotel's page.
type PropertySummary struct {
	PropertyID            bff.ID               `json:"propertyId"`
	TenantID              bff.ID               `json:"tenantId"`
	TenantSlug            string               `json:"tenantSlug"`
	Name                  bff.LocalizedString  `json:"name"`
	Description           *bff.LocalizedString `json:"description,omitempty"`
	PropertyType          string               `json:"propertyType"`
	StarRating            *float64             `json:"starRating,omitempty"`
	GuestRating           *GuestRating         `json:"guestRating,omitempty"`
	Address               Address              `json:"address"`
	Geo                   LatLng               `json:"geo"`
	Badges                []Badge              `json:"badges"`
	TranslationProvenance json.RawMessage      `json:"translationProvenance,omitempty"`
}

// RoomTypeSummary is one kind of room.
type RoomTypeSummary struct {
	RoomTypeID   string              `json:"roomTypeId"`
	Name         bff.LocalizedString `json:"name"`
	MaxOccupancy RoomCapacity        `json:"maxOccupancy"`
	Beds         []Bed               `json:"beds"`
	SizeSqm      *float64            `json:"sizeSqm,omitempty"`
	Amenities    []string            `json:"amenities"`
	PhotoURLs    []string            `json:"photoUrls"`
}

// RoomCapacity is how many a room sleeps.
type RoomCapacity struct {
	Adults   int `json:"adults"`
	Children int `json:"children"`
}

// Bed is a kind of bed and how many there are.
type Bed struct {
	Type  string `json:"type"`
	Count int    `json:"count"`
}

// Amenity is something that a hotel offers.
type Amenity struct {
	Code     string `json:"code"`
	Label    string `json:"label"`
	Category string `json:"category"`
}

// Photo is a picture of a hotel.
type Photo struct {
	URL    string `json:"url"`
	Alt    string `json:"alt"`
	IsHero bool   `json:"isHero"`
}

// Policies are a hotel's rules in the guest's language.
type Policies struct {
	Cancellation string `json:"cancellation"`
	CheckIn      string `json:"checkIn"`
	CheckOut     string `json:"checkOut"`
}

// Popularity says how much a hotel is wanted now.
type Popularity struct {
	BookedLast24h int `json:"bookedLast24h"`
	ViewedLast1h  int `json:"viewedLast1h"`
}

// CalendarDay is the cheapest price of one night.
type CalendarDay struct {
	Date          bff.Date     `json:"date"`
	CheapestMinor string       `json:"cheapestMinor"`
	Currency      bff.Currency `json:"currency"`
}

// HandoffHint tells a page where to ask for a hand-off; it is never a token.
type HandoffHint struct {
	URL        string `json:"url"`
	TTLSeconds int    `json:"ttlSeconds"`
}

// HotelDetail is a hotel's page.
type HotelDetail struct {
	Property             PropertySummary   `json:"property"`
	Rooms                []RoomTypeSummary `json:"rooms"`
	Amenities            []Amenity         `json:"amenities"`
	Photos               []Photo           `json:"photos"`
	Policies             Policies          `json:"policies"`
	BrandPeek            BrandPeek         `json:"brandPeek"`
	CheapestRateSnapshot *RateSnapshot     `json:"cheapestRateSnapshot"`
	PriceCalendarPreview []CalendarDay     `json:"priceCalendarPreview,omitempty"`
	SimilarProperties    []ListingCard     `json:"similarProperties,omitempty"`
	PopularitySignals    *Popularity       `json:"popularitySignals,omitempty"`
	HandoffHint          HandoffHint       `json:"handoffHint"`
	Degraded             []Degradation     `json:"degraded"`
	Stale                bool              `json:"stale"`
}

// MarkStale says of a page that could not be renewed how old it is, and
// whether its price may still be believed.
func (d *HotelDetail) MarkStale(age time.Duration, now time.Time) {
	d.Stale = true
	d.Degraded = append(d.Degraded, Degradation{Part: PartProperty, Reason: ReasonStale, AgeMs: age.Milliseconds(), Affected: 1})
	if r := d.CheapestRateSnapshot; r != nil {
		r.IsStale = r.expired(now)
	}
}

// PricesExpire is when the price of the page is no longer current; zero when
// it shows none.
func (d *HotelDetail) PricesExpire() time.Time { return earliest(time.Time{}, d.CheapestRateSnapshot) }

// Property is a hotel as property-service describes it, in one locale.
type Property struct {
	PropertyID            bff.ID
	TenantID              bff.ID
	Name                  bff.LocalizedString
	Description           *bff.LocalizedString
	PropertyType          string
	StarRating            *float64
	Address               Address
	Geo                   LatLng
	Rooms                 []RoomTypeSummary
	Amenities             []Amenity
	Photos                []Photo
	Policies              Policies
	Sharia                bool
	TranslationProvenance json.RawMessage `json:",omitempty"` // absent stays absent through the cache
}

// Properties describes hotels.
type Properties interface {
	// Describe returns a hotel; a CodeResourceNotFound error when there is none.
	Describe(ctx context.Context, id bff.ID, locale bff.Locale) (Property, error)
}

// Projected is what the search projection knows of one hotel.
type Projected struct {
	Listing    Listing
	Popularity *Popularity
}

// Quote is a price with the calendar around it.
type Quote struct {
	Rate     *RateSnapshot
	Calendar []CalendarDay
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

// Detail composes a hotel's page from four services at once. The hotel itself,
// from property-service or, without its rooms and photos, from the projection,
// is all that is indispensable.
func (f *Finder) Detail(ctx context.Context, req DetailRequest, now time.Time) (HotelDetail, error) {
	var (
		wg                                           sync.WaitGroup
		prop                                         Property
		proj                                         Projected
		similar                                      []Listing
		quote                                        Quote
		brands                                       map[bff.ID]BrandPeek
		propErr, projErr, simErr, quoteErr, brandErr error
	)
	rung := f.rung()
	shed := func(at Rung) bool { return rung >= at }
	wg.Go(func() { prop, propErr = f.Properties.Describe(ctx, req.PropertyID, req.Locale) })
	if !shed(RungSimilar) {
		wg.Go(func() { similar, simErr = f.Search.Similar(ctx, req.PropertyID, similarHotels, req.Locale) })
	}
	// Price and brand need the tenant, which the projection knows. What need not
	// wait for another goroutine runs in this one.
	if proj, projErr = f.Search.FindProperty(ctx, req.PropertyID); projErr == nil {
		tenant := proj.Listing.TenantID
		if !shed(RungListPrice) {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, f.Budgets.Rates)
				defer cancel()
				quote, quoteErr = f.Prices.Quote(ctx, PriceRequest{
					Properties: []PropertyRef{{req.PropertyID, tenant}}, Dates: req.Stay.Dates,
					Occupancy: req.Stay.Occupancy, Currency: req.Currency, Locale: req.Locale,
				}, calendarDays)
			})
		}
		if !shed(RungBrand) {
			ctx, cancel := context.WithTimeout(ctx, f.Budgets.Brand)
			defer cancel()
			brands, brandErr = f.Brands.Peeks(ctx, []bff.ID{tenant})
		}
	}
	wg.Wait()

	// The projection decides whether a hotel is on sale here; a hotel that it
	// does not know is not shown, whatever property-service still has.
	if bff.CodeOf(projErr) == bff.CodeResourceNotFound {
		return HotelDetail{}, bff.Errorf(bff.CodeResourceNotFound, "no such hotel")
	}
	if projErr != nil && propErr != nil {
		return HotelDetail{}, Unavailable(projErr)
	}
	if projErr == nil && f.Suspended.Has(proj.Listing.TenantID) {
		return HotelDetail{}, bff.Errorf(bff.CodeResourceNotFound, "no such hotel")
	}
	if projErr != nil && f.Suspended.Has(prop.TenantID) {
		return HotelDetail{}, bff.Errorf(bff.CodeResourceNotFound, "no such hotel")
	}

	d := HotelDetail{
		Rooms: []RoomTypeSummary{}, Amenities: []Amenity{}, Photos: []Photo{}, Degraded: []Degradation{},
		HandoffHint: HandoffHint{URL: HandoffPath, TTLSeconds: int(HandoffLifetime / time.Second)},
	}
	missing := func(part Part, err error) {
		d.Degraded = append(d.Degraded, Degradation{Part: part, Reason: reasonOf(err), Affected: 1})
	}
	d.describe(prop, proj, propErr, projErr)
	if propErr != nil {
		missing(PartProperty, propErr)
	}
	if projErr != nil {
		missing(PartPopularity, projErr)
		missing(PartRates, projErr)
		missing(PartBrand, projErr)
	}
	d.Property.Badges = f.badges(d.Property.Address.Country, prop.Sharia || proj.Listing.Sharia || (quote.Rate != nil && quote.Rate.Sharia), proj.Listing.ListedAt, now)
	d.BrandPeek = NeutralBrand(d.Property.Name)
	if b, ok := brands[d.Property.TenantID]; ok {
		d.BrandPeek = b
	}
	d.CheapestRateSnapshot, d.PriceCalendarPreview = quote.Rate, quote.Calendar
	if quote.Rate != nil {
		quote.Rate.IsStale = quote.Rate.expired(now)
	}
	if !shed(RungPopularity) {
		d.PopularitySignals = proj.Popularity
	}
	if len(similar) > 0 {
		d.SimilarProperties = make([]ListingCard, 0, len(similar))
	}
	for _, l := range similar {
		if l.PropertyID != req.PropertyID && !f.Suspended.Has(l.TenantID) {
			d.SimilarProperties = append(d.SimilarProperties, f.card(l, nil, nil, now))
		}
	}
	if quoteErr != nil {
		missing(PartRates, quoteErr)
	}
	if brandErr != nil {
		missing(PartBrand, brandErr)
	}
	if simErr != nil {
		missing(PartSimilar, simErr)
	}
	for _, s := range []struct {
		at   Rung
		part Part
	}{{RungSimilar, PartSimilar}, {RungPopularity, PartPopularity}, {RungBrand, PartBrand}, {RungListPrice, PartRates}} {
		if shed(s.at) {
			d.Degraded = append(d.Degraded, Degradation{Part: s.part, Reason: ReasonShed, Affected: 1})
		}
	}
	return d, nil
}

// describe fills the head of the page from whichever of the two services
// answered.
func (d *HotelDetail) describe(prop Property, proj Projected, propErr, projErr error) {
	if propErr == nil {
		d.Property = PropertySummary{
			PropertyID: prop.PropertyID, TenantID: prop.TenantID, Name: prop.Name, Description: prop.Description,
			PropertyType: prop.PropertyType, StarRating: prop.StarRating, Address: prop.Address, Geo: prop.Geo,
			TranslationProvenance: prop.TranslationProvenance,
		}
		d.Rooms, d.Amenities, d.Photos, d.Policies = prop.Rooms, prop.Amenities, prop.Photos, prop.Policies
	} else {
		l := proj.Listing
		d.Property = PropertySummary{
			PropertyID: l.PropertyID, TenantID: l.TenantID, Name: l.Name, PropertyType: l.PropertyType, StarRating: l.StarRating,
			Address: Address{City: l.City, Region: l.Region, Country: l.Country}, Geo: l.Geo,
		}
		d.Photos = []Photo{{URL: l.Thumbnail.URL, Alt: l.Thumbnail.Alt, IsHero: true}}
	}
	if projErr == nil {
		d.Property.TenantSlug, d.Property.GuestRating = proj.Listing.TenantSlug, proj.Listing.GuestRating
	}
}
