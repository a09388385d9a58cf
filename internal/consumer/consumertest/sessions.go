package consumertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
)

// ErrAway is the error of a store that the test has taken away.
var ErrAway = errors.New("the store is away")

// Sessions keeps sessions as the two stores do: sessions in the first, which may be
// lost, and what outlives them in the second.
type Sessions struct {
	mu       sync.Mutex
	sessions map[bff.ID]consumer.GuestSession
	cleared  map[bff.ID]bool // as the first knows it
	purged   map[bff.ID]bool // as the second does
	refusals map[bff.ID]guest.Refusal
	known    map[bff.ID]bool // by a wishlist or a hand-off
	saves    int
	renewals int
	// redis and postgres say which of the two is away, and hangs that calls to the
	// first are not answered at all.
	redis, postgres, hangs bool
}

// NewSessions returns stores without sessions.
func NewSessions() *Sessions {
	s := &Sessions{refusals: map[bff.ID]guest.Refusal{}, known: map[bff.ID]bool{}, purged: map[bff.ID]bool{}}
	s.Lose()
	return s
}

// Lose forgets all that is in the store of sessions.
func (s *Sessions) Lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions, s.cleared = map[bff.ID]consumer.GuestSession{}, map[bff.ID]bool{}
}

// Away takes the store of sessions away, that of what outlives them, or both.
func (s *Sessions) Away(redis, postgres bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.redis, s.postgres = redis, postgres
}

// Hang leaves calls to the store of sessions without an answer.
func (s *Sessions) Hang(hangs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangs = hangs
}

// Know lets a wishlist or a hand-off of a session be kept.
func (s *Sessions) Know(id bff.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[id] = true
}

// Counts returns how often sessions were saved and renewed.
func (s *Sessions) Counts() (saves, renewals int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saves, s.renewals
}

// Kept returns a session as it is, without counting.
func (s *Sessions) Kept(id bff.ID) (consumer.GuestSession, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.sessions[id]
	return g, ok
}

// FindSession implements guest.Sessions.
func (s *Sessions) FindSession(ctx context.Context, id bff.ID) (consumer.GuestSession, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hangs {
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
		return consumer.GuestSession{}, false, ctx.Err()
	}
	switch g, ok := s.sessions[id]; {
	case s.redis:
		return consumer.GuestSession{}, false, ErrAway
	case s.cleared[id]:
		return consumer.GuestSession{}, false, guest.ErrSessionCleared
	default:
		return g, ok, nil
	}
}

// FindSessions implements guest.Sessions.
func (s *Sessions) FindSessions(ctx context.Context, ids []bff.ID) []guest.FoundSession {
	found := make([]guest.FoundSession, len(ids))
	for i, id := range ids {
		found[i].GuestSession, found[i].Found, found[i].Err = s.FindSession(ctx, id)
	}
	return found
}

// KnowsSession implements guest.Sessions.
func (s *Sessions) KnowsSession(_ context.Context, id bff.ID) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.postgres {
		return false, ErrAway
	}
	return s.known[id] || s.refusals[id].Refused, nil
}

// SaveSession implements guest.Sessions.
func (s *Sessions) SaveSession(_ context.Context, g consumer.GuestSession) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.redis {
		return ErrAway
	}
	s.saves++
	s.sessions[g.ID] = g
	return nil
}

// RestoreSession implements guest.Sessions.
func (s *Sessions) RestoreSession(ctx context.Context, g consumer.GuestSession) error {
	if _, there := s.Kept(g.ID); there {
		return nil
	}
	return s.SaveSession(ctx, g)
}

// UpdateSession implements guest.Sessions.
func (s *Sessions) UpdateSession(_ context.Context, id bff.ID, c consumer.SessionChange) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.redis {
		return false, ErrAway
	}
	g, ok := s.sessions[id]
	if ok {
		s.sessions[id] = g.Apply(c)
	}
	return ok, nil
}

// RenewSession implements guest.Sessions.
func (s *Sessions) RenewSession(context.Context, consumer.GuestSession, time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.postgres {
		return ErrAway
	}
	s.renewals++
	return nil
}

// PurgeSession implements guest.Sessions.
func (s *Sessions) PurgeSession(_ context.Context, id bff.ID, _ *bff.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.redis || s.postgres {
		return ErrAway
	}
	delete(s.sessions, id)
	delete(s.refusals, id)
	delete(s.known, id)
	s.cleared[id], s.purged[id] = true, true
	return nil
}

// AddRefusal implements guest.Refusals.
func (s *Sessions) AddRefusal(_ context.Context, g consumer.GuestSession, _ time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.postgres {
		return ErrAway
	}
	s.refusals[g.ID] = guest.Refusal{Refused: true, Silent: g.Silent}
	return nil
}

// RemoveRefusal implements guest.Refusals.
func (s *Sessions) RemoveRefusal(_ context.Context, id bff.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.postgres {
		return ErrAway
	}
	delete(s.refusals, id)
	return nil
}

// FindRefusal implements guest.Refusals.
func (s *Sessions) FindRefusal(_ context.Context, id bff.ID) (guest.Refusal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.postgres {
		return guest.Refusal{}, ErrAway
	}
	r := s.refusals[id]
	r.Cleared = s.purged[id]
	return r, nil
}
