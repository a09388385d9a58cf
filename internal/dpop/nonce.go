package dpop

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Nonces mints the server's nonces (RFC 9449 §8) and knows them again. They are
// stateless: a time slot and its MAC, so that every instance with the same key
// accepts what any other has given, and a slot's nonce is the same for all clients.
type Nonces struct {
	keys    [][]byte // the first mints, all are accepted
	current atomic.Pointer[minted]
}

type minted struct {
	slot  uint64
	nonce string
}

const (
	// nonceSlot is short: a proof with a nonce of a slot that began before the session
	// tier did is refused, and a computer with a wrong clock has to wait for the next.
	nonceSlot = time.Second
	// nonceSlots is for how many slots a nonce is accepted, counting its own: a
	// client with a wrong clock may use it for nearly five minutes.
	nonceSlots = 300
	// nonceAhead is how many slots another instance's clock may be ahead.
	nonceAhead = 60
	// bareSlots and bareAhead are the same without a token: what is accepted now is
	// refused a minute later.
	bareSlots    = 45
	bareAhead    = 15
	nonceMAC     = 16
	minNonceKey  = 16
	nonceDecoded = 8 + nonceMAC
)

// NewNonces returns the nonces of a keyring. Rotation puts the new key first and
// keeps the old one for a few minutes.
func NewNonces(keys ...[]byte) (*Nonces, error) {
	if len(keys) == 0 {
		return nil, errors.New("nonces: a key is required")
	}
	n := &Nonces{}
	for _, key := range keys {
		if len(key) < minNonceKey {
			return nil, fmt.Errorf("nonces: a key needs at least %d bytes", minNonceKey)
		}
		n.keys = append(n.keys, slices.Clone(key))
	}
	return n, nil
}

// Mint returns the nonce of the moment.
func (n *Nonces) Mint(now time.Time) string {
	slot := slotOf(now)
	if m := n.current.Load(); m != nil && m.slot == slot {
		return m.nonce
	}
	m := &minted{slot, encodeNonce(n.keys[0], slot)}
	n.current.Store(m)
	return m.nonce
}

// life returns since when a nonce is given out and when it ceases to be accepted, in a
// proof with or without a token; ok is false if it is not one of ours or has ceased to be.
func (n *Nonces) life(nonce string, bare bool, now time.Time) (minted, until time.Time, ok bool) {
	if base64.RawURLEncoding.DecodedLen(len(nonce)) != nonceDecoded {
		return minted, until, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(nonce)
	if err != nil {
		return minted, until, false
	}
	slot, at := binary.BigEndian.Uint64(raw), slotOf(now)
	slots, ahead := uint64(nonceSlots), uint64(nonceAhead)
	if bare {
		slots, ahead = bareSlots, bareAhead
	}
	if slot > at+ahead || slot+slots <= at {
		return minted, until, false
	}
	for _, key := range n.keys {
		if hmac.Equal([]byte(nonce), []byte(encodeNonce(key, slot))) {
			return slotStart(slot), slotStart(slot + slots), true
		}
	}
	return minted, until, false
}

func slotOf(t time.Time) uint64 { return uint64(max(t.Unix(), 0)) / uint64(nonceSlot/time.Second) } //nolint:gosec // not negative

func slotStart(slot uint64) time.Time { return time.Unix(0, 0).Add(time.Duration(slot) * nonceSlot) } //nolint:gosec // near the present

func encodeNonce(key []byte, slot uint64) string {
	raw := binary.BigEndian.AppendUint64(make([]byte, 0, nonceDecoded), slot)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("dpop nonce"))
	mac.Write(raw)
	var sum [sha256.Size]byte
	return base64.RawURLEncoding.EncodeToString(append(raw, mac.Sum(sum[:0])[:nonceMAC]...))
}
