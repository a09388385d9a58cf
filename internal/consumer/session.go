package consumer

import (
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
)

// SessionLifetime is how long a session lives after its last use, and
// NewSessionLifetime how long before its cookie has come back once: clients that
// throw their cookies away leave nothing behind for long.
const (
	SessionLifetime    = 30 * 24 * time.Hour
	NewSessionLifetime = time.Hour
)

// Hash is a peppered SHA-256 of something that must not be kept as it is: an
// address, a user agent, a fingerprint.
type Hash [32]byte

// IsZero reports whether nothing was hashed.
func (h Hash) IsZero() bool { return h == Hash{} }

// String returns the wire form.
func (h Hash) String() string { return "sha256:" + hex.EncodeToString(h[:]) }

// MarshalText writes the wire form.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads the wire form.
func (h *Hash) UnmarshalText(b []byte) error {
	digits, ok := strings.CutPrefix(string(b), "sha256:")
	if !ok || len(digits) != 2*len(h) {
		return errors.New("malformed hash: want sha256:<hex>")
	}
	_, err := hex.Decode(h[:], []byte(digits))
	return err
}

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

// Prints are a client's fingerprint and its base under one pepper.
type Prints struct{ Fingerprint, Base Hash }

// GuestSession is one guest's anonymous visit, bound to the gms_id cookie.
type GuestSession struct {
	ID          bff.ID
	CreatedAt   time.Time
	LastSeenAt  time.Time
	Locale      bff.Locale
	Currency    bff.Currency
	Fingerprint Hash
	Base        Hash // of the fingerprint
	Campaign    *Campaign
	Consent     Consent
	// Chosen says that the guest answered the consent banner; a browser's
	// do-not-track header speaks only for those who have not.
	Chosen   bool
	CookieAt time.Time // when the cookie was last sent
	// Rotated says that another client sent this session's cookie.
	Rotated bool
	// Silent: telemetry was refused with the first request and never allowed since,
	// so that no event of the session ever left.
	Silent bool
	// Unread says that the store was away: what the guest has chosen is unknown,
	// and so no event of the session may leave unless Refusals say more.
	Unread bool
}

// Returned reports whether the session's cookie has come back.
func (s GuestSession) Returned() bool { return s.LastSeenAt.After(s.CreatedAt) }

// ExpiresAt is when the session ends unless it is used.
func (s GuestSession) ExpiresAt() time.Time {
	if !s.Returned() {
		return s.LastSeenAt.Add(NewSessionLifetime)
	}
	return s.LastSeenAt.Add(SessionLifetime)
}

// cookieRefresh is how old a cookie may get before it is sent again, so that
// its thirty days slide with the session's.
const cookieRefresh = 24 * time.Hour

// TouchAfter is how much of the sliding thirty days may go unrecorded: a guest
// who clicks fast costs one write.
const TouchAfter = 10 * time.Second

// SessionChange is what one request changes in a session. Zero fields stay as
// they are, so that two requests at once cannot undo each other's changes.
type SessionChange struct {
	SeenAt   time.Time
	CookieAt time.Time
	Locale   bff.Locale
	Currency bff.Currency
	Campaign *Campaign
	Consent  *Consent
	Chosen   bool
	Prints   *Prints
	Rotated  bool
}

// IsZero reports whether there is nothing to write.
func (c SessionChange) IsZero() bool { return c == SessionChange{} }

// Apply returns the session as it is after the change.
func (s GuestSession) Apply(c SessionChange) GuestSession {
	if !c.SeenAt.IsZero() {
		s.LastSeenAt = c.SeenAt
	}
	if !c.CookieAt.IsZero() {
		s.CookieAt = c.CookieAt
	}
	if c.Locale != "" {
		s.Locale = c.Locale
	}
	if c.Currency != "" {
		s.Currency = c.Currency
	}
	if c.Campaign != nil {
		s.Campaign = c.Campaign
	}
	if c.Consent != nil {
		s.Consent = *c.Consent
		s.Silent = s.Silent && !c.Consent.Telemetry
	}
	if c.Prints != nil {
		s.Fingerprint, s.Base = c.Prints.Fingerprint, c.Prints.Base
	}
	s.Chosen, s.Rotated = s.Chosen || c.Chosen, s.Rotated || c.Rotated
	return s
}

// Meet compares a session with the client that sent its cookie. It returns false
// when that is another client, and else what the visit changes.
//
// Hints are sent by scripts only, so a navigation lacks them: such a request is
// compared without them, and the first that has them completes the session.
func (s GuestSession) Meet(v *Visit) (SessionChange, bool) {
	var c SessionChange
	now := v.At
	switch {
	case s.knows(Prints{v.Fingerprint, v.Base}):
		if s.Fingerprint == s.Base && v.Fingerprint != v.Base {
			c.Prints = &Prints{v.Fingerprint, v.Base}
		}
	default:
		known := false
		for _, old := range v.Older {
			known = known || s.knows(old)
		}
		if !known {
			return SessionChange{}, false
		}
		c.Prints = &Prints{v.Fingerprint, v.Base} // under the pepper of today
	}
	first := !s.Returned() && now.After(s.CreatedAt)
	if first || now.Sub(s.LastSeenAt) >= TouchAfter {
		c.SeenAt = now
	}
	if now.Sub(s.CookieAt) > cookieRefresh {
		c.SeenAt, c.CookieAt = now, now
	}
	if v.Campaign != nil && (s.Campaign == nil || !s.Campaign.same(*v.Campaign)) {
		c.Campaign = v.Campaign // the latest advertisement that worked
	}
	if v.NoTracking && s.Consent.Telemetry && !s.Chosen {
		c.Consent = &Consent{Marketing: s.Consent.Marketing}
	}
	return c, true
}

func (s GuestSession) knows(p Prints) bool {
	return p.Fingerprint == s.Fingerprint || (p.Base == s.Base && (p.Fingerprint == p.Base || s.Fingerprint == s.Base))
}

func (c Campaign) same(d Campaign) bool {
	return c.Source == d.Source && c.Medium == d.Medium && c.Campaign == d.Campaign
}

// NewGuestSession opens a session for the sender of a visit. One that asks not to be tracked is
// not tracked from the first request on.
func NewGuestSession(id bff.ID, v *Visit) GuestSession {
	return GuestSession{
		ID: id, CreatedAt: v.At, LastSeenAt: v.At, CookieAt: v.At,
		Locale: v.Locale, Currency: v.Currency, Fingerprint: v.Fingerprint, Base: v.Base, Campaign: v.Campaign,
		Consent: Consent{Telemetry: !v.NoTracking}, Silent: v.NoTracking,
	}
}
