package backofficelake

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
)

// pruneBatch is how many rows one statement looks at, and removes at most.
const pruneBatch = 1000

// prune removes rows past their time that are in a confirmed export exactly as they
// stand; with a warehouse, in one that it has loaded. It walks the table once, so that
// rows that must stay are not looked at for every batch of those that go. Of two at
// once one has the turn.
func (l *Lake) prune(ctx context.Context, db *pgxpool.Pool, t audit.Table, now time.Time) (int, error) {
	if t.Keep == 0 {
		return 0, nil
	}
	stay, err := withheldIDs(ctx, db, t.Name)
	if err != nil {
		return 0, err
	}
	loaded := ""
	if l.cfg.Loader != nil {
		loaded = fmt.Sprintf(` AND NOT EXISTS (SELECT FROM %saudit_exports WHERE tab = '%s' AND c.pos > first AND c.pos <= last AND %s)`, schema, t.Name, unloaded)
	}
	// A row can change while the statement waits for it: it is then at another place, and
	// what was exported is not what would go.
	sql := fmt.Sprintf(`WITH batch AS MATERIALIZED (
			SELECT ctid AS place, tx_id, tenant_id, id, %[3]s < $1 AS old FROM %[1]s%[2]s
			WHERE (SELECT pg_try_advisory_xact_lock(hashtextextended('prune %[2]s', 0))) AND (tx_id, tenant_id, id) > ($2::text::xid8, $3, $4)
			ORDER BY tx_id, tenant_id, id LIMIT $5),
		exported AS MATERIALIZED (
			SELECT b.* FROM batch b WHERE b.old AND NOT b.id = ANY($6) AND (SELECT c.tx_id = b.tx_id
				AND c.pos <= (SELECT coalesce(max(last), 0) FROM %[1]saudit_exports WHERE tab = '%[2]s' AND confirmed_at IS NOT NULL)%[4]s
				FROM %[1]saudit_chain c WHERE c.tenant = b.tenant_id AND c.tab = '%[2]s' AND c.row_id = b.id ORDER BY c.version DESC LIMIT 1)),
		gone AS (
			DELETE FROM %[1]s%[2]s t WHERE t.ctid = ANY(ARRAY(SELECT place FROM exported)) RETURNING t.id)
		SELECT tx_id::text, tenant_id, id, (SELECT count(*) FROM gone) FROM batch ORDER BY batch.tx_id DESC, tenant_id DESC, id DESC LIMIT 1`,
		schema, t.Name, t.Moment, loaded)
	var (
		txID        = "0"
		tenant, row [16]byte
	)
	for total := 0; ; {
		var n int
		err := inTx(ctx, db, func(tx pgx.Tx) error {
			if err := byIndex(ctx, tx); err != nil {
				return err
			}
			return tx.QueryRow(ctx, sql, now.Add(-t.Keep), txID, tenant, row, pruneBatch, stay).Scan(&txID, &tenant, &row, &n)
		})
		if errors.Is(err, pgx.ErrNoRows) { // the end, or another process has the turn
			return total, nil
		}
		if err != nil {
			return total, fmt.Errorf("prune %s: %w", t.Name, err)
		}
		total += n
	}
}

// withheldIDs are the rows that exports have withheld.
func withheldIDs(ctx context.Context, db *pgxpool.Pool, name string) ([][16]byte, error) {
	withheld, err := withheldRows(ctx, db, name)
	ids := make([][16]byte, 0, len(withheld))
	for _, w := range withheld {
		ids = append(ids, w.Row.Bytes())
	}
	return ids, err
}
