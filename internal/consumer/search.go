package consumer

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
)

// SortKey orders a list of hotels.
type SortKey string

// The five orders.
const (
	SortRecommended SortKey = "recommended"
	SortPriceAsc    SortKey = "price-asc"
	SortPriceDesc   SortKey = "price-desc"
	SortRatingDesc  SortKey = "rating-desc"
	SortDistanceAsc SortKey = "distance-asc"
)

// GeoMode says which member of a GeoQuery holds.
type GeoMode string

// The four ways to say where.
const (
	GeoPoint       GeoMode = "point"
	GeoBoundingBox GeoMode = "bounding-box"
	GeoCity        GeoMode = "city"
	GeoRegion      GeoMode = "region"
)

// Point is a circle on the map.
type Point struct {
	Lat      float64 `json:"lat"`
	Lng      float64 `json:"lng"`
	RadiusKm float64 `json:"radiusKm"`
}

// BoundingBox is a rectangle on the map; west may be greater than east across
// the antimeridian.
type BoundingBox struct {
	SwLat float64 `json:"swLat"`
	SwLng float64 `json:"swLng"`
	NeLat float64 `json:"neLat"`
	NeLng float64 `json:"neLng"`
}

// GeoQuery says where, in exactly one way.
type GeoQuery struct {
	Mode        GeoMode      `json:"mode"`
	Point       *Point       `json:"point,omitempty"`
	BoundingBox *BoundingBox `json:"boundingBox,omitempty"`
	City        string       `json:"city,omitempty"`
	Region      string       `json:"region,omitempty"`
	Country     string       `json:"country,omitempty"` // narrows a city or region; ISO 3166 alpha-2
}

// Coarse is where in general: without names, and with coordinates rounded to about ten
// kilometres.
func (g GeoQuery) Coarse() GeoQuery {
	out := GeoQuery{Mode: g.Mode}
	if p := g.Point; p != nil {
		out.Point = &Point{Lat: round(p.Lat, 1), Lng: round(p.Lng, 1), RadiusKm: p.RadiusKm}
	}
	if b := g.BoundingBox; b != nil {
		out.BoundingBox = &BoundingBox{
			SwLat: floor(b.SwLat, 1), SwLng: floor(b.SwLng, 1), NeLat: ceil(b.NeLat, 1), NeLng: ceil(b.NeLng, 1),
		}
	}
	return out
}

// PriceRange bounds the nightly price in whole units of a currency.
type PriceRange struct {
	Min      float64      `json:"min"`
	Max      float64      `json:"max"`
	Currency bff.Currency `json:"currency"`
}

// Filters narrow a search. They are part of the query's JSON form (SearchQuery):
// a new one is added with omitempty, so that queries without it keep their names.
// It also needs readFilters in consumerhttp, filterKeys (telemetry), a member in
// OpenAPI, the simulator's Filters and docs/upstreams.md; TestFilters in
// consumerhttp fails where one is missing.
type Filters struct {
	PriceRange              *PriceRange `json:"priceRange,omitempty"`
	Amenities               []string    `json:"amenities,omitempty"`
	StarRating              []int       `json:"starRating,omitempty"`
	GuestRatingMin          float64     `json:"guestRatingMin,omitempty"`
	PropertyType            []string    `json:"propertyType,omitempty"`
	CancellationFlexibility string      `json:"cancellationFlexibility,omitempty"`
	Neighbourhoods          []string    `json:"neighbourhoods,omitempty"`
}

// Page is a window on a list.
type Page struct {
	Limit  int `json:"limit"`
	Offset int `json:"offset"`
}

// SearchQuery is what a guest looks for. Its JSON form has three uses:
//
//   - the names of the query and of its answers (Hash, CacheKey, ListKey): any
//     change of the form voids all cached answers and live search sessions at
//     the next deployment;
//   - the request to search-aggregation (consumerupstream), a contract with that
//     service;
//   - the query of a stored search session, which is written for support and
//     never read back.
//
// TestFormsOfAQuery here and TestQueryOnTheWire in consumerupstream hold it.
type SearchQuery struct {
	Geo       GeoQuery      `json:"geo"`
	Dates     bff.StayDates `json:"dates"`
	Occupancy bff.Occupancy `json:"occupancy"`
	Filters   Filters       `json:"filters"`
	Sort      SortKey       `json:"sortKey"`
	Page      Page          `json:"page"`
	Locale    bff.Locale    `json:"locale"`
	Currency  bff.Currency  `json:"currency"`
}

// Bounds of a query: each keeps a hostile one from costing more than a guest's.
const (
	MaxPageLimit     = 50
	DefaultPageLimit = 20
	MaxPageOffset    = 5000
	MaxRadiusKm      = 200
	MaxFilterValues  = 30
	MaxPlaceRunes    = 100
)

// Normalise returns the query in the one form that all equivalent spellings
// share, so that jittered coordinates, shuffled filters and other spellings of
// a city's name cannot defeat the cache.
func (q SearchQuery) Normalise() SearchQuery {
	if p := q.Geo.Point; p != nil {
		q.Geo.Point = &Point{Lat: round(p.Lat, 3), Lng: round(p.Lng, 3), RadiusKm: math.Ceil(p.RadiusKm)}
	}
	if b := q.Geo.BoundingBox; b != nil {
		q.Geo.BoundingBox = &BoundingBox{
			SwLat: floor(b.SwLat, 2), SwLng: floor(b.SwLng, 2), NeLat: ceil(b.NeLat, 2), NeLng: ceil(b.NeLng, 2),
		}
	}
	q.Geo.City = bff.FoldPlace(q.Geo.City)
	q.Geo.Region = bff.FoldPlace(q.Geo.Region)
	q.Geo.Country = strings.ToUpper(q.Geo.Country)
	q.Filters.Amenities = foldSet(q.Filters.Amenities, foldCode)
	q.Filters.PropertyType = foldSet(q.Filters.PropertyType, foldCode)
	q.Filters.Neighbourhoods = foldSet(q.Filters.Neighbourhoods, bff.FoldPlace)
	q.Filters.StarRating = slices.Compact(slices.Sorted(slices.Values(q.Filters.StarRating)))
	if q.Filters.CancellationFlexibility == "any" {
		q.Filters.CancellationFlexibility = ""
	}
	if q.Sort == "" {
		q.Sort = SortRecommended
	}
	if q.Page.Limit == 0 {
		q.Page.Limit = DefaultPageLimit
	}
	q.Occupancy.ChildrenAges = slices.Sorted(slices.Values(q.Occupancy.ChildrenAges))
	return q
}

// Hash names what is looked for, apart from how the answer is sorted, paged
// and presented. The query must be normalised.
func (q SearchQuery) Hash() Hash {
	return hashJSON(struct {
		Geo       GeoQuery
		Dates     bff.StayDates
		Occupancy bff.Occupancy
		Filters   Filters
	}{q.Geo, q.Dates, q.Occupancy, q.Filters})
}

// CacheKey names the answer: what is looked for and how it is sorted, paged
// and presented. The query must be normalised.
func (q SearchQuery) CacheKey() Hash { return hashJSON(q) }

func hashJSON(v any) Hash { return sha256.Sum256([]byte(encode(v))) }

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil { // plain fields always encode
		panic(err)
	}
	return string(b)
}

func round(f float64, digits int) float64 { p := math.Pow10(digits); return math.Round(f*p) / p }

// epsilon absorbs binary rounding: without it 8.13, which is 813.0000000000001
// hundredths, would be rounded up to 8.14, and that once more.
const epsilon = 1e-6

func floor(f float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Floor(f*p+epsilon) / p
}

func ceil(f float64, digits int) float64 { p := math.Pow10(digits); return math.Ceil(f*p-epsilon) / p }

// foldCode brings a code such as halal-kitchen to its kebab-case form.
func foldCode(s string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimSpace(s)), "_", "-")
}

func foldSet(in []string, fold func(string) string) []string {
	out := make([]string, 0, len(in))
	for _, s := range in {
		if s = fold(s); s != "" {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Asked is a query in its normal form, with the names and encodings that follow
// from it: a search that many guests make is worked out once.
type Asked struct {
	SearchQuery
	// Said is where, with the names of places as the guest wrote them: those in
	// Geo are folded, for machines.
	Said GeoQuery
	// Answer names the answer, List the list that it is a page of, and What what
	// is looked for.
	Answer, List, What Hash
	// Encoded is the query as its session keeps it, and ListText the name of the
	// list.
	Encoded, ListText string
	// Same is what two history entries of one search have in common.
	Same string

	// Remembered is the part of a history entry that all guests share.
	Remembered string
}

// Ask normalises a query whose language and currency are known.
func (q SearchQuery) Ask() *Asked {
	city, region := tidy(q.Geo.City), tidy(q.Geo.Region)
	q = q.Normalise()
	encoded := encode(q)
	said := q.Geo
	said.City, said.Region = city, region
	a := &Asked{SearchQuery: q, Said: said, Answer: sha256.Sum256([]byte(encoded)), List: q.ListKey(), What: q.Hash(), Encoded: encoded}
	a.ListText, a.Remembered, a.Same = a.List.String(), a.remember(), `"queryHash":"`+a.What.String()+`"`
	return a
}

// tidy returns a name as it was written, without blanks that show nothing.
func tidy(name string) string { return strings.Join(strings.Fields(name), " ") }

// SearchSession is one guest's query with its context. While it lives, paging
// is stable: the order of the hotels is pinned to what the guest saw first.
type SearchSession struct {
	ID        bff.ID
	Guest     bff.ID
	Query     *Asked
	StartedAt time.Time
	// LastAt is when the guest last asked for a page of it, and ResultCount how
	// many hotels there were.
	LastAt      time.Time
	ResultCount int
	// Orders are the orders that the guest saw.
	Orders Orders
}

// Orders name the orders of a list, one for each window that was seen: hardly ever
// more than one.
type Orders []Order

// Order names the order of one window.
type Order struct {
	Window int
	Name   Hash
}

// Of returns the order of a window.
func (o Orders) Of(window int) (name Hash, ok bool) {
	for i := range o {
		if o[i].Window == window {
			return o[i].Name, true
		}
	}
	return Hash{}, false
}

// SearchSessionLifetime is how long paging stays stable.
const SearchSessionLifetime = time.Hour

// Window is how many hotels are ordered at once: the projection's own limit.
// Pages are cut from windows, so that page 2 continues page 1.
const Window = 200

// WindowOf is the window that an offset falls into.
func WindowOf(offset int) int { return offset / Window }

// ListKey names the list that a query pages through.
func (q SearchQuery) ListKey() Hash {
	q.Page = Page{}
	return hashJSON(q)
}

// Searches finds search sessions, and keeps the orders that they are pinned to.
type Searches interface {
	// FindSearch returns a guest's live session for a query, and whether there is
	// one. Another guest's is not there, nor is one for another query.
	FindSearch(ctx context.Context, id, guest bff.ID, q *Asked) (SearchSession, bool, error)
	// SaveOrder keeps the hotels of a window in their order, under its name.
	SaveOrder(ctx context.Context, name Hash, hotels []bff.ID) error
	// FindOrder returns an order that is still kept.
	FindOrder(ctx context.Context, name Hash) ([]bff.ID, bool, error)
}

// remember encodes what a history entry says of the query.
func (a *Asked) remember() string {
	inner := encode(struct {
		QueryHash Hash          `json:"queryHash"`
		Geo       GeoQuery      `json:"geo"`
		Dates     bff.StayDates `json:"dates"`
		Occupancy bff.Occupancy `json:"occupancy"`
	}{a.What, a.Said, a.Dates, a.Occupancy})
	return inner[1 : len(inner)-1]
}
