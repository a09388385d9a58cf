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
	"melmastoon.ghasi.io/bff/internal/idempotency"
)

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
