package backofficestore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/idempotency"
	"melmastoon.ghasi.io/bff/internal/postgres"
)

const (
	// takeOver is the age at which a claim's process must have died, unless the
	// configuration has another: it is well above the time that any request has.
	takeOver = time.Minute
	// claimWait is how long a claim waits for another's commit, never for the call
	// that follows.
	claimWait = 2 * time.Second
	// keptKeys is how long answers are kept: when one is forgotten, the ledger already
	// refuses its key, by whichever instance's clock.
	keptKeys = backoffice.KeyMemory + time.Hour
	// finishTimeout caps the commit of what another service has done. It does not end
	// with the client's request: the outcome is known now.
	finishTimeout = 5 * time.Second
)

func (l *Ledger) newOnce() *idempotency.Store {
	return idempotency.New(idempotency.Config{
		Wait: claimWait, Life: keptKeys,
		Begin: func(ctx context.Context, r idempotency.Request, work func(pgx.Tx) error) error {
			tenant, err := bff.IDFromUUID(bff.PrefixTenant, r.Owner[0])
			if err != nil {
				return err
			}
			return l.cfg.DB.InTx(ctx, tenant, work)
		},
		Table: idempotency.Table{
			Name: "bff_backoffice.idempotency", Key: "idem_key", Unique: []string{"tenant_id", "idem_key"},
			Owners: []string{"tenant_id"}, By: []string{"device_id", "operator_id"}, Whose: "operator_id",
			Digest: "request_hash", Hex: true, Status: "status_code", Body: "response", TakeOver: cmp.Or(l.cfg.TakeOver, takeOver),
		},
		Codes: idempotency.Codes{Reused: bff.CodeStaffIdempotencyReused, InFlight: bff.CodeStaffIdempotencyInFlight},
	})
}

// BeginMutation commits a claim and the activity of the attempt, or returns the
// earlier answer.
func (l *Ledger) BeginMutation(ctx context.Context, at backoffice.Attempt) (backoffice.Mutation, *backoffice.Answer, error) {
	a, o := at.Activity, at.Once
	a.Outcome, a.Latency, a.Code = backoffice.Unknown, 0, ""
	r := idempotency.Request{Owner: []string{a.Tenant.UUID()}, By: []string{a.Device.String(), a.Operator}, Key: o.Key, Digest: o.Digest}
	claim, earlier, err := l.begin(ctx, r, o, a.At, func(ctx context.Context, tx pgx.Tx, b *pgx.Batch) error {
		keyed := trace{tenant: a.Tenant, hash: keyHash(r), operator: a.Operator}
		keyed.refuse(b, a.At.Add(-backoffice.KeyMemory))
		b.Queue(insertActivity, activityArgs(a, keyed.hash)...)
		if at.Lock != nil {
			return addLock(ctx, tx, b, &a, at.Lock)
		}
		return tx.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return nil, nil, undone(fmt.Errorf("begin mutation: %w", err))
	}
	if earlier != nil {
		answer, err := told(*earlier)
		if err != nil {
			return nil, nil, err
		}
		return nil, &answer, nil
	}
	return &mutation{ledger: l, claim: claim, activity: a, lock: at.Lock}, nil, nil
}

// mutation implements the domain's Mutation.
type mutation struct {
	ledger   *Ledger
	claim    *idempotency.Claim
	activity backoffice.Activity
	lock     *backoffice.LockAudit // nil = no lock action
}

// Finish commits how the attempt ended.
func (m *mutation) Finish(ctx context.Context, f backoffice.Finished) (backoffice.Answer, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	defer m.Release()
	m.activity = m.activity.Ended(f.Failure, f.At)
	if f.Outcome != "" {
		m.activity.Outcome, m.activity.Code = f.Outcome, f.Code
	}
	kept, final, err := keep(f.Answer, f.Failure)
	if err != nil {
		return backoffice.Answer{}, err
	}
	effects, err := m.effects(f)
	if err != nil {
		return backoffice.Answer{}, err
	}
	if !final {
		// The entry says that the outcome is unknown until this is committed: if it
		// cannot be, it stays so, and the client is told of its failure all the same.
		_ = m.commit(ctx, f, effects, nil)
		return backoffice.Answer{}, f.Failure
	}
	err = m.commit(ctx, f, effects, &kept)
	if before, ok := errors.AsType[*markedBefore](err); ok {
		return m.Finish(ctx, before.instead)
	}
	kept, replayed, err := m.claim.Settle(ctx, kept, err)
	switch {
	case err != nil:
		return backoffice.Answer{}, postgres.Durable(fmt.Errorf("finish mutation: %w", err))
	case replayed: // a later attempt has taken over and was quicker; this one ended as well
		_ = m.commit(ctx, f, effects, nil)
		return told(kept)
	}
	return f.Answer, f.Failure
}

// effects writes an outcome's rows, and the events if they are to be told.
type effects func(b *pgx.Batch, told bool)

// effects returns what writes an outcome's rows: the activity's, the events and the
// copy of what the other service has now.
func (m *mutation) effects(f backoffice.Finished) (effects, error) {
	if (f.Lock != nil) != (m.lock != nil) {
		return nil, errors.New("finish mutation: a lock action, and no word of what became of it, or the reverse")
	}
	events, err := m.ledger.queued(m.activity.Tenant, f.Events)
	if err != nil {
		return nil, err
	}
	if p := f.Preferences; p != nil && p.Owner.Tenant != m.activity.Tenant {
		return nil, errors.New("finish mutation: preferences of another tenant")
	}
	if c := f.Cursor; c != nil && c.Tenant != m.activity.Tenant {
		return nil, errors.New("finish mutation: cursor of another tenant")
	}
	if d := f.Decision; d != nil && d.Tenant != m.activity.Tenant {
		return nil, errors.New("finish mutation: decision of another tenant")
	}
	if a := f.Acknowledgement; a != nil && a.Tenant != m.activity.Tenant {
		return nil, errors.New("finish mutation: acknowledgement of another tenant")
	}
	return func(b *pgx.Batch, told bool) {
		b.Queue(endActivity, append([]any{m.activity.ID.UUID()}, ending(m.activity)...)...)
		if f.Preferences != nil {
			b.Queue(keepPreferences, preferencesArgs(*f.Preferences)...)
		}
		if f.Cursor != nil {
			b.Queue(keepCursor, cursorArgs(*f.Cursor, f.At)...)
		}
		if told {
			events(b)
		}
	}, nil
}

// commit writes an outcome's rows, and the answer unless it is nil. A lock action that
// is settled already, by the vendor's event or by the job, is left alone.
func (m *mutation) commit(ctx context.Context, f backoffice.Finished, write effects, kept *idempotency.Answer) error {
	err := m.ledger.cfg.DB.InTx(ctx, m.activity.Tenant, func(tx pgx.Tx) error {
		var b pgx.Batch
		if kept != nil {
			m.claim.QueueAnswer(&b, *kept)
		}
		told := true
		switch {
		case f.Lock != nil:
			row := Settling{Tenant: m.activity.Tenant, ID: m.lock.ID, Outbox: m.ledger.cfg.Outbox, Events: f.Events}
			settled, err := settleLock(ctx, tx, &b, row, *f.Lock, f.At)
			if err != nil || settled && f.Lock.State.Settled() { // with the activity and the events
				return err
			}
			b, told = pgx.Batch{}, false
		case marks(f) && kept != nil: // what was marked before is known only from the answers
			if err := tx.SendBatch(ctx, &b).Close(); err != nil {
				return err
			}
			if err := mark(ctx, tx, f); err != nil {
				return err
			}
			b = pgx.Batch{}
		case marks(f):
			told = false // another attempt ended the mutation
		}
		write(&b, told)
		return tx.SendBatch(ctx, &b).Close()
	})
	if err == nil {
		m.ledger.cfg.Waker.Wake()
	}
	return err
}

// Release gives up an attempt that was not finished.
func (m *mutation) Release() { m.claim.Release() }

// refusal is the stored body of a final refusal.
type refusal struct {
	Code   bff.Code        `json:"code"`
	Detail string          `json:"detail,omitempty"`
	Fields bff.FieldErrors `json:"fields,omitempty"`
}

// keep returns what is stored of an answer, and whether anything is: success and
// final refusals, never a timeout.
func keep(a backoffice.Answer, failure error) (idempotency.Answer, bool, error) {
	if failure == nil {
		kept, err := idempotency.NewAnswer(a.Status, a.Receipt)
		if err == nil && (a.Status < 200 || a.Status > 299) {
			err = fmt.Errorf("status %d is no success", a.Status)
		}
		return kept, true, err
	}
	e, coded := errors.AsType[*bff.Error](failure)
	if !coded || e.Code.Info().Retriable || !idempotency.Final(e.Code.Info().Status) {
		return idempotency.Answer{}, false, nil
	}
	kept, err := idempotency.NewAnswer(e.Code.Info().Status, refusal{e.Code, e.Detail, e.Fields})
	return kept, true, err
}

// told is a stored answer as the client is told of it: a refusal is an error again.
func told(kept idempotency.Answer) (backoffice.Answer, error) {
	if kept.Status >= 400 {
		var r refusal
		if err := json.Unmarshal(kept.Body, &r); err != nil {
			return backoffice.Answer{}, fmt.Errorf("stored refusal: %w", err)
		}
		return backoffice.Answer{}, &bff.Error{Code: r.Code, Detail: r.Detail, Fields: r.Fields}
	}
	a := backoffice.Answer{Status: kept.Status, Replayed: true}
	if err := json.Unmarshal(kept.Body, &a.Receipt); err != nil {
		return backoffice.Answer{}, fmt.Errorf("stored answer: %w", err)
	}
	return a, nil
}
