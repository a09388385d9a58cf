package guest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash"
	"sync"
	"sync/atomic"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/handoff"
	"melmastoon.ghasi.io/bff/internal/consumer"
)

// A card on the wire, in base64url without padding; integers are big-endian.
//
//	1   version, 1
//	16  session id: the ULID's bits
//	3   currency
//	1+n locale: length, then the tag as it is written in the supported set
//	1   bits: telemetry 1, marketing 2, chosen 4, silent 8
//	4   time: seconds since 1970-01-01
//	1+n key id: length, then the id
//	32  HMAC-SHA256 of all before
//
// Decoding is strict: what it accepts, encodes to the same characters again.
const (
	cardVersion = 1

	maxCardLocale = 8
	maxCardKeyID  = 32
	maxCardRaw    = 1 + 16 + 3 + (1 + maxCardLocale) + 1 + 4 + (1 + maxCardKeyID) + sha256.Size
	maxCardText   = (maxCardRaw*8 + 5) / 6

	cardTelemetry, cardMarketing, cardChosen, cardSilent = 1, 2, 4, 8
)

// cardEncoding refuses the unused bits of a last character that are not zero.
var cardEncoding = base64.RawURLEncoding.Strict()

// cardPurpose separates the keys of cards from every other use of a keyring.
const cardPurpose = "melmastoon guest card v1"

// Why a card does not count.
var (
	ErrCardMalformed = errors.New("malformed card")
	ErrCardKey       = errors.New("the card's key is neither active nor in grace")
	ErrCardMAC       = errors.New("the card was not made here")
	ErrCardTime      = errors.New("the card is too old or from the future")
	errNoCardKey     = errors.New("no active key for cards")
)

// Cards makes and verifies cards. It is safe for concurrent use; a replaced set of
// keys counts from the next card on.
type Cards struct {
	ring *handoff.Keyring
	keys atomic.Pointer[cardKeys]
}

// NewCards returns the maker of cards with a ring of keys.
func NewCards(ring *handoff.Keyring) *Cards { return &Cards{ring: ring} }

// cardKeys are the keys that follow from a set.
type cardKeys struct {
	from   *handoff.KeySet
	active *cardKey
	all    []*cardKey // active and in grace
}

type cardKey struct {
	id   string
	macs sync.Pool // of *cardMAC, keyed: that is half of the work
}

// cardMAC is one HMAC state with the room to work in.
type cardMAC struct {
	mac hash.Hash
	raw [maxCardRaw]byte
	sum [sha256.Size]byte
}

// sign returns the MAC of the first n bytes; the next call overwrites it.
func (m *cardMAC) sign(n int) []byte {
	m.mac.Reset()
	_, _ = m.mac.Write(m.raw[:n]) // a hash never fails
	return m.mac.Sum(m.sum[:0])
}

// current returns the keys in use. Two requests that find a new set at once both
// derive the same.
func (c *Cards) current() *cardKeys {
	set := c.ring.KeySet()
	if k := c.keys.Load(); k != nil && k.from == set {
		return k
	}
	keys := &cardKeys{from: set}
	for _, k := range set.Keys() {
		if k.State() != handoff.Active && k.State() != handoff.Grace {
			continue
		}
		secret := k.Derive(cardPurpose)
		key := &cardKey{id: k.ID()}
		key.macs.New = func() any { return &cardMAC{mac: hmac.New(sha256.New, secret)} }
		keys.all = append(keys.all, key)
		if k.State() == handoff.Active {
			keys.active = key
		}
	}
	c.keys.Store(keys)
	return keys
}

// Keys returns the set that cards are verified with now.
func (c *Cards) Keys() *handoff.KeySet { return c.ring.KeySet() }

// Mint writes a card with the active key.
func (c *Cards) Mint(card consumer.Card) (string, error) {
	key := c.current().active
	if key == nil {
		return "", errNoCardKey
	}
	if !writable(card) {
		return "", ErrCardMalformed
	}
	m, _ := key.macs.Get().(*cardMAC)
	defer key.macs.Put(m)
	raw := appendCard(m.raw[:0], card)
	raw = append(append(raw, byte(len(key.id))), key.id...) //nolint:gosec // at most maxCardKeyID
	raw = append(raw, m.sign(len(raw))...)
	return cardEncoding.EncodeToString(raw), nil
}

// Verify reads a card that was made here and is neither too old nor from the
// future.
func (c *Cards) Verify(text string, now time.Time) (consumer.Card, error) {
	var d decodedCard
	if !d.decode(text) {
		return consumer.Card{}, ErrCardMalformed
	}
	for _, key := range c.current().all {
		if key.id != string(d.keyID()) { // ids are public: no constant time is needed
			continue
		}
		m, _ := key.macs.Get().(*cardMAC)
		copy(m.raw[:], d.raw[:d.n])
		genuine := hmac.Equal(m.sign(d.n-sha256.Size), m.raw[d.n-sha256.Size:d.n])
		key.macs.Put(m)
		switch {
		case !genuine:
			return consumer.Card{}, ErrCardMAC
		case !d.card.Usable(now):
			return consumer.Card{}, ErrCardTime
		}
		return d.card, nil
	}
	return consumer.Card{}, ErrCardKey
}

// writable reports whether a card can be written.
func writable(c consumer.Card) bool {
	sec := c.MadeAt.Unix()
	return c.SessionID.Prefix() == bff.PrefixGuestSession && cardLocale(string(c.Locale)) != "" && cardCurrency(string(c.Currency)) != "" &&
		sec >= 0 && sec < 1<<32 && c.MadeAt.Equal(time.Unix(sec, 0)) && (!c.Silent || !c.Consent.Telemetry)
}

// appendCard writes a writable card without its key and MAC.
func appendCard(b []byte, c consumer.Card) []byte {
	bits := c.SessionID.Bytes()
	b = append(append(b, cardVersion), bits[:]...)
	b = append(b, c.Currency...)
	b = append(append(b, byte(len(c.Locale))), c.Locale...) //nolint:gosec // of the supported set
	var flags byte
	for _, f := range [...]struct {
		bit byte
		set bool
	}{{cardTelemetry, c.Consent.Telemetry}, {cardMarketing, c.Consent.Marketing}, {cardChosen, c.Chosen}, {cardSilent, c.Silent}} {
		if f.set {
			flags |= f.bit
		}
	}
	return binary.BigEndian.AppendUint32(append(b, flags), uint32(c.MadeAt.Unix())) //nolint:gosec // writable
}

// decodedCard is a card taken apart.
type decodedCard struct {
	card consumer.Card
	raw  [maxCardRaw]byte
	n    int // how much of raw is the card
	key  int // where in raw the key id begins
}

func (d *decodedCard) keyID() []byte { return d.raw[d.key : d.n-sha256.Size] }

// decode reads a card. It accepts exactly what Mint can write with some key.
func (d *decodedCard) decode(text string) bool {
	if len(text) > maxCardText {
		return false
	}
	// The standard decoder skips line breaks, which would give one card many
	// spellings: hence the second check.
	n, err := cardEncoding.Decode(d.raw[:], []byte(text))
	const head, tail = 1 + 16 + 3 + 1, 1 + 4 + 1 + sha256.Size
	if err != nil || cardEncoding.EncodedLen(n) != len(text) || n < head+tail || d.raw[0] != cardVersion {
		return false
	}
	locale := int(d.raw[head-1])
	if n < head+locale+tail {
		return false
	}
	at := d.raw[head+locale:]
	d.n, d.key = n, head+locale+1+4+1
	flags := at[0]
	d.card = consumer.Card{
		SessionID: bff.IDFromBytes(bff.PrefixGuestSession, [16]byte(d.raw[1:17])),
		Currency:  cardCurrency(d.raw[17:20]), Locale: cardLocale(d.raw[head : head+locale]),
		Consent: consumer.Consent{Telemetry: flags&cardTelemetry != 0, Marketing: flags&cardMarketing != 0},
		Chosen:  flags&cardChosen != 0, Silent: flags&cardSilent != 0,
		MadeAt: time.Unix(int64(binary.BigEndian.Uint32(at[1:5])), 0).UTC(),
	}
	return writable(d.card) && flags < cardSilent<<1 && int(at[5]) == n-sha256.Size-d.key && at[5] > 0
}

// cardLocale and cardCurrency take only the exact spelling of the supported set.
func cardLocale[S string | []byte](s S) bff.Locale {
	for _, l := range cardLocales {
		if string(l) == string(s) {
			return l
		}
	}
	return ""
}

func cardCurrency[S string | []byte](s S) bff.Currency {
	for _, c := range cardCurrencies {
		if string(c) == string(s) {
			return c
		}
	}
	return ""
}

var (
	cardLocales    = bff.Locales()
	cardCurrencies = bff.Currencies()
)
