package hotel

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
)

// LatLng is a place on the map.
type LatLng struct {
	Lat float64 `json:"lat"`
	Lng float64 `json:"lng"`
}

// Image is a picture with its description.
type Image struct {
	URL string `json:"url"`
	Alt string `json:"alt"`
}

// GuestRating is what guests think of a hotel.
type GuestRating struct {
	Value float64 `json:"value"`
	Count int     `json:"count"`
}

// BrandPeek is the little of a hotel's brand that a list shows.
type BrandPeek struct {
	PrimaryColor string              `json:"primaryColor"`
	LogoURL      string              `json:"logoUrl"`
	BrandName    bff.LocalizedString `json:"brandName"`
}

// NeutralColor is shown for a brand that could not be had.
const NeutralColor = "#6b7280"

// NeutralBrand stands for a brand that could not be had.
func NeutralBrand(name bff.LocalizedString) BrandPeek {
	return BrandPeek{PrimaryColor: NeutralColor, BrandName: name}
}

// Badge is a hint on a card.
type Badge string

// The badges.
const (
	BadgeCrossRegion Badge = "crossRegionDelivery"
	BadgeSharia      Badge = "shariaCompliant"
	BadgeNewProperty Badge = "newProperty"
)

// Listing is one hotel as the search projection knows it.
type Listing struct {
	PropertyID   bff.ID
	TenantID     bff.ID
	TenantSlug   string
	Name         bff.LocalizedString
	City         string // as a search takes it, in any language
	CityLabel    string // in the language of the answer
	Region       string
	RegionLabel  string
	Country      string
	PropertyType string
	Geo          LatLng
	GeoCell      string
	Thumbnail    Image
	StarRating   *float64
	GuestRating  *GuestRating
	Amenities    []string // kebab-case
	Sharia       bool
	ListedAt     time.Time
	DistanceKm   *float64
}

// ListingTexts are texts of a listing in every language.
type ListingTexts struct{ City, Region, Alt bff.LocalizedString }

// In returns the listing with its labels in one language.
func (p *Projected) In(locale bff.Locale) Listing {
	l := p.Listing
	l.CityLabel, l.RegionLabel, l.Thumbnail.Alt = in(p.Texts.City, locale), in(p.Texts.Region, locale), cmp.Or(in(p.Texts.Alt, locale), l.Thumbnail.Alt)
	return l
}

func in(text bff.LocalizedString, locale bff.Locale) string {
	language, _, _ := strings.Cut(string(locale), "-")
	return cmp.Or(text.Localized[string(locale)], text.Localized[language], text.Default)
}

// Listings is a page of the search projection.
type Listings struct {
	Items []Listing
	Total int
	// What the projection's own intelligence says of the query; passed on
	// untouched, never invented.
	AIProvenance     json.RawMessage `json:",omitempty"`
	QueryRewriteHint json.RawMessage `json:",omitempty"`
	// Order names the order of the first window that the items come from.
	Order consumer.Hash
	// Around are all listings of the windows that the items were cut from; nil
	// when the items are all that was read.
	Around []Listing `json:"-"`
	// StaleAge is how old the listings are when the projection could not be
	// asked again; zero when they are as fresh as they should be.
	StaleAge time.Duration `json:"-"`
}
