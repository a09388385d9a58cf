package backofficehttp_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/action"
	"melmastoon.ghasi.io/bff/internal/pause"
)

// drillLedger is the ledger in memory, by the rules of the one in Postgres.
type drillLedger struct {
	d       *blackout
	claims  map[string]*drillClaim // by key
	did     []*drillAct
	counted map[string]action.Charged // by key
}

// drillAct is an entry of the ledger: when in the order of everything its attempt began and
// ended, and when it was looked up who had done the same.
type drillAct struct {
	backoffice.Activity
	key                  string
	begun, looked, ended int
}

// of are the attempts with a key.
func (l *drillLedger) of(key string) (out []*drillAct) {
	for _, a := range l.did {
		if a.key == key {
			out = append(out, a)
		}
	}
	return out
}

// drillClaim is a row of a key.
type drillClaim struct {
	operator string
	digest   [32]byte
	claimed  time.Time
	expires  time.Time
	done     bool
	answer   backoffice.Answer
	failure  error
}

const (
	drillTakeOver = time.Minute
	drillKept     = backoffice.KeyMemory + time.Hour
)

// takes is the time of a commit: no two of them end at one moment.
func (l *drillLedger) takes(key string) {
	l.d.mu.Lock()
	sum := fnv.New32a()
	_, _ = fmt.Fprint(sum, l.d.entries[key].name, len(l.of(key))) // never fails
	l.d.mu.Unlock()
	pause.For(context.Background(), 2*time.Millisecond+time.Duration(sum.Sum32()%1e6))
}

// refuse is what the ledger has of a key that was used up to a moment.
func (l *drillLedger) refuse(key, operator string, until time.Time) error {
	var best *drillAct
	rank := func(a *drillAct) int {
		return slices.Index([]backoffice.Outcome{backoffice.Unknown, backoffice.Succeeded}, a.Outcome)
	}
	for _, a := range l.of(key) {
		if !a.At.After(until) && (best == nil || rank(a) >= rank(best)) {
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
func (l *drillLedger) BeginMutation(ctx context.Context, at backoffice.Attempt) (backoffice.Mutation, *backoffice.Answer, error) {
	l.takes(at.Once.Key)
	life := callerOf(ctx).life
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	if life != l.d.life {
		return nil, nil, bff.Errorf(bff.CodeServiceUnavailable, "the process is dead")
	}
	if act, _ := backoffice.FindAction(backoffice.ActionName(at.Activity.Action)); len(l.d.rights) > 0 && !l.d.allowed(at.Activity.Operator, act) {
		l.d.t.Errorf("%s begins %s without the right to it", at.Activity.Operator, at.Activity.Action)
	}
	a, o, now := at.Activity, at.Once, at.Activity.At
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
	l.claims[o.Key] = next
	a.Outcome = backoffice.Unknown
	act := &drillAct{Activity: a, key: o.Key, begun: l.d.happens(l.d.entries[o.Key].name, " begins")}
	l.did = append(l.did, act)
	return &drillMutation{l: l, claim: next, act: act, life: life}, nil, nil
}

type drillMutation struct {
	l     *drillLedger
	claim *drillClaim
	act   *drillAct
	life  int
	over  bool
}

// Finish implements backoffice.Mutation.
func (m *drillMutation) Finish(_ context.Context, f backoffice.Finished) (backoffice.Answer, error) {
	m.l.takes(m.act.key)
	m.l.d.mu.Lock()
	defer m.l.d.mu.Unlock()
	if m.over = true; m.life != m.l.d.life {
		return backoffice.Answer{}, &bff.Error{Code: bff.CodeServiceUnavailable, Err: backoffice.ErrOutcomeUnknown}
	}
	m.act.Activity = m.act.Ended(f.Failure, f.At)
	if f.Outcome != "" {
		m.act.Outcome, m.act.Code = f.Outcome, f.Code
	}
	m.act.ended = m.l.d.happens(m.l.d.entries[m.act.key].name, " ends ", f.Failure)
	e, coded := errors.AsType[*bff.Error](f.Failure)
	final := f.Failure == nil || coded && !e.Code.Info().Retriable && e.Code.Info().Status != 401 && e.Code.Info().Status != 403
	switch {
	case !final:
		m.claim.claimed = time.Time{}
		return backoffice.Answer{}, f.Failure
	case m.l.claims[m.act.key] != m.claim: // taken over
		if c := m.l.claims[m.act.key]; c.done {
			return c.answer, c.failure
		}
		return backoffice.Answer{}, &bff.Error{Code: bff.CodeStaffIdempotencyInFlight, RetryAfter: time.Second}
	}
	m.claim.done, m.claim.answer, m.claim.failure = true, f.Answer, f.Failure
	return f.Answer, f.Failure
}

// Release implements backoffice.Mutation.
func (m *drillMutation) Release() {
	m.l.d.mu.Lock()
	defer m.l.d.mu.Unlock()
	if !m.over && m.life == m.l.d.life {
		m.claim.claimed = time.Time{}
	}
}

// FindKey implements action.Traces.
func (l *drillLedger) FindKey(_ context.Context, _ bff.ID, operator, key string) (*bff.Known, error) {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	err := l.refuse(key, operator, time.Now().AddDate(100, 0, 0))
	if e, ok := errors.AsType[*bff.Error](err); ok && e.Known != nil {
		return e.Known, nil
	}
	return nil, err
}

// FindDone implements action.Traces.
func (l *drillLedger) FindDone(_ context.Context, a *backoffice.Action, of backoffice.Activity) (*bff.Known, error) {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	var last, first *drillAct
	for _, did := range l.did {
		if did.ID == of.ID {
			did.looked = l.d.happens()
		}
		if did.Resource != of.Resource || did.Action != string(a.Name) || did.Outcome != backoffice.Succeeded || last != nil && did.At.Before(last.At) {
			continue
		}
		if begun := l.of(did.key)[0]; !l.takenBack(a, begun) {
			last, first = did, begun
		}
	}
	if last == nil {
		return nil, nil //nolint:nilnil // as said there
	}
	at := bff.At(first.At)
	return &bff.Known{Outcome: string(last.Outcome), At: &at, OperatorID: last.Operator}, nil
}

// takenBack reports whether what was begun may have been taken back since.
func (l *drillLedger) takenBack(a *backoffice.Action, begun *drillAct) bool {
	return slices.ContainsFunc(l.did, func(did *drillAct) bool {
		open := did.Outcome == backoffice.Succeeded || did.Outcome == backoffice.Unknown
		return open && did.Resource == begun.Resource && slices.Contains(a.TakenBack(), backoffice.ActionName(did.Action)) && did.At.After(begun.At)
	})
}

// drillThreshold is what an operator may charge to a folio in a day without a second factor.
const drillThreshold = 100_000

// CountCharge implements action.Charges.
func (l *drillLedger) CountCharge(_ context.Context, c action.Charged, within func(action.Sums) bool) (bool, error) {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	if _, again := l.counted[c.Once.Key]; again {
		return true, nil
	}
	sum := c.Amount.Minor
	for key, other := range l.counted {
		refused := l.claims[key].done && l.claims[key].failure != nil
		if other.Operator == c.Operator && other.Folio == c.Folio && other.Day == c.Day && !refused {
			sum += other.Amount.Minor
		}
	}
	if may := within(action.Sums{c.Amount.Currency: sum}); may != (sum <= drillThreshold) {
		l.d.t.Errorf("a sum of %d needs no second factor: %v", sum, may)
	} else if !may {
		return false, nil
	}
	if now := l.d.zone.Today(time.Now()).Date; c.Day != now && c.Day != l.d.zone.Today(time.Now().Add(-time.Minute)).Date {
		l.d.t.Errorf("a charge is counted for %s on %s", c.Day, now)
	}
	l.counted[c.Once.Key] = c
	return true, nil
}

// UncountCharge implements action.Charges. In Postgres the sum is kept with the key.
func (l *drillLedger) UncountCharge(_ context.Context, c action.Charged) error {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	delete(l.counted, c.Once.Key)
	return nil
}
