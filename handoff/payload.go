package handoff

import (
	"time"

	bff "melmastoon.ghasi.io/bff"
)

// Lifetime is how long a token can be used: no longer and no shorter.
const Lifetime = 30 * time.Minute

// Occupancy is the signed part of a party. Ages of children are not signed,
// and a type without them cannot be mistaken for one that vouches for them.
type Occupancy struct {
	Adults   int `json:"adults"`
	Children int `json:"children"`
	Rooms    int `json:"rooms"`
}

// OccupancyOf returns the signed part of a party.
func OccupancyOf(o bff.Occupancy) Occupancy {
	return Occupancy{Adults: o.Adults, Children: o.Children, Rooms: o.Rooms}
}

// Claims are what the minting service decides.
type Claims struct {
	ID             bff.ID        `json:"handoffId"`
	GuestSessionID bff.ID        `json:"guestSessionId"`
	TenantID       bff.ID        `json:"tenantId"`
	PropertyID     bff.ID        `json:"propertyId"`
	Dates          bff.StayDates `json:"dates"`
	Occupancy      Occupancy     `json:"occupancy"`
	Currency       bff.Currency  `json:"currency"`
	Locale         bff.Locale    `json:"locale"`
}

// Payload is everything that a token vouches for.
type Payload struct {
	Claims
	MintedAt  bff.Timestamp `json:"mintedAt"`
	ExpiresAt bff.Timestamp `json:"expiresAt"` // always MintedAt + Lifetime
	KeyID     string        `json:"hmacKeyId"`
}

// Validate reports every claim that no token can carry.
func (c *Claims) Validate() bff.FieldErrors {
	var bad bff.FieldErrors
	bad.Check(c.ID.Prefix() == bff.PrefixHandoff, "handoffId", bff.FieldFormat)
	bad.Check(c.GuestSessionID.Prefix() == bff.PrefixGuestSession, "guestSessionId", bff.FieldFormat)
	bad.Check(c.TenantID.Prefix() == bff.PrefixTenant, "tenantId", bff.FieldFormat)
	bad.Check(c.PropertyID.Prefix() == bff.PrefixProperty, "propertyId", bff.FieldFormat)
	bad.Check(validDay(c.Dates.CheckIn), "dates.checkIn", bff.FieldRange)
	bad.Check(validDay(c.Dates.CheckOut), "dates.checkOut", bff.FieldRange)
	bad.Under("dates", c.Dates.Validate())
	party := bff.Occupancy{Adults: c.Occupancy.Adults, Children: c.Occupancy.Children, Rooms: c.Occupancy.Rooms}
	bad.Under("occupancy", party.Validate())
	_, ok := supportedCurrency(string(c.Currency))
	bad.Check(ok, "currency", bff.FieldUnsupported)
	_, ok = supportedLocale(string(c.Locale))
	bad.Check(ok, "locale", bff.FieldUnsupported)
	return bad
}

// validDay reports whether a day fits the two bytes that a token has for it.
func validDay(d bff.Date) bool { return d >= 0 && d <= 1<<16-1 }

// maxMinted is the last moment whose expiry still has a four-digit year.
var maxMinted = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).Add(-Lifetime).UnixMilli() - 1

func validMinted(ms int64) bool { return ms >= 0 && ms <= maxMinted }

// supportedLocale and supportedCurrency take only the exact spelling of the
// supported set: a second spelling of the same locale would be a second token
// for the same payload.
func supportedLocale[S string | []byte](s S) (bff.Locale, bool) {
	for _, l := range bff.Locales() {
		if string(l) == string(s) {
			return l, true
		}
	}
	return "", false
}

func supportedCurrency[S string | []byte](s S) (bff.Currency, bool) {
	for _, c := range bff.Currencies() {
		if string(c) == string(s) {
			return c, true
		}
	}
	return "", false
}
