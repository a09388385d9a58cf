package guest

import (
	"context"
	"errors"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
)

// ErrSessionCleared says that the guest had the session purged: its id is
// never used again.
var ErrSessionCleared = errors.New("session was cleared")

// FoundSession is what came of looking for a session.
type FoundSession struct {
	consumer.GuestSession
	Found bool
	Err   error
}

// Sessions keeps guest sessions.
type Sessions interface {
	Refusals
	// FindSession returns a live session and whether there is one;
	// ErrSessionCleared after its guest had it purged. The store may lose that;
	// Refusals do not.
	FindSession(ctx context.Context, id bff.ID) (consumer.GuestSession, bool, error)
	// FindSessions is FindSession for many at once.
	FindSessions(ctx context.Context, ids []bff.ID) []FoundSession
	// KnowsSession reports whether there is anything of a session besides the session
	// itself, which may be lost: a wishlist, a refusal, a hand-off. An id of which
	// nothing is known may be made up.
	KnowsSession(ctx context.Context, id bff.ID) (bool, error)
	// SaveSession writes a session whole and lets it live until it expires.
	SaveSession(ctx context.Context, s consumer.GuestSession) error
	// RestoreSession is SaveSession for a session that was lost, unless there is one
	// again by now: what its guest has changed meanwhile must not be undone.
	RestoreSession(ctx context.Context, s consumer.GuestSession) error
	// UpdateSession writes what changed and slides the life of all that belongs
	// to the session, once its cookie has come back. A session that is gone stays gone: then it reports false.
	UpdateSession(ctx context.Context, id bff.ID, c consumer.SessionChange) (bool, error)
	// RenewSession lets what outlives a session's store live on with its cookie,
	// which was sent again.
	RenewSession(ctx context.Context, s consumer.GuestSession, now time.Time) error
	// PurgeSession deletes all that is kept of a session and says so with the
	// event, if there is one. It may be repeated.
	PurgeSession(ctx context.Context, id bff.ID, e *bff.Event) error
}
