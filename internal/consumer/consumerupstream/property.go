package consumerupstream

import (
	"context"
	"encoding/json"
	"net/url"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// Property is property-service: rooms, amenities, photos and policies.
type Property struct{ client *upstream.Client }

type property struct {
	PropertyID   bff.ID           `json:"propertyId" upstream:"required"`
	TenantID     bff.ID           `json:"tenantId" upstream:"required"`
	Name         text             `json:"name"`
	Description  *text            `json:"description"`
	StarRating   *float64         `json:"starRating"`
	PropertyType string           `json:"propertyType"`
	Address      consumer.Address `json:"address"`
	Geo          consumer.LatLng  `json:"geo"`
	Rooms        []struct {
		RoomTypeID   string                `json:"roomTypeId"`
		Name         text                  `json:"name"`
		MaxOccupancy consumer.RoomCapacity `json:"maxOccupancy"`
		Beds         []consumer.Bed        `json:"beds"`
		SizeSqm      *float64              `json:"sizeSqm"`
		Amenities    []string              `json:"amenities"`
		PhotoURLs    []string              `json:"photoUrls"`
	} `json:"rooms" upstream:"required"`
	Amenities []struct {
		Code     string `json:"code"`
		Label    text   `json:"label"`
		Category string `json:"category"`
	} `json:"amenities"`
	Photos []struct {
		picture
		IsHero bool `json:"isHero"`
	} `json:"photos"`
	Policies struct {
		Cancellation text   `json:"cancellation"`
		CheckIn      string `json:"checkIn"`
		CheckOut     string `json:"checkOut"`
	} `json:"policies"`
	Sharia                bool            `json:"shariaCompliant"`
	TranslationProvenance json.RawMessage `json:"translationProvenance"`
}

// Describe returns a hotel in one locale.
func (p *Property) Describe(ctx context.Context, id bff.ID, locale bff.Locale) (consumer.Property, error) {
	var in property
	const route = "/api/v1/properties/{propertyId}"
	if err := p.client.Get(ctx, route, upstream.Path(route, id.String()), url.Values{"locale": {string(locale)}}, &in); err != nil {
		return consumer.Property{}, failed(err)
	}
	out := consumer.Property{
		PropertyID: in.PropertyID, TenantID: in.TenantID, Name: in.Name.localized(), PropertyType: in.PropertyType,
		StarRating: in.StarRating, Address: in.Address, Geo: in.Geo, Sharia: in.Sharia,
		TranslationProvenance: in.TranslationProvenance,
		Rooms:                 make([]consumer.RoomTypeSummary, 0, len(in.Rooms)),
		Amenities:             make([]consumer.Amenity, 0, len(in.Amenities)),
		Photos:                make([]consumer.Photo, 0, len(in.Photos)),
		Policies: consumer.Policies{
			Cancellation: in.Policies.Cancellation.in(locale), CheckIn: in.Policies.CheckIn, CheckOut: in.Policies.CheckOut,
		},
	}
	if in.Description != nil {
		d := in.Description.localized()
		out.Description = &d
	}
	for _, r := range in.Rooms {
		out.Rooms = append(out.Rooms, consumer.RoomTypeSummary{
			RoomTypeID: r.RoomTypeID, Name: r.Name.localized(), MaxOccupancy: r.MaxOccupancy, SizeSqm: r.SizeSqm,
			Beds: append([]consumer.Bed{}, r.Beds...), Amenities: kebabs(r.Amenities), PhotoURLs: append([]string{}, r.PhotoURLs...),
		})
	}
	for _, a := range in.Amenities {
		out.Amenities = append(out.Amenities, consumer.Amenity{Code: kebab(a.Code), Label: a.Label.in(locale), Category: kebab(a.Category)})
	}
	for _, f := range in.Photos {
		out.Photos = append(out.Photos, consumer.Photo{URL: f.URL, Alt: f.Alt.in(locale), IsHero: f.IsHero})
	}
	return out, nil
}
