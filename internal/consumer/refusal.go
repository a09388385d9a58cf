package consumer

import (
	"context"
	"time"

	"melmastoon.ghasi.io/bff"
)

// Refusal is what is known of a guest's refusal of telemetry apart from the
// session itself, which may be lost.
type Refusal struct {
	Refused bool
	// Silent: refused with the first request, so that no event of the session ever
	// left.
	Silent bool
	// Cleared: the guest had the session purged, within the life of its last card.
	Cleared bool
}

// Refusals keeps which guests refused telemetry. It outlives sessions: a guest
// who refused is not counted again because a session was lost.
type Refusals interface {
	// AddRefusal keeps the refusal of a session for as long as its cookie can come
	// back. It may be repeated.
	AddRefusal(ctx context.Context, s GuestSession, now time.Time) error
	// RemoveRefusal forgets a refusal: the guest agreed.
	RemoveRefusal(ctx context.Context, guest bff.ID) error
	// FindRefusal returns what is kept of a guest's refusal, and whether the guest had
	// the session purged.
	FindRefusal(ctx context.Context, guest bff.ID) (Refusal, error)
}

// Restored returns a session that was lost as its guest's refusal leaves it.
func (s GuestSession) Restored(r Refusal) GuestSession {
	s.Unread, s.Silent = false, r.Silent // without a refusal its events may have left
	if r.Refused {
		s.Consent.Telemetry = false
	}
	return s
}

// Resolve is Restored with the refusal that is kept. When it cannot be read, the
// session stays unread and no event of it leaves. It reports whether the guest had
// the session purged: then there is none.
func (s GuestSession) Resolve(ctx context.Context, kept Refusals) (resolved GuestSession, cleared bool) {
	r, err := kept.FindRefusal(ctx, s.ID)
	if err != nil {
		s.Unread = true
		return s, false
	}
	return s.Restored(r), r.Cleared
}
