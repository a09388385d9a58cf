package consumer

import (
	"encoding/binary"
	"math"
	"regexp"
	"time"

	"melmastoon.ghasi.io/bff"
)

// Fact is the payload of an event: it knows which event it is.
type Fact interface{ Subject() Subject }

// Telemetry decides what leaves the service. It is the one place where consent
// and sampling count: a caller with something to tell asks here and tells what
// comes back.
type Telemetry struct {
	instance string
	rate     func(Subject) float64
	ids      *bff.Sequence
}

// NewTelemetry returns the decider of one process. Rate is asked for every
// event, so that it may change while the process runs; nil means DefaultRate.
func NewTelemetry(instance string, rate func(Subject) float64) *Telemetry {
	if rate == nil {
		rate = DefaultRate
	}
	return &Telemetry{instance: instance, rate: rate, ids: bff.NewSequence(bff.PrefixEvent)}
}

// DefaultRate is the share of events that leave unless a setting says otherwise
// (EVENT_SCHEMAS §3).
func DefaultRate(s Subject) float64 {
	if s == SubjectSearchExecuted || s == SubjectDetailViewed {
		return 0.1
	}
	return 1
}

// Samples reports whether events of a kind about a session may leave at all, for
// those who would have to read the session to ask.
func (t *Telemetry) Samples(session bff.ID, s Subject) bool {
	return s.Retention() == bff.RetentionAudit || sampled(session, t.rate(s))
}

// Announcer makes the events of one request of a guest, for facts that are known
// only where they are written.
type Announcer struct {
	Telemetry *Telemetry
	Session   GuestSession
	Occasion  Occasion
	Now       time.Time
}

// Event wraps a fact; nil when nothing may leave for it.
func (a Announcer) Event(f Fact) (*bff.Event, error) {
	e, leaves, err := a.Telemetry.Event(a.Session, f, a.Occasion, a.Now)
	if err != nil || !leaves {
		return nil, err
	}
	return &e, nil
}

// Event wraps a fact about a session for publishing. It reports false when
// nothing may leave: without the guest's consent no event does, audit class
// included, and of sampled events only a share does.
func (t *Telemetry) Event(s GuestSession, f Fact, o Occasion, now time.Time) (bff.Event, bool, error) {
	if !s.Consent.Telemetry || s.Unread {
		return bff.Event{}, false, nil
	}
	id := t.ids.Next(now)
	rate := 1.0
	if f.Subject().Retention() != bff.RetentionAudit { // an audit trail with holes is none
		rate = min(1, max(0, t.rate(f.Subject())))
	}
	by := s.ID
	if by.IsZero() {
		by = id
	}
	if !sampled(by, rate) {
		return bff.Event{}, false, nil
	}
	o.Instance, o.Session, o.Sampling = t.instance, s.ID, rate
	e, err := NewEvent(id, f.Subject(), f, o, now)
	return e, err == nil, err
}

// sampled draws by the session, not by chance: a retry does not change it, one
// guest's sampled events are all there or all absent, so that they can be
// joined, and a raised rate keeps everyone who was in before.
func sampled(by bff.ID, rate float64) bool {
	if rate >= 1 || math.IsNaN(rate) {
		return true
	}
	bits := by.Bytes()
	h := Spread(binary.BigEndian.Uint64(bits[:8]) ^ Spread(binary.BigEndian.Uint64(bits[8:])))
	return float64(h>>11)/(1<<53) < rate
}

// Spread is the finalizer of MurmurHash3: whatever ids have in common, it shows in
// no bit. It is the same in every process and every version.
func Spread(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// The subject of each payload.

func (SessionStarted) Subject() Subject     { return SubjectSessionStarted }
func (SessionEnded) Subject() Subject       { return SubjectSessionEnded }
func (SearchExecuted) Subject() Subject     { return SubjectSearchExecuted }
func (ClickRecorded) Subject() Subject      { return SubjectClickRecorded }
func (HandoffInitiated) Subject() Subject   { return SubjectHandoffInitiated }
func (LocaleChanged) Subject() Subject      { return SubjectLocaleChanged }
func (CurrencyChanged) Subject() Subject    { return SubjectCurrencyChanged }
func (WishlistAdded) Subject() Subject      { return SubjectWishlistAdded }
func (WishlistRemoved) Subject() Subject    { return SubjectWishlistRemoved }
func (BotSuspected) Subject() Subject       { return SubjectBotSuspected }
func (DetailViewed) Subject() Subject       { return SubjectDetailViewed }
func (PageViewed) Subject() Subject         { return SubjectPageViewed }
func (FunnelStepRecorded) Subject() Subject { return SubjectFunnelStep }

// EndReason says why a session is over.
type EndReason string

// The ways a session ends.
const (
	EndedByGuest    EndReason = "explicit-clear"
	EndedByTime     EndReason = "ttl-expired"
	EndedByRotation EndReason = "rotated"
	// Cleared announces what EndedByGuest does for a guest who allows no telemetry,
	// with nothing but the session's id.
	Cleared EndReason = "cleared"
)

// SessionEnded is the payload of session.ended.v1.
type SessionEnded struct {
	GuestSessionID  bff.ID        `json:"guestSessionId"`
	EndedAt         bff.Timestamp `json:"endedAt,omitzero"`
	Reason          EndReason     `json:"reason"`
	LastSeenAt      bff.Timestamp `json:"lastSeenAt,omitzero"`
	LifetimeSeconds *int64        `json:"lifetimeSeconds,omitempty"`
}

// Clearing returns the event of a session that its guest had purged. It is the one
// event that leaves without consent: what was told of the session before can be
// deleted downstream only by those who hear of it. Of a session of which nothing
// was ever told it reports false.
func (t *Telemetry) Clearing(s GuestSession, o Occasion, now time.Time) (bff.Event, bool, error) {
	if s.Consent.Telemetry && !s.Unread {
		return t.Event(s, s.Ended(EndedByGuest, now), o, now)
	}
	if s.Silent || s.Unread {
		return bff.Event{}, false, nil
	}
	told := Occasion{Instance: t.instance, Session: s.ID, Sampling: 1}
	e, err := NewEvent(t.ids.Next(now), SubjectSessionEnded, SessionEnded{GuestSessionID: s.ID, Reason: Cleared}, told, now)
	return e, err == nil, err
}

// Ended returns the payload that announces the end of a session.
func (s GuestSession) Ended(why EndReason, now time.Time) SessionEnded {
	lifetime := max(0, int64(now.Sub(s.CreatedAt)/time.Second))
	return SessionEnded{
		GuestSessionID: s.ID, EndedAt: bff.At(now), Reason: why, LastSeenAt: bff.At(s.LastSeenAt), LifetimeSeconds: &lifetime,
	}
}

// SearchKind says how results were shown.
type SearchKind string

// The two views of a search.
const (
	SearchList SearchKind = "list"
	SearchMap  SearchKind = "map"
)

// SearchExecuted is the payload of search.executed.v1.
type SearchExecuted struct {
	GuestSessionID  bff.ID        `json:"guestSessionId"`
	SearchSessionID bff.ID        `json:"searchSessionId,omitzero"`
	QueryHash       Hash          `json:"queryHash"`
	Kind            SearchKind    `json:"kind"`
	Geo             GeoQuery      `json:"geo"`
	Dates           bff.StayDates `json:"dates"`
	Occupancy       Party         `json:"occupancy"`
	FilterKeys      []string      `json:"filterKeys"`
	SortKey         SortKey       `json:"sortKey"`
	Page            Page          `json:"page"`
	ResultCount     int           `json:"resultCount"`
	FromCache       bool          `json:"fromCache"`
	CompositionMs   int64         `json:"compositionMs"`
	Currency        bff.Currency  `json:"currency"`
	Locale          bff.Locale    `json:"locale"`
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

// Executed returns the payload that announces an answered search.
//
// The query is the guest's own words. Names of places leave only when hotels
// were found there, and amenities
// only when hotels have them, so that what a guest typed into the wrong field
// stays here. Coordinates are rounded to about ten
// kilometres.
func (q *Asked) Executed(s GuestSession, o SearchOutcome) SearchExecuted {
	e := SearchExecuted{
		GuestSessionID: s.ID, SearchSessionID: o.Session, QueryHash: q.What, Kind: o.Kind,
		Geo: GeoQuery{Mode: q.Geo.Mode}, Dates: q.Dates,
		Occupancy:  Party{q.Occupancy.Adults, q.Occupancy.Children, q.Occupancy.Rooms},
		FilterKeys: q.Filters.keys(o.ResultCount > 0), SortKey: q.Sort, Page: q.Page,
		ResultCount: o.ResultCount, FromCache: o.FromCache, CompositionMs: o.Took.Milliseconds(),
		Currency: q.Currency, Locale: q.Locale,
	}
	if o.ResultCount > 0 {
		e.Geo.City, e.Geo.Region, e.Geo.Country = q.Said.City, q.Said.Region, q.Said.Country
	}
	if p := q.Geo.Point; p != nil {
		e.Geo.Point = &Point{Lat: round(p.Lat, 1), Lng: round(p.Lng, 1), RadiusKm: p.RadiusKm}
	}
	if b := q.Geo.BoundingBox; b != nil {
		e.Geo.BoundingBox = &BoundingBox{
			SwLat: floor(b.SwLat, 1), SwLng: floor(b.SwLng, 1), NeLat: ceil(b.NeLat, 1), NeLng: ceil(b.NeLng, 1),
		}
	}
	return e
}

// code is what an amenity looks like: halal-kitchen.
var code = regexp.MustCompile(`^[a-z0-9]{1,20}(-[a-z0-9]{1,20}){0,3}$`)

// keys names the filters in use: amenities by their codes, if hotels that have
// them were found, the others by kind.
func (f Filters) keys(found bool) []string {
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
	GuestSessionID  bff.ID        `json:"guestSessionId"`
	Kind            string        `json:"kind"`
	TenantID        bff.ID        `json:"tenantId,omitzero"`
	PropertyID      bff.ID        `json:"propertyId,omitzero"`
	SearchSessionID bff.ID        `json:"searchSessionId,omitzero"`
	Position        int           `json:"position,omitempty"` // counted from 1
	Page            int           `json:"page,omitempty"`     // counted from 1
	SortKey         SortKey       `json:"sortKey,omitempty"`
	OccurredAt      bff.Timestamp `json:"occurredAt"`
}

// Trigger says what changed a preference.
type Trigger string

// What can change a locale or a currency.
const (
	TriggerUser           Trigger = "user-explicit"
	TriggerAcceptLanguage Trigger = "accept-language" // a locale only
	TriggerTenant         Trigger = "tenant-default"  // a currency only
	TriggerGeoIP          Trigger = "geo-ip"
)

// LocaleChanged is the payload of locale.changed.v1.
type LocaleChanged struct {
	GuestSessionID bff.ID        `json:"guestSessionId"`
	PreviousLocale bff.Locale    `json:"previousLocale"`
	NewLocale      bff.Locale    `json:"newLocale"`
	Trigger        Trigger       `json:"trigger"`
	OccurredAt     bff.Timestamp `json:"occurredAt"`
}

// LocaleChanged returns the payload that announces a change from the session's locale.
func (s GuestSession) LocaleChanged(to bff.Locale, by Trigger, now time.Time) LocaleChanged {
	return LocaleChanged{GuestSessionID: s.ID, PreviousLocale: s.Locale, NewLocale: to, Trigger: by, OccurredAt: bff.At(now)}
}

// CurrencyChanged is the payload of currency.changed.v1.
type CurrencyChanged struct {
	GuestSessionID   bff.ID        `json:"guestSessionId"`
	PreviousCurrency bff.Currency  `json:"previousCurrency"`
	NewCurrency      bff.Currency  `json:"newCurrency"`
	Trigger          Trigger       `json:"trigger"`
	OccurredAt       bff.Timestamp `json:"occurredAt"`
}

// CurrencyChanged returns the payload that announces a change from the session's currency.
func (s GuestSession) CurrencyChanged(to bff.Currency, by Trigger, now time.Time) CurrencyChanged {
	return CurrencyChanged{GuestSessionID: s.ID, PreviousCurrency: s.Currency, NewCurrency: to, Trigger: by, OccurredAt: bff.At(now)}
}

// WishlistAdded is the payload of wishlist.added.v1. A guest's note stays here.
type WishlistAdded struct {
	WishlistID     bff.ID        `json:"wishlistId"`
	GuestSessionID bff.ID        `json:"guestSessionId"`
	TenantID       bff.ID        `json:"tenantId"`
	PropertyID     bff.ID        `json:"propertyId"`
	Source         string        `json:"source"` // detail, list, map or recently-viewed
	AddedAt        bff.Timestamp `json:"addedAt"`
	WishlistSize   int           `json:"wishlistSize"` // with this entry
}

// WishlistRemoved is the payload of wishlist.removed.v1.
type WishlistRemoved struct {
	WishlistID     bff.ID        `json:"wishlistId"`
	GuestSessionID bff.ID        `json:"guestSessionId"`
	TenantID       bff.ID        `json:"tenantId"`
	PropertyID     bff.ID        `json:"propertyId"`
	RemovedAt      bff.Timestamp `json:"removedAt"`
	WishlistSize   int           `json:"wishlistSize"` // without this entry
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
	UserAgentHash   Hash          `json:"userAgentHash"`
	FingerprintHash Hash          `json:"fingerprintHash"`
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
