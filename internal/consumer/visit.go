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
	At time.Time // when the request began

	// What the request reveals of its sender, hashed where the raw value may not be kept.
	Fingerprint Hash
	// Base is the fingerprint without the hints that only scripts can give. A
	// request without hints has Fingerprint == Base.
	Base Hash
	// Older are the two under peppers that are being rotated out.
	Older          []Prints
	Address        interface{ Hash() Hash } // see IP
	UserAgent      Hash
	UserAgentClass string
	Locale         bff.Locale   // negotiated from Accept-Language
	Currency       bff.Currency // of the country that the edge reports
	Campaign       *Campaign
	Referer        string // origin and path only
	NoTracking     bool   // DNT or Sec-GPC

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

// IP is the hash of the sender's address. Few requests need it, and so it is made when
// it is asked for.
func (v *Visit) IP() Hash {
	if v.Address == nil {
		return Hash{}
	}
	return v.Address.Hash()
}

// Spend says that an upstream is called for the visit's sake. It may be called
// from any goroutine.
func (v *Visit) Spend() { v.costly.Store(true) }

// Costly reports whether an upstream was called for the visit's sake.
func (v *Visit) Costly() bool { return v.costly.Load() }
