package handoff_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	bff "melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/handoff"
)

func drawID(t *rapid.T, p bff.Prefix, label string) bff.ID {
	return bff.IDFromBytes(p, [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, label)))
}

// drawClaims draws any claims that Mint accepts.
func drawClaims(t *rapid.T) handoff.Claims {
	nights := rapid.IntRange(1, bff.MaxNights).Draw(t, "nights")
	checkIn := rapid.IntRange(0, 1<<16-1-nights).Draw(t, "checkIn")
	return handoff.Claims{
		ID:             drawID(t, bff.PrefixHandoff, "id"),
		GuestSessionID: drawID(t, bff.PrefixGuestSession, "guestSessionId"),
		TenantID:       drawID(t, bff.PrefixTenant, "tenantId"),
		PropertyID:     drawID(t, bff.PrefixProperty, "propertyId"),
		Dates:          bff.StayDates{CheckIn: bff.Date(checkIn), CheckOut: bff.Date(checkIn + nights)},
		Occupancy: handoff.Occupancy{
			Adults:   rapid.IntRange(1, bff.MaxAdults).Draw(t, "adults"),
			Children: rapid.IntRange(0, bff.MaxChildren).Draw(t, "children"),
			Rooms:    rapid.IntRange(1, bff.MaxRooms).Draw(t, "rooms"),
		},
		Currency: rapid.SampledFrom(bff.Currencies()).Draw(t, "currency"),
		Locale:   rapid.SampledFrom(bff.Locales()).Draw(t, "locale"),
	}
}

// drawMinting draws a key id, a secret and a moment to mint with.
func drawMinting(t *rapid.T) (*handoff.Keyring, time.Time) {
	const lastMinute = 253402300799999 - 30*60*1000 // 9999-12-31T23:29:59.999Z
	id := rapid.StringMatching(`[a-z0-9-]{1,32}`).Draw(t, "keyID")
	secret := rapid.SliceOfN(rapid.Byte(), 32, 64).Draw(t, "secret")
	now := time.UnixMilli(rapid.Int64Range(0, lastMinute).Draw(t, "now")).UTC()
	set, err := handoff.NewKeySet(id, secret, now)
	if err != nil {
		t.Fatal(err)
	}
	return handoff.NewKeyring(set), now
}

// TestRoundTrip: every valid payload comes back whole, and its canonical
// string is the one that plain formatting would write.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ring, now := drawMinting(t)
		token, p, err := handoff.Mint(ring, drawClaims(t), now)
		if err != nil {
			t.Fatal(err)
		}
		got, err := handoff.Verify(ring, token, now)
		if err != nil || got != p {
			t.Fatalf("Verify = %v, %v, want %v", got, err, p)
		}
		if got, err := handoff.Inspect(token); err != nil || got != p {
			t.Fatalf("Inspect = %v, %v, want %v", got, err, p)
		}
		want := fmt.Sprintf("v1\n%s\n%s\n%s\n%s\n%s\n%s\n%d\n%d\n%d\n%s\n%s\n%s\n%s\n%s",
			p.ID, p.GuestSessionID, p.TenantID, p.PropertyID, p.Dates.CheckIn, p.Dates.CheckOut,
			p.Occupancy.Adults, p.Occupancy.Children, p.Occupancy.Rooms, p.Currency, p.Locale,
			p.MintedAt.Format(bff.TimestampFormat), p.ExpiresAt.Format(bff.TimestampFormat), p.KeyID)
		if got := p.Canonical(); got != want {
			t.Fatalf("canonical string %q, want %q", got, want)
		}
		if longest := 203; len(token) > longest {
			t.Fatalf("%d characters, want at most %d", len(token), longest)
		}
	})
}

// TestCanonicalIsInjective reads the canonical string back: a string from
// which every field can be recovered belongs to one payload only.
func TestCanonicalIsInjective(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ring, now := drawMinting(t)
		_, p, err := handoff.Mint(ring, drawClaims(t), now)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(p.Canonical(), "\n")
		if len(lines) != 15 || lines[0] != "v1" {
			t.Fatalf("%d lines, want 15: a field holds a line break", len(lines))
		}
		got, err := readLines(lines)
		if err != nil || got != p {
			t.Fatalf("read back %v, %v, want %v", got, err, p)
		}
	})
}

func readLines(l []string) (p handoff.Payload, err error) {
	try := func(e error) {
		if err == nil {
			err = e
		}
	}
	id := func(prefix bff.Prefix, s string) bff.ID {
		v, e := bff.ParseID(prefix, s)
		try(e)
		return v
	}
	day := func(s string) bff.Date {
		v, e := bff.ParseDate(s)
		try(e)
		return v
	}
	number := func(s string) int {
		v, e := strconv.Atoi(s)
		try(e)
		return v
	}
	p.ID, p.GuestSessionID = id(bff.PrefixHandoff, l[1]), id(bff.PrefixGuestSession, l[2])
	p.TenantID, p.PropertyID = id(bff.PrefixTenant, l[3]), id(bff.PrefixProperty, l[4])
	p.Dates = bff.StayDates{CheckIn: day(l[5]), CheckOut: day(l[6])}
	p.Occupancy = handoff.Occupancy{Adults: number(l[7]), Children: number(l[8]), Rooms: number(l[9])}
	p.Currency, p.Locale = bff.Currency(l[10]), bff.Locale(l[11])
	try(p.MintedAt.UnmarshalText([]byte(l[12])))
	try(p.ExpiresAt.UnmarshalText([]byte(l[13])))
	p.KeyID = l[14]
	return p, err
}

// TestOneChange: payloads that differ in any one field differ in their
// signature, so no field is left out of it.
func TestOneChange(t *testing.T) {
	t.Parallel()
	ring := ring(t)
	_, p := mint(t, ring, claims(), minted)
	changes := map[string]func(*handoff.Payload){
		"id":       func(p *handoff.Payload) { p.ID = bff.IDFromBytes(bff.PrefixHandoff, [16]byte{1}) },
		"guest":    func(p *handoff.Payload) { p.GuestSessionID = bff.IDFromBytes(bff.PrefixGuestSession, [16]byte{1}) },
		"tenant":   func(p *handoff.Payload) { p.TenantID = bff.IDFromBytes(bff.PrefixTenant, [16]byte{1}) },
		"property": func(p *handoff.Payload) { p.PropertyID = bff.IDFromBytes(bff.PrefixProperty, [16]byte{1}) },
		"checkIn":  func(p *handoff.Payload) { p.Dates.CheckIn-- },
		"checkOut": func(p *handoff.Payload) { p.Dates.CheckOut++ },
		"adults":   func(p *handoff.Payload) { p.Occupancy.Adults++ },
		"children": func(p *handoff.Payload) { p.Occupancy.Children++ },
		"rooms":    func(p *handoff.Payload) { p.Occupancy.Rooms++ },
		"currency": func(p *handoff.Payload) { p.Currency = bff.USD },
		"locale":   func(p *handoff.Payload) { p.Locale = bff.LocaleDari },
		"minted": func(p *handoff.Payload) {
			p.MintedAt, p.ExpiresAt = bff.At(p.MintedAt.Add(time.Millisecond)), bff.At(p.ExpiresAt.Add(time.Millisecond))
		},
	}
	_, mac := split(t, handoff.Seal(secretA, p))
	for name, change := range changes {
		q := p
		change(&q)
		if _, err := handoff.Verify(ring, handoff.Seal(secretA, q), minted); err != nil {
			t.Errorf("%s changed and signed: %v", name, err)
		}
		if _, err := handoff.Verify(ring, handoff.Encode(q, mac), minted); bff.CodeOf(err) != bff.CodeHandoffSignatureInvalid {
			t.Errorf("%s changed under the old signature: %v", name, err)
		}
	}
}
