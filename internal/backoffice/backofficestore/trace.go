package backofficestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/action"
	"melmastoon.ghasi.io/bff/internal/idempotency"
)

var _ action.Traces = (*Ledger)(nil)

// findTrace finds the attempt with a key that says most: one that succeeded, then one
// of which it is not known, then the last.
const findTrace = `SELECT operator_id, outcome, occurred_at, coalesce(error_code, '') FROM bff_backoffice.operator_activity
	WHERE tenant_id = $1 AND key_hash = $2 AND occurred_at <= $3
	ORDER BY outcome = 'success' DESC, outcome = 'unknown' DESC, occurred_at DESC LIMIT 1`

// keyHash names a key in the ledger: the first half of the name under which its answer
// is kept. It has the tenant in it, and says nothing without the key.
func keyHash(r idempotency.Request) pgtype.UUID {
	var hash pgtype.UUID
	_ = hash.Scan(r.Composite()[:32]) // hexadecimal
	return hash
}

// begin is BeginWith for a key that may be old. One that is not young has nothing done,
// and is answered with what there is: the answer, or else what the ledger has of it.
// One that is young by a clock that was set back meanwhile is for [trace.refuse].
func (l *Ledger) begin(ctx context.Context, r idempotency.Request, o backoffice.Once, now time.Time, also idempotency.Also) (
	*idempotency.Claim, *idempotency.Answer, error,
) {
	if o.Young() {
		return l.once.BeginWith(ctx, r, now, also)
	}
	earlier, err := l.once.Find(ctx, r, now)
	if earlier != nil || err != nil && bff.CodeOf(err) != bff.CodeStaffIdempotencyInFlight {
		return nil, earlier, err
	}
	tenant, err := bff.IDFromUUID(bff.PrefixTenant, r.Owner[0])
	if err != nil {
		return nil, nil, err
	}
	keyed := trace{tenant: tenant, hash: keyHash(r), operator: r.By[1]}
	err = l.cfg.DB.Read(ctx, tenant, func(b *pgx.Batch) { keyed.refuse(b, time.Time{}) })
	if err == nil {
		err = backoffice.ErrKeyExpired(nil)
	}
	return nil, nil, err
}

// trace is what the ledger has of a key.
type trace struct {
	tenant   bff.ID
	hash     pgtype.UUID
	operator string // whose key it should be
}

// refuse has a batch fail if a key was used up to a moment; zero = at any time.
func (t *trace) refuse(b *pgx.Batch, until time.Time) {
	b.Queue(findTrace, t.tenant.UUID(), t.hash, bound(until, pgtype.Infinity)).QueryRow(func(row pgx.Row) error {
		var (
			operator string
			at       time.Time
			known    bff.Known
		)
		err := row.Scan(&operator, &known.Outcome, &at, &known.Code)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return nil
		case err != nil:
			return fmt.Errorf("find trace of key: %w", err)
		case operator != t.operator:
			return bff.Errorf(bff.CodeStaffIdempotencyReused, "this key belongs to another operator's request: send a new key with a new request")
		}
		moment := bff.At(at)
		known.At, known.OperatorID = &moment, operator
		return backoffice.ErrKeyExpired(&known)
	})
}

// findDone finds the operator whose attempt was the last that succeeded of those that nothing has taken back, and when that was
// begun: its service may have carried out the first attempt with its key. If one to take it back has begun after that, it is not
// known which came last. The index of a property's page has the resource.
const findDone = `SELECT operator_id, begun FROM (
		SELECT operator_id, occurred_at, least(occurred_at, (
			SELECT min(occurred_at) FROM bff_backoffice.operator_activity WHERE tenant_id = $1 AND key_hash = d.key_hash)) AS begun
		FROM bff_backoffice.operator_activity d
		WHERE tenant_id = $1 AND property_id = $2 AND occurred_at >= $3 AND resource_kind = $4 AND resource_id = $5 AND outcome = 'success' AND action = $6) done
	WHERE NOT EXISTS (SELECT FROM bff_backoffice.operator_activity
		WHERE tenant_id = $1 AND property_id = $2 AND occurred_at > begun AND resource_kind = $4 AND resource_id = $5
			AND outcome IN ('success', 'unknown') AND action = ANY($7))
	ORDER BY occurred_at DESC LIMIT 1`

// doneWithin is how far back it is searched: longer than a stay keeps a state that a desk
// without a line does not know of.
const doneWithin = 30 * 24 * time.Hour

// FindDone implements action.Traces.
func (l *Ledger) FindDone(ctx context.Context, a *backoffice.Action, did backoffice.Activity) (*bff.Known, error) {
	var known *bff.Known
	err := l.cfg.DB.Read(ctx, did.Tenant, func(b *pgx.Batch) {
		known = nil // a read that is repeated starts over
		b.Queue(
			findDone, did.Tenant.UUID(), did.Property.UUID(), did.At.Add(-doneWithin), did.Resource.Kind, did.Resource.StoredID(), a.Name, a.TakenBack(),
		).QueryRow(func(row pgx.Row) error {
			var (
				operator string
				at       time.Time
			)
			err := row.Scan(&operator, &at)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			moment := bff.At(at)
			known = &bff.Known{Outcome: string(backoffice.Succeeded), At: &moment, OperatorID: operator}
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("find the operator of an action: %w", err)
	}
	return known, nil
}

// FindKey implements action.Traces.
func (l *Ledger) FindKey(ctx context.Context, tenant bff.ID, operator, key string) (*bff.Known, error) {
	keyed := trace{tenant: tenant, hash: keyHash(idempotency.Request{Owner: []string{tenant.UUID()}, Key: key}), operator: operator}
	err := l.cfg.DB.Read(ctx, tenant, func(b *pgx.Batch) { keyed.refuse(b, time.Time{}) })
	if e, ok := errors.AsType[*bff.Error](err); ok && e.Known != nil {
		return e.Known, nil
	}
	return nil, err
}
