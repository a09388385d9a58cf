package telemetry

import (
	"regexp"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
)

// The subject of each payload.

func (SearchExecuted) Subject() consumer.Subject     { return consumer.SubjectSearchExecuted }
func (ClickRecorded) Subject() consumer.Subject      { return consumer.SubjectClickRecorded }
func (DetailViewed) Subject() consumer.Subject       { return consumer.SubjectDetailViewed }
func (PageViewed) Subject() consumer.Subject         { return consumer.SubjectPageViewed }
func (FunnelStepRecorded) Subject() consumer.Subject { return consumer.SubjectFunnelStep }

// SearchKind says how results were shown.
type SearchKind string

// The two views of a search.
const (
	SearchList SearchKind = "list"
	SearchMap  SearchKind = "map"
)

// SearchExecuted is the payload of search.executed.v1.
type SearchExecuted struct {
	GuestSessionID  bff.ID            `json:"guestSessionId"`
	SearchSessionID bff.ID            `json:"searchSessionId,omitzero"`
	QueryHash       consumer.Hash     `json:"queryHash"`
	Kind            SearchKind        `json:"kind"`
	Geo             consumer.GeoQuery `json:"geo"`
	Dates           bff.StayDates     `json:"dates"`
	Occupancy       Party             `json:"occupancy"`
	FilterKeys      []string          `json:"filterKeys"`
	SortKey         consumer.SortKey  `json:"sortKey"`
	Page            consumer.Page     `json:"page"`
	ResultCount     int               `json:"resultCount"`
	FromCache       bool              `json:"fromCache"`
	CompositionMs   int64             `json:"compositionMs"`
	Currency        bff.Currency      `json:"currency"`
	Locale          bff.Locale        `json:"locale"`
}

// Party is an occupancy without the ages of children.
type Party struct {
	Adults   int `json:"adults"`
	Children int `json:"children"`
	Rooms    int `json:"rooms"`
}

// SearchOutcome is how a search went.
type SearchOutcome struct {
	Session     bff.ID // srs_; zero if there is none
	Kind        SearchKind
	ResultCount int
	FromCache   bool
	Took        time.Duration
}

// NewSearchExecuted returns the payload that announces an answered search.
//
// The query is the guest's own words. Names of places leave only when hotels
// were found there, and amenities
// only when hotels have them, so that what a guest typed into the wrong field
// stays here. Coordinates are rounded to about ten
// kilometres.
func NewSearchExecuted(q *consumer.Asked, s consumer.GuestSession, o SearchOutcome) SearchExecuted {
	e := SearchExecuted{
		GuestSessionID: s.ID, SearchSessionID: o.Session, QueryHash: q.What, Kind: o.Kind,
		Geo: q.Geo.Coarse(), Dates: q.Dates,
		Occupancy:  Party{q.Occupancy.Adults, q.Occupancy.Children, q.Occupancy.Rooms},
		FilterKeys: filterKeys(q.Filters, o.ResultCount > 0), SortKey: q.Sort, Page: q.Page,
		ResultCount: o.ResultCount, FromCache: o.FromCache, CompositionMs: o.Took.Milliseconds(),
		Currency: q.Currency, Locale: q.Locale,
	}
	if o.ResultCount > 0 {
		e.Geo.City, e.Geo.Region, e.Geo.Country = q.Said.City, q.Said.Region, q.Said.Country
	}
	return e
}

// code is what an amenity looks like: halal-kitchen.
var code = regexp.MustCompile(`^[a-z0-9]{1,20}(-[a-z0-9]{1,20}){0,3}$`)

// filterKeys names the filters in use: amenities by their codes, if hotels that have
// them were found, the others by kind.
func filterKeys(f consumer.Filters, found bool) []string {
	keys := []string{}
	for _, a := range f.Amenities {
		if found && code.MatchString(a) {
			keys = append(keys, a)
		}
	}
	for _, other := range []struct {
		used bool
		key  string
	}{
		{f.PriceRange != nil, "price-range"},
		{len(f.StarRating) > 0, "star-rating"},
		{f.GuestRatingMin > 0, "guest-rating"},
		{len(f.PropertyType) > 0, "property-type"},
		{f.CancellationFlexibility != "", "cancellation-flexibility"},
		{len(f.Neighbourhoods) > 0, "neighbourhoods"},
	} {
		if other.used {
			keys = append(keys, other.key)
		}
	}
	return keys
}

// ClickKinds are what a guest can click on.
func ClickKinds() []string {
	return []string{"listing-card", "map-pin", "similar-property", "wishlist-card", "brand-peek"}
}

// ClickRecorded is the payload of click.recorded.v1.
type ClickRecorded struct {
	GuestSessionID  bff.ID           `json:"guestSessionId"`
	Kind            string           `json:"kind"`
	TenantID        bff.ID           `json:"tenantId,omitzero"`
	PropertyID      bff.ID           `json:"propertyId,omitzero"`
	SearchSessionID bff.ID           `json:"searchSessionId,omitzero"`
	Position        int              `json:"position,omitempty"` // counted from 1
	Page            int              `json:"page,omitempty"`     // counted from 1
	SortKey         consumer.SortKey `json:"sortKey,omitempty"`
	OccurredAt      bff.Timestamp    `json:"occurredAt"`
}

// DetailViewed is the payload of detail.viewed.v1.
type DetailViewed struct {
	GuestSessionID  bff.ID        `json:"guestSessionId"`
	TenantID        bff.ID        `json:"tenantId"`
	PropertyID      bff.ID        `json:"propertyId"`
	SearchSessionID bff.ID        `json:"searchSessionId,omitzero"`
	FromCache       bool          `json:"fromCache"`
	CompositionMs   int64         `json:"compositionMs"`
	Currency        bff.Currency  `json:"currency"`
	Locale          bff.Locale    `json:"locale"`
	ViewedAt        bff.Timestamp `json:"viewedAt"`
}

// PageViewed is the payload of page.viewed.v1 (DOMAIN_MODEL §2.5).
type PageViewed struct {
	ID              bff.ID        `json:"id"` // mpv_
	GuestSessionID  bff.ID        `json:"guestSessionId"`
	SearchSessionID bff.ID        `json:"searchSessionId,omitzero"`
	Path            string        `json:"path"`
	TenantID        bff.ID        `json:"tenantId,omitzero"`
	PropertyID      bff.ID        `json:"propertyId,omitzero"`
	ViewedAt        bff.Timestamp `json:"viewedAt"`
	Referer         string        `json:"referer,omitempty"` // the origin only
	UserAgentHash   consumer.Hash `json:"userAgentHash"`
	FingerprintHash consumer.Hash `json:"fingerprintHash"`
}

// FunnelSteps are the steps from a first visit to a hand-off.
func FunnelSteps() []string {
	return []string{
		"session.started", "search.executed", "list.scrolled-50pct", "list.scrolled-90pct", "map.opened",
		"detail.viewed", "wishlist.added", "handoff.initiated",
	}
}

// FunnelStepRecorded is the payload of funnel.step_recorded.v1 (DOMAIN_MODEL §2.6).
type FunnelStepRecorded struct {
	ID              bff.ID         `json:"id"` // cfe_
	GuestSessionID  bff.ID         `json:"guestSessionId"`
	Step            string         `json:"step"`
	OccurredAt      bff.Timestamp  `json:"occurredAt"`
	TenantID        bff.ID         `json:"tenantId,omitzero"`
	PropertyID      bff.ID         `json:"propertyId,omitzero"`
	SearchSessionID bff.ID         `json:"searchSessionId,omitzero"`
	Metadata        map[string]any `json:"metadata,omitempty"` // short texts, numbers and truth values
}
