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

const (
	// pruneBatch is how many rows one statement looks at, and removes at most.
	pruneBatch = 1000
	// pruneLook is how many batches in a row may be without a row past its time: rows lie
	// in the order of their transactions, which is nearly that of their moments.
	pruneLook = 5
)

// part is a table, or one of its parts, that may have rows past their time.
type part struct {
	Name string
	Past bool // it is a month, and all of it is past its time
}

// partsOf lists the parts of a table that may have rows past their time: the months that
// are past it, and the part of what lies in no month.
func partsOf(ctx context.Context, db *pgxpool.Pool, t audit.Table, now time.Time) ([]part, error) {
	if !t.Months {
		return []part{{Name: t.Name}}, nil
	}
	rows, err := db.Query(ctx, `SELECT name, upto IS NOT NULL FROM (
			SELECT c.relname::text AS name, substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''([^'']+)''\)')::timestamptz AS upto
			FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = $1::text::regclass) AS p
		WHERE upto IS NULL OR upto <= $2 ORDER BY name`, schema+t.Name, now.Add(-t.Keep))
	if err != nil {
		return nil, fmt.Errorf("list parts of %s: %w", t.Name, err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[part])
}

// makeMonths makes the parts of this month and the next ones.
func makeMonths(ctx context.Context, db *pgxpool.Pool, now time.Time) error {
	const ahead = 3
	_, err := db.Exec(ctx, `SELECT bff_backoffice.make_activity_month($1::timestamptz + n * interval '1 month') FROM generate_series(0, $2) AS n`, now, ahead)
	if err != nil {
		return fmt.Errorf("make months of operator_activity: %w", err)
	}
	return nil
}

// prune removes rows past their time that are in a confirmed export exactly as they
// stand; with a warehouse, in one that it has loaded. Months go as a whole. It returns
// how many rows it has removed from what stays.
func (l *Lake) prune(ctx context.Context, db *pgxpool.Pool, t audit.Table, now time.Time) (total int, err error) {
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
		dropped := false
		if p.Past {
			if dropped, err = l.dropMonth(ctx, db, t, p.Name, stay, now); err != nil {
				return total, fmt.Errorf("drop %s: %w", p.Name, err)
			}
		}
		if dropped {
			continue
		}
		// A row that must stay holds up no other of its month.
		n, err := l.pruneRows(ctx, db, t, p.Name, stay, now)
		total += n
		if err != nil {
			return total, fmt.Errorf("prune %s: %w", p.Name, err)
		}
	}
	return total, nil
}

// dropMonth drops a month whose rows are all in confirmed exports as they stand: the
// sealer has passed the last transaction that wrote one of them, none was put off or
// withheld, and no entry of them is yet to be exported. Statements wait for the drop, so
// it is tried when the answer is yes; and asked again, because a row may have changed.
func (l *Lake) dropMonth(ctx context.Context, db *pgxpool.Pool, t audit.Table, name string, stay []Withheld, now time.Time) (dropped bool, err error) {
	var tenants, ids [][16]byte
	for _, w := range stay {
		tenants, ids = append(tenants, w.Tenant.Bytes()), append(ids, w.Row.Bytes())
	}
	sql := fmt.Sprintf(`SELECT NOT EXISTS (SELECT FROM %[1]s%[3]s WHERE tx_id >= coalesce((SELECT %[4]s FROM %[1]saudit_cursors k WHERE k.tab = '%[2]s'), '0'))
		AND NOT EXISTS (SELECT FROM %[1]saudit_cursors k CROSS JOIN unnest(k.holes) AS h(tx) JOIN %[1]s%[3]s p ON p.tx_id = h.tx WHERE k.tab = '%[2]s')
		AND NOT EXISTS (SELECT FROM (SELECT tenant, row_id FROM %[1]saudit_deferred WHERE tab = '%[2]s' UNION ALL SELECT * FROM unnest($1::uuid[], $2::uuid[])) AS s
			JOIN %[1]s%[3]s p ON p.tenant_id = s.tenant AND p.id = s.row_id)
		AND NOT EXISTS (SELECT FROM %[1]saudit_chain c JOIN %[1]s%[3]s p ON p.tenant_id = c.tenant AND p.id = c.row_id
			WHERE c.tab = '%[2]s' AND c.pos > (SELECT coalesce(max(last), 0) FROM %[1]saudit_exports WHERE tab = '%[2]s' AND confirmed_at IS NOT NULL))`,
		schema, t.Name, name, reach("$3::timestamptz"))
	if l.cfg.Loader != nil {
		sql += fmt.Sprintf(` AND NOT EXISTS (SELECT FROM %[1]saudit_exports e JOIN %[1]saudit_chain c ON c.tab = e.tab AND c.pos > e.first AND c.pos <= e.last
			JOIN %[1]s%[3]s p ON p.tenant_id = c.tenant AND p.id = c.row_id WHERE e.tab = '%[2]s' AND %[4]s)`, schema, t.Name, name, unloaded)
	}
	ask := func(locked bool) error {
		return inTx(ctx, db, func(tx pgx.Tx) error {
			if err := byIndex(ctx, tx); err != nil {
				return err
			}
			if locked {
				if _, err := tx.Exec(ctx, fmt.Sprintf(`SET LOCAL lock_timeout = %d`, l.cfg.DropWait.Milliseconds())); err != nil {
					return err
				}
				if _, err := tx.Exec(ctx, fmt.Sprintf(`LOCK TABLE ONLY %s%s IN ACCESS EXCLUSIVE MODE`, schema, t.Name)); err != nil {
					return err
				}
			}
			if err := tx.QueryRow(ctx, sql, tenants, ids, now.Add(-t.Keep)).Scan(&dropped); err != nil || !dropped || !locked {
				return err
			}
			_, err := tx.Exec(ctx, `SELECT bff_backoffice.drop_activity_month($1)`, name)
			return err
		})
	}
	if err := ask(false); err != nil || !dropped {
		return false, err
	}
	if err := ask(true); err != nil || !dropped {
		return false, err
	}
	l.cfg.Log.InfoContext(ctx, "exported month dropped", "table", t.Name, "month", name)
	return true, nil
}

// pruneRows removes rows of a table or a part. It walks it once, so that rows that must
// stay are not looked at for every batch of those that go. Of two at once one has the turn.
func (l *Lake) pruneRows(ctx context.Context, db *pgxpool.Pool, t audit.Table, name string, stay []Withheld, now time.Time) (int, error) {
	loaded := ""
	if l.cfg.Loader != nil {
		loaded = fmt.Sprintf(` AND NOT EXISTS (SELECT FROM %saudit_exports WHERE tab = '%s' AND c.pos > first AND c.pos <= last AND %s)`, schema, t.Name, unloaded)
	}
	// An entry that is gone from the chain was exported before, as was the row of it that the sealer has passed.
	pruned := "false"
	if t.Months {
		pruned = fmt.Sprintf(`(SELECT b.tx_id < %[3]s AND NOT b.tx_id = ANY(k.holes) FROM %[1]saudit_cursors k WHERE k.tab = '%[2]s')
			AND NOT EXISTS (SELECT FROM %[1]saudit_deferred d WHERE d.tab = '%[2]s' AND d.tenant = b.tenant_id AND d.row_id = b.id)`, schema, t.Name, reach("b.moment"))
	}
	// A row can change while the statement waits for it: it is then at another place, and
	// what was exported is not what would go.
	sql := fmt.Sprintf(`WITH batch AS MATERIALIZED (
			SELECT ctid AS place, tx_id, tenant_id, id, %[3]s AS moment, %[3]s < $1 AS old FROM %[1]s%[5]s
			WHERE (SELECT pg_try_advisory_xact_lock(hashtextextended('prune %[5]s', 0))) AND (tx_id, tenant_id, id) > ($2::text::xid8, $3, $4)
			ORDER BY tx_id, tenant_id, id LIMIT $5),
		exported AS MATERIALIZED (
			SELECT b.* FROM batch b WHERE b.old AND NOT b.id = ANY($6) AND coalesce((SELECT c.tx_id = b.tx_id
				AND c.pos <= (SELECT coalesce(max(last), 0) FROM %[1]saudit_exports WHERE tab = '%[2]s' AND confirmed_at IS NOT NULL)%[4]s
				FROM %[1]saudit_chain c WHERE c.tenant = b.tenant_id AND c.tab = '%[2]s' AND c.row_id = b.id ORDER BY c.version DESC LIMIT 1), %[6]s)),
		gone AS (
			DELETE FROM %[1]s%[5]s t WHERE t.ctid = ANY(ARRAY(SELECT place FROM exported)) RETURNING t.id)
		SELECT tx_id::text, tenant_id, id, (SELECT count(*) FROM gone), EXISTS (SELECT FROM batch WHERE old)
		FROM batch ORDER BY batch.tx_id DESC, tenant_id DESC, id DESC LIMIT 1`,
		schema, t.Name, t.Moment, loaded, name, pruned)
	var (
		txID        = "0"
		tenant, row [16]byte
	)
	total := 0
	for young := 0; young < pruneLook; {
		var (
			n   int
			old bool
		)
		err := inTx(ctx, db, func(tx pgx.Tx) error {
			if err := byIndex(ctx, tx); err != nil {
				return err
			}
			return tx.QueryRow(ctx, sql, now.Add(-t.Keep), txID, tenant, row, pruneBatch, idsOf(stay)).Scan(&txID, &tenant, &row, &n, &old)
		})
		if errors.Is(err, pgx.ErrNoRows) { // the end, or another process has the turn
			return total, nil
		}
		if err != nil {
			return total, err
		}
		total += n
		if young++; old {
			young = 0
		}
	}
	return total, nil
}

// idsOf are the ids of rows that exports have withheld.
func idsOf(withheld []Withheld) [][16]byte {
	ids := make([][16]byte, 0, len(withheld))
	for _, w := range withheld {
		ids = append(ids, w.Row.Bytes())
	}
	return ids
}

// entriesKept is how long the chain keeps entries that are in the lake, for a verification without it.
const entriesKept = 7 * 24 * time.Hour

// pruneEntries removes entries of tables that are kept by month from the chain: those up
// to a signed head that was exported, with them and with their rows. What a row that may
// still change was sealed as stays until it is sealed again.
func (l *Lake) pruneEntries(ctx context.Context, db *pgxpool.Pool, now time.Time) error {
	for _, t := range audit.AuditTables() {
		if !t.Months {
			continue
		}
		loaded := ""
		if l.cfg.Loader != nil {
			loaded = fmt.Sprintf(` AND c.pos <= (SELECT coalesce(min(first), 9223372036854775807) FROM %[1]saudit_exports WHERE tab IN ('%[2]s', '%[3]s') AND %[4]s)`,
				schema, t.Name, ChainTable, unloaded)
		}
		// Exports begin at 0 and have no gaps. That of the table ends with its own last entry.
		if _, err := db.Exec(ctx, fmt.Sprintf(`WITH ends AS MATERIALIZED (SELECT max(last) FILTER (WHERE tab = '%[3]s') AS chain, max(last) FILTER (WHERE tab = '%[2]s') AS rows
				FROM %[1]saudit_exports WHERE confirmed_at IS NOT NULL),
			next AS MATERIALIZED (SELECT pos FROM %[1]saudit_chain WHERE tab = '%[2]s' AND pos > coalesce((SELECT rows FROM ends), 0) ORDER BY pos LIMIT 1)
			UPDATE %[1]saudit_tips t SET pruned_seq = h.seq
			FROM %[1]saudit_tips o CROSS JOIN LATERAL (SELECT h.seq FROM %[1]saudit_heads h JOIN %[1]saudit_chain c ON c.tenant = h.tenant AND c.seq = h.seq
				WHERE h.tenant = o.tenant AND h.seq > o.pruned_seq AND h.seq <= o.exported_seq AND h.sealed_at < $1
					AND c.pos <= (SELECT chain FROM ends) AND NOT EXISTS (SELECT FROM next WHERE pos <= c.pos)%[4]s
				ORDER BY h.seq DESC LIMIT 1) AS h
			WHERE t.tenant = o.tenant`, schema, t.Name, ChainTable, loaded), now.Add(-entriesKept)); err != nil {
			return fmt.Errorf("prune audit entries: %w", err)
		}
		sql := fmt.Sprintf(`WITH batch AS MATERIALIZED (
				SELECT c.pos, c.sealed_at < $1 AS old, c.seq <= coalesce((SELECT pruned_seq FROM %[1]saudit_tips WHERE tenant = c.tenant), 0) AND (c.unsettled IS NULL OR EXISTS (
					SELECT FROM %[1]saudit_chain n WHERE n.tenant = c.tenant AND n.tab = c.tab AND n.row_id = c.row_id AND n.version > c.version)) AS goes
				FROM %[1]saudit_chain c WHERE c.tab = '%[2]s' AND c.pos > $2 ORDER BY c.pos LIMIT $3),
			gone AS (DELETE FROM %[1]saudit_chain WHERE pos = ANY(ARRAY(SELECT pos FROM batch WHERE old AND goes)) AND sealed_at < $1 RETURNING pos)
			SELECT max(pos), bool_or(old) FROM batch HAVING count(*) > 0`, schema, t.Name)
		for at, old := int64(0), true; old; {
			err := inTx(ctx, db, func(tx pgx.Tx) error {
				if err := byIndex(ctx, tx); err != nil {
					return err
				}
				return tx.QueryRow(ctx, sql, now.Add(-entriesKept), at, pruneBatch).Scan(&at, &old)
			})
			if errors.Is(err, pgx.ErrNoRows) {
				break
			}
			if err != nil {
				return fmt.Errorf("prune audit entries: %w", err)
			}
		}
	}
	return nil
}
