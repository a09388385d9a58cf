// Package consumertest plays the services behind the consumer domain, in memory
// and at once, for tests of its rules. Tests of protocols, time limits and
// failures on the wire use the simulator instead.
package consumertest

import (
	"context"
	"slices"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
)

// Failures are the errors that the services answer with; nil = they work.
type Failures struct {
	Search, Similar, Pricing, Theme, Property, Tenant error
}

// Failure is the failure of a service that knows the reason for it, as the
// upstream clients report theirs.
type Failure string

func (f Failure) Error() string { return "the " + string(f) + " that the test ordered" }

// DegradedReason is the reason that answers show.
func (f Failure) DegradedReason() string { return string(f) }

// Platform plays search-aggregation, pricing, theme-config, property and tenant
// service. Hotels and tenants have numbers: tenant 7 owns hotels 70 to 79.
// Fields are set before the first call; only Fail and Hang may be called later.
type Platform struct {
	Hotels  []int // in the projection's order
	Alike   []int // the hotels that are similar to every hotel
	MapPins []discovery.MapPin
	Gone    bool         // the projection knows no hotel
	SoldOut map[int]bool // hotels without a price
	NoBrand map[int]bool // tenants that theme-config does not know
	// Suspended are the tenants that tenant service reports as suspended, and
	// Unknown those that it does not know.
	Suspended, Unknown map[int]bool
	// Regions are where tenants live; the others live in Region.
	Regions map[int]string
	// Slugs replace TenantSlug for some tenants.
	Slugs map[int]string
	// Captured is when prices were captured.
	Captured func() time.Time
	Down     Failures

	mu       sync.Mutex
	hang     bool
	searches int
	pages    []consumer.Page
}

// Price is the price of every hotel, for a night and for a stay.
var Price = bff.Money{Minor: 12500, Currency: bff.AFN}

// Slug is the tenants' slug in the projection. Tenant service says TenantSlug.
const (
	Slug       = "projected"
	TenantSlug = "tenant"
)

// Region is where tenants live.
const Region = "asia-south1"

// PropertyID is the id of a hotel.
func PropertyID(n int) bff.ID {
	return bff.IDFromBytes(bff.PrefixProperty, [16]byte{1, 14: byte(n >> 8), 15: byte(n)}) //nolint:gosec // numbers of tests are small
}

// TenantID is the id of a tenant.
func TenantID(n int) bff.ID {
	return bff.IDFromBytes(bff.PrefixTenant, [16]byte{1, 14: byte(n >> 8), 15: byte(n)}) //nolint:gosec // numbers of tests are small
}

// Number is the number of a hotel or a tenant.
func Number(id bff.ID) int {
	b := id.Bytes()
	return int(b[14])<<8 | int(b[15])
}

// Listing is a hotel as the projection has it.
func Listing(n int) hotel.Listing {
	return hotel.Listing{
		PropertyID: PropertyID(n), TenantID: TenantID(n / 10), TenantSlug: Slug, Country: "AF", City: "Kabul", GeoCell: "h3:cell",
		Name:      bff.LocalizedString{Default: "House"},
		Amenities: []string{"a", "b", "c", "d", "e", "f"},
	}
}

// Listings are hotels as the projection has them.
func Listings(hotels []int) []hotel.Listing {
	out := make([]hotel.Listing, 0, len(hotels))
	for _, n := range hotels {
		out = append(out, Listing(n))
	}
	return out
}

// Fail replaces the failures.
func (p *Platform) Fail(f Failures) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Down = f
}

// Hang has searches wait until their caller gives up.
func (p *Platform) Hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hang = true
}

// Searches is how often hotels were searched.
func (p *Platform) Searches() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.searches
}

// Pages are the pages of pins that were asked for.
func (p *Platform) Pages() []consumer.Page {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.pages)
}

func (p *Platform) down() Failures {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Down
}

// Search returns all hotels.
func (p *Platform) Search(ctx context.Context, _ consumer.SearchQuery) (hotel.Listings, error) {
	p.mu.Lock()
	p.searches++
	hang, err := p.hang, p.Down.Search
	p.mu.Unlock()
	if hang {
		<-ctx.Done()
		return hotel.Listings{}, ctx.Err()
	}
	return hotel.Listings{Items: Listings(p.Hotels), Total: len(p.Hotels)}, err
}

// FindProperty returns any hotel, as tenant 7's.
func (p *Platform) FindProperty(_ context.Context, id bff.ID) (hotel.Projected, error) {
	if p.Gone {
		return hotel.Projected{}, &bff.Error{Code: bff.CodeResourceNotFound}
	}
	if err := p.down().Search; err != nil {
		return hotel.Projected{}, err
	}
	l := Listing(70)
	l.PropertyID = id
	return hotel.Projected{Listing: l, Popularity: &hotel.Popularity{BookedLast24h: 3}}, nil
}

// Similar returns the same hotels for every hotel.
func (p *Platform) Similar(context.Context, bff.ID, int, bff.Locale) ([]hotel.Listing, error) {
	if err := p.down().Similar; err != nil {
		return nil, err
	}
	return Listings(p.Alike), nil
}

// Pins returns a page of the pins.
func (p *Platform) Pins(_ context.Context, q consumer.SearchQuery) (discovery.Pins, error) {
	p.mu.Lock()
	p.pages = append(p.pages, q.Page)
	p.mu.Unlock()
	from := min(q.Page.Offset, len(p.MapPins))
	items := slices.Clone(p.MapPins[from:min(from+q.Page.Limit, len(p.MapPins))])
	return discovery.Pins{Items: items, Total: len(p.MapPins)}, p.down().Search
}

// Availability returns a calendar of one day, with a price in the currency that
// was asked for.
func (p *Platform) Availability(_ context.Context, req discovery.AvailabilityRequest) (discovery.Availability, error) {
	price := &hotel.Amount{Minor: Price.MinorString(), Currency: req.Currency}
	day := discovery.AvailabilityDay{Date: req.From, Available: true, CheapestNightlyMinor: &price.Minor, Currency: req.Currency, Nightly: price}
	return discovery.Availability{PropertyID: req.PropertyID, Days: []discovery.AvailabilityDay{day}, Degraded: discovery.Degradations{}}, p.down().Search
}

// Facets returns one facet.
func (p *Platform) Facets(context.Context, string, string, bff.Locale) (hotel.FacetCatalog, error) {
	return hotel.FacetCatalog{Facets: []hotel.Facet{{}}}, p.down().Search
}

// Suggest returns one suggestion, which says in which language it is.
func (p *Platform) Suggest(_ context.Context, _ string, _ int, locale bff.Locale) (hotel.Suggestions, error) {
	return hotel.Suggestions{Suggestions: []hotel.Suggestion{{Label: string(locale)}}}, p.down().Search
}

func (p *Platform) rate() hotel.RateSnapshot {
	captured := time.Time{}
	if p.Captured != nil {
		captured = p.Captured()
	}
	return hotel.NewRateSnapshot(Price, Price, "tenant", captured)
}

// Preview returns the price of every hotel, and which are sold out.
func (p *Platform) Preview(_ context.Context, req hotel.PriceRequest) (hotel.Previews, error) {
	if err := p.down().Pricing; err != nil {
		return nil, err
	}
	out := hotel.Previews{}
	for _, r := range req.Properties {
		rate := p.rate()
		if out[r.PropertyID] = &rate; p.SoldOut[Number(r.PropertyID)] {
			out[r.PropertyID] = nil
		}
	}
	return out, nil
}

// Quote returns the price with a calendar of one night.
func (p *Platform) Quote(_ context.Context, req hotel.PriceRequest, _ int) (hotel.Quote, error) {
	if err := p.down().Pricing; err != nil {
		return hotel.Quote{}, err
	}
	if p.SoldOut[Number(req.Properties[0].PropertyID)] {
		return hotel.Quote{SoldOut: true}, nil
	}
	r := p.rate()
	return hotel.Quote{Rate: &r, Calendar: []hotel.CalendarDay{{Date: 20000, CheapestMinor: "1"}}}, nil
}

// Peeks returns the brand of every tenant that has one.
func (p *Platform) Peeks(_ context.Context, tenants []bff.ID) (map[bff.ID]hotel.BrandPeek, error) {
	if err := p.down().Theme; err != nil {
		return nil, err
	}
	out := map[bff.ID]hotel.BrandPeek{}
	for _, id := range tenants {
		if !p.NoBrand[Number(id)] {
			out[id] = hotel.BrandPeek{PrimaryColor: "#123456", LogoURL: "https://example.com/logo.svg"}
		}
	}
	return out, nil
}

// Describe returns any hotel, as tenant 7's.
func (p *Platform) Describe(_ context.Context, id bff.ID, _ bff.Locale) (hotel.Property, error) {
	if err := p.down().Property; err != nil {
		return hotel.Property{}, err
	}
	return hotel.Property{
		PropertyID: id, TenantID: TenantID(7), Name: bff.LocalizedString{Default: "Described"}, Address: hotel.Address{Country: "AF"},
		Rooms: []hotel.RoomTypeSummary{{RoomTypeID: "r"}}, Amenities: []hotel.Amenity{{Code: "a"}}, Photos: []hotel.Photo{{URL: "u"}},
	}, nil
}

// FindTenant returns any tenant that is not unknown.
func (p *Platform) FindTenant(_ context.Context, id bff.ID) (consumer.Tenant, error) {
	if err := p.down().Tenant; err != nil {
		return consumer.Tenant{}, err
	}
	if p.Unknown[Number(id)] {
		return consumer.Tenant{}, &bff.Error{Code: bff.CodeResourceNotFound}
	}
	slug, ok := p.Slugs[Number(id)]
	if !ok {
		slug = TenantSlug
	}
	region, ok := p.Regions[Number(id)]
	if !ok {
		region = Region
	}
	return consumer.Tenant{ID: id, Slug: slug, Suspended: p.Suspended[Number(id)], Region: region}, nil
}

// ListRegions returns where tenants live, of those that tenant service knows.
func (p *Platform) ListRegions(ctx context.Context, tenants []bff.ID) map[bff.ID]string {
	out := map[bff.ID]string{}
	for _, id := range tenants {
		if t, err := p.FindTenant(ctx, id); err == nil {
			out[id] = t.Region
		}
	}
	return out
}
