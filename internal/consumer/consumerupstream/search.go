package consumerupstream

import (
	"context"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// Search is search-aggregation, the one legitimate cross-tenant read.
type Search struct{ client *upstream.Client }

type listing struct {
	PropertyID    bff.ID                `json:"propertyId" upstream:"required"`
	TenantID      bff.ID                `json:"tenantId" upstream:"required"`
	TenantSlug    string                `json:"tenantSlug" upstream:"required"`
	Name          text                  `json:"name"`
	City          string                `json:"city"`
	Region        string                `json:"region"`
	Country       string                `json:"country"`
	Neighbourhood string                `json:"neighbourhood"`
	Geo           consumer.LatLng       `json:"geo"`
	GeoCell       string                `json:"geoCell"`
	Thumbnail     picture               `json:"thumbnail"`
	StarRating    *float64              `json:"starRating"`
	GuestRating   *consumer.GuestRating `json:"guestRating"`
	Amenities     []string              `json:"amenities"`
	Sharia        bool                  `json:"shariaCompliant"`
	ListedAt      time.Time             `json:"listedAt"`
	DistanceKm    *float64              `json:"distanceKm"`
}

type picture struct {
	URL string `json:"url"`
	Alt text   `json:"alt"`
}

func (l listing) domain(locale bff.Locale) consumer.Listing {
	amenities := make([]string, len(l.Amenities))
	for i, a := range l.Amenities {
		amenities[i] = kebab(a)
	}
	return consumer.Listing{
		PropertyID: l.PropertyID, TenantID: l.TenantID, TenantSlug: l.TenantSlug, Name: l.Name.localized(),
		City: l.City, Region: l.Region, Country: l.Country, Geo: l.Geo, GeoCell: l.GeoCell,
		Thumbnail:  consumer.Image{URL: l.Thumbnail.URL, Alt: l.Thumbnail.Alt.in(locale)},
		StarRating: l.StarRating, GuestRating: l.GuestRating, Amenities: amenities, Sharia: l.Sharia,
		ListedAt: l.ListedAt, DistanceKm: l.DistanceKm,
	}
}

// Search returns a page of listings.
func (s *Search) Search(ctx context.Context, q consumer.SearchQuery) (consumer.Listings, error) {
	amenities := make([]string, len(q.Filters.Amenities))
	for i, a := range q.Filters.Amenities {
		amenities[i] = snake(a)
	}
	q.Filters.Amenities = amenities
	var out struct {
		Items []listing `json:"items" upstream:"required"`
		Total int       `json:"total"`
	}
	const route = "/api/v1/search/listings"
	if err := s.client.Post(ctx, route, route, q, &out, upstream.Idempotent()); err != nil {
		return consumer.Listings{}, failed(err)
	}
	found := consumer.Listings{Items: make([]consumer.Listing, 0, len(out.Items)), Total: out.Total}
	for _, l := range out.Items {
		if l.PropertyID.Prefix() != bff.PrefixProperty || l.TenantID.Prefix() != bff.PrefixTenant {
			continue // a hotel that cannot be named cannot be shown
		}
		found.Items = append(found.Items, l.domain(q.Locale))
	}
	return found, nil
}

// FindProperty resolves a property to its listing.
func (s *Search) FindProperty(ctx context.Context, id bff.ID) (consumer.Listing, error) {
	var out struct {
		Listing listing `json:"listing"`
	}
	const route = "/api/v1/properties/{propertyId}"
	if err := s.client.Get(ctx, route, upstream.Path(route, id.String()), nil, &out); err != nil {
		return consumer.Listing{}, failed(err)
	}
	return out.Listing.domain(bff.DefaultLocale), nil
}
