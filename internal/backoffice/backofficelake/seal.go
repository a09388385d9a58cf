package backofficelake

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
)

const (
	sealBatch = 2000
	headBatch = 200
	// chunkRows are read by one statement, and one by one if that fails.
	sealChunk = 500
	// sealBytes and batchTime end a batch early.
	sealBytes = 16 << 20
	batchTime = 20 * time.Second
	// tableTime is what one table has of a run, so that the next ones have their turn whatever lies in this one.
	tableTime = 2 * time.Minute
)

// takeTurn lets one sealer at a time write: pos then grows in the order of commits.
const takeTurn = `SELECT pg_try_advisory_xact_lock(hashtextextended('seal bff_backoffice', 0))`

// errPartial says that a run has done what it could, and what is left. It holds up no export.
var errPartial = errors.New("not everything could be sealed")

// Seal adds all rows that no running transaction can precede to the chains of their
// tenants, and signs the ends. It returns how many entries it added. What fails, a row, a
// tenant or a table, holds up nothing else, and is reported in the end.
func (l *Lake) Seal(ctx context.Context, db *pgxpool.Pool, now time.Time) (int, error) {
	keys, err := l.cfg.Keys(ctx)
	if err != nil {
		return 0, err
	}
	clock := startClock(now)
	var (
		total int
		errs  []error
	)
	for _, t := range audit.AuditTables() {
		added, err := l.sealTable(ctx, db, t, clock)
		total += added
		if errors.Is(err, errBusy) {
			return total, nil
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("seal %s: %w", t.Name, err))
		}
		if ctx.Err() != nil {
			return total, errors.Join(errs...)
		}
	}
	errs = append(errs, l.signAll(ctx, db, keys, clock))
	added, err := l.retryDeferred(ctx, db, clock)
	total += added
	if added > 0 {
		errs = append(errs, l.signAll(ctx, db, keys, clock))
	}
	if errors.Is(err, errBusy) {
		err = nil
	}
	if err := errors.Join(append(errs, err)...); err != nil {
		return total, fmt.Errorf("%w: %w", errPartial, err)
	}
	return total, nil
}

// clock goes on from a moment: what is sealed late in a run was written after its beginning.
type clock struct{ from, started time.Time }

func startClock(now time.Time) clock { return clock{now, time.Now()} }

func (c clock) now() time.Time {
	return c.from.Add(time.Since(c.started)).UTC().Truncate(time.Microsecond)
}

// sealTable seals what is new in a table.
func (l *Lake) sealTable(ctx context.Context, db *pgxpool.Pool, t audit.Table, clock clock) (total int, err error) {
	w := &walk{table: t}
	for start := time.Now(); ; {
		more, added, err := l.sealBatch(ctx, db, w, clock)
		total += added
		if err != nil || !more {
			return total, err
		}
		if time.Since(start) > tableTime {
			return total, errors.New("there is more than a run has time for: the next run goes on")
		}
	}
}

// found is a row that the sealer has come upon.
type found struct {
	tx     uint64
	tenant [16]byte
	row    [16]byte
	// Of its newest entry; version 0 = it has none.
	version int
	sameTx  bool
	before  []byte // hash
	form    audit.Form

	read      bool
	at        time.Time
	encoded   []byte // of an unsettled row
	weight    int
	hash      audit.Digest
	unsettled bool
	refused   string // why it can not be sealed now
}

func (f *found) place() place { return place{f.tx, keyOf(f.tenant[:], f.row[:])} }

// beginSealing takes the turn.
func beginSealing(ctx context.Context, tx pgx.Tx) error {
	var mine bool
	if err := tx.QueryRow(ctx, takeTurn).Scan(&mine); err != nil {
		return err
	}
	if !mine {
		return errBusy
	}
	return byIndex(ctx, tx)
}

func (l *Lake) sealBatch(ctx context.Context, db *pgxpool.Pool, w *walk, clock clock) (more bool, added int, err error) {
	run := *w
	err = inTx(ctx, db, func(tx pgx.Tx) error {
		*w, added = run, 0 // the transaction may be repeated
		if err := beginSealing(ctx, tx); err != nil {
			return err
		}
		now := clock.now()
		c, s, beyond, err := w.readCursor(ctx, tx)
		if err != nil {
			return err
		}
		where := w.next(&c, &s, beyond)
		keys, err := w.readKeys(ctx, tx, where, &c, &s)
		if err != nil {
			return err
		}
		done, err := readFound(ctx, tx, &w.table, keys)
		if err != nil {
			return err
		}
		keys, all := keys[:done], done == len(keys) && len(keys) < sealBatch
		// Bookkeeping may rewrite a row without changing what is sealed of it. A table
		// that is pruned has the rewritten row sealed again, because it is pruned by its
		// transaction.
		rows := slices.DeleteFunc(slices.Clone(keys), func(r found) bool {
			return r.sameTx || where != inHole && w.table.Months && r.read && c.sealedBefore(&r) ||
				r.refused == "" && (!r.read || w.table.Keep == 0 && string(r.before) == string(r.hash[:]))
		})
		if added, err = l.add(ctx, tx, &w.table, rows, c.passed, clock.now()); err != nil {
			return err
		}
		c, more = w.moved(where, c, &s, keys, all, now)
		return w.keepCursor(ctx, tx, &c)
	})
	return more, added, err
}

// add adds rows to the chains, and defers those that can not be read and those of tenants whose chain takes no entries.
func (l *Lake) add(ctx context.Context, tx pgx.Tx, t *audit.Table, rows []found, since, now time.Time) (added int, err error) {
	good := slices.DeleteFunc(slices.Clone(rows), func(r found) bool { return r.refused != "" })
	bad := slices.DeleteFunc(rows, func(r found) bool { return r.refused == "" })
	err = attempt(ctx, tx, 0, func(tx pgx.Tx) error { return addEntries(ctx, tx, t.Name, good, since, now) })
	added = len(good)
	if refusalOf(ctx, err) != "" { // one tenant after the other
		added = 0
		slices.SortStableFunc(good, func(a, b found) int { return slices.Compare(a.tenant[:], b.tenant[:]) })
		for len(good) > 0 {
			n := slices.IndexFunc(good, func(r found) bool { return r.tenant != good[0].tenant })
			if n < 0 {
				n = len(good)
			}
			own := good[:n]
			good = good[n:]
			err = attempt(ctx, tx, 0, func(tx pgx.Tx) error { return addEntries(ctx, tx, t.Name, own, since, now) })
			why := refusalOf(ctx, err)
			if err != nil && why == "" {
				return added, err
			}
			if err == nil {
				added += n
				continue
			}
			for i := range own {
				own[i].refused = why
			}
			bad = append(bad, own...)
		}
		err = nil
	}
	if err != nil {
		return 0, err
	}
	return added, l.deferRows(ctx, tx, t, bad)
}

// tip is where a chain ends.
type tip struct {
	Tenant [16]byte
	Seq    int64
	Hash   []byte
}

// addEntries appends rows to the chains of their tenants.
func addEntries(ctx context.Context, tx pgx.Tx, table string, rows []found, since, now time.Time) error {
	if len(rows) == 0 {
		return nil
	}
	var passed *time.Time
	if !since.IsZero() {
		passed = &since
	}
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
		forms, weights            []int
	)
	for i := range rows {
		r := &rows[i]
		end := tips[r.tenant]
		if end == nil {
			end = &tip{Tenant: r.tenant, Hash: make([]byte, sha256.Size)}
			tips[r.tenant] = end
		}
		e := audit.Entry{
			Tenant: r.tenant, Seq: end.Seq + 1, Table: table, Row: r.row, Version: r.version + 1, At: r.at, SealedAt: now, Settled: !r.unsettled, RowHash: r.hash,
			Since: since,
		}
		sum := e.Sum(audit.Digest(end.Hash))
		end.Seq, end.Hash = e.Seq, sum[:]
		var body []byte
		if r.unsettled {
			body = r.encoded
		}
		seqs, ids, versions, ats = append(seqs, e.Seq), append(ids, r.row), append(versions, e.Version), append(ats, r.at)
		rowHashes, hashes, bodies, txIDs = append(rowHashes, r.hash[:]), append(hashes, sum[:]), append(bodies, body), append(txIDs, strconv.FormatUint(r.tx, 10))
		forms, weights = append(forms, int(r.form)), append(weights, r.weight)
	}
	// With the order of the arrays, so that pos grows with seq.
	if _, err := tx.Exec(ctx, `INSERT INTO bff_backoffice.audit_chain (tenant, seq, tab, row_id, version, at, sealed_at, row_hash, hash, unsettled, tx_id, form, bytes, since)
		SELECT tenant, seq, $1, row_id, version, at, $2, row_hash, hash, unsettled, tx_id::xid8, form, bytes, $14
		FROM unnest($3::uuid[], $4::bigint[], $5::uuid[], $6::int[], $7::timestamptz[], $8::bytea[], $9::bytea[], $10::bytea[], $11::text[], $12::int[], $13::int[])
			WITH ORDINALITY AS e(tenant, seq, row_id, version, at, row_hash, hash, unsettled, tx_id, form, bytes, n) ORDER BY n`,
		table, now, tenants, seqs, ids, versions, ats, rowHashes, hashes, bodies, txIDs, forms, weights, passed); err != nil {
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
