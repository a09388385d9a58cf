package discovery

import (
	"cmp"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
)

// ListingCard is one hotel in a list.
type ListingCard struct {
	PropertyID        bff.ID              `json:"propertyId"`
	TenantID          bff.ID              `json:"tenantId"`
	TenantSlug        string              `json:"tenantSlug"`
	Name              bff.LocalizedString `json:"name"`
	City              string              `json:"city"`
	CityLabel         string              `json:"cityLabel"`
	Country           string              `json:"country"`
	Geo               hotel.LatLng        `json:"geo"`
	Thumbnail         hotel.Image         `json:"thumbnail"`
	StarRating        *float64            `json:"starRating,omitempty"`
	GuestRating       *hotel.GuestRating  `json:"guestRating,omitempty"`
	AmenityHighlights []string            `json:"amenityHighlights"`
	BrandPeek         hotel.BrandPeek     `json:"brandPeek"`
	RateSnapshot      *hotel.RateSnapshot `json:"rateSnapshot"`
	RateState         hotel.RateState     `json:"rateState,omitempty"` // empty: no stay was asked for
	Badges            []hotel.Badge       `json:"badges"`
	DistanceKm        *float64            `json:"distanceKm,omitempty"`
}

const (
	highlights  = 5                   // amenities on a card
	newProperty = 30 * 24 * time.Hour // how long a hotel counts as new
)

// card composes what a guest sees of a listing.
func (f *Finder) card(l hotel.Listing, with extras, now time.Time) ListingCard {
	rate, state := with.rate(l.PropertyID, now)
	c := ListingCard{
		PropertyID: l.PropertyID, TenantID: l.TenantID, TenantSlug: l.TenantSlug, Name: l.Name,
		City: l.City, CityLabel: cmp.Or(l.CityLabel, l.City), Country: l.Country, Geo: l.Geo, Thumbnail: l.Thumbnail,
		StarRating: l.StarRating, GuestRating: l.GuestRating, DistanceKm: l.DistanceKm,
		AmenityHighlights: append([]string{}, l.Amenities[:min(len(l.Amenities), highlights)]...),
		BrandPeek:         hotel.NeutralBrand(l.Name), RateSnapshot: rate, RateState: state,
		Badges: f.badges(with.regions[l.TenantID], l.Sharia || (rate != nil && rate.Sharia), l.ListedAt, now),
	}
	if b, ok := with.brands[l.TenantID]; ok {
		c.BrandPeek = b
	}
	return c
}

// age says of a card that was made earlier whether its price may still be believed.
func (c *ListingCard) age(now time.Time) {
	if r := c.RateSnapshot; r != nil {
		r.IsStale = r.Expired(now)
		c.RateState = r.State()
	}
}

// badges are the hints on a hotel whose tenant lives in a region of the platform;
// "" when the region is not known, and then nothing is said of it.
func (f *Finder) badges(region string, sharia bool, listed, now time.Time) []hotel.Badge {
	out := []hotel.Badge{}
	if f.cfg.Region != "" && region != "" && region != f.cfg.Region {
		out = append(out, hotel.BadgeCrossRegion)
	}
	if sharia {
		out = append(out, hotel.BadgeSharia)
	}
	if !listed.IsZero() && now.Sub(listed) < newProperty {
		out = append(out, hotel.BadgeNewProperty)
	}
	return out
}
