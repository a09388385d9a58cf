package handoff_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	bff "melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/handoff"
)

var update = flag.Bool("update", false, "write contracts/handoff/vectors.json anew")

const vectorsPath = "../contracts/handoff/vectors.json"

// vectors is the file that every implementation is held to.
type vectors struct {
	Description     string          `json:"description"`
	LifetimeSeconds int             `json:"lifetimeSeconds"`
	MaxSkewSeconds  int             `json:"maxSkewSeconds"`
	Keyring         json.RawMessage `json:"keyring"`
	Vectors         []vector        `json:"vectors"`
}

type vector struct {
	Name      string           `json:"name"`
	Now       bff.Timestamp    `json:"now"`
	Token     string           `json:"token"`
	Payload   *handoff.Payload `json:"payload,omitempty"`
	Canonical string           `json:"canonical,omitempty"`
	Code      bff.Code         `json:"code,omitempty"`
	Reason    string           `json:"reason,omitempty"`
}

// reasons names the causes in the file.
var reasons = map[string]error{
	"malformed":   handoff.ErrMalformed,
	"unknown-key": handoff.ErrUnknownKey,
	"signature":   handoff.ErrSignature,
	"future":      handoff.ErrFuture,
	"expired":     handoff.ErrExpired,
}

// Ids of other lengths than the usual: the longest, and one whose tokens do
// not fill their last base64 character.
const keyLong, keyShort = "longest-key-id-has-32-characters", "k1"

// vectorRing has keys in every state: hmac-2026-01 retired, -04 and the odd
// ones in grace, -07 active, -10 pending.
func vectorRing(t *testing.T) *handoff.KeySet {
	t.Helper()
	day := func(s string) time.Time { return date(s).Time() }
	set := must(handoff.NewKeySet("hmac-2026-01", secretOld, day("2026-01-01")))(t)
	set = must(set.Add(keyA, secretA))(t)
	set = must(set.Promote(keyA, day("2026-04-01")))(t)
	set = must(set.Retire("hmac-2026-01", day("2026-04-02")))(t)
	set = must(set.Add(keyLong, secretLong))(t)
	set = must(set.Promote(keyLong, day("2026-04-03")))(t)
	set = must(set.Add(keyShort, secretShort))(t)
	set = must(set.Promote(keyShort, day("2026-04-04")))(t)
	set = must(set.Add(keyB, secretB))(t)
	set = must(set.Promote(keyB, minted.Add(-5*time.Minute)))(t)
	return must(set.Add(keyC, secretC))(t)
}

func makeVectors(t *testing.T) vectors {
	t.Helper()
	set := vectorRing(t)
	ring := handoff.NewKeyring(set)
	token, good := mint(t, ring, claims(), minted)
	var list []vector

	accept := func(name, token string, now time.Time) {
		p := must(handoff.Inspect(token))(t)
		list = append(list, vector{Name: name, Now: bff.At(now), Token: token, Payload: &p, Canonical: p.Canonical()})
	}
	refuse := func(name, reason, token string, now time.Time) {
		code := bff.CodeHandoffSignatureInvalid
		if reason == "expired" {
			code = bff.CodeHandoffExpired
		}
		list = append(list, vector{Name: name, Now: bff.At(now), Token: token, Code: code, Reason: reason})
	}
	changed := func(secret []byte, change func(*handoff.Payload)) string {
		p := good
		change(&p)
		return handoff.Seal(secret, p)
	}
	rekeyed := func(id string) func(*handoff.Payload) { return func(p *handoff.Payload) { p.KeyID = id } }

	accept("active key", token, minted)
	accept("key in grace", changed(secretA, rekeyed(keyA)), minted)
	accept("longest key id", changed(secretLong, rekeyed(keyLong)), minted)
	short := changed(secretShort, rekeyed(keyShort))
	accept("short key id", short, minted)
	accept("a minute ahead of the verifier", token, minted.Add(-handoff.MaxSkew))
	accept("last millisecond of its life", token, minted.Add(handoff.Lifetime))
	for _, c := range bff.Currencies() {
		accept("currency "+string(c), changed(secretB, func(p *handoff.Payload) { p.Currency = c }), minted)
	}
	for _, l := range bff.Locales() {
		accept("locale "+string(l), changed(secretB, func(p *handoff.Payload) { p.Locale = l }), minted)
	}
	accept("largest party", changed(secretB, func(p *handoff.Payload) {
		p.Occupancy = handoff.Occupancy{Adults: bff.MaxAdults, Children: bff.MaxChildren, Rooms: bff.MaxRooms}
	}), minted)
	accept("longest stay over a leap day", changed(secretB, func(p *handoff.Payload) {
		p.Dates = bff.StayDates{CheckIn: date("2027-12-31"), CheckOut: date("2028-12-30")}
	}), minted)
	accept("last day that fits", changed(secretB, func(p *handoff.Payload) {
		p.Dates = bff.StayDates{CheckIn: date("2148-06-06"), CheckOut: date("2149-06-06")}
	}), minted)
	accept("ids of zeros and ones", changed(secretB, func(p *handoff.Payload) {
		p.ID = bff.IDFromBytes(bff.PrefixHandoff, [16]byte{})
		p.TenantID = bff.IDFromBytes(bff.PrefixTenant, [16]byte(bytes.Repeat([]byte{0xff}, 16)))
	}), minted)
	newYear := time.Date(2027, 12, 31, 23, 45, 0, 1e6, time.UTC)
	accept("over the new year", changed(secretB, func(p *handoff.Payload) {
		p.MintedAt, p.ExpiresAt = bff.At(newYear), bff.At(newYear.Add(handoff.Lifetime))
	}), newYear)

	refuse("a millisecond past its life", "expired", token, minted.Add(handoff.Lifetime+time.Millisecond))
	refuse("a day past its life", "expired", token, minted.Add(24*time.Hour))
	refuse("more than a minute ahead of the verifier", "future", token, minted.Add(-handoff.MaxSkew-time.Millisecond))

	refuse("pending key", "unknown-key", changed(secretC, rekeyed(keyC)), minted)
	refuse("retired key", "unknown-key", changed(secretOld, rekeyed("hmac-2026-01")), minted)
	refuse("unknown key", "unknown-key", changed(secretB, rekeyed("hmac-1999-12")), minted)

	fields, mac := split(t, token)
	join := func(parts ...[]byte) string { return base64.RawURLEncoding.EncodeToString(bytes.Join(parts, nil)) }
	patched := func(at int, b byte) string {
		f := bytes.Clone(fields)
		f[at] = b
		return join(f, mac)
	}
	refuse("wrong secret", "signature", handoff.Seal(secretA, good), minted)
	refuse("key id moved to the key in grace", "signature", func() string {
		p := good
		p.KeyID = keyA
		return handoff.Encode(p, mac)
	}(), minted)
	refuse("another tenant", "signature", patched(1+2*16, fields[1+2*16]^1), minted)
	refuse("one guest more", "signature", patched(69, fields[69]+1), minted)
	refuse("a later minting time", "signature", patched(len(fields)-len(keyB)-2, fields[len(fields)-len(keyB)-2]+1), minted)
	refuse("no MAC but zeros", "signature", join(fields, make([]byte, 32)), minted)
	refuse("tampered and past its life", "signature", patched(69, fields[69]+1), minted.Add(time.Hour))

	refuse("empty", "malformed", "", minted)
	refuse("a word", "malformed", "hello", minted)
	refuse("a character short", "malformed", token[:len(token)-1], minted)
	refuse("a byte short", "malformed", join(fields, mac[:31]), minted)
	refuse("a trailing byte", "malformed", join(fields, mac, []byte{0}), minted)
	refuse("padded", "malformed", short+"=", minted)
	refuse("unused bits set", "malformed", looseBits(t, short), minted)
	refuse("a line break at the end", "malformed", token+"\n", minted)
	refuse("a line break inside", "malformed", token[:40]+"\r\n"+token[40:], minted)
	refuse("a space inside", "malformed", token[:40]+" "+token[40:], minted)
	refuse("standard alphabet", "malformed", "+/+/"+token[4:], minted)
	refuse("not ASCII", "malformed", token[:40]+"é"+token[42:], minted)
	refuse("far too long", "malformed", strings.Repeat("A", 4096), minted)
	refuse("version 0", "malformed", patched(0, 0), minted)
	refuse("version 2", "malformed", patched(0, 2), minted)
	refuse("key id longer than the token", "malformed", patched(len(fields)-len(keyB)-1, 255), minted)

	nonsense := func(name string, change func(*handoff.Payload)) {
		refuse("rightly signed: "+name, "malformed", changed(secretB, change), minted)
	}
	nonsense("no adults", func(p *handoff.Payload) { p.Occupancy.Adults = 0 })
	nonsense("31 adults", func(p *handoff.Payload) { p.Occupancy.Adults = bff.MaxAdults + 1 })
	nonsense("21 children", func(p *handoff.Payload) { p.Occupancy.Children = bff.MaxChildren + 1 })
	nonsense("no rooms", func(p *handoff.Payload) { p.Occupancy.Rooms = 0 })
	nonsense("16 rooms", func(p *handoff.Payload) { p.Occupancy.Rooms = bff.MaxRooms + 1 })
	nonsense("no nights", func(p *handoff.Payload) { p.Dates.CheckOut = p.Dates.CheckIn })
	nonsense("nights backwards", func(p *handoff.Payload) { p.Dates.CheckOut = p.Dates.CheckIn - 1 })
	nonsense("366 nights", func(p *handoff.Payload) { p.Dates.CheckOut = p.Dates.CheckIn + bff.MaxNights + 1 })
	nonsense("unknown currency", func(p *handoff.Payload) { p.Currency = "XXX" })
	nonsense("lower-case currency", func(p *handoff.Payload) { p.Currency = "afn" })
	nonsense("unknown locale", func(p *handoff.Payload) { p.Locale = "fr" })
	nonsense("locale in another case", func(p *handoff.Payload) { p.Locale = "ps-af" })
	nonsense("no locale", func(p *handoff.Payload) { p.Locale = "" })
	nonsense("no key id", func(p *handoff.Payload) { p.KeyID = "" })
	nonsense("key id in capitals", func(p *handoff.Payload) { p.KeyID = "HMAC-2026-07" })
	nonsense("year 10000", func(p *handoff.Payload) { p.MintedAt = bff.At(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)) })

	return vectors{
		Description:     "Hand-off tokens with fixed keys and times. Written by go test ./handoff -run TestVectors -update; see README.md.",
		LifetimeSeconds: int(handoff.Lifetime.Seconds()),
		MaxSkewSeconds:  int(handoff.MaxSkew.Seconds()),
		Keyring:         must(set.EncodeFile())(t),
		Vectors:         list,
	}
}

// looseBits returns another spelling of a token, with unused bits of the last
// character set, that a lenient decoder would take for the same bytes.
func looseBits(t *testing.T, token string) string {
	t.Helper()
	raw := must(base64.RawURLEncoding.DecodeString(token))(t)
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
		loose := token[:len(token)-1] + string(c)
		if got, err := base64.RawURLEncoding.DecodeString(loose); err == nil && bytes.Equal(got, raw) && loose != token {
			return loose
		}
	}
	t.Fatal("the token has no unused bits")
	return ""
}

func TestVectors(t *testing.T) {
	t.Parallel()
	want, err := json.MarshalIndent(makeVectors(t), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile(vectorsPath, want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(vectorsPath)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(file, want) {
		t.Errorf("%s is not what this package says; if it should be, run go test ./handoff -run TestVectors -update", vectorsPath)
	}

	var v vectors
	if err := json.Unmarshal(file, &v); err != nil {
		t.Fatal(err)
	}
	ring := handoff.NewKeyring(must(handoff.ParseKeySet(v.Keyring))(t))
	seen := map[string]bool{}
	for _, tt := range v.Vectors {
		if seen[tt.Name] {
			t.Errorf("two vectors are named %q", tt.Name)
		}
		seen[tt.Name] = true
		got, err := handoff.Verify(ring, tt.Token, tt.Now.Time)
		if tt.Payload != nil {
			if err != nil || got != *tt.Payload || got.Canonical() != tt.Canonical {
				t.Errorf("%s: Verify = %v, %v", tt.Name, got, err)
			}
			continue
		}
		if bff.CodeOf(err) != tt.Code || !errors.Is(err, reasons[tt.Reason]) {
			t.Errorf("%s: Verify = %v, want %s, %s", tt.Name, err, tt.Code, tt.Reason)
		}
	}
}
