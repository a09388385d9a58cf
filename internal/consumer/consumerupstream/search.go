package consumerupstream

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// Search is search-aggregation, the one legitimate cross-tenant read.
type Search struct{ client *upstream.Client }

type listing struct {
	PropertyID   bff.ID                `json:"propertyId" upstream:"required"`
	TenantID     bff.ID                `json:"tenantId" upstream:"required"`
	TenantSlug   string                `json:"tenantSlug" upstream:"required"`
	Name         text                  `json:"name"`
	City         string                `json:"city"`
	Region       string                `json:"region"`
	Country      string                `json:"country"`
	PropertyType string                `json:"propertyType"`
	Geo          consumer.LatLng       `json:"geo"`
	GeoCell      string                `json:"geoCell"`
	Thumbnail    picture               `json:"thumbnail"`
	StarRating   *float64              `json:"starRating"`
	GuestRating  *consumer.GuestRating `json:"guestRating"`
	Amenities    []string              `json:"amenities"`
	Sharia       bool                  `json:"shariaCompliant"`
	ListedAt     time.Time             `json:"listedAt"`
	DistanceKm   *float64              `json:"distanceKm"`
}

type picture struct {
	URL string `json:"url"`
	Alt text   `json:"alt"`
}

func (l listing) domain(locale bff.Locale) consumer.Listing {
	return consumer.Listing{
		PropertyID: l.PropertyID, TenantID: l.TenantID, TenantSlug: l.TenantSlug, Name: l.Name.localized(),
		City: l.City, Region: l.Region, Country: l.Country, PropertyType: l.PropertyType, Geo: l.Geo, GeoCell: l.GeoCell,
		Thumbnail:  consumer.Image{URL: l.Thumbnail.URL, Alt: l.Thumbnail.Alt.in(locale)},
		StarRating: l.StarRating, GuestRating: l.GuestRating, Amenities: kebabs(l.Amenities), Sharia: l.Sharia,
		ListedAt: l.ListedAt, DistanceKm: l.DistanceKm,
	}
}

// query writes a query in the projection's words.
func query(q consumer.SearchQuery) consumer.SearchQuery {
	amenities := make([]string, len(q.Filters.Amenities))
	for i, a := range q.Filters.Amenities {
		amenities[i] = snake(a)
	}
	q.Filters.Amenities = amenities
	return q
}

// nameable reports whether a hotel has ids that the domain can use: one that
// cannot be named cannot be shown.
func nameable(property, tenant bff.ID) bool {
	return property.Prefix() == bff.PrefixProperty && tenant.Prefix() == bff.PrefixTenant
}

func listings(in []listing, locale bff.Locale) []consumer.Listing {
	out := make([]consumer.Listing, 0, len(in))
	for _, l := range in {
		if nameable(l.PropertyID, l.TenantID) {
			out = append(out, l.domain(locale))
		}
	}
	return out
}

// Search returns a page of listings.
func (s *Search) Search(ctx context.Context, q consumer.SearchQuery) (consumer.Listings, error) {
	var out struct {
		Items            []listing       `json:"items" upstream:"required"`
		Total            int             `json:"total"`
		AIProvenance     json.RawMessage `json:"aiProvenance"`
		QueryRewriteHint json.RawMessage `json:"queryRewriteHint"`
	}
	const route = "/api/v1/search/listings"
	if err := s.client.Post(ctx, route, route, query(q), &out, upstream.Idempotent()); err != nil {
		return consumer.Listings{}, failed(err)
	}
	return consumer.Listings{
		Items: listings(out.Items, q.Locale), Total: out.Total,
		AIProvenance: out.AIProvenance, QueryRewriteHint: out.QueryRewriteHint,
	}, nil
}

// FindProperty resolves a property to its listing.
func (s *Search) FindProperty(ctx context.Context, id bff.ID) (consumer.Projected, error) {
	var out struct {
		Listing    listing              `json:"listing"`
		Popularity *consumer.Popularity `json:"popularity"`
	}
	const route = "/api/v1/properties/{propertyId}"
	if err := s.client.Get(ctx, route, upstream.Path(route, id.String()), nil, &out); err != nil {
		return consumer.Projected{}, failed(err)
	}
	return consumer.Projected{Listing: out.Listing.domain(bff.DefaultLocale), Popularity: out.Popularity}, nil
}

// Similar returns hotels like the given one.
func (s *Search) Similar(ctx context.Context, id bff.ID, limit int, locale bff.Locale) ([]consumer.Listing, error) {
	var out struct {
		Items []listing `json:"items"`
	}
	const route = "/api/v1/properties/{propertyId}/similar"
	q := url.Values{"limit": {strconv.Itoa(limit)}, "locale": {string(locale)}}
	if err := s.client.Get(ctx, route, upstream.Path(route, id.String()), q, &out); err != nil {
		return nil, failed(err)
	}
	return listings(out.Items, locale), nil
}

// Pins returns a page of the map.
func (s *Search) Pins(ctx context.Context, q consumer.SearchQuery) (consumer.Pins, error) {
	var out struct {
		Pins []struct {
			PropertyID bff.ID          `json:"propertyId" upstream:"required"`
			TenantID   bff.ID          `json:"tenantId" upstream:"required"`
			Geo        consumer.LatLng `json:"geo"`
		} `json:"pins" upstream:"required"`
		Total int `json:"total"`
	}
	const route = "/api/v1/search/map"
	if err := s.client.Post(ctx, route, route, query(q), &out, upstream.Idempotent()); err != nil {
		return consumer.Pins{}, failed(err)
	}
	pins := consumer.Pins{Items: make([]consumer.MapPin, 0, len(out.Pins)), Total: out.Total}
	for _, p := range out.Pins {
		if nameable(p.PropertyID, p.TenantID) {
			pins.Items = append(pins.Items, consumer.MapPin{PropertyID: p.PropertyID, TenantID: p.TenantID, Geo: p.Geo})
		}
	}
	return pins, nil
}

// Availability returns a hotel's calendar.
func (s *Search) Availability(ctx context.Context, req consumer.AvailabilityRequest) (consumer.Availability, error) {
	q := url.Values{
		"from": {req.From.String()}, "to": {req.To.String()}, "currency": {string(req.Currency)},
		"adults": {strconv.Itoa(req.Occupancy.Adults)}, "children": {strconv.Itoa(req.Occupancy.Children)},
		"rooms": {strconv.Itoa(req.Occupancy.Rooms)},
	}
	if len(req.Occupancy.ChildrenAges) > 0 {
		ages := make([]string, len(req.Occupancy.ChildrenAges))
		for i, a := range req.Occupancy.ChildrenAges {
			ages[i] = strconv.Itoa(a)
		}
		q.Set("childrenAges", strings.Join(ages, ","))
	}
	var out struct {
		Days []struct {
			Date      bff.Date `json:"date"`
			Available bool     `json:"available"`
			RoomsLeft *int     `json:"roomsLeft"`
			Cheapest  string   `json:"cheapestNightly"`
		} `json:"days" upstream:"required"`
	}
	const route = "/api/v1/properties/{propertyId}/availability"
	if err := s.client.Get(ctx, route, upstream.Path(route, req.PropertyID.String()), q, &out); err != nil {
		return consumer.Availability{}, failed(err)
	}
	a := consumer.Availability{PropertyID: req.PropertyID, Days: make([]consumer.AvailabilityDay, 0, len(out.Days))}
	for _, d := range out.Days {
		day := consumer.AvailabilityDay{Date: d.Date, Available: d.Available, RoomsLeft: d.RoomsLeft}
		if d.Cheapest != "" {
			m, err := bff.ParseMicros(d.Cheapest)
			if err != nil {
				s.client.Drift(route, "days.cheapestNightly")
			} else {
				minor := m.MinorString()
				day.CheapestNightlyMinor, day.Currency = &minor, m.Currency
			}
		}
		a.Days = append(a.Days, day)
	}
	return a, nil
}

// Facets returns what a region can be filtered by.
func (s *Search) Facets(ctx context.Context, country, region string, locale bff.Locale) (consumer.FacetCatalog, error) {
	var out struct {
		Country string `json:"country"`
		Region  string `json:"region"`
		Facets  []struct {
			Key    string `json:"key"`
			Label  text   `json:"label"`
			Values []struct {
				Value string `json:"value"`
				Label text   `json:"label"`
				Count int    `json:"count"`
			} `json:"values"`
		} `json:"facets" upstream:"required"`
	}
	q := url.Values{"country": {country}, "locale": {string(locale)}}
	if region != "" {
		q.Set("region", region)
	}
	const route = "/api/v1/facets"
	if err := s.client.Get(ctx, route, route, q, &out); err != nil {
		return consumer.FacetCatalog{}, failed(err)
	}
	c := consumer.FacetCatalog{Country: out.Country, Region: out.Region, Facets: make([]consumer.Facet, 0, len(out.Facets))}
	for _, f := range out.Facets {
		facet := consumer.Facet{Key: f.Key, Label: f.Label.in(locale), Values: make([]consumer.FacetValue, 0, len(f.Values))}
		for _, v := range f.Values {
			facet.Values = append(facet.Values, consumer.FacetValue{Value: kebab(v.Value), Label: v.Label.in(locale), Count: v.Count})
		}
		c.Facets = append(c.Facets, facet)
	}
	return c, nil
}

// Suggest completes what a guest typed.
func (s *Search) Suggest(ctx context.Context, typed string, limit int, locale bff.Locale) (consumer.Suggestions, error) {
	var out struct {
		Suggestions []struct {
			Kind       string          `json:"kind"`
			Label      text            `json:"label"`
			City       string          `json:"city"`
			Region     string          `json:"region"`
			Country    string          `json:"country"`
			Geo        consumer.LatLng `json:"geo"`
			PropertyID bff.ID          `json:"propertyId"`
		} `json:"suggestions" upstream:"required"`
	}
	const route = "/api/v1/suggest"
	q := url.Values{"q": {typed}, "limit": {strconv.Itoa(limit)}, "locale": {string(locale)}}
	if err := s.client.Get(ctx, route, route, q, &out); err != nil {
		return consumer.Suggestions{}, failed(err)
	}
	res := consumer.Suggestions{Suggestions: make([]consumer.Suggestion, 0, len(out.Suggestions))}
	for _, g := range out.Suggestions {
		res.Suggestions = append(res.Suggestions, consumer.Suggestion{
			Kind: g.Kind, Label: g.Label.in(locale), City: g.City, Region: g.Region, Country: g.Country, Geo: g.Geo, PropertyID: g.PropertyID,
		})
	}
	return res, nil
}
