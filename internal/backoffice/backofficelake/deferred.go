package backofficelake

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
)

const (
	// deferredTimeout is for one row, deferredTime for all of them in one run.
	deferredTimeout = 50 * time.Second
	deferredTime    = 2 * time.Minute
)

// deferRows writes down which rows could not be sealed.
func (l *Lake) deferRows(ctx context.Context, tx pgx.Tx, t *audit.Table, rows []found) error {
	if len(rows) == 0 {
		return nil
	}
	var (
		tenants, ids [][16]byte
		reasons      []string
	)
	for i := range rows {
		tenants, ids, reasons = append(tenants, rows[i].tenant), append(ids, rows[i].row), append(reasons, rows[i].refused)
	}
	l.cfg.Log.WarnContext(ctx, "audit rows could not be sealed and were put off", "table", t.Name, "rows", len(rows), "error", reasons[0])
	if _, err := tx.Exec(ctx, `INSERT INTO bff_backoffice.audit_deferred (tab, tenant, row_id, reason)
		SELECT $1, tenant, row_id, reason FROM unnest($2::uuid[], $3::uuid[], $4::text[]) AS d(tenant, row_id, reason)
		ON CONFLICT DO NOTHING`, t.Name, tenants, ids, reasons); err != nil {
		return fmt.Errorf("put off audit rows: %w", err)
	}
	return nil
}

// retryDeferred seals the rows that were put off, each in a transaction of its own, and reports those that are left.
func (l *Lake) retryDeferred(ctx context.Context, db *pgxpool.Pool, clock clock) (added int, err error) {
	var began time.Time
	if err := db.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&began); err != nil {
		return 0, err
	}
	for start := time.Now(); time.Since(start) < deferredTime; {
		sealed, none, err := l.retryOne(ctx, db, began, clock)
		if err != nil {
			return added, fmt.Errorf("seal rows that were put off: %w", err)
		}
		if none {
			break
		}
		if sealed {
			added++
		}
	}
	return added, deferredLeft(ctx, db)
}

// retryOne tries the row that was not tried for longest, if that was before the run.
func (l *Lake) retryOne(ctx context.Context, db *pgxpool.Pool, began time.Time, clock clock) (sealed, none bool, err error) {
	err = inTx(ctx, db, func(tx pgx.Tx) error {
		sealed, none = false, false
		if err := beginSealing(ctx, tx); err != nil {
			return err
		}
		var (
			name        string
			tenant, row [16]byte
		)
		err := tx.QueryRow(
			ctx, `SELECT tab, tenant, row_id FROM bff_backoffice.audit_deferred WHERE tried_at < $1 ORDER BY tried_at LIMIT 1`, began,
		).Scan(&name, &tenant, &row)
		if errors.Is(err, pgx.ErrNoRows) {
			none = true
			return nil
		}
		if err != nil {
			return err
		}
		why := ""
		err = attempt(ctx, tx, deferredTimeout, func(tx pgx.Tx) error {
			f, err := readDeferred(ctx, tx, name, tenant, row)
			switch {
			case err != nil:
				return err
			case !f.read:
				why = "the row is gone"
				return nil
			case f.sameTx: // it was written again meanwhile, and sealed as it is now
			default:
				if err := addEntries(ctx, tx, name, []found{f}, time.Time{}, clock.now()); err != nil {
					return err
				}
				sealed = true
			}
			_, err = tx.Exec(ctx, `DELETE FROM bff_backoffice.audit_deferred WHERE tab = $1 AND tenant = $2 AND row_id = $3`, name, tenant, row)
			return err
		})
		if err != nil {
			sealed = false
			if why = refusalOf(ctx, err); why == "" {
				return err
			}
		}
		if why == "" {
			return nil
		}
		_, err = tx.Exec(
			ctx, `UPDATE bff_backoffice.audit_deferred SET reason = $4, tried_at = clock_timestamp() WHERE tab = $1 AND tenant = $2 AND row_id = $3`, name,
			tenant, row, why,
		)
		return err
	})
	return sealed, none, err
}

// readDeferred reads a row with what the chain knows of it.
func readDeferred(ctx context.Context, tx pgx.Tx, name string, tenant, row [16]byte) (f found, err error) {
	var (
		version int
		form    = audit.AuditWeighed
		txID    string
	)
	err = tx.QueryRow(ctx, `SELECT version, form, tx_id::text FROM bff_backoffice.audit_chain WHERE tenant = $1 AND tab = $2 AND row_id = $3
		ORDER BY version DESC LIMIT 1`, tenant, name, row).Scan(&version, &form, &txID)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return f, err
	}
	for _, t := range audit.AuditTables() {
		if t.Name == name {
			err = readRows(ctx, tx, &t, form, `t.tenant_id = $1 AND t.id = $2`, func(r found) { f = r }, tenant, row)
		}
	}
	f.version, f.sameTx = version, f.tx == number64(txID)
	return f, err
}

// deferredLeft reports the rows that can not be sealed.
func deferredLeft(ctx context.Context, db *pgxpool.Pool) error {
	var (
		name, reason string
		tenant, row  [16]byte
		n            int
	)
	err := db.QueryRow(ctx, `SELECT tab, tenant, row_id, reason, count(*) OVER () FROM bff_backoffice.audit_deferred ORDER BY since, tab, tenant, row_id LIMIT 1`).
		Scan(&name, &tenant, &row, &reason, &n)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%d rows can not be sealed, the first: %s %s of tenant %s: %s", n, name, rowID(name, row), bff.IDFromBytes(bff.PrefixTenant, tenant), reason)
}
