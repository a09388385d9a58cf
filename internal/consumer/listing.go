package consumer

import (
	"encoding/json"
	"time"

	"melmastoon.ghasi.io/bff"
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

// neutralColor is shown for a brand that could not be had.
const neutralColor = "#6b7280"

// NeutralBrand stands for a brand that could not be had.
func NeutralBrand(name bff.LocalizedString) BrandPeek {
	return BrandPeek{PrimaryColor: neutralColor, BrandName: name}
}

// RateLifetime is how long a price may be shown as current.
const RateLifetime = 60 * time.Second

// RateSnapshot is a price as pricing said it at one moment. Amounts are minor
// units in decimal strings; the service never computes with them.
type RateSnapshot struct {
	CheapestNightlyMinor  string        `json:"cheapestNightlyMinor"`
	TotalForStayMinor     string        `json:"totalForStayMinor"`
	Currency              bff.Currency  `json:"currency"`
	CurrencyDisplayPolicy string        `json:"currencyDisplayPolicy"`
	FxSnapshotID          string        `json:"fxSnapshotId,omitempty"`
	CapturedAt            bff.Timestamp `json:"capturedAt"`
	TTLExpiresAt          bff.Timestamp `json:"ttlExpiresAt"`
	IsStale               bool          `json:"isStale"`
	Taxes                 []Tax         `json:"taxes,omitempty"`
	Sharia                bool          `json:"-"` // the rate plan's, for the badge
}

// Tax is a charge that pricing names; it is passed on and never inferred.
type Tax struct {
	Code     string       `json:"code"`
	Minor    string       `json:"minor"`
	Currency bff.Currency `json:"currency"`
	Included bool         `json:"included"`
}

// Previews are prices by property. A property whose price is nil is sold out for the
// stay, because pricing says so; one that is absent was not answered.
type Previews map[bff.ID]*RateSnapshot

// RateState says why a card has a price or none, so that a page need not guess: a null
// price is not "sold out".
type RateState string

// The closed set of states.
const (
	RatePriced     RateState = "priced"
	RateStale      RateState = "stale"      // there is one, no longer current
	RateSoldOut    RateState = "sold_out"   // pricing has none for the stay
	RateUnanswered RateState = "unanswered" // pricing did not say
	RateShed       RateState = "shed"       // left out under load
)

// RateStates lists every state.
func RateStates() []RateState {
	return []RateState{RatePriced, RateStale, RateSoldOut, RateUnanswered, RateShed}
}

// stateOf is the state of a price that is there.
func (r *RateSnapshot) stateOf() RateState {
	if r.IsStale {
		return RateStale
	}
	return RatePriced
}

// NewRateSnapshot returns what pricing said at the moment captured.
func NewRateSnapshot(nightly, total bff.Money, policy string, captured time.Time) RateSnapshot {
	return RateSnapshot{
		CheapestNightlyMinor: nightly.MinorString(), TotalForStayMinor: total.MinorString(), Currency: nightly.Currency,
		CurrencyDisplayPolicy: policy, CapturedAt: bff.At(captured), TTLExpiresAt: bff.At(captured.Add(RateLifetime)),
	}
}

func (r *RateSnapshot) expired(now time.Time) bool { return !now.Before(r.TTLExpiresAt.Time) }

// Badge is a hint on a card.
type Badge string

// The badges.
const (
	BadgeCrossRegion Badge = "crossRegionDelivery"
	BadgeSharia      Badge = "shariaCompliant"
	BadgeNewProperty Badge = "newProperty"
)

// ListingCard is one hotel in a list.
type ListingCard struct {
	PropertyID        bff.ID              `json:"propertyId"`
	TenantID          bff.ID              `json:"tenantId"`
	TenantSlug        string              `json:"tenantSlug"`
	Name              bff.LocalizedString `json:"name"`
	City              string              `json:"city"`
	Country           string              `json:"country"`
	Geo               LatLng              `json:"geo"`
	Thumbnail         Image               `json:"thumbnail"`
	StarRating        *float64            `json:"starRating,omitempty"`
	GuestRating       *GuestRating        `json:"guestRating,omitempty"`
	AmenityHighlights []string            `json:"amenityHighlights"`
	BrandPeek         BrandPeek           `json:"brandPeek"`
	RateSnapshot      *RateSnapshot       `json:"rateSnapshot"`
	RateState         RateState           `json:"rateState,omitempty"` // empty: no stay was asked for
	Badges            []Badge             `json:"badges"`
	DistanceKm        *float64            `json:"distanceKm,omitempty"`
}

// Listing is one hotel as the search projection knows it.
type Listing struct {
	PropertyID   bff.ID
	TenantID     bff.ID
	TenantSlug   string
	Name         bff.LocalizedString
	City         string
	Region       string
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

// Listings is a page of the search projection.
type Listings struct {
	Items []Listing
	Total int
	// What the projection's own intelligence says of the query; passed on
	// untouched, never invented.
	AIProvenance     json.RawMessage `json:",omitempty"`
	QueryRewriteHint json.RawMessage `json:",omitempty"`
	// Order names the order of the first window that the items come from.
	Order Hash
	// Around are all listings of the windows that the items were cut from; nil
	// when the items are all that was read.
	Around []Listing `json:"-"`
	// StaleAge is how old the listings are when the projection could not be
	// asked again; zero when they are as fresh as they should be.
	StaleAge time.Duration `json:"-"`
}

const (
	highlights  = 5                   // amenities on a card
	newProperty = 30 * 24 * time.Hour // how long a hotel counts as new
)

// card composes what a guest sees of a listing.
func (f *Finder) card(l Listing, with extras, now time.Time) ListingCard {
	rate, state := with.rate(l.PropertyID, now)
	c := ListingCard{
		PropertyID: l.PropertyID, TenantID: l.TenantID, TenantSlug: l.TenantSlug, Name: l.Name,
		City: l.City, Country: l.Country, Geo: l.Geo, Thumbnail: l.Thumbnail,
		StarRating: l.StarRating, GuestRating: l.GuestRating, DistanceKm: l.DistanceKm,
		AmenityHighlights: append([]string{}, l.Amenities[:min(len(l.Amenities), highlights)]...),
		BrandPeek:         NeutralBrand(l.Name), RateSnapshot: rate, RateState: state,
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
		r.IsStale = r.expired(now)
		c.RateState = r.stateOf()
	}
}

// badges are the hints on a hotel whose tenant lives in a region of the platform;
// "" when the region is not known, and then nothing is said of it.
func (f *Finder) badges(region string, sharia bool, listed, now time.Time) []Badge {
	out := []Badge{}
	if f.Region != "" && region != "" && region != f.Region {
		out = append(out, BadgeCrossRegion)
	}
	if sharia {
		out = append(out, BadgeSharia)
	}
	if !listed.IsZero() && now.Sub(listed) < newProperty {
		out = append(out, BadgeNewProperty)
	}
	return out
}
