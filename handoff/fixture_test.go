package handoff_test

import (
	"crypto/sha256"
	"encoding/base64"
	"testing"
	"time"

	bff "melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/handoff"
)

// Fixed keys and times: every token of these tests is the same in every run.
var (
	minted      = time.Date(2026, 4, 22, 9, 30, 0, 123e6, time.UTC)
	secretLong  = []byte("test-only secret L: it may be longer than one block of the hash function, which then hashes it")
	secretShort = []byte("test-only secret S: 32 bytes min")
	secretOld   = []byte("test-only secret 0: 32 bytes min")
	secretA     = []byte("test-only secret A: 32 bytes min")
	secretB     = []byte("test-only secret B: 32 bytes min")
	secretC     = []byte("test-only secret C: 32 bytes min")
)

const keyA, keyB, keyC = "hmac-2026-04", "hmac-2026-07", "hmac-2026-10"

func claims() handoff.Claims {
	return handoff.Claims{
		ID:             bff.MustParseID(bff.PrefixHandoff, "bhd_01JSE3MT3VX6K8M2D9R4A7C1PZ"),
		GuestSessionID: bff.MustParseID(bff.PrefixGuestSession, "gms_01JSE2ZZZZ0000000000000000"),
		TenantID:       bff.MustParseID(bff.PrefixTenant, "tnt_01H8YN7QV4D8KZ4F8Y5CK4MV3D"),
		PropertyID:     bff.MustParseID(bff.PrefixProperty, "ppt_7ZZZZZZZZZZZZZZZZZZZZZZZZZ"),
		Dates:          bff.StayDates{CheckIn: date("2026-05-01"), CheckOut: date("2026-05-04")},
		Occupancy:      handoff.Occupancy{Adults: 2, Children: 1, Rooms: 1},
		Currency:       bff.AFN,
		Locale:         bff.LocalePashto,
	}
}

func date(s string) bff.Date {
	d, err := bff.ParseDate(s)
	if err != nil {
		panic(err)
	}
	return d
}

// ring holds keyA, active.
func ring(tb testing.TB) *handoff.Keyring {
	tb.Helper()
	return handoff.NewKeyring(must(handoff.NewKeySet(keyA, secretA, minted.Add(-time.Hour)))(tb))
}

// must fails the test on an error.
func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

func mint(tb testing.TB, ring *handoff.Keyring, c handoff.Claims, now time.Time) (string, handoff.Payload) {
	tb.Helper()
	token, p, err := handoff.Mint(ring, c, now)
	if err != nil {
		tb.Fatal(err)
	}
	return token, p
}

// split returns the signed fields and the MAC of a token.
func split(tb testing.TB, token string) (fields, mac []byte) {
	tb.Helper()
	raw := must(base64.RawURLEncoding.DecodeString(token))(tb)
	return raw[:len(raw)-sha256.Size], raw[len(raw)-sha256.Size:]
}
