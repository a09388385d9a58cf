package backofficelake

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
)

// countAllUnsealed counts the rows that a seal would add.
func countAllUnsealed(ctx context.Context, db *pgxpool.Pool, _ time.Time) (total int, err error) {
	for _, t := range audit.AuditTables() {
		n, err := countUnsealed(ctx, db, t)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// countUnsealed counts the rows that have no entry in the version that they have, up to a million.
func countUnsealed(ctx context.Context, db *pgxpool.Pool, t audit.Table) (n int, err error) {
	if err := db.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) + (SELECT count(*) FROM %[1]saudit_deferred WHERE tab = '%[2]s') FROM (SELECT FROM %[1]s%[2]s t
		WHERE (t.tx_id >= coalesce((SELECT tx_id FROM %[1]saudit_cursors WHERE tab = '%[2]s'), '0') OR t.tx_id = ANY((SELECT holes FROM %[1]saudit_cursors WHERE tab = '%[2]s')::xid8[]))
			AND NOT EXISTS (SELECT FROM %[1]saudit_chain c WHERE c.tenant = t.tenant_id AND c.tab = '%[2]s' AND c.row_id = t.id AND c.tx_id = t.tx_id)
			AND NOT EXISTS (SELECT FROM %[1]saudit_cursors k WHERE k.tab = '%[2]s' AND t.tx_id < %[3]s AND NOT t.tx_id = ANY(k.holes))
		LIMIT 1000000) AS o`, schema, t.Name, reach("t."+t.Moment))).Scan(&n); err != nil {
		return 0, fmt.Errorf("count unsealed rows of %s: %w", t.Name, err)
	}
	return n, nil
}

// countExport counts the rows that an export would write, which seals first, up to a million.
func countExport(ctx context.Context, db *pgxpool.Pool, t audit.Table) (n int, err error) {
	if err := db.QueryRow(ctx, `SELECT count(*) FROM (SELECT FROM bff_backoffice.audit_chain WHERE tab = $1
		AND pos > (SELECT coalesce(max(last), 0) FROM bff_backoffice.audit_exports WHERE tab = $1 AND confirmed_at IS NOT NULL) LIMIT 1000000) AS c`, t.Name).Scan(&n); err != nil {
		return 0, fmt.Errorf("count what is to be exported of %s: %w", t.Name, err)
	}
	unsealed, err := countUnsealed(ctx, db, t)
	return n + unsealed, err
}

// countPruned counts the rows that would be pruned after such an export, up to a million of each part: all that are past their time, but
// for those that can not be sealed or were withheld.
func countPruned(ctx context.Context, db *pgxpool.Pool, t audit.Table, now time.Time) (total int, err error) {
	if t.Keep == 0 {
		return 0, nil
	}
	stay, err := withheldRows(ctx, db, t.Name)
	if err != nil {
		return 0, err
	}
	parts, err := partsOf(ctx, db, t, now)
	if err != nil {
		return 0, err
	}
	for _, p := range parts {
		var n int
		if err := db.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM (SELECT FROM %[1]s%[4]s t WHERE %[3]s < $1 AND NOT id = ANY($2)
			AND NOT EXISTS (SELECT FROM %[1]saudit_deferred d WHERE d.tab = '%[2]s' AND d.tenant = t.tenant_id AND d.row_id = t.id) LIMIT 1000000) AS o`,
			schema, t.Name, t.Moment, p.Name), now.Add(-t.Keep), idsOf(stay)).Scan(&n); err != nil {
			return 0, fmt.Errorf("count what is to be pruned of %s: %w", p.Name, err)
		}
		total += n
	}
	return total, nil
}
