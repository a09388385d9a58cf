package backofficestore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/action"
	"melmastoon.ghasi.io/bff/internal/idempotency"
)

var _ action.Charges = (*Ledger)(nil)

// CountCharge implements action.Charges. The lock makes charges of one operator to
// one folio take their turns, over all instances: each sees those before it.
func (l *Ledger) CountCharge(ctx context.Context, c action.Charged, within func(action.Sums) bool) (bool, error) {
	counted := false
	err := l.cfg.DB.InTx(ctx, c.Tenant, func(tx pgx.Tx) error {
		tenant, key := c.Tenant.UUID(), keptAs(c)
		sums := action.Sums{}
		var b pgx.Batch
		b.Queue("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", "charges "+tenant+" "+c.Operator+" "+c.Folio.String())
		// A refusal that is kept was no charge; what has no answer yet may be one.
		b.Queue(`SELECT charged_currency, sum(charged_minor)::bigint, bool_or(idem_key = $5) FROM bff_backoffice.idempotency
			WHERE tenant_id = $1 AND operator_id = $2 AND charged_folio = $3 AND charged_day = $4 AND charged_minor IS NOT NULL
				AND (state <> 'done' OR status_code < 400 OR idem_key = $5)
			GROUP BY charged_currency`, tenant, c.Operator, c.Folio.String(), c.Day.Time(), key).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var (
					currency bff.Currency
					minor    int64
					own      bool
				)
				if err := rows.Scan(&currency, &minor, &own); err != nil {
					return err
				}
				sums[currency] += minor
				counted = counted || own
			}
			return rows.Err()
		})
		if err := tx.SendBatch(ctx, &b).Close(); err != nil || counted {
			return err
		}
		sums[c.Amount.Currency] += c.Amount.Minor
		if !within(sums) {
			return nil
		}
		tag, err := tx.Exec(ctx, `UPDATE bff_backoffice.idempotency SET charged_folio = $3, charged_day = $4, charged_currency = $5, charged_minor = $6
			WHERE tenant_id = $1 AND idem_key = $2`, tenant, key, c.Folio.String(), c.Day.Time(), c.Amount.Currency, c.Amount.Minor)
		if err == nil && tag.RowsAffected() != 1 {
			err = fmt.Errorf("%d rows have the key", tag.RowsAffected()) // its mutation has not begun
		}
		counted = err == nil
		return err
	})
	if err != nil {
		return false, undone(fmt.Errorf("count charge: %w", err))
	}
	return counted, nil
}

// UncountCharge implements action.Charges.
func (l *Ledger) UncountCharge(ctx context.Context, c action.Charged) error {
	err := l.cfg.DB.Tx(ctx, c.Tenant, func(b *pgx.Batch) {
		b.Queue(`UPDATE bff_backoffice.idempotency SET charged_folio = NULL, charged_day = NULL, charged_currency = NULL, charged_minor = NULL
			WHERE tenant_id = $1 AND idem_key = $2`, c.Tenant.UUID(), keptAs(c))
	})
	if err != nil {
		return fmt.Errorf("uncount charge: %w", err)
	}
	return nil
}

// keptAs is the name of the charge's key in the table.
func keptAs(c action.Charged) string {
	return idempotency.Request{Owner: []string{c.Tenant.UUID()}, Key: c.Once.Key}.Composite()
}
