package handoff

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	bff "melmastoon.ghasi.io/bff"
)

const (
	version = 1

	maxKeyID  = 32
	maxLocale = 5 // "ps-AF"

	maxRaw   = 1 + 4*16 + 2*2 + 3 + 3 + (1 + maxLocale) + 6 + (1 + maxKeyID) + sha256.Size
	maxToken = (maxRaw*8 + 5) / 6
)

// encoding refuses the unused bits of a last character that are not zero.
var encoding = base64.RawURLEncoding.Strict()

// ErrMalformed is the cause when a token is not one that Mint could have
// written, whatever the key.
var ErrMalformed = errors.New("malformed token")

// appendRaw writes the signed fields in binary. The payload is valid.
func appendRaw(b []byte, p *Payload) []byte {
	b = append(b, version)
	for _, id := range [...]bff.ID{p.ID, p.GuestSessionID, p.TenantID, p.PropertyID} {
		bits := id.Bytes()
		b = append(b, bits[:]...)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(p.Dates.CheckIn))                                //nolint:gosec // validDay
	b = binary.BigEndian.AppendUint16(b, uint16(p.Dates.CheckOut))                               //nolint:gosec // validDay
	b = append(b, byte(p.Occupancy.Adults), byte(p.Occupancy.Children), byte(p.Occupancy.Rooms)) //nolint:gosec // bounded far below a byte
	b = append(b, p.Currency...)
	b = append(append(b, byte(len(p.Locale))), p.Locale...) //nolint:gosec // at most maxLocale
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(p.MintedAt.UnixMilli()))
	b = append(b, ms[2:]...)
	return append(append(b, byte(len(p.KeyID))), p.KeyID...) //nolint:gosec // at most maxKeyID
}

// decoded is a token taken apart.
type decoded struct {
	payload Payload // KeyID is not set
	raw     [maxRaw]byte
	n       int // how much of raw is the token
	key     int // where in raw the key id begins
}

func (d *decoded) keyID() []byte { return d.raw[d.key : d.n-sha256.Size] }
func (d *decoded) mac() []byte   { return d.raw[d.n-sha256.Size : d.n] }

// decode reads a token. It accepts exactly the strings that Mint can write.
func (d *decoded) decode(token string) error {
	if len(token) > maxToken {
		return malformed("too long")
	}
	// The standard decoder skips line breaks, which would give one token many
	// spellings: hence the second check.
	n, err := encoding.Decode(d.raw[:], []byte(token))
	if err != nil || encoding.EncodedLen(n) != len(token) {
		return malformed("not canonical base64url")
	}
	r := reader{b: d.raw[:n]}
	if r.byte() != version {
		return malformed("unknown version")
	}
	p := &d.payload
	p.ID = r.id(bff.PrefixHandoff)
	p.GuestSessionID = r.id(bff.PrefixGuestSession)
	p.TenantID = r.id(bff.PrefixTenant)
	p.PropertyID = r.id(bff.PrefixProperty)
	p.Dates.CheckIn = bff.Date(binary.BigEndian.Uint16(r.take(2)))
	p.Dates.CheckOut = bff.Date(binary.BigEndian.Uint16(r.take(2)))
	p.Occupancy = Occupancy{Adults: int(r.byte()), Children: int(r.byte()), Rooms: int(r.byte())}
	p.Currency, _ = supportedCurrency(r.take(3))
	p.Locale, _ = supportedLocale(r.take(int(r.byte())))
	ms := int64(binary.BigEndian.Uint16(r.take(2)))<<32 | int64(binary.BigEndian.Uint32(r.take(4)))
	keyID := r.take(int(r.byte()))
	d.n, d.key = n, n-sha256.Size-len(keyID)
	r.take(sha256.Size)
	switch {
	case r.short:
		return malformed("too short")
	case len(r.b) != 0:
		return malformed("trailing bytes")
	case !validMinted(ms):
		return malformed("minting time")
	case !validKeyID(keyID):
		return malformed("key id")
	}
	if bad := p.Validate(); bad != nil {
		return malformed(bad[0].Field)
	}
	p.MintedAt = bff.Timestamp{Time: time.UnixMilli(ms).UTC()}
	p.ExpiresAt = bff.Timestamp{Time: p.MintedAt.Add(Lifetime)}
	return nil
}

func malformed(what string) error { return fmt.Errorf("%w: %s", ErrMalformed, what) }

// validKeyID reports whether s is [a-z0-9-]{1,32}.
func validKeyID[S string | []byte](s S) bool {
	if len(s) < 1 || len(s) > maxKeyID {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// reader takes fields off the front of a token. Past the end it hands out
// zeros and remembers.
type reader struct {
	b     []byte
	short bool
}

// zeros is never written to.
var zeros [255]byte

func (r *reader) take(n int) []byte {
	if len(r.b) < n {
		r.b, r.short = nil, true
		return zeros[:n]
	}
	field := r.b[:n]
	r.b = r.b[n:]
	return field
}

func (r *reader) byte() byte { return r.take(1)[0] }

func (r *reader) id(p bff.Prefix) bff.ID { return bff.IDFromBytes(p, [16]byte(r.take(16))) }
