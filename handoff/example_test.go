package handoff_test

import (
	"errors"
	"fmt"
	"time"

	bff "melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/handoff"
)

// A keyring as the secret store hands it to both sides.
const exampleFile = `{"keys":[
	{"id":"hmac-2026-04","state":"active","secret":"ZXhhbXBsZSBzZWNyZXQsIDMyIGJ5dGVzIG9yIG1vcmU=","activatedAt":"2026-04-01T00:00:00.000Z"}
]}`

func exampleClaims() handoff.Claims {
	dates := bff.StayDates{}
	dates.CheckIn, _ = bff.ParseDate("2026-05-01")
	dates.CheckOut, _ = bff.ParseDate("2026-05-04")
	return handoff.Claims{
		ID:             bff.MustParseID(bff.PrefixHandoff, "bhd_01JSE3MT3VX6K8M2D9R4A7C1PZ"),
		GuestSessionID: bff.MustParseID(bff.PrefixGuestSession, "gms_01JSE2ZZZZ0000000000000000"),
		TenantID:       bff.MustParseID(bff.PrefixTenant, "tnt_01H8YN7QV4D8KZ4F8Y5CK4MV3D"),
		PropertyID:     bff.MustParseID(bff.PrefixProperty, "ppt_01H8YN7QV4D8KZ4F8Y5CK4MV3E"),
		Dates:          dates,
		Occupancy:      handoff.Occupancy{Adults: 2, Rooms: 1},
		Currency:       bff.AFN,
		Locale:         bff.LocaleDari,
	}
}

// The minting side.
func ExampleMint() {
	keys, err := handoff.ParseKeySet([]byte(exampleFile))
	if err != nil {
		fmt.Println(err)
		return
	}
	ring := handoff.NewKeyring(keys)

	now := time.Date(2026, 4, 22, 9, 30, 0, 0, time.UTC)
	token, payload, err := handoff.Mint(ring, exampleClaims(), now)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("https://kabul-inn.melmastoon.ghasi.io/book?h=" + token[:16] + "…")
	fmt.Println(len(token), "characters, valid until", payload.ExpiresAt)
	// Output:
	// https://kabul-inn.melmastoon.ghasi.io/book?h=AQGWXDpoe-mmigmp…
	// 176 characters, valid until 2026-04-22T10:00:00.000Z
}

// The receiving side: verify, check the tenant, consume, and only then show
// something.
func ExampleVerify() {
	keys, err := handoff.ParseKeySet([]byte(exampleFile))
	if err != nil {
		fmt.Println(err)
		return
	}
	ring := handoff.NewKeyring(keys)
	now := time.Date(2026, 4, 22, 9, 30, 0, 0, time.UTC)
	token, _, _ := handoff.Mint(ring, exampleClaims(), now)
	site := bff.MustParseID(bff.PrefixTenant, "tnt_01H8YN7QV4D8KZ4F8Y5CK4MV3D")

	for _, at := range []time.Time{now.Add(time.Minute), now.Add(time.Hour)} {
		payload, err := handoff.Verify(ring, token, at)
		switch {
		case err != nil:
			fmt.Println("answer", bff.CodeOf(err).Info().Status, bff.CodeOf(err))
		case payload.TenantID != site:
			fmt.Println("answer 404: a token for another hotel")
		default:
			fmt.Println("consume", payload.ID, "for", payload.Dates.Nights(), "nights in", payload.Locale)
		}
	}
	// Output:
	// consume bhd_01JSE3MT3VX6K8M2D9R4A7C1PZ for 3 nights in fa-AF
	// answer 410 MELMASTOON.BFF.CONSUMER.HANDOFF_EXPIRED
}

// A rotation: the new key becomes known, then signs; the old one verifies on
// until its last token has died.
func ExampleKeySet_Promote() {
	keys, err := handoff.ParseKeySet([]byte(exampleFile))
	if err != nil {
		fmt.Println(err)
		return
	}
	promotion := time.Date(2026, 7, 1, 9, 0, 0, 0, time.UTC)

	keys, err = keys.Add("hmac-2026-07", []byte("another secret, fresh from a random source"))
	fmt.Println(keys, err)
	keys, err = keys.Promote("hmac-2026-07", promotion)
	fmt.Println(keys, err)
	_, err = keys.Retire("hmac-2026-04", promotion.Add(10*time.Minute))
	fmt.Println(err)
	keys, err = keys.Retire("hmac-2026-04", promotion.Add(30*time.Minute))
	fmt.Println(keys, err)
	// Output:
	// keyring [hmac-2026-04 (active), hmac-2026-07 (pending)] <nil>
	// keyring [hmac-2026-04 (grace), hmac-2026-07 (active)] <nil>
	// retire key: hmac-2026-04 (grace) may still have living tokens until 2026-07-01T09:30:00Z
	// keyring [hmac-2026-04 (retired), hmac-2026-07 (active)] <nil>
}

// Causes are for the log; the client gets the code.
func ExampleVerify_refused() {
	keys, err := handoff.NewKeySet("hmac-2026-04", []byte("example secret, 32 bytes or more"), time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = handoff.Verify(handoff.NewKeyring(keys), "AQGW", time.Date(2026, 4, 22, 9, 30, 0, 0, time.UTC))
	fmt.Println(bff.CodeOf(err), errors.Is(err, handoff.ErrMalformed))
	// Output:
	// MELMASTOON.BFF.CONSUMER.HANDOFF_SIGNATURE_INVALID true
}
