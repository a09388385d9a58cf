package sim

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
)

// Query is the body of a search.
type Query struct {
	Geo       Geo           `json:"geo"`
	Dates     bff.StayDates `json:"dates"`
	Occupancy bff.Occupancy `json:"occupancy"`
	Filters   Filters       `json:"filters"`
	SortKey   string        `json:"sortKey"`
	Page      Page          `json:"page"`
	Locale    string        `json:"locale"`
	Currency  string        `json:"currency"`
}

// Geo is where to search, in one of four ways.
type Geo struct {
	Mode        string       `json:"mode"`
	Point       *Circle      `json:"point,omitempty"`
	BoundingBox *BoundingBox `json:"boundingBox,omitempty"`
	City        string       `json:"city,omitempty"`
	Region      string       `json:"region,omitempty"`
	Country     string       `json:"country,omitempty"`
}

// Circle is a point and how far around it.
type Circle struct {
	Lat      float64 `json:"lat"`
	Lng      float64 `json:"lng"`
	RadiusKm float64 `json:"radiusKm"`
}

// BoundingBox reaches eastward from swLng to neLng; swLng > neLng means that it
// crosses the antimeridian.
type BoundingBox struct {
	SwLat float64 `json:"swLat"`
	SwLng float64 `json:"swLng"`
	NeLat float64 `json:"neLat"`
	NeLng float64 `json:"neLng"`
}

// Filters narrow a search; all of them must hold.
type Filters struct {
	PriceRange              *PriceRange `json:"priceRange,omitempty"`
	Amenities               []string    `json:"amenities,omitempty"`
	StarRating              []int       `json:"starRating,omitempty"`
	GuestRatingMin          float64     `json:"guestRatingMin,omitempty"`
	PropertyType            []string    `json:"propertyType,omitempty"`
	CancellationFlexibility string      `json:"cancellationFlexibility,omitempty"`
	Neighbourhoods          []string    `json:"neighbourhoods,omitempty"`
}

// PriceRange bounds the cheapest night, in major units of Currency.
type PriceRange struct {
	Min      float64  `json:"min"`
	Max      *float64 `json:"max"`
	Currency string   `json:"currency"`
}

// Page is a window on the results.
type Page struct {
	Limit  int `json:"limit"`
	Offset int `json:"offset"`
}

const (
	maxPage      = 200
	defaultPage  = 50
	maxOffset    = 10_000
	maxRadiusKm  = 500
	maxListed    = 64 // entries in any list of a filter
	maxPlaceName = 200
)

func (q *Query) validate() bff.FieldErrors {
	var bad bff.FieldErrors
	g := q.Geo
	lat := func(v float64) bool { return v >= -90 && v <= 90 }
	lng := func(v float64) bool { return v >= -180 && v <= 180 }
	switch g.Mode {
	case "point":
		bad.Check(g.Point != nil, "geo.point", bff.FieldRequired)
		if p := g.Point; p != nil {
			bad.Check(lat(p.Lat), "geo.point.lat", bff.FieldRange)
			bad.Check(lng(p.Lng), "geo.point.lng", bff.FieldRange)
			bad.Check(p.RadiusKm > 0 && p.RadiusKm <= maxRadiusKm, "geo.point.radiusKm", bff.FieldRange)
		}
	case "bounding-box":
		bad.Check(g.BoundingBox != nil, "geo.boundingBox", bff.FieldRequired)
		if b := g.BoundingBox; b != nil {
			bad.Check(lat(b.SwLat), "geo.boundingBox.swLat", bff.FieldRange)
			bad.Check(lng(b.SwLng), "geo.boundingBox.swLng", bff.FieldRange)
			bad.Check(lat(b.NeLat) && b.NeLat >= b.SwLat, "geo.boundingBox.neLat", bff.FieldRange)
			bad.Check(lng(b.NeLng), "geo.boundingBox.neLng", bff.FieldRange)
		}
	case "city":
		bad.Check(foldKey(g.City) != "", "geo.city", bff.FieldRequired)
	case "region":
		bad.Check(foldKey(g.Region) != "", "geo.region", bff.FieldRequired)
	case "":
		bad.Add("geo.mode", bff.FieldRequired)
	default:
		bad.Add("geo.mode", bff.FieldUnsupported)
	}
	bad.Check(len(g.City) <= maxPlaceName, "geo.city", bff.FieldLength)
	bad.Check(len(g.Region) <= maxPlaceName, "geo.region", bff.FieldLength)
	bad.Under("dates", q.Dates.Validate())
	bad.Under("occupancy", q.Occupancy.Validate())
	f := q.Filters
	if r := f.PriceRange; r != nil {
		bad.Check(r.Min >= 0, "filters.priceRange.min", bff.FieldRange)
		bad.Check(r.Max == nil || *r.Max >= r.Min, "filters.priceRange.max", bff.FieldOrder)
		bad.Check(r.Currency != "", "filters.priceRange.currency", bff.FieldRequired)
		currencyOf(&bad, "filters.priceRange.currency", r.Currency)
	}
	bad.Check(len(f.Amenities) <= maxListed, "filters.amenities", bff.FieldCount)
	bad.Check(len(f.StarRating) <= maxListed, "filters.starRating", bff.FieldCount)
	bad.Check(len(f.PropertyType) <= maxListed, "filters.propertyType", bff.FieldCount)
	bad.Check(len(f.Neighbourhoods) <= maxListed, "filters.neighbourhoods", bff.FieldCount)
	bad.Check(f.GuestRatingMin >= 0 && f.GuestRatingMin <= 10, "filters.guestRatingMin", bff.FieldRange)
	bad.Check(slices.Contains([]string{"", "any", "partial", "free"}, f.CancellationFlexibility), "filters.cancellationFlexibility", bff.FieldUnsupported)
	bad.Check(slices.Contains([]string{"", "recommended", "price-asc", "price-desc", "rating-desc", "distance-asc"}, q.SortKey), "sortKey", bff.FieldUnsupported)
	bad.Check(q.Page.Limit >= 0 && q.Page.Limit <= maxPage, "page.limit", bff.FieldRange)
	bad.Check(q.Page.Offset >= 0 && q.Page.Offset <= maxOffset, "page.offset", bff.FieldRange)
	currencyOf(&bad, "currency", q.Currency)
	return bad
}

// hit is a house that a search found.
type hit struct {
	*property
	km    float64 // from the middle of the query, where it is measured; else negative
	cents int64   // the cheapest night, where the query needs it
}

// find returns every house that the query asks for, in its order. The order is
// total, so pages neither repeat nor skip.
func (s *Sim) find(q *Query, now time.Time) []hit {
	f := newFilter(s, q, now)
	var hits []hit
	for _, p := range s.candidates(q.Geo) {
		if h, ok := f.match(p); ok {
			hits = append(hits, h)
		}
	}
	var order func(a, b hit) int
	switch q.SortKey {
	case "price-asc":
		order = func(a, b hit) int { return cmp.Compare(a.cents, b.cents) }
	case "price-desc":
		order = func(a, b hit) int { return cmp.Compare(b.cents, a.cents) }
	case "rating-desc":
		order = func(a, b hit) int { return cmp.Compare(b.ratingTenths, a.ratingTenths) }
	case "distance-asc":
		from := q.Geo.origin(s.candidates(q.Geo))
		for i := range hits {
			hits[i].km = from(hits[i])
		}
		order = func(a, b hit) int { return cmp.Compare(from(a), from(b)) }
	default: // the data set already stands in the order of recommendation
		return hits
	}
	slices.SortFunc(hits, func(a, b hit) int { return cmp.Or(order(a, b), cmp.Compare(a.id, b.id)) })
	return hits
}

// origin returns how far a hit is: from the point, from the middle of the box,
// or from the centre of the city or of the region, which is made of the houses
// given.
func (g Geo) origin(houses []*property) func(hit) float64 {
	switch g.Mode {
	case "point":
		return func(h hit) float64 { return h.km }
	case "bounding-box":
		b := g.BoundingBox
		east := b.NeLng
		if east < b.SwLng {
			east += 360
		}
		middle := Point{(b.SwLat + b.NeLat) / 2, wrap((b.SwLng + east) / 2)}
		return func(h hit) float64 { return distanceKm(middle, h.geo) }
	}
	if g.Mode != "region" {
		return func(h hit) float64 { return distanceKm(h.city.centre, h.geo) }
	}
	middle := middleOf(houses)
	return func(h hit) float64 { return distanceKm(middle, h.geo) }
}

// middleOf is the mean of the centres of the cities that houses are in.
func middleOf(houses []*property) (middle Point) {
	seen := map[*city]bool{}
	for _, h := range houses {
		if !seen[h.city] {
			seen[h.city] = true
			middle.Lat, middle.Lng = middle.Lat+h.city.centre.Lat, middle.Lng+h.city.centre.Lng
		}
	}
	if n := float64(len(seen)); n > 0 {
		middle.Lat, middle.Lng = middle.Lat/n, middle.Lng/n
	}
	return middle
}

// candidates narrows the data set by the cheapest index.
func (s *Sim) candidates(g Geo) []*property {
	switch g.Mode {
	case "city":
		return s.data.byCity[foldKey(g.City)]
	case "region":
		return s.data.byRegion[foldKey(g.Region)]
	}
	return s.data.properties
}

// filter is a query made ready to test many houses.
type filter struct {
	q         *Query
	hidden    []*tenant
	amenities uint32
	unknown   bool // asks for something that no house has
	hoods     []string
	country   string
	region    string
	minMinor  float64
	maxMinor  float64
	priced    bool
	types     []propertyType
	box       BoundingBox // around the circle: cheaper than the distance
}

func newFilter(s *Sim, q *Query, now time.Time) *filter {
	f := &filter{q: q, hidden: s.hidden(now), types: s.data.types, country: strings.ToUpper(q.Geo.Country)}
	for _, code := range q.Filters.Amenities {
		if code == "wifi" { // as the platform's own examples write it
			code = "free_wifi"
		}
		i := slices.IndexFunc(s.data.amenities, func(a amenity) bool { return a.code == code })
		if i < 0 {
			f.unknown = true
			continue
		}
		f.amenities |= 1 << i
	}
	for _, n := range q.Filters.Neighbourhoods {
		f.hoods = append(f.hoods, foldKey(n))
	}
	if q.Geo.Mode == "city" {
		f.region = foldKey(q.Geo.Region)
	}
	if r := q.Filters.PriceRange; r != nil {
		f.minMinor, f.maxMinor = r.Min*100, math.Inf(1)
		if r.Max != nil {
			f.maxMinor = *r.Max * 100
		}
	}
	f.priced = q.Filters.PriceRange != nil || strings.HasPrefix(q.SortKey, "price-")
	if c := q.Geo.Point; c != nil && q.Geo.Mode == "point" {
		dLat := c.RadiusKm/kmPerDegree + 1e-6
		dLng := 180.0
		if edge := math.Abs(c.Lat) + dLat; edge < 89 {
			dLng = math.Min(180, dLat/math.Cos(edge*math.Pi/180))
		}
		f.box = BoundingBox{SwLat: c.Lat - dLat, NeLat: c.Lat + dLat, SwLng: -180, NeLng: 180}
		if dLng < 180 {
			f.box.SwLng, f.box.NeLng = wrap(c.Lng-dLng), wrap(c.Lng+dLng)
		}
	}
	return f
}

func wrap(lng float64) float64 {
	switch {
	case lng < -180:
		return lng + 360
	case lng > 180:
		return lng - 360
	}
	return lng
}

func (b BoundingBox) holds(p Point) bool {
	if p.Lat < b.SwLat || p.Lat > b.NeLat {
		return false
	}
	if b.SwLng <= b.NeLng {
		return p.Lng >= b.SwLng && p.Lng <= b.NeLng
	}
	return p.Lng >= b.SwLng || p.Lng <= b.NeLng
}

// match tests the cheap conditions first.
func (f *filter) match(p *property) (hit, bool) {
	h := hit{property: p, km: -1}
	q := f.q
	if f.unknown || p.amenities&f.amenities != f.amenities || f.country != "" && p.country.code != f.country {
		return h, false
	}
	switch q.Geo.Mode {
	case "bounding-box":
		if !q.Geo.BoundingBox.holds(p.geo) {
			return h, false
		}
	case "point":
		if !f.box.holds(p.geo) {
			return h, false
		}
		c := q.Geo.Point
		if h.km = distanceKm(Point{c.Lat, c.Lng}, p.geo); h.km > c.RadiusKm {
			return h, false
		}
	}
	if f.region != "" && !slices.Contains(p.regionKeys, f.region) {
		return h, false
	}
	if len(q.Filters.StarRating) > 0 && !slices.Contains(q.Filters.StarRating, p.stars) {
		return h, false
	}
	if m := q.Filters.GuestRatingMin; m > 0 && float64(p.ratingTenths) < m*10-1e-9 {
		return h, false
	}
	if len(q.Filters.PropertyType) > 0 && !slices.Contains(q.Filters.PropertyType, f.types[p.kind].code) {
		return h, false
	}
	switch q.Filters.CancellationFlexibility {
	case "free":
		if p.cancellation > 0 {
			return h, false
		}
	case "partial":
		if p.cancellation > 1 {
			return h, false
		}
	}
	if len(f.hoods) > 0 && !slices.ContainsFunc(p.hoodKeys, func(k string) bool { return slices.Contains(f.hoods, k) }) {
		return h, false
	}
	if slices.Contains(f.hidden, p.tenant) || !p.sells(q.Dates, q.Occupancy) {
		return h, false
	}
	if f.priced {
		h.cents = p.cheapestCents(q.Dates, q.Occupancy)
		if r := q.Filters.PriceRange; r != nil {
			if minor := float64(convert(h.cents, bff.Currency(r.Currency)).Minor); minor < f.minMinor || minor > f.maxMinor {
				return h, false
			}
		}
	}
	return h, true
}

func window[T any](all []T, page Page) []T {
	limit := cmp.Or(page.Limit, defaultPage)
	from := min(page.Offset, len(all))
	return all[from:min(from+limit, len(all))]
}

func (s *Sim) searchRoutes() {
	const up = "search-aggregation"
	s.handle(up, "POST /api/v1/search/listings", s.listings)
	s.handle(up, "POST /api/v1/search/map", s.pins)
	s.handle(up, "GET /api/v1/properties/{propertyId}", s.resolve)
	s.handle(up, "GET /api/v1/properties/{propertyId}/similar", s.similar)
	s.handle(up, "GET /api/v1/properties/{propertyId}/availability", s.availability)
	s.handle(up, "GET /api/v1/facets", s.facets)
	s.handle(up, "GET /api/v1/suggest", s.suggest)
}

func (s *Sim) query(c *call) (*Query, error) {
	var q Query
	if err := c.decode(&q); err != nil {
		return nil, err
	}
	return &q, refused(q.validate())
}

func (s *Sim) listings(c *call) (any, error) {
	q, err := s.query(c)
	if err != nil {
		return nil, err
	}
	hits := s.find(q, c.now)
	page := window(hits, q.Page)
	b := make([]byte, 0, 256+len(page)*1500)
	b = append(b, `{"items":`...)
	b = append(b, '[')
	for i, h := range page {
		if i > 0 {
			b = append(b, ',')
		}
		b = s.appendListing(b, h.property, c.base, h.km)
	}
	b = append(b, `],"total":`...)
	b = strconv.AppendInt(b, int64(len(hits)), 10)
	if q.SortKey == "" || q.SortKey == "recommended" {
		b = append(b, `,"aiProvenance":{"feature":"ranking","model":"listing-ranker","modelVersion":"2026-02","confidence":0.82}`...)
	}
	if q.Geo.Mode == "city" && len(hits) == 0 {
		if hint := s.didYouMean(q.Geo.City); hint != "" {
			b = append(b, `,"queryRewriteHint":`...)
			object, err := json.Marshal(map[string]string{"didYouMean": hint})
			if err != nil {
				return nil, err
			}
			b = append(b, object...)
		}
	}
	return raw(append(b, '}')), nil
}

// Pin is a house on the map.
type Pin struct {
	PropertyID string `json:"propertyId"`
	TenantID   string `json:"tenantId"`
	Geo        Point  `json:"geo"`
	BrandColor string `json:"brandColor,omitempty"`
}

func (s *Sim) pins(c *call) (any, error) {
	q, err := s.query(c)
	if err != nil {
		return nil, err
	}
	q.SortKey = "" // a map has no order of its own
	hits := s.find(q, c.now)
	out := struct {
		Pins  []Pin `json:"pins"`
		Total int   `json:"total"`
	}{Pins: []Pin{}, Total: len(hits)}
	for _, h := range window(hits, q.Page) {
		out.Pins = append(out.Pins, Pin{h.id, h.tenant.id, h.geo, s.themeOf(h.tenant).color})
	}
	return out, nil
}

// property finds the house that the path names.
func (s *Sim) property(c *call) (*property, error) {
	id, err := bff.ParseID(bff.PrefixProperty, c.PathValue("propertyId"))
	if err != nil {
		return nil, refused(bff.FieldErrors{{Field: "propertyId", Code: bff.FieldFormat}})
	}
	p := s.data.propertyByID[id.String()]
	if p == nil {
		return nil, notFound("property")
	}
	return p, nil
}

func (s *Sim) resolve(c *call) (any, error) {
	p, err := s.property(c)
	if err != nil {
		return nil, err
	}
	type popularity struct {
		BookedLast24h int `json:"bookedLast24h"`
		ViewedLast1h  int `json:"viewedLast1h"`
	}
	booked, viewed := p.popularity(c.now)
	return struct {
		PropertyID    string          `json:"propertyId"`
		TenantID      string          `json:"tenantId"`
		TenantSlug    string          `json:"tenantSlug"`
		Listing       json.RawMessage `json:"listing"`
		Popularity    popularity      `json:"popularity"`
		ReviewSummary *GuestRating    `json:"reviewSummary,omitempty"`
	}{p.id, p.tenant.id, p.tenant.slug, s.appendListing(nil, p, c.base, -1), popularity{booked, viewed}, s.rating(p)}, nil
}

// similar returns the houses nearest in price in the same city, own chain last.
func (s *Sim) similar(c *call) (any, error) {
	p, err := s.property(c)
	if err != nil {
		return nil, err
	}
	var bad bff.FieldErrors
	limit := c.number(&bad, "limit", 4, 1, 20)
	if err := refused(bad); err != nil {
		return nil, err
	}
	hidden := s.hidden(c.now)
	others := slices.DeleteFunc(slices.Clone(s.data.byCity[foldKey(p.city.names.En)]), func(o *property) bool {
		return o == p || o.city != p.city || slices.Contains(hidden, o.tenant)
	})
	unlike := func(o *property) int64 {
		d := o.baseCents - p.baseCents
		d = max(d, -d)
		if o.kind != p.kind {
			d += 1500
		}
		if o.tenant == p.tenant {
			d += 4000
		}
		return d
	}
	slices.SortFunc(others, func(a, b *property) int {
		return cmp.Or(cmp.Compare(unlike(a), unlike(b)), cmp.Compare(a.id, b.id))
	})
	b := []byte(`{"items":[`)
	for i, o := range others[:min(limit, len(others))] {
		if i > 0 {
			b = append(b, ',')
		}
		b = s.appendListing(b, o, c.base, -1)
	}
	return raw(append(b, `]}`...)), nil
}

const maxAvailabilityDays = 400

func (s *Sim) availability(c *call) (any, error) {
	p, err := s.property(c)
	if err != nil {
		return nil, err
	}
	var bad bff.FieldErrors
	from, to := c.date(&bad, "from"), c.date(&bad, "to")
	if len(bad) == 0 {
		bad.Check(to > from, "to", bff.FieldOrder)
		bad.Check(to-from <= maxAvailabilityDays, "to", bff.FieldRange)
	}
	party := bff.Occupancy{
		Adults:   c.number(&bad, "adults", 2, 1, bff.MaxAdults),
		Children: c.number(&bad, "children", 0, 0, bff.MaxChildren),
		Rooms:    c.number(&bad, "rooms", 1, 1, bff.MaxRooms),
	}
	if ages := c.URL.Query().Get("childrenAges"); ages != "" {
		for a := range strings.SplitSeq(ages, ",") {
			n, err := strconv.Atoi(a)
			bad.Check(err == nil, "childrenAges", bff.FieldFormat)
			party.ChildrenAges = append(party.ChildrenAges, n)
		}
		bad = append(bad, party.Validate()...)
	}
	currency, _ := p.quoteCurrency(currencyOf(&bad, "currency", c.URL.Query().Get("currency")))
	if err := refused(bad); err != nil {
		return nil, err
	}
	type day struct {
		Date            bff.Date `json:"date"`
		Available       bool     `json:"available"`
		RoomsLeft       int      `json:"roomsLeft,omitempty"`
		CheapestNightly string   `json:"cheapestNightly,omitempty"`
	}
	days := make([]day, 0, to-from)
	for d := from; d < to; d++ {
		left := p.roomsLeft(d)
		one := day{Date: d, Available: left >= party.Rooms && p.fits(party), RoomsLeft: left}
		if one.Available {
			one.CheapestNightly = micros(convert(p.nightCents(d, party), currency))
		}
		days = append(days, one)
	}
	return struct {
		PropertyID string `json:"propertyId"`
		Days       []day  `json:"days"`
	}{p.id, days}, nil
}
