package backofficehttp_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/pause"
)

// drillLedger is the ledger in memory, by the rules of the one in Postgres.
type drillLedger struct {
	mu     sync.Mutex
	life   int
	claims map[string]*drillClaim // by key
	did    []drillAct
}

type drillAct struct {
	backoffice.Activity
	key string
}

// drillClaim is a row of a key.
type drillClaim struct {
	operator string
	digest   [32]byte
	claimed  time.Time
	expires  time.Time
	token    int
	done     bool
	answer   backoffice.Answer
	failure  error
}

const (
	drillTakeOver = time.Minute
	drillKept     = backoffice.KeyMemory + time.Hour
)

// kill ends the process: what it has begun it does not finish.
func (l *drillLedger) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.life++
}

// refuse is what the ledger has of a key that was used up to a moment.
func (l *drillLedger) refuse(key, operator string, until time.Time) error {
	var best *drillAct
	rank := func(a *drillAct) int {
		return slices.Index([]backoffice.Outcome{backoffice.Unknown, backoffice.Succeeded}, a.Outcome)
	}
	for i := range l.did {
		if a := &l.did[i]; a.key == key && !a.At.After(until) && (best == nil || rank(a) >= rank(best)) {
			best = a
		}
	}
	switch {
	case best == nil:
		return nil
	case best.Operator != operator:
		return bff.Errorf(bff.CodeStaffIdempotencyReused, "another operator's")
	}
	at := bff.At(best.At)
	return backoffice.ErrKeyExpired(&bff.Known{Outcome: string(best.Outcome), At: &at, OperatorID: best.Operator, Code: best.Code})
}

// BeginMutation implements backoffice.Mutations.
func (l *drillLedger) BeginMutation(_ context.Context, at backoffice.Attempt) (backoffice.Mutation, *backoffice.Answer, error) {
	pause.For(context.Background(), 2*time.Millisecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	a, o, now := at.Activity, at.Once, time.Now()
	c := l.claims[o.Key]
	if c != nil && !now.Before(c.expires) {
		c = nil
	}
	switch {
	case c != nil && (c.operator != a.Operator || c.digest != o.Digest):
		return nil, nil, bff.Errorf(bff.CodeStaffIdempotencyReused, "another request's")
	case c != nil && c.done && c.failure != nil:
		return nil, nil, c.failure
	case c != nil && c.done:
		answer := c.answer
		answer.Replayed = true
		return nil, &answer, nil
	case !o.Young():
		if err := l.refuse(o.Key, a.Operator, now); err != nil {
			return nil, nil, err
		}
		return nil, nil, backoffice.ErrKeyExpired(nil)
	case c != nil && now.Sub(c.claimed) < drillTakeOver:
		return nil, nil, &bff.Error{Code: bff.CodeStaffIdempotencyInFlight, RetryAfter: time.Second}
	}
	if err := l.refuse(o.Key, a.Operator, now.Add(-backoffice.KeyMemory)); err != nil {
		return nil, nil, err
	}
	next := &drillClaim{operator: a.Operator, digest: o.Digest, claimed: now, expires: now.Add(drillKept)}
	if c != nil {
		next.token = c.token + 1
	}
	l.claims[o.Key] = next
	a.Outcome = backoffice.Unknown
	l.did = append(l.did, drillAct{a, o.Key})
	return &drillMutation{l: l, claim: next, key: o.Key, row: len(l.did) - 1, life: l.life}, nil, nil
}

type drillMutation struct {
	l     *drillLedger
	claim *drillClaim
	key   string
	row   int
	life  int
	over  bool
}

// Finish implements backoffice.Mutation.
func (m *drillMutation) Finish(_ context.Context, f backoffice.Finished) (backoffice.Answer, error) {
	pause.For(context.Background(), 2*time.Millisecond)
	m.l.mu.Lock()
	defer m.l.mu.Unlock()
	if m.over = true; m.life != m.l.life {
		return backoffice.Answer{}, &bff.Error{Code: bff.CodeServiceUnavailable, Err: backoffice.ErrOutcomeUnknown}
	}
	act := &m.l.did[m.row]
	act.Activity = act.Ended(f.Failure, f.At)
	e, coded := errors.AsType[*bff.Error](f.Failure)
	final := f.Failure == nil || coded && !e.Code.Info().Retriable && e.Code.Info().Status != 401 && e.Code.Info().Status != 403
	switch {
	case !final:
		m.claim.claimed = time.Time{}
		return backoffice.Answer{}, f.Failure
	case m.l.claims[m.key] != m.claim: // taken over
		if c := m.l.claims[m.key]; c.done {
			return c.answer, c.failure
		}
		return backoffice.Answer{}, &bff.Error{Code: bff.CodeStaffIdempotencyInFlight, RetryAfter: time.Second}
	}
	m.claim.done, m.claim.answer, m.claim.failure = true, f.Answer, f.Failure
	return f.Answer, f.Failure
}

// Release implements backoffice.Mutation.
func (m *drillMutation) Release() {
	m.l.mu.Lock()
	defer m.l.mu.Unlock()
	if !m.over && m.life == m.l.life {
		m.claim.claimed = time.Time{}
	}
}

// FindKey implements action.Traces.
func (l *drillLedger) FindKey(_ context.Context, _ bff.ID, operator, key string) (*bff.Known, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, _ := errors.AsType[*bff.Error](l.refuse(key, operator, time.Now()))
	if e == nil {
		return nil, nil //nolint:nilnil // as said there
	}
	return e.Known, nil
}

// FindDone implements action.Traces.
func (l *drillLedger) FindDone(_ context.Context, a *backoffice.Action, of backoffice.Activity) (*bff.Known, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var last *drillAct
	for i := range l.did {
		if did := &l.did[i]; did.Resource == of.Resource && did.Outcome == backoffice.Succeeded && slices.Contains(a.Says(), backoffice.ActionName(did.Action)) &&
			(last == nil || !did.At.Before(last.At)) {
			last = did
		}
	}
	if last == nil || last.Action != string(a.Name) {
		return nil, nil //nolint:nilnil // as said there
	}
	at := bff.At(last.At)
	return &bff.Known{Outcome: string(last.Outcome), At: &at, OperatorID: last.Operator}, nil
}
