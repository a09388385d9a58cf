package guest

import (
	"context"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
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
	AddRefusal(ctx context.Context, s consumer.GuestSession, now time.Time) error
	// RemoveRefusal forgets a refusal: the guest agreed.
	RemoveRefusal(ctx context.Context, guest bff.ID) error
	// FindRefusal returns what is kept of a guest's refusal, and whether the guest had
	// the session purged.
	FindRefusal(ctx context.Context, guest bff.ID) (Refusal, error)
}

// Restored returns a session that was lost as its guest's refusal leaves it.
func Restored(s consumer.GuestSession, r Refusal) consumer.GuestSession {
	s.Unread, s.Silent = false, r.Silent // without a refusal its events may have left
	if r.Refused {
		s.Consent.Telemetry = false
	}
	return s
}

// RestoredCard is the card's session with the refusal that is kept: a refusal on either
// side counts.
func RestoredCard(v *consumer.Visit, r Refusal) consumer.GuestSession {
	s := v.Card.Session(v)
	if r.Refused {
		s.Consent.Telemetry = false
		s.Silent = s.Silent && r.Silent
	}
	return s
}

// RestoreSession is Restored with the refusal that is kept. When it cannot be read, the
// session stays unread and no event of it leaves. It reports whether the guest had
// the session purged: then there is none.
func RestoreSession(ctx context.Context, kept Refusals, s consumer.GuestSession) (restored consumer.GuestSession, cleared bool) {
	r, err := kept.FindRefusal(ctx, s.ID)
	if err != nil {
		s.Unread = true
		return s, false
	}
	return Restored(s, r), r.Cleared
}

// RestoreCard is RestoreSession for the session of a visit's card.
func RestoreCard(ctx context.Context, kept Refusals, v *consumer.Visit) (restored consumer.GuestSession, cleared bool) {
	r, err := kept.FindRefusal(ctx, v.Card.SessionID)
	if err != nil {
		s := v.Card.Session(v)
		s.Unread = true
		return s, false
	}
	return RestoredCard(v, r), r.Cleared
}
