package handoff_test

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	bff "melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/handoff"
)

// refused fails the test unless err is the hand-off error with that code and cause.
func refused(t *testing.T, err error, wantCode bff.Code, wantCause error) {
	t.Helper()
	if got := bff.CodeOf(err); err == nil || got != wantCode || !errors.Is(err, wantCause) {
		t.Errorf("err = %v, want %s caused by %q", err, wantCode, wantCause)
	}
}

func TestMint(t *testing.T) {
	t.Parallel()
	token, p := mint(t, ring(t), claims(), minted.Add(999*time.Microsecond))
	want := handoff.Payload{
		Claims:    claims(),
		MintedAt:  bff.Timestamp{Time: minted}, // cut to the millisecond that is signed
		ExpiresAt: bff.Timestamp{Time: minted.Add(30 * time.Minute)},
		KeyID:     keyA,
	}
	if p != want {
		t.Errorf("payload:\n%s", cmp.Diff(want, p, cmp.Comparer(func(a, b bff.ID) bool { return a == b })))
	}
	const wantCanonical = `v1
bhd_01JSE3MT3VX6K8M2D9R4A7C1PZ
gms_01JSE2ZZZZ0000000000000000
tnt_01H8YN7QV4D8KZ4F8Y5CK4MV3D
ppt_7ZZZZZZZZZZZZZZZZZZZZZZZZZ
2026-05-01
2026-05-04
2
1
1
AFN
ps-AF
2026-04-22T09:30:00.123Z
2026-04-22T10:00:00.123Z
hmac-2026-04`
	if diff := cmp.Diff(wantCanonical, p.Canonical()); diff != "" {
		t.Error("canonical string:\n" + diff)
	}
	if len(token) > 180 {
		t.Errorf("a typical token has %d characters, want at most 180", len(token))
	}
	again, _ := mint(t, ring(t), claims(), minted)
	if again != token {
		t.Error("the same claims at the same time make another token")
	}
}

func TestMintRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*handoff.Claims)
		want   []string
	}{
		{"no ids", func(c *handoff.Claims) {
			c.ID, c.GuestSessionID, c.TenantID, c.PropertyID = bff.ID{}, bff.ID{}, bff.ID{}, bff.ID{}
		}, []string{"handoffId format", "guestSessionId format", "tenantId format", "propertyId format"}},
		{"ids swapped", func(c *handoff.Claims) { c.TenantID, c.PropertyID = c.PropertyID, c.TenantID }, []string{"tenantId format", "propertyId format"}},
		{"no nights", func(c *handoff.Claims) { c.Dates.CheckOut = c.Dates.CheckIn }, []string{"dates.checkOut order"}},
		{"a year and a day", func(c *handoff.Claims) { c.Dates.CheckOut = c.Dates.CheckIn + 366 }, []string{"dates.checkOut range"}},
		{"before 1970", func(c *handoff.Claims) { c.Dates = bff.StayDates{CheckIn: -1, CheckOut: 1} }, []string{"dates.checkIn range"}},
		{"past two bytes", func(c *handoff.Claims) { c.Dates = bff.StayDates{CheckIn: 65535, CheckOut: 65536} }, []string{"dates.checkOut range"}},
		{"nobody", func(c *handoff.Claims) { c.Occupancy = handoff.Occupancy{} }, []string{"occupancy.adults range", "occupancy.rooms range"}},
		{
			"a byte overflowed", func(c *handoff.Claims) { c.Occupancy = handoff.Occupancy{Adults: 257, Children: 256, Rooms: 257} },
			[]string{"occupancy.adults range", "occupancy.children range", "occupancy.rooms range"},
		},
		{"currency", func(c *handoff.Claims) { c.Currency = "afn" }, []string{"currency unsupported"}},
		{"locale", func(c *handoff.Claims) { c.Locale = "ps-af" }, []string{"locale unsupported"}},
		{"a line break", func(c *handoff.Claims) { c.Locale = "en\n" }, []string{"locale unsupported"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := claims()
			tt.change(&c)
			token, p, err := handoff.Mint(ring(t), c, minted)
			e, ok := errors.AsType[*bff.Error](err)
			if !ok || token != "" || p != (handoff.Payload{}) {
				t.Fatalf("Mint = %q, %v, %v, want a refusal", token, p, err)
			}
			var got []string
			for _, f := range e.Fields {
				got = append(got, f.Field+" "+f.Code)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}

	if _, _, err := handoff.Mint(new(handoff.Keyring), claims(), minted); bff.CodeOf(err) != bff.CodeServiceUnavailable || !errors.Is(err, handoff.ErrNoKey) {
		t.Errorf("without a key: %v", err)
	}
	for _, now := range []time.Time{{}, time.UnixMilli(-1), time.Date(9999, 12, 31, 23, 30, 0, 0, time.UTC)} {
		if _, _, err := handoff.Mint(ring(t), claims(), now); bff.CodeOf(err) != bff.CodeInternal {
			t.Errorf("with the clock at %v: %v", now, err)
		}
	}
}

func TestOccupancyOf(t *testing.T) {
	t.Parallel()
	got := handoff.OccupancyOf(bff.Occupancy{Adults: 2, Children: 2, Rooms: 1, ChildrenAges: []int{5, 8}})
	if want := (handoff.Occupancy{Adults: 2, Children: 2, Rooms: 1}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestTampered changes every byte and every character of a token to every
// other value: none may pass, and all must look alike.
func TestTampered(t *testing.T) {
	t.Parallel()
	ring := ring(t)
	token, _ := mint(t, ring, claims(), minted)
	check := func(what string, at int, forged string) {
		if _, err := handoff.Verify(ring, forged, minted); bff.CodeOf(err) != bff.CodeHandoffSignatureInvalid {
			t.Fatalf("%s %d changed: Verify(%q) = %v", what, at, forged, err)
		}
	}
	raw := must(base64.RawURLEncoding.DecodeString(token))(t)
	for i := range raw {
		for x := 1; x < 256; x++ {
			raw[i] ^= byte(x)
			check("byte", i, base64.RawURLEncoding.EncodeToString(raw))
			raw[i] ^= byte(x)
		}
	}
	chars := []byte(token)
	for i := range chars {
		for x := 1; x < 256; x++ {
			chars[i] ^= byte(x)
			check("character", i, string(chars))
			chars[i] ^= byte(x)
		}
	}
}

func TestResized(t *testing.T) {
	t.Parallel()
	ring := ring(t)
	token, _ := mint(t, ring, claims(), minted)
	raw := must(base64.RawURLEncoding.DecodeString(token))(t)
	var forged []string
	for i := range token {
		forged = append(forged, token[:i], token[i+1:], token[:i]+token[i+1:])
		for _, c := range []string{"A", "=", "\n", "\r", " ", "\x00", "é"} {
			forged = append(forged, token[:i]+c+token[i:])
		}
	}
	for i := range raw {
		forged = append(forged,
			base64.RawURLEncoding.EncodeToString(raw[:i]),
			base64.RawURLEncoding.EncodeToString(raw[i+1:]),
			base64.RawURLEncoding.EncodeToString(append(slices.Clip(raw), raw[:i+1]...)))
	}
	forged = append(forged, token+"A", token+"=", token+"\n", token+"\r\n", token+token, strings.Repeat("A", 1<<20),
		base64.URLEncoding.EncodeToString(raw), base64.StdEncoding.EncodeToString(raw)+"+")
	for _, f := range forged {
		if f == token {
			continue // dropping one of two equal neighbours at the front, or padding that is not there
		}
		if _, err := handoff.Verify(ring, f, minted); bff.CodeOf(err) != bff.CodeHandoffSignatureInvalid {
			t.Fatalf("Verify(%q) = %v", f, err)
		}
	}
}

// TestSignedNonsense: a right signature does not excuse a payload that Mint
// would refuse.
func TestSignedNonsense(t *testing.T) {
	t.Parallel()
	ring := ring(t)
	_, good := mint(t, ring, claims(), minted)
	if _, err := handoff.Verify(ring, handoff.Seal(secretA, good), minted); err != nil {
		t.Fatal(err)
	}
	tests := map[string]func(*handoff.Payload){
		"no adults":          func(p *handoff.Payload) { p.Occupancy.Adults = 0 },
		"too many rooms":     func(p *handoff.Payload) { p.Occupancy.Rooms = bff.MaxRooms + 1 },
		"no nights":          func(p *handoff.Payload) { p.Dates.CheckOut = p.Dates.CheckIn },
		"unknown currency":   func(p *handoff.Payload) { p.Currency = "XXX" },
		"lower-case locale":  func(p *handoff.Payload) { p.Locale = "ps-af" },
		"padded locale":      func(p *handoff.Payload) { p.Locale = "en   " },
		"empty locale":       func(p *handoff.Payload) { p.Locale = "" },
		"upper-case key id":  func(p *handoff.Payload) { p.KeyID = "HMAC-2026-04" },
		"key id with a line": func(p *handoff.Payload) { p.KeyID = "hmac\n2026" },
		"empty key id":       func(p *handoff.Payload) { p.KeyID = "" },
		"year 10000":         func(p *handoff.Payload) { p.MintedAt = bff.At(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := good
			change(&p)
			_, err := handoff.Verify(ring, handoff.Seal(secretA, p), minted)
			refused(t, err, bff.CodeHandoffSignatureInvalid, handoff.ErrMalformed)
		})
	}
}

func TestVerifyTime(t *testing.T) {
	t.Parallel()
	ring := ring(t)
	token, want := mint(t, ring, claims(), minted)
	tests := []struct {
		name      string
		after     time.Duration
		wantCode  bff.Code
		wantCause error
	}{
		{"at once", 0, "", nil},
		{"a minute behind", -handoff.MaxSkew, "", nil},
		{"more than a minute behind", -handoff.MaxSkew - 1, bff.CodeHandoffSignatureInvalid, handoff.ErrFuture},
		{"a year behind", -365 * 24 * time.Hour, bff.CodeHandoffSignatureInvalid, handoff.ErrFuture},
		{"at the end of its life", handoff.Lifetime, "", nil}, // expired is expiresAt < now
		{"past the end of its life", handoff.Lifetime + 1, bff.CodeHandoffExpired, handoff.ErrExpired},
		{"a year past", 365 * 24 * time.Hour, bff.CodeHandoffExpired, handoff.ErrExpired},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			// The zone of the verifier's clock must not matter.
			got, err := handoff.Verify(ring, token, minted.Add(tt.after).In(time.FixedZone("AFT", 16200)))
			if tt.wantCode == "" {
				if err != nil || got != want {
					t.Errorf("Verify = %v, %v, want %v", got, err, want)
				}
				return
			}
			refused(t, err, tt.wantCode, tt.wantCause)
			if got != (handoff.Payload{}) {
				t.Error("a refused token must not hand out its payload")
			}
		})
	}
}

func TestVerifyKey(t *testing.T) {
	t.Parallel()
	ring := ring(t)
	token, p := mint(t, ring, claims(), minted)

	other := handoff.NewKeyring(must(handoff.NewKeySet(keyA, secretB, minted))(t))
	_, err := handoff.Verify(other, token, minted)
	refused(t, err, bff.CodeHandoffSignatureInvalid, handoff.ErrSignature)

	other = handoff.NewKeyring(must(handoff.NewKeySet(keyB, secretA, minted))(t))
	_, err = handoff.Verify(other, token, minted)
	refused(t, err, bff.CodeHandoffSignatureInvalid, handoff.ErrUnknownKey)

	_, err = handoff.Verify(new(handoff.Keyring), token, minted)
	refused(t, err, bff.CodeHandoffSignatureInvalid, handoff.ErrUnknownKey)

	// The key id is signed: a token moved to another id fails even where both
	// ids exist and, by mistake, the secret would be the right one.
	p.KeyID = keyB
	_, mac := split(t, token)
	moved := handoff.Encode(p, mac)
	_, err = handoff.Verify(other, moved, minted)
	refused(t, err, bff.CodeHandoffSignatureInvalid, handoff.ErrSignature)
}

func TestInspect(t *testing.T) {
	t.Parallel()
	token, want := mint(t, ring(t), claims(), minted)
	got, err := handoff.Inspect(token)
	if err != nil || got != want {
		t.Errorf("Inspect = %v, %v, want %v", got, err, want)
	}
	// It does not verify: that is what its name warns of.
	forged := handoff.Encode(want, make([]byte, 32))
	if got, err = handoff.Inspect(forged); err != nil || got != want {
		t.Errorf("Inspect = %v, %v, want %v", got, err, want)
	}
	_, err = handoff.Inspect(token[1:])
	refused(t, err, bff.CodeHandoffSignatureInvalid, handoff.ErrMalformed)
}

// TestRefusalsLookAlike: a client must not learn which check a forgery failed.
func TestRefusalsLookAlike(t *testing.T) {
	t.Parallel()
	ring := ring(t)
	_, p := mint(t, ring, claims(), minted)
	unknown := p
	unknown.KeyID = keyB
	details := map[string]bool{}
	for _, token := range []string{"", "!", handoff.Seal(secretB, p), handoff.Seal(secretA, unknown)} {
		_, err := handoff.Verify(ring, token, minted)
		e, ok := errors.AsType[*bff.Error](err)
		if !ok {
			t.Fatalf("Verify(%q) = %v", token, err)
		}
		details[e.Detail] = true
	}
	if len(details) != 1 {
		t.Errorf("details differ: %v", details)
	}
}
