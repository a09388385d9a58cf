package identity

import (
	"context"
	"errors"
	"slices"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

const (
	// SessionLifetime is how long a session lives after its last request.
	SessionLifetime = 12 * time.Hour
	// TokenLifetime is the longest life of an access token. Tombstones are kept as
	// long: after that no token is left that they would have to refuse.
	TokenLifetime = 15 * time.Minute
	// MaxSessions is how many sessions an operator has at once: each costs memory for
	// twelve hours, and whatever its tenant is told. When there are more the oldest ends.
	MaxSessions = 20
)

// Proof is a verified proof of possession that has yet to be burned.
type Proof struct {
	KeyPrint string
	ID       string
	Until    time.Time // the proof is refused from then on
	Made     time.Time // it was not made before, as far as that can be told
	Issued   time.Time // what its sender's clock showed, which may be wrong
	// Look: whether it was used is looked up, and it is not used up. Its sender is beyond
	// a limit, and what is refused for that leaves nothing behind.
	Look bool
}

// newSession is the caller's, in place of another operator's if there is one.
func newSession(c backoffice.Caller, old *backoffice.Session, now time.Time) backoffice.Session {
	s := backoffice.Session{
		ID: bff.NewID(bff.PrefixBackofficeLogin, now), Tenant: c.Tenant, Operator: c.Operator, Device: c.Device,
		OpenedAt: bff.At(now).Time, TokenIssued: c.TokenIssued, IPHash: c.IPHash, FingerprintHash: c.FingerprintHash,
		AppVersion: c.App.Version, AppPlatform: c.App.Platform,
	}
	if old != nil && old.Operator != c.Operator {
		s.Replaced = &backoffice.Replaced{ID: old.ID, Operator: old.Operator, OpenedAt: old.OpenedAt}
	}
	return s
}

// Tombstones are why tokens of a device are refused before they expire.
type Tombstones struct {
	// Everything issued up to these moments is refused: of the device, of the
	// operator, of the tenant, and of this operator at this device. Zero = nothing.
	Device, Operator, Tenant, Here time.Time
	// Tokens are hashes of single tokens.
	Tokens []string
}

// Refuse reports whether a token is refused. An issuer writes whole seconds: a token
// of the very second of a revocation counts as issued before it.
func (t *Tombstones) Refuse(c backoffice.Caller) bool {
	for _, at := range []time.Time{t.Device, t.Operator, t.Tenant, t.Here} {
		if !at.IsZero() && !c.TokenIssued.After(at) {
			return true
		}
	}
	return slices.Contains(t.Tokens, c.TokenHash)
}

// Ended reports whether a session was ended by force and its keys are only not yet
// removed.
func (t *Tombstones) Ended(s *backoffice.Session) bool {
	for _, at := range []time.Time{t.Device, t.Operator, t.Tenant} {
		if !at.IsZero() && !s.TokenIssued.After(at) {
			return true
		}
	}
	return false
}

// AccessState is what the session tier knows of a caller.
type AccessState struct {
	// Born is since when the tier remembers everything. Of a token that was issued before
	// it is not known whether it was revoked, nor of a proof whether it was used.
	Born       time.Time
	Replayed   bool
	Tombstones Tombstones
	Suspended  bool // the tenant
	// Members is the version of the tenant's memberships.
	Members string
	Session *backoffice.Session // of the device, of any operator; nil = none
}

// ended reports whether the session that was found is one only by name.
func (st *AccessState) ended() bool { return st.Session != nil && st.Tombstones.Ended(st.Session) }

// Revocation ends sessions by force. Without a device it is about all devices of
// the operator, without an operator about the whole tenant.
type Revocation struct {
	Tenant   bff.ID
	Operator string // may be empty
	Device   bff.ID // may be zero
	Reason   string
	At       time.Time
}

// ErrSessionsAway is wrapped by a failure of the session tier. Nothing is let in
// without it.
var ErrSessionsAway = errors.New("sessions cannot be read")

// Sessions keeps sessions, tombstones and burned proofs in the session tier. Every
// method may be cut off after any of its writes and repeated.
type Sessions interface {
	// Burn uses a proof up, unless it is only looked at, and finds whether it was used
	// before.
	Burn(ctx context.Context, p Proof, now time.Time) (AccessState, error)
	// Enter burns a proof and finds what is known of its sender, in one round trip.
	// It lets the device's session live for another SessionLifetime.
	Enter(ctx context.Context, c backoffice.Caller, p Proof, now time.Time) (AccessState, error)
	// OpenSession opens a session at its device in the place of an old one, nil if
	// there is none. If another request was first, it returns the session that stands
	// instead. ErrRevoked says that the caller was logged out meanwhile.
	OpenSession(ctx context.Context, c backoffice.Caller, fresh backoffice.Session, old *backoffice.Session) (backoffice.Session, error)
	// Announced marks a session as announced, after it has removed what is left of
	// the session that it replaced.
	Announced(ctx context.Context, s backoffice.Session) error
	// CloseSession ends a session that its operator signs out of.
	CloseSession(ctx context.Context, s backoffice.Session, e backoffice.Ending) error

	// Revoke writes the tombstones of a revocation and returns the sessions that it
	// ends, which are refused from then on. RemoveSessions takes their keys away.
	Revoke(ctx context.Context, r Revocation) ([]backoffice.Session, error)
	RemoveSessions(ctx context.Context, sessions []backoffice.Session) error
	// ListOutgrown returns sessions of the operator of one that was opened, which are too
	// many with it: the oldest. Refuse refuses their tokens from then on.
	ListOutgrown(ctx context.Context, opened backoffice.Session) ([]backoffice.Session, error)
	Refuse(ctx context.Context, sessions []backoffice.Session, at time.Time) error

	// OutdateMembers makes copies of memberships void: of an operator, or of the whole
	// tenant if it is empty.
	OutdateMembers(ctx context.Context, tenant bff.ID, operator string) error
	// SuspendTenant records that a tenant is suspended or is so no longer, unless
	// something newer is known.
	SuspendTenant(ctx context.Context, tenant bff.ID, suspended bool, at time.Time) error
}

// ErrRevoked says that a caller was logged out by force while its session opened.
var ErrRevoked = errors.New("the caller was logged out")
