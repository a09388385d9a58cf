package consumerupstream

import (
	"context"
	"net/url"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
	"melmastoon.ghasi.io/bff/internal/jsonscan"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// Property is property-service: rooms, amenities, photos and policies.
type Property struct{ client *upstream.Client }

// Describe returns a hotel in one locale.
func (p *Property) Describe(ctx context.Context, id bff.ID, locale bff.Locale) (hotel.Property, error) {
	var out hotel.Property
	const route = "/api/v1/properties/{propertyId}"
	err := p.client.Get(ctx, route, upstream.Path(route, id.String()), url.Values{"locale": {string(locale)}},
		upstream.Reading(func(r *jsonscan.Reader) { out = readProperty(r, locale) }))
	if err != nil {
		return hotel.Property{}, failed(err)
	}
	return out, nil
}

func readProperty(r *jsonscan.Reader, locale bff.Locale) hotel.Property {
	p := hotel.Property{Amenities: []hotel.Amenity{}, Photos: []hotel.Photo{}}
	for name := range r.Object() {
		switch name {
		case "propertyId":
			p.PropertyID = readID(r, bff.PrefixProperty)
		case "tenantId":
			p.TenantID = readID(r, bff.PrefixTenant)
		case "name":
			p.Name = readLocalized(r)
		case "description":
			if !r.Null() {
				d := readLocalized(r)
				p.Description = &d
			}
		case "starRating":
			p.StarRating = r.MaybeFloat()
		case "propertyType":
			p.PropertyType = r.String()
		case "address":
			p.Address = readAddress(r, locale)
		case "geo":
			p.Geo = readGeo(r)
		case "rooms":
			p.Rooms = readRooms(r)
		case "amenities":
			p.Amenities = readAmenities(r, locale)
		case "photos":
			p.Photos = readPhotos(r, locale)
		case "policies":
			p.Policies = readPolicies(r, locale)
		case "shariaCompliant":
			p.Sharia = r.Bool()
		case "translationProvenance":
			p.TranslationProvenance = r.Raw()
		}
	}
	r.Require(!p.PropertyID.IsZero(), "propertyId")
	r.Require(!p.TenantID.IsZero(), "tenantId")
	if r.Require(p.Rooms != nil, "rooms"); p.Rooms == nil {
		p.Rooms = []hotel.RoomTypeSummary{}
	}
	return p
}

func readAddress(r *jsonscan.Reader, locale bff.Locale) (a hotel.Address) {
	for name := range r.Object() {
		switch name {
		case "line":
			a.Line = r.String()
		case "city":
			a.City = r.String()
		case "cityNames":
			a.CityLabel = readIn(r, locale)
		case "region":
			a.Region = r.String()
		case "regionNames":
			a.RegionLabel = readIn(r, locale)
		case "country":
			a.Country = r.String()
		}
	}
	return a
}

// readRooms returns nil only where there is no list.
func readRooms(r *jsonscan.Reader) []hotel.RoomTypeSummary {
	if r.Null() {
		return nil
	}
	rooms := make([]hotel.RoomTypeSummary, 0, 4)
	for range r.Array() {
		rooms = append(rooms, readRoom(r))
	}
	return rooms
}

func readRoom(r *jsonscan.Reader) hotel.RoomTypeSummary {
	room := hotel.RoomTypeSummary{Beds: []hotel.Bed{}, Amenities: []string{}, PhotoURLs: []string{}}
	for name := range r.Object() {
		switch name {
		case "roomTypeId":
			room.RoomTypeID = r.String()
		case "name":
			room.Name = readLocalized(r)
		case "maxOccupancy":
			for name := range r.Object() {
				switch name {
				case "adults":
					room.MaxOccupancy.Adults = r.Int()
				case "children":
					room.MaxOccupancy.Children = r.Int()
				}
			}
		case "beds":
			for range r.Array() {
				room.Beds = append(room.Beds, readBed(r))
			}
		case "sizeSqm":
			room.SizeSqm = r.MaybeFloat()
		case "amenities":
			room.Amenities = readKebabs(r)
		case "photoUrls":
			if urls := r.Strings(); urls != nil {
				room.PhotoURLs = urls
			}
		}
	}
	return room
}

func readBed(r *jsonscan.Reader) (b hotel.Bed) {
	for name := range r.Object() {
		switch name {
		case "type":
			b.Type = r.String()
		case "count":
			b.Count = r.Int()
		}
	}
	return b
}

func readAmenities(r *jsonscan.Reader, locale bff.Locale) []hotel.Amenity {
	out := make([]hotel.Amenity, 0, 32)
	for range r.Array() {
		var a hotel.Amenity
		for name := range r.Object() {
			switch name {
			case "code":
				a.Code = r.String()
			case "label":
				a.Label = readIn(r, locale)
			case "category":
				a.Category = r.String()
			}
		}
		out = append(out, a)
	}
	kebabs(2*len(out), func(i int) *string {
		if i%2 == 0 {
			return &out[i/2].Code
		}
		return &out[i/2].Category
	})
	return out
}

func readPhotos(r *jsonscan.Reader, locale bff.Locale) []hotel.Photo {
	out := make([]hotel.Photo, 0, 8)
	for range r.Array() {
		var p hotel.Photo
		for name := range r.Object() {
			switch name {
			case "url":
				p.URL = r.String()
			case "alt":
				p.Alt = readIn(r, locale)
			case "isHero":
				p.IsHero = r.Bool()
			}
		}
		out = append(out, p)
	}
	return out
}

func readPolicies(r *jsonscan.Reader, locale bff.Locale) (p hotel.Policies) {
	for name := range r.Object() {
		switch name {
		case "cancellation":
			p.Cancellation = readIn(r, locale)
		case "checkIn":
			p.CheckIn = r.String()
		case "checkOut":
			p.CheckOut = r.String()
		}
	}
	return p
}
