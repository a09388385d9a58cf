package consumerupstream

import (
	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
	"melmastoon.ghasi.io/bff/internal/jsonscan"
)

// nameable reports whether a hotel has ids that the domain can use: one that
// cannot be named cannot be shown.
func nameable(property, tenant bff.ID) bool {
	return property.Prefix() == bff.PrefixProperty && tenant.Prefix() == bff.PrefixTenant
}

// readListings reads the items of an answer; nil only where there is no list.
func readListings(r *jsonscan.Reader, locale bff.Locale) []hotel.Listing {
	if r.Null() {
		return nil
	}
	out := make([]hotel.Listing, 0, 4)
	var unused hotel.ListingTexts
	for range r.Array() {
		l := readListing(r, locale, &unused)
		r.Require(!l.PropertyID.IsZero(), "items.propertyId")
		r.Require(!l.TenantID.IsZero(), "items.tenantId")
		r.Require(l.TenantSlug != "", "items.tenantSlug")
		if nameable(l.PropertyID, l.TenantID) {
			out = append(out, l)
		}
	}
	return out
}

// readListing reads a listing in one language or, without one, its texts in all.
func readListing(r *jsonscan.Reader, locale bff.Locale, texts *hotel.ListingTexts) hotel.Listing {
	l := hotel.Listing{Amenities: []string{}}
	for name := range r.Object() {
		switch name {
		case "propertyId":
			l.PropertyID = readID(r, bff.PrefixProperty)
		case "tenantId":
			l.TenantID = readID(r, bff.PrefixTenant)
		case "tenantSlug":
			l.TenantSlug = r.String()
		case "name":
			l.Name = readLocalized(r)
		case "city":
			l.City = r.String()
		case "cityNames":
			l.CityLabel = readLabel(r, locale, &texts.City)
		case "region":
			l.Region = r.String()
		case "regionNames":
			l.RegionLabel = readLabel(r, locale, &texts.Region)
		case "country":
			l.Country = r.String()
		case "propertyType":
			l.PropertyType = r.String()
		case "geo":
			l.Geo = readGeo(r)
		case "geoCell":
			l.GeoCell = r.String()
		case "thumbnail":
			for name := range r.Object() {
				switch name {
				case "url":
					l.Thumbnail.URL = r.String()
				case "alt":
					l.Thumbnail.Alt = readLabel(r, locale, &texts.Alt)
				}
			}
		case "starRating":
			l.StarRating = r.MaybeFloat()
		case "guestRating":
			l.GuestRating = readRating(r)
		case "amenities":
			l.Amenities = readKebabs(r)
		case "shariaCompliant":
			l.Sharia = r.Bool()
		case "listedAt":
			l.ListedAt = readTime(r)
		case "distanceKm":
			l.DistanceKm = r.MaybeFloat()
		}
	}
	return l
}

func readRating(r *jsonscan.Reader) *hotel.GuestRating {
	if r.Null() {
		return nil
	}
	g := new(hotel.GuestRating)
	for name := range r.Object() {
		switch name {
		case "value":
			g.Value = r.Float()
		case "count":
			g.Count = r.Int()
		}
	}
	return g
}

// readProjected reads the projection's word on one hotel.
func readProjected(r *jsonscan.Reader) (p hotel.Projected) {
	for name := range r.Object() {
		switch name {
		case "listing":
			p.Listing = readListing(r, "", &p.Texts)
		case "popularity":
			p.Popularity = readPopularity(r)
		}
	}
	r.Require(!p.Listing.PropertyID.IsZero(), "listing.propertyId")
	r.Require(!p.Listing.TenantID.IsZero(), "listing.tenantId")
	r.Require(p.Listing.TenantSlug != "", "listing.tenantSlug")
	if p.Listing.Amenities == nil {
		p.Listing.Amenities = []string{}
	}
	return p
}

func readPopularity(r *jsonscan.Reader) *hotel.Popularity {
	if r.Null() {
		return nil
	}
	p := new(hotel.Popularity)
	for name := range r.Object() {
		switch name {
		case "bookedLast24h":
			p.BookedLast24h = r.Int()
		case "viewedLast1h":
			p.ViewedLast1h = r.Int()
		}
	}
	return p
}
