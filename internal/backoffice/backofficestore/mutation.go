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
		w := &effects{ledger: l, batch: b, activity: &a, at: a.At}
		if at.Effect != nil {
			if err := w.add(at.Effect); err != nil {
				return err
			}
		}
		return w.send(ctx, tx)
	})
	if err != nil {
		return nil, nil, undone(fmt.Errorf("begin mutation: %w", err))
	}
	if earlier != nil {
		answer, err := stored(*earlier)
		if err != nil {
			return nil, nil, err
		}
		return nil, &answer, nil
	}
	return &mutation{ledger: l, claim: claim, activity: a}, nil, nil
}

// mutation implements the domain's Mutation.
type mutation struct {
	ledger   *Ledger
	claim    *idempotency.Claim
	activity backoffice.Activity
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
	events, err := m.ledger.queued(m.activity.Tenant, f.Events)
	if err != nil {
		return backoffice.Answer{}, err
	}
	if !final {
		// The entry says that the outcome is unknown until this is committed: if it
		// cannot be, it stays so, and the client is told of its failure all the same.
		_ = m.commit(ctx, f, events, nil)
		return backoffice.Answer{}, f.Failure
	}
	err = m.commit(ctx, f, events, &kept)
	if ends, ok := errors.AsType[*endsOtherwise](err); ok {
		return m.Finish(ctx, ends.instead)
	}
	kept, replayed, err := m.claim.Settle(ctx, kept, err)
	switch {
	case err != nil:
		return backoffice.Answer{}, postgres.Durable(fmt.Errorf("finish mutation: %w", err))
	case replayed: // a later attempt has taken over and was quicker; this one ended as well
		_ = m.commit(ctx, f, events, nil)
		return stored(kept)
	}
	return f.Answer, f.Failure
}

// commit writes how the attempt ended: its answer, unless that is nil, the effects, the
// activity and the events. The activity comes after the effects: all that write both
// do it in this order, so that they do not wait for each other.
func (m *mutation) commit(ctx context.Context, f backoffice.Finished, events func(*pgx.Batch), kept *idempotency.Answer) error {
	err := m.ledger.cfg.DB.InTx(ctx, m.activity.Tenant, func(tx pgx.Tx) error {
		w := &effects{ledger: m.ledger, batch: &pgx.Batch{}, activity: &m.activity, at: f.At, answers: kept != nil}
		if w.answers {
			m.claim.QueueAnswer(w.batch, *kept)
		}
		for _, e := range f.Effects {
			if err := w.add(e); err != nil {
				return err
			}
		}
		w.batch.Queue(endActivity, append([]any{m.activity.ID.UUID(), m.activity.At}, ending(m.activity)...)...)
		events(w.batch)
		return w.send(ctx, tx)
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
	Known  *bff.Known      `json:"known,omitempty"`
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
	kept, err := idempotency.NewAnswer(e.Code.Info().Status, refusal{e.Code, e.Detail, e.Fields, e.Known})
	return kept, true, err
}

// stored is a kept answer as the client is told of it: a refusal is an error again.
func stored(kept idempotency.Answer) (backoffice.Answer, error) {
	if kept.Status >= 400 {
		var r refusal
		if err := json.Unmarshal(kept.Body, &r); err != nil {
			return backoffice.Answer{}, fmt.Errorf("stored refusal: %w", err)
		}
		return backoffice.Answer{}, &bff.Error{Code: r.Code, Detail: r.Detail, Fields: r.Fields, Known: r.Known}
	}
	a := backoffice.Answer{Status: kept.Status, Replayed: true}
	if err := json.Unmarshal(kept.Body, &a.Receipt); err != nil {
		return backoffice.Answer{}, fmt.Errorf("stored answer: %w", err)
	}
	return a, nil
}
