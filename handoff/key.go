package handoff

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"hash"
	"log/slog"
	"sync"
	"time"
)

// State says what a key may be used for.
type State string

// The life of a key, in order.
const (
	Pending State = "pending" // known, not used yet
	Active  State = "active"  // signs and verifies; exactly one key
	Grace   State = "grace"   // verifies what it signed while it was active
	Retired State = "retired" // refused; the id is kept so that it is never reused
)

// Key is one key of a set. Every way of printing a key shows its id and its
// state; the secret cannot be had from it.
type Key struct {
	id          string
	state       State
	activatedAt time.Time // when it began to sign; zero while pending
	secret      *secret   // nil when retired
}

// ID returns the key id that stands in tokens.
func (k Key) ID() string { return k.id }

// State returns what the key may be used for.
func (k Key) State() State { return k.state }

// ActivatedAt returns when the key began to sign; zero while it is pending.
func (k Key) ActivatedAt() time.Time { return k.activatedAt }

// Derive returns a secret for another purpose than the hand-off. It follows from
// the key's own and does not reveal it; a retired key has none. No canonical string
// begins as the signed text here does, so that no token's MAC is a derived secret.
func (k Key) Derive(purpose string) []byte {
	own := k.secret.get()
	if own == nil {
		return nil
	}
	mac := hmac.New(sha256.New, own)
	_, _ = mac.Write([]byte("derived key\x00" + purpose)) // a hash never fails
	return mac.Sum(nil)
}

// String returns the id and the state.
func (k Key) String() string { return k.id + " (" + string(k.state) + ")" }

// Format writes String for every verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(k.String())) }

// LogValue shows the id and the state.
func (k Key) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", k.id), slog.String("state", string(k.state)))
}

// secret is a key's secret with its prepared HMAC states: the two hash blocks
// of the key schedule are paid once and not for every token.
//
// The bytes are kept in a closure because fmt, where it may not call a Format
// method (a field that is not exported) and meets a verb that does not fit,
// follows pointers and prints what it finds. It cannot look into a function.
type secret struct {
	bytes   func() []byte
	signers sync.Pool
}

func newSecret(b []byte) *secret {
	s := &secret{bytes: func() []byte { return b }}
	s.signers.New = func() any { return &signer{mac: hmac.New(sha256.New, b)} }
	return s
}

// get returns the secret's bytes; none of a retired key.
func (s *secret) get() []byte {
	if s == nil {
		return nil
	}
	return s.bytes()
}

func (s *secret) signer() *signer    { return s.signers.Get().(*signer) }
func (s *secret) release(sg *signer) { s.signers.Put(sg) }

// signer is one HMAC state with the room to work in.
type signer struct {
	mac       hash.Hash
	canonical [maxCanonical]byte
	raw       [maxRaw]byte
	text      [maxToken]byte
	sum       [sha256.Size]byte
}

// sign returns the payload's MAC; it is overwritten by the next call.
func (s *signer) sign(p *Payload) []byte {
	s.mac.Reset()
	_, _ = s.mac.Write(p.canonical(&s.canonical)) // a hash never fails
	return s.mac.Sum(s.sum[:0])
}

func (s *signer) check(p *Payload, mac []byte) bool { return hmac.Equal(s.sign(p), mac) }

// seal returns the token of a valid payload.
func (s *signer) seal(p *Payload) string {
	return s.encode(p, s.sign(p))
}

func (s *signer) encode(p *Payload, mac []byte) string {
	raw := append(appendRaw(s.raw[:0], p), mac...)
	n := encoding.EncodedLen(len(raw))
	encoding.Encode(s.text[:n], raw)
	return string(s.text[:n])
}
