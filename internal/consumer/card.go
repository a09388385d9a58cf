package consumer

import (
	"time"

	"melmastoon.ghasi.io/bff"
)

// CardCookie is the name of the cookie that holds a guest's card. Browsers take a
// cookie with this prefix only from the host itself: the sites of hotels, which are
// siblings of ours, cannot plant one.
const CardCookie = "__Host-gms_card"

// CardLifetime is how long a card can be used.
const CardLifetime = SessionLifetime

// cardSkew is how far ahead of this process's clock a card may have been made.
const cardSkew = time.Minute

// Card is what a guest carries beside the session's id, signed by this service. A
// request with a card knows its guest without a look-up. It holds nothing personal,
// and says nothing of which browser it was given to.
type Card struct {
	SessionID bff.ID
	Locale    bff.Locale
	Currency  bff.Currency
	Consent   Consent
	Chosen    bool      // see GuestSession
	Silent    bool      // see GuestSession
	MadeAt    time.Time // to the second
}

// CardOf returns the card of a session.
func CardOf(s GuestSession, now time.Time) Card {
	return Card{
		SessionID: s.ID, Locale: s.Locale, Currency: s.Currency, Consent: s.Consent, Chosen: s.Chosen,
		Silent: s.Silent && !s.Consent.Telemetry, MadeAt: now.UTC().Truncate(time.Second),
	}
}

// IsZero reports whether there is no card.
func (c Card) IsZero() bool { return c.SessionID.IsZero() }

// Usable reports whether a card is neither too old nor from the future.
func (c Card) Usable(now time.Time) bool {
	return now.Sub(c.MadeAt) <= CardLifetime && c.MadeAt.Sub(now) <= cardSkew
}

// Describes reports whether a card says what its session says.
func (c Card) Describes(s GuestSession) bool { return c == CardOf(s, c.MadeAt) }

// Due reports whether a card is so old that it is sent again, with the session's
// id: their thirty days slide.
func (c Card) Due(now time.Time) bool { return now.Sub(c.MadeAt) > cookieRefresh }

// Session returns the session as the card describes it, for the client that sent
// the card. What only the store knows is missing in it.
func (c Card) Session(v *Visit) GuestSession {
	s := NewGuestSession(c.SessionID, v)
	s.Locale, s.Currency = c.Locale, c.Currency
	s.Consent, s.Chosen, s.Silent = c.Consent, c.Chosen, c.Silent
	if v.NoTracking && !c.Chosen {
		s.Consent.Telemetry = false
	}
	if began := c.SessionID.Time(); began.Before(v.At) { // the cookie has come back
		s.CreatedAt = began
	}
	s.CookieAt = c.MadeAt
	return s
}

// Cardless says which session ids count without a card. The zero value: none. Any
// sibling site can plant an id before its guest first comes, and share what the
// guest then does under it.
type Cardless struct {
	// Always: browsers take no card over plain http.
	Always bool
	// Before is when cards came to be required: ids that are older count for as long
	// as a cookie of that day lives.
	Before time.Time
}

// Counts reports whether an id counts without a card.
func (c Cardless) Counts(id bff.ID, now time.Time) bool {
	return c.Always || id.Time().Before(c.Before) && !c.Over(now)
}

// Over reports whether the time for older ids has passed.
func (c Cardless) Over(now time.Time) bool { return now.Sub(c.Before) > SessionLifetime }
