package consumerupstream

import (
	"cmp"
	"context"
	"net/url"
	"strconv"
	"strings"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
	"melmastoon.ghasi.io/bff/internal/jsonscan"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// Search is search-aggregation, the one legitimate cross-tenant read.
type Search struct{ client *upstream.Client }

// query writes a query in the projection's words.
func query(q consumer.SearchQuery) consumer.SearchQuery {
	amenities := make([]string, len(q.Filters.Amenities))
	for i, a := range q.Filters.Amenities {
		amenities[i] = snake(a)
	}
	q.Filters.Amenities = amenities
	return q
}

// Search returns a page of listings.
func (s *Search) Search(ctx context.Context, q consumer.SearchQuery) (hotel.Listings, error) {
	var out hotel.Listings
	const route = "/api/v1/search/listings"
	err := s.client.Post(ctx, route, route, query(q), upstream.Reading(func(r *jsonscan.Reader) {
		for name := range r.Object() {
			switch name {
			case "items":
				out.Items = readListings(r, q.Locale)
			case "total":
				out.Total = r.Int()
			case "aiProvenance":
				out.AIProvenance = r.Raw()
			case "queryRewriteHint":
				out.QueryRewriteHint = r.Raw()
			}
		}
		if r.Require(out.Items != nil, "items"); out.Items == nil {
			out.Items = []hotel.Listing{}
		}
	}), upstream.Idempotent())
	if err != nil {
		return hotel.Listings{}, failed(err)
	}
	return out, nil
}

// FindProperty resolves a property to its listing.
func (s *Search) FindProperty(ctx context.Context, id bff.ID) (hotel.Projected, error) {
	var out hotel.Projected
	const route = "/api/v1/properties/{propertyId}"
	err := s.client.Get(ctx, route, upstream.Path(route, id.String()), nil, upstream.Reading(func(r *jsonscan.Reader) { out = readProjected(r) }))
	if err != nil {
		return hotel.Projected{}, failed(err)
	}
	return out, nil
}

// Similar returns hotels like the given one.
func (s *Search) Similar(ctx context.Context, id bff.ID, limit int, locale bff.Locale) ([]hotel.Listing, error) {
	var out []hotel.Listing
	const route = "/api/v1/properties/{propertyId}/similar"
	q := url.Values{"limit": {strconv.Itoa(limit)}, "locale": {string(locale)}}
	err := s.client.Get(ctx, route, upstream.Path(route, id.String()), q, upstream.Reading(func(r *jsonscan.Reader) {
		for name := range r.Object() {
			if name == "items" {
				out = readListings(r, locale)
			}
		}
	}))
	if err != nil {
		return nil, failed(err)
	}
	return out, nil
}

// Pins returns a page of the map.
func (s *Search) Pins(ctx context.Context, q consumer.SearchQuery) (discovery.Pins, error) {
	var out discovery.Pins
	const route = "/api/v1/search/map"
	err := s.client.Post(ctx, route, route, query(q), upstream.Reading(func(r *jsonscan.Reader) {
		for name := range r.Object() {
			switch name {
			case "pins":
				out.Items = readPins(r)
			case "total":
				out.Total = r.Int()
			}
		}
		if r.Require(out.Items != nil, "pins"); out.Items == nil {
			out.Items = []discovery.MapPin{}
		}
	}), upstream.Idempotent())
	if err != nil {
		return discovery.Pins{}, failed(err)
	}
	return out, nil
}

// Availability returns a hotel's calendar.
func (s *Search) Availability(ctx context.Context, req discovery.AvailabilityRequest) (discovery.Availability, error) {
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
	a := discovery.Availability{PropertyID: req.PropertyID, Degraded: discovery.Degradations{}}
	const route = "/api/v1/properties/{propertyId}/availability"
	err := s.client.Get(ctx, route, upstream.Path(route, req.PropertyID.String()), q, upstream.Reading(func(r *jsonscan.Reader) {
		for name := range r.Object() {
			if name == "days" {
				a.Days = readDays(r)
			}
		}
		if r.Require(a.Days != nil, "days"); a.Days == nil {
			a.Days = []discovery.AvailabilityDay{}
		}
	}))
	if err != nil {
		return discovery.Availability{}, failed(err)
	}
	return a, nil
}

// Facets returns what a region can be filtered by.
func (s *Search) Facets(ctx context.Context, country, region string, locale bff.Locale) (hotel.FacetCatalog, error) {
	q := url.Values{"country": {country}, "locale": {string(locale)}}
	if region != "" {
		q.Set("region", region)
	}
	var out hotel.FacetCatalog
	const route = "/api/v1/facets"
	err := s.client.Get(ctx, route, route, q, upstream.Reading(func(r *jsonscan.Reader) {
		for name := range r.Object() {
			switch name {
			case "country":
				out.Country = r.String()
			case "region":
				out.Region = r.String()
			case "regionNames":
				out.RegionLabel = readIn(r, locale)
			case "facets":
				out.Facets = readFacets(r, locale)
			}
		}
		out.RegionLabel = cmp.Or(out.RegionLabel, out.Region)
		if r.Require(out.Facets != nil, "facets"); out.Facets == nil {
			out.Facets = []hotel.Facet{}
		}
	}))
	if err != nil {
		return hotel.FacetCatalog{}, failed(err)
	}
	return out, nil
}

// Suggest completes what a guest typed.
func (s *Search) Suggest(ctx context.Context, typed string, limit int, locale bff.Locale) (hotel.Suggestions, error) {
	var out hotel.Suggestions
	const route = "/api/v1/suggest"
	q := url.Values{"q": {typed}, "limit": {strconv.Itoa(limit)}, "locale": {string(locale)}}
	err := s.client.Get(ctx, route, route, q, upstream.Reading(func(r *jsonscan.Reader) {
		for name := range r.Object() {
			if name == "suggestions" {
				out.Suggestions = readSuggestions(r, locale)
			}
		}
		if r.Require(out.Suggestions != nil, "suggestions"); out.Suggestions == nil {
			out.Suggestions = []hotel.Suggestion{}
		}
	}))
	if err != nil {
		return hotel.Suggestions{}, failed(err)
	}
	return out, nil
}
