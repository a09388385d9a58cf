package consumer

import (
	"context"
	"encoding/hex"
	"time"

	"melmastoon.ghasi.io/bff"
)

// SessionLifetime is how long a session lives after its last use.
const SessionLifetime = 30 * 24 * time.Hour

// Hash is a peppered SHA-256 of something that must not be kept as it is: an
// address, a user agent, a fingerprint.
type Hash [32]byte

// String returns the wire form.
func (h Hash) String() string { return "sha256:" + hex.EncodeToString(h[:]) }

// MarshalText writes the wire form.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// Campaign says which advertisement brought a guest here.
type Campaign struct {
	Source     string        `json:"source,omitempty"`
	Medium     string        `json:"medium,omitempty"`
	Campaign   string        `json:"campaign,omitempty"`
	CapturedAt bff.Timestamp `json:"capturedAt"`
}

// Consent is what a guest allows.
type Consent struct {
	Telemetry bool `json:"telemetry"`
	Marketing bool `json:"marketing"`
}

// Visitor is what one request reveals of whoever sent it, hashed where the raw
// value may not be kept.
type Visitor struct {
	Fingerprint    Hash
	IP             Hash
	UserAgent      Hash
	UserAgentClass string
	Locale         bff.Locale   // negotiated from Accept-Language
	Currency       bff.Currency // of the country that the edge reports
	Campaign       *Campaign
	Referer        string // origin and path only
	NoTracking     bool   // DNT or Sec-GPC
}

// GuestSession is one guest's anonymous visit, bound to the gms_id cookie.
type GuestSession struct {
	ID          bff.ID
	CreatedAt   time.Time
	LastSeenAt  time.Time
	Locale      bff.Locale
	Currency    bff.Currency
	Fingerprint Hash
	Campaign    *Campaign
	Consent     Consent
	CookieAt    time.Time // when the cookie was last sent
	// Unread says that the store was away: nobody knows what the guest has
	// chosen, and so nothing may be told of the session.
	Unread bool
}

// cookieRefresh is how old a cookie may get before it is sent again, so that
// its thirty days slide with the session's.
const cookieRefresh = 24 * time.Hour

// CookieDue reports whether the cookie should be sent again.
func (s GuestSession) CookieDue(now time.Time) bool { return now.Sub(s.CookieAt) > cookieRefresh }

// Sessions keeps guest sessions.
type Sessions interface {
	// FindSession returns a live session and whether there is one.
	FindSession(ctx context.Context, id bff.ID) (GuestSession, bool, error)
	// SaveSession writes a session whole and lets it live from now on.
	SaveSession(ctx context.Context, s GuestSession) error
	// TouchSession slides the life of all that belongs to a session.
	TouchSession(ctx context.Context, s GuestSession) error
}

// Journal takes events that have no transaction of their own.
type Journal interface {
	// Record returns when the event is safe.
	Record(ctx context.Context, e bff.Event) error
}

// NewGuestSession opens a session for a visitor. A visitor who asks not to be
// tracked is not tracked from the first request on.
func NewGuestSession(id bff.ID, v Visitor, now time.Time) GuestSession {
	return GuestSession{
		ID: id, CreatedAt: now, LastSeenAt: now, CookieAt: now,
		Locale: v.Locale, Currency: v.Currency, Fingerprint: v.Fingerprint, Campaign: v.Campaign,
		Consent: Consent{Telemetry: !v.NoTracking},
	}
}
