package bff

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// Prefix says what kind of thing an ID names. It stands before the underscore
// on the wire.
type Prefix string

// The prefixes of the platform's registry that the two services read or write.
const (
	PrefixGuestSession    Prefix = "gms"
	PrefixSearchSession   Prefix = "srs"
	PrefixWishlist        Prefix = "wsh"
	PrefixHandoff         Prefix = "bhd"
	PrefixPageView        Prefix = "mpv"
	PrefixFunnelEvent     Prefix = "cfe"
	PrefixEvent           Prefix = "evt"
	PrefixRequest         Prefix = "req"
	PrefixBotScore        Prefix = "bsl"
	PrefixTenant          Prefix = "tnt"
	PrefixProperty        Prefix = "ppt"
	PrefixRoomType        Prefix = "rmt"
	PrefixRatePlan        Prefix = "rpl"
	PrefixTheme           Prefix = "thm"
	PrefixThemeVersion    Prefix = "thv"
	PrefixFxSnapshot      Prefix = "fxs"
	PrefixOperator        Prefix = "opt"
	PrefixDevice          Prefix = "dev"
	PrefixReservation     Prefix = "rsv"
	PrefixFolio           Prefix = "fol"
	PrefixBackofficeLogin Prefix = "bos"
	PrefixAIInbox         Prefix = "aim"
	PrefixAlertInbox      Prefix = "ali"
	PrefixActivity        Prefix = "act"
	PrefixDeviceSync      Prefix = "dsy"
	PrefixOfflineHint     Prefix = "oaq"
	PrefixLockAudit       Prefix = "lap"
	PrefixMFA             Prefix = "mfa"
	PrefixDecision        Prefix = "sdl"
)

// prefixAliases are spellings that other producers on the platform use for the
// same thing. They are understood on input and never written.
var prefixAliases = map[Prefix]Prefix{
	"ten":    PrefixTenant,
	"tenant": PrefixTenant,
	"prp":    PrefixProperty,
	"prop":   PrefixProperty,
	"pty":    PrefixProperty,
}

// ErrID is wrapped by every error that refuses an id.
var ErrID = errors.New("malformed id")

// ID is a prefixed ULID such as tnt_01H8YN7QV4D8KZ4F8Y5CK4MV3D. The same 128
// bits stand in uuid columns; the conversion loses nothing. The zero ID is "no
// id" and is written as the empty string.
type ID struct {
	prefix Prefix
	bits   ulid.ULID
}

// NewID returns a fresh id whose 80 random bits come from the system's secure
// source: a guest-session id is a bearer secret and must not be guessable.
func NewID(p Prefix, now time.Time) ID {
	var u ulid.ULID
	if err := u.SetTime(ulid.Timestamp(now)); err != nil {
		// Only a clock outside the years 1970–10889 gets here; the random bits
		// alone keep the id unique.
		u = ulid.ULID{}
	}
	randomBits(u[6:])
	return ID{prefix: p, bits: u}
}

// ParseID reads an id of the wanted kind. It accepts the known aliases of the
// prefix and either letter case; what it returns is canonical.
func ParseID(want Prefix, s string) (ID, error) {
	p, rest, ok := strings.Cut(s, "_")
	if !ok {
		return ID{}, fmt.Errorf("%w: no prefix, want %s_<ULID>", ErrID, want)
	}
	got := Prefix(p)
	if a, known := prefixAliases[got]; known {
		got = a
	}
	if got != want {
		return ID{}, fmt.Errorf("%w: wrong prefix, want %s_<ULID>", ErrID, want)
	}
	u, err := ulid.ParseStrict(rest)
	if err != nil {
		return ID{}, fmt.Errorf("%w: want %s_<ULID>", ErrID, want)
	}
	return ID{prefix: want, bits: u}, nil
}

// MustParseID is ParseID for constants in tests and data sets.
func MustParseID(want Prefix, s string) ID {
	id, err := ParseID(want, s)
	if err != nil {
		panic(err)
	}
	return id
}

// IDFromBytes names the given 128 bits.
func IDFromBytes(p Prefix, b [16]byte) ID { return ID{prefix: p, bits: b} }

// IDFromUUID reads the hyphenated hexadecimal form that Postgres and some
// upstreams use for the same bits.
func IDFromUUID(p Prefix, s string) (ID, error) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return ID{}, fmt.Errorf("%w: want a UUID", ErrID)
	}
	var b [16]byte
	if _, err := hex.Decode(b[:], []byte(s[0:8]+s[9:13]+s[14:18]+s[19:23]+s[24:36])); err != nil {
		return ID{}, fmt.Errorf("%w: want a UUID", ErrID)
	}
	return IDFromBytes(p, b), nil
}

// Prefix returns the kind of thing that the id names.
func (id ID) Prefix() Prefix { return id.prefix }

// Bytes returns the 128 bits, as uuid columns hold them.
func (id ID) Bytes() [16]byte { return id.bits }

// IsZero reports whether there is no id.
func (id ID) IsZero() bool { return id.prefix == "" }

// Time returns the moment that the id carries.
func (id ID) Time() time.Time { return ulid.Time(id.bits.Time()).UTC() }

// String returns the wire form.
func (id ID) String() string {
	var b [48]byte
	return string(id.appendTo(b[:0]))
}

func (id ID) appendTo(b []byte) []byte {
	if id.IsZero() {
		return b
	}
	b = append(append(b, id.prefix...), '_')
	at := len(b)
	b = append(b, make([]byte, ulid.EncodedSize)...)
	_ = id.bits.MarshalTextTo(b[at:]) // fails only without room
	return b
}

// ULID returns the 26 characters without the prefix.
func (id ID) ULID() string { return id.bits.String() }

// UUID returns the same bits in hyphenated hexadecimal.
func (id ID) UUID() string {
	h := hex.EncodeToString(id.bits[:])
	return h[0:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// MarshalText writes the wire form.
func (id ID) MarshalText() ([]byte, error) { return id.appendTo(nil), nil }

// AppendText appends the wire form.
func (id ID) AppendText(b []byte) ([]byte, error) { return id.appendTo(b), nil }

// UnmarshalText reads the wire form of any kind; callers that need one kind
// check Prefix or use ParseID.
func (id *ID) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*id = ID{}
		return nil
	}
	p, _, _ := strings.Cut(string(b), "_")
	want := Prefix(p)
	if a, known := prefixAliases[want]; known {
		want = a
	}
	if !want.wellFormed() {
		return fmt.Errorf("%w: no prefix", ErrID)
	}
	got, err := ParseID(want, string(b))
	if err != nil {
		return err
	}
	*id = got
	return nil
}

// wellFormed reports whether p is one to eight lower-case letters. An id of any
// kind is still an id: it must not carry a line break or a quote into a log, a
// key or a signed string.
func (p Prefix) wellFormed() bool {
	for _, c := range []byte(p) {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	return p != "" && len(p) <= 8
}

// ParseRequestID reads X-Request-Id: a ULID, bare or with the req_ prefix, or
// a UUID of the same bits as some proxies mint them.
func ParseRequestID(s string) (ID, error) {
	switch {
	case strings.HasPrefix(s, string(PrefixRequest)+"_"):
		return ParseID(PrefixRequest, s)
	case len(s) == 36:
		return IDFromUUID(PrefixRequest, s)
	default:
		return ParseID(PrefixRequest, string(PrefixRequest)+"_"+s)
	}
}

// Sequence hands out ids that strictly increase within one process, so that
// rows drained in id order keep the order in which they were made even when
// many fall into one millisecond.
type Sequence struct {
	prefix Prefix
	mu     sync.Mutex
	last   ulid.ULID
}

// NewSequence returns a Sequence for one kind of id.
func NewSequence(p Prefix) *Sequence {
	s := &Sequence{prefix: p}
	s.begin(0) // a clock that no id can carry still leads to unique ids
	return s
}

// Next returns the next id. A clock that steps back does not break the order.
func (s *Sequence) Next(now time.Time) ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.last.Time()
	// A time before 1970 wraps round to one far beyond the last that an id can
	// carry. Taking it would stop the sequence for good.
	if ms := ulid.Timestamp(now); ms > last && ms <= ulid.MaxTime() {
		s.begin(ms)
	} else if !s.step() { // the millisecond's 2^80 space overflowed: take the next one
		s.begin(last + 1)
	}
	return ID{prefix: s.prefix, bits: s.last}
}

// begin takes the first id of a millisecond, anywhere in its space.
func (s *Sequence) begin(ms uint64) {
	_ = s.last.SetTime(ms) // fails only beyond the year 10889, where the random bits go on alone
	randomBits(s.last[6:])
}

// step moves on within a millisecond, by so much that no client can tell from one
// id what its neighbour is. It reports whether there was room.
func (s *Sequence) step() bool {
	var width [4]byte
	randomBits(width[:])
	low, carry := bits.Add64(binary.BigEndian.Uint64(s.last[8:]), uint64(binary.BigEndian.Uint32(width[:]))+1, 0)
	high := uint64(binary.BigEndian.Uint16(s.last[6:])) + carry
	if high > math.MaxUint16 {
		return false
	}
	binary.BigEndian.PutUint64(s.last[8:], low)
	binary.BigEndian.PutUint16(s.last[6:], uint16(high))
	return true
}

// drawn are bytes of the system's secure source that were not used yet.
type drawn struct {
	bytes [4096]byte
	left  int
}

// unused keeps what is drawn, apart for each processor: the source costs a
// system call however little one asks of it, and every request asks twice.
var unused = sync.Pool{New: func() any { return new(drawn) }}

// randomBits fills b, a few bytes, from the system's secure source. What it
// hands out it forgets, so that no later look at the memory shows a session's id.
func randomBits(b []byte) {
	d, _ := unused.Get().(*drawn)
	if d.left < len(b) {
		_, _ = rand.Read(d.bytes[:]) // never fails: it aborts the program instead
		d.left = len(d.bytes)
	}
	from := d.bytes[d.left-len(b) : d.left]
	copy(b, from)
	clear(from)
	d.left -= len(b)
	unused.Put(d)
}
