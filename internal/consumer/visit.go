package consumer

import (
	"sync/atomic"
	"time"

	"melmastoon.ghasi.io/bff"
)

// SessionCookie is the name of the cookie that holds a session's id.
const SessionCookie = "gms_id"

// ReplayedHeader marks an answer that repeats the one to an earlier attempt.
const ReplayedHeader = "Idempotency-Replayed"

// Visit is one request of a client: what it reveals of its sender, and how much
// may be done for it. The guard makes it and the handlers read it.
type Visit struct {
	Client

	// Address is the client's, of which only the hash is known; see WithIP.
	Address interface{ Hash() Hash }
	At      time.Time // when the request began
	// SessionID is the card's. Without a card it is the one in the cookie, which may be
	// made up, where such ids count (Cardless). It is zero without either.
	SessionID bff.ID
	// Card is the one that came with the request; zero without one that was made here
	// and counts.
	Card Card
	// CookieMismatch: no session cookie carries the id on the card.
	CookieMismatch bool

	// CacheOnly: answered from what is there or on its way, never at the cost of
	// an upstream call of its own.
	CacheOnly bool
	Refusal   error // the answer to a CacheOnly visit when there is nothing
	// Untracked: answered without a session and without telemetry.
	Untracked bool
	// NoSession: its network has opened too many sessions lately, and no further
	// one is opened for it.
	NoSession bool

	costly, opened atomic.Bool
}

// Open says that a session was opened for the visit.
func (v *Visit) Open() { v.opened.Store(true) }

// Opened reports whether a session was opened for the visit.
func (v *Visit) Opened() bool { return v.opened.Load() }

// WithIP returns the client with the hash of its address, which few requests need.
func (v *Visit) WithIP() Client {
	c := v.Client
	c.IP = v.Address.Hash()
	return c
}

// Spend says that an upstream is called for the visit's sake. It may be called
// from any goroutine.
func (v *Visit) Spend() { v.costly.Store(true) }

// Costly reports whether an upstream was called for the visit's sake.
func (v *Visit) Costly() bool { return v.costly.Load() }
