package backofficelake

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

const (
	sealBatch = 2000
	headBatch = 200
)

// takeTurn lets one sealer at a time write: pos then grows in the order of commits.
const takeTurn = `SELECT pg_try_advisory_xact_lock(hashtextextended('seal bff_backoffice', 0))`

// Seal adds all rows that no running transaction can precede to the chains of their
// tenants, and signs the ends. It returns how many entries it added.
func (l *Lake) Seal(ctx context.Context, db *pgxpool.Pool, now time.Time) (int, error) {
	keys, err := l.cfg.Keys(ctx)
	if err != nil {
		return 0, err
	}
	total := 0
	for _, t := range backoffice.AuditTables() {
		for {
			read, added, err := l.sealBatch(ctx, db, t, now)
			if errors.Is(err, errBusy) {
				return total, nil
			}
			total += added
			if err != nil {
				return total, fmt.Errorf("seal %s: %w", t.Name, err)
			}
			if read < sealBatch {
				break
			}
		}
	}
	for {
		n, err := l.signHeads(ctx, db, keys, now)
		if errors.Is(err, errBusy) || err == nil && n < headBatch {
			return total, nil
		}
		if err != nil {
			return total, fmt.Errorf("sign audit chains: %w", err)
		}
	}
}

// found is a row that the sealer has read.
type found struct {
	txID      string
	tenant    [16]byte
	row       [16]byte
	at        time.Time
	encoded   []byte // of an unsettled row
	hash      backoffice.Digest
	unsettled bool
	// Of its newest entry; version 0 = it has none.
	version int
	sameTx  bool
	same    bool
}

func (l *Lake) sealBatch(ctx context.Context, db *pgxpool.Pool, t backoffice.AuditTable, now time.Time) (read, added int, err error) {
	err = inTx(ctx, db, func(tx pgx.Tx) error {
		read, added = 0, 0
		var mine bool
		if err := tx.QueryRow(ctx, takeTurn).Scan(&mine); err != nil {
			return err
		}
		if !mine {
			return errBusy
		}
		rows, end, err := readUnsealed(ctx, tx, t)
		if err != nil {
			return err
		}
		read = end.ahead
		// Bookkeeping may rewrite a row without changing what is sealed of it. A table
		// that is pruned has the rewritten row sealed again, because it is pruned by its
		// transaction.
		rows = slices.DeleteFunc(rows, func(r found) bool { return r.sameTx || r.same && t.Keep == 0 })
		added = len(rows)
		if err := addEntries(ctx, tx, t.Name, rows, now); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO bff_backoffice.audit_cursors (tab, tx_id, tenant, row_id, holes) VALUES ($1, $2::text::xid8, $3, $4, $5::text[]::xid8[])
			ON CONFLICT (tab) DO UPDATE SET tx_id = excluded.tx_id, tenant = excluded.tenant, row_id = excluded.row_id, holes = excluded.holes`,
			t.Name, end.txID, end.tenant, end.row, end.holes)
		return err
	})
	return read, added, err
}

// cursor is up to where a read went.
type cursor struct {
	txID   string
	tenant [16]byte
	row    [16]byte
	holes  []string // transactions before it that were running
	ahead  int      // rows that were read behind the cursor before
}

// readUnsealed reads the next rows behind the cursor, and those of transactions that
// were running when the cursor passed them. All of it is one statement, and so one
// snapshot: a transaction that is not running in it has no more rows to show.
//
// A cursor beyond the server's transactions was restored from another server: the walk
// begins again, and what has an entry already is passed over. Rows beyond them were
// restored, too, and are read whatever the cursor; the newest row tells that there are
// none, which spares the server to look through the table for them.
func readUnsealed(ctx context.Context, tx pgx.Tx, t backoffice.AuditTable) ([]found, cursor, error) {
	unsettled := "false"
	if t.Unsettled != "" {
		unsettled = t.Unsettled
	}
	const none = "'00000000-0000-0000-0000-000000000000'::uuid"
	sql := fmt.Sprintf(`WITH s AS MATERIALIZED (SELECT pg_current_snapshot()::text AS snapshot, pg_snapshot_xmax(pg_current_snapshot()) AS xmax),
		k AS MATERIALIZED (SELECT coalesce(c.tx_id, '0'::xid8) AS tx_id, coalesce(c.tenant, `+none+`) AS tenant, coalesce(c.row_id, `+none+`) AS row_id, c.holes
			FROM s LEFT JOIN %[1]saudit_cursors c ON c.tab = '%[2]s' AND c.tx_id <= s.xmax),
		n AS MATERIALIZED (
			(SELECT 'ahead' AS side, t.* FROM %[1]s%[2]s t WHERE (t.tx_id, t.tenant_id, t.id) > ((SELECT tx_id FROM k), (SELECT tenant FROM k), (SELECT row_id FROM k))
				AND t.tx_id < (SELECT xmax FROM s) ORDER BY t.tx_id, t.tenant_id, t.id LIMIT $1)
			UNION ALL
			(SELECT 'hole', t.* FROM %[1]s%[2]s t WHERE t.tx_id = ANY((SELECT holes FROM k)::xid8[]) AND (t.tx_id, t.tenant_id, t.id) <= ((SELECT tx_id FROM k), (SELECT tenant FROM k), (SELECT row_id FROM k)))
			UNION ALL
			(SELECT 'restored', t.* FROM %[1]s%[2]s t WHERE (SELECT tx_id FROM %[1]s%[2]s ORDER BY tx_id DESC LIMIT 1) >= (SELECT xmax FROM s)
				AND t.tx_id >= (SELECT xmax FROM s) AND NOT EXISTS (SELECT FROM %[1]saudit_chain c
				WHERE c.tenant = t.tenant_id AND c.tab = '%[2]s' AND c.row_id = t.id AND c.tx_id = t.tx_id) LIMIT $1))
		SELECT s.snapshot, t.side, t.tx_id::text, t.%[3]s, %[4]s, coalesce(c.version, 0), coalesce(c.tx_id = t.tx_id, false), c.row_hash, %[5]s
		FROM s LEFT JOIN n t ON true LEFT JOIN LATERAL (SELECT version, tx_id, row_hash FROM %[1]saudit_chain c
			WHERE c.tenant = t.tenant_id AND c.tab = '%[2]s' AND c.row_id = t.id ORDER BY c.version DESC LIMIT 1) c ON true
		ORDER BY t.tx_id, t.tenant_id, t.id`, schema, t.Name, t.Moment, unsettled, expressions(&t, "t"))
	rows, err := tx.Query(ctx, sql, pgx.QueryResultFormats{pgx.BinaryFormatCode}, sealBatch)
	if err != nil {
		return nil, cursor{}, err
	}
	defer rows.Close()
	var (
		all      []found
		snapshot string
		end      cursor
	)
	for rows.Next() {
		var (
			f               found
			side, txID      *string
			at              *time.Time
			unsettled, same *bool
			before          []byte
		)
		const own = 8
		dst := []any{&snapshot, &side, &txID, &at, &unsettled, &f.version, &same, &before}
		for range t.Columns {
			dst = append(dst, nil)
		}
		if err := rows.Scan(dst...); err != nil {
			return nil, end, err
		}
		if side == nil { // the snapshot alone
			continue
		}
		values := make(backoffice.AuditRow, len(t.Columns))
		for i, raw := range rows.RawValues()[own:] {
			values[i] = canonical(t.Columns[i].Kind, raw)
		}
		f.txID, f.at, f.unsettled, f.sameTx = *txID, *at, *unsettled, *same
		f.row, f.tenant = [16]byte(values[0]), [16]byte(values[1])
		f.encoded = t.Encode(nil, values)
		f.hash = sha256.Sum256(f.encoded)
		f.same = string(before) == string(f.hash[:])
		all = append(all, f)
		if *side == "ahead" {
			end.ahead++
			end.txID, end.tenant, end.row = f.txID, f.tenant, f.row
		}
	}
	if err := rows.Err(); err != nil {
		return nil, end, err
	}
	return all, end, end.settle(snapshot)
}

// settle moves the cursor to the end of the snapshot, if everything up to there was
// read, and keeps the transactions that run before it.
func (c *cursor) settle(snapshot string) error {
	parts := strings.Split(snapshot, ":") // xmin:xmax:running,running
	if len(parts) != 3 {
		return fmt.Errorf("malformed snapshot %q", snapshot)
	}
	if c.ahead < sealBatch {
		c.txID, c.tenant, c.row = parts[1], [16]byte{}, [16]byte{}
	}
	limit, err := strconv.ParseUint(c.txID, 10, 64)
	if err != nil {
		return fmt.Errorf("malformed snapshot %q", snapshot)
	}
	c.holes = []string{}
	for x := range strings.SplitSeq(parts[2], ",") {
		if n, err := strconv.ParseUint(x, 10, 64); err == nil && n <= limit {
			c.holes = append(c.holes, x)
		}
	}
	return nil
}

// microsecondsTo2000 is Postgres' epoch.
const microsecondsTo2000 = 946684800000000

// canonical is the value of a column from its binary form on the wire.
func canonical(kind backoffice.AuditKind, raw []byte) []byte {
	if raw == nil {
		return nil
	}
	if kind == backoffice.AuditTime {
		return binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(raw)+microsecondsTo2000)
	}
	return append([]byte{}, raw...) // an empty text is not null
}

// tip is where a chain ends.
type tip struct {
	Tenant [16]byte
	Seq    int64
	Hash   []byte
}

// addEntries appends rows to the chains of their tenants.
func addEntries(ctx context.Context, tx pgx.Tx, table string, rows []found, now time.Time) error {
	if len(rows) == 0 {
		return nil
	}
	now = now.UTC().Truncate(time.Microsecond)
	tenants := make([][16]byte, 0, len(rows))
	for i := range rows {
		tenants = append(tenants, rows[i].tenant)
	}
	found, err := tx.Query(ctx, `SELECT tenant, seq, hash FROM bff_backoffice.audit_tips WHERE tenant = ANY($1)`, tenants)
	if err != nil {
		return err
	}
	all, err := pgx.CollectRows(found, pgx.RowToStructByPos[tip])
	if err != nil {
		return err
	}
	tips := map[[16]byte]*tip{}
	for i := range all {
		tips[all[i].Tenant] = &all[i]
	}
	var (
		seqs                      []int64
		ids                       [][16]byte
		versions                  []int
		ats                       []time.Time
		rowHashes, hashes, bodies [][]byte
		txIDs                     []string
	)
	for i := range rows {
		r := &rows[i]
		end := tips[r.tenant]
		if end == nil {
			end = &tip{Tenant: r.tenant, Hash: make([]byte, sha256.Size)}
			tips[r.tenant] = end
		}
		e := backoffice.AuditEntry{
			Tenant: r.tenant, Seq: end.Seq + 1, Table: table, Row: r.row, Version: r.version + 1, At: r.at, SealedAt: now, Settled: !r.unsettled, RowHash: r.hash,
		}
		sum := e.Sum(backoffice.Digest(end.Hash))
		end.Seq, end.Hash = e.Seq, sum[:]
		var body []byte
		if r.unsettled {
			body = r.encoded
		}
		seqs, ids, versions, ats = append(seqs, e.Seq), append(ids, r.row), append(versions, e.Version), append(ats, r.at)
		rowHashes, hashes, bodies, txIDs = append(rowHashes, r.hash[:]), append(hashes, sum[:]), append(bodies, body), append(txIDs, r.txID)
	}
	// With the order of the arrays, so that pos grows with seq.
	if _, err := tx.Exec(ctx, `INSERT INTO bff_backoffice.audit_chain (tenant, seq, tab, row_id, version, at, sealed_at, row_hash, hash, unsettled, tx_id)
		SELECT tenant, seq, $1, row_id, version, at, $2, row_hash, hash, unsettled, tx_id::xid8
		FROM unnest($3::uuid[], $4::bigint[], $5::uuid[], $6::int[], $7::timestamptz[], $8::bytea[], $9::bytea[], $10::bytea[], $11::text[])
			WITH ORDINALITY AS e(tenant, seq, row_id, version, at, row_hash, hash, unsettled, tx_id, n) ORDER BY n`,
		table, now, tenants, seqs, ids, versions, ats, rowHashes, hashes, bodies, txIDs); err != nil {
		return fmt.Errorf("add audit entries: %w", err)
	}
	tenants, seqs, hashes = tenants[:0], nil, nil
	for _, end := range tips {
		tenants, seqs, hashes = append(tenants, end.Tenant), append(seqs, end.Seq), append(hashes, end.Hash)
	}
	_, err = tx.Exec(ctx, `INSERT INTO bff_backoffice.audit_tips (tenant, seq, hash) SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bytea[])
		ON CONFLICT (tenant) DO UPDATE SET seq = excluded.seq, hash = excluded.hash`, tenants, seqs, hashes)
	return err
}

// signHeads signs the ends of chains that have grown, with their events.
func (l *Lake) signHeads(ctx context.Context, db *pgxpool.Pool, keys *backoffice.AuditKeys, now time.Time) (n int, err error) {
	err = inTx(ctx, db, func(tx pgx.Tx) error {
		n = 0
		var mine bool
		if err := tx.QueryRow(ctx, takeTurn).Scan(&mine); err != nil {
			return err
		}
		if !mine {
			return errBusy
		}
		rows, err := tx.Query(ctx, `SELECT tenant, seq, hash, head_seq FROM bff_backoffice.audit_tips WHERE seq > head_seq LIMIT $1`, headBatch)
		if err != nil {
			return err
		}
		type grown struct {
			tip
			HeadSeq int64
		}
		ends, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (g grown, err error) {
			return g, r.Scan(&g.Tenant, &g.Seq, &g.Hash, &g.HeadSeq)
		})
		if err != nil || len(ends) == 0 {
			return err
		}
		n = len(ends)
		var (
			b      pgx.Batch
			events []bff.Event
		)
		for _, end := range ends {
			head, err := keys.Sign(bff.IDFromBytes(bff.PrefixTenant, end.Tenant), end.Seq, backoffice.Digest(end.Hash), now)
			if err != nil {
				return err
			}
			event, err := l.cfg.News.Sealed(head, end.Seq-end.HeadSeq, now)
			if err != nil {
				return err
			}
			events = append(events, event)
			signature, err := base64.StdEncoding.DecodeString(head.Signature)
			if err != nil {
				return err
			}
			b.Queue(`INSERT INTO bff_backoffice.audit_heads (tenant, seq, hash, sealed_at, key_id, signature) VALUES ($1, $2, $3, $4, $5, $6)`,
				end.Tenant, end.Seq, end.Hash, head.SealedAt.Time, head.KeyID, signature)
			b.Queue(`UPDATE bff_backoffice.audit_tips SET head_seq = $2 WHERE tenant = $1`, end.Tenant, end.Seq)
		}
		if err := tx.SendBatch(ctx, &b).Close(); err != nil {
			return err
		}
		return l.cfg.Outbox.Append(ctx, tx, events...)
	})
	return n, err
}

// scanHead reads a head as audit_heads has it.
func scanHead(r pgx.CollectableRow) (h backoffice.AuditHead, err error) {
	var (
		tenant          [16]byte
		hash, signature []byte
		at              time.Time
	)
	if err := r.Scan(&tenant, &h.Seq, &hash, &at, &h.KeyID, &signature); err != nil {
		return h, err
	}
	h.Tenant, h.Hash, h.SealedAt = bff.IDFromBytes(bff.PrefixTenant, tenant), hex.EncodeToString(hash), bff.At(at)
	h.Signature = base64.StdEncoding.EncodeToString(signature)
	return h, nil
}

// countUnsealed counts the rows that have no entry in the version that they have.
func (l *Lake) countUnsealed(ctx context.Context, db *pgxpool.Pool, _ time.Time) (int, error) {
	total := 0
	for _, t := range backoffice.AuditTables() {
		var n int
		if err := db.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM (SELECT FROM %[1]s%[2]s t
			WHERE (t.tx_id >= coalesce((SELECT tx_id FROM %[1]saudit_cursors WHERE tab = '%[2]s'), '0') OR t.tx_id = ANY((SELECT holes FROM %[1]saudit_cursors WHERE tab = '%[2]s')::xid8[]))
				AND NOT EXISTS (SELECT FROM %[1]saudit_chain c WHERE c.tenant = t.tenant_id AND c.tab = '%[2]s' AND c.row_id = t.id AND c.tx_id = t.tx_id)
			LIMIT 1000000) AS o`, schema, t.Name)).Scan(&n); err != nil {
			return 0, fmt.Errorf("count unsealed rows of %s: %w", t.Name, err)
		}
		total += n
	}
	return total, nil
}
