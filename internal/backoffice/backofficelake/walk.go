package backofficelake

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
)

// cursor is up to where the sealer has read a table.
type cursor struct {
	at    place
	holes []uint64 // transactions up to it that were running
	// hole is the one of them that has ended and is being read, with the last row that was; its tx is zero if there is none.
	hole place
	// passed is when a walk last came to the table's end; zero = never.
	passed time.Time
	// from is up to where the sealer had read on the server whose dump was restored here, and upto is behind that server's transactions; zero = none was.
	from, upto uint64
}

// sealedBefore reports whether a row without an entry had one: it came with a dump, and its entry is in the lake alone.
func (c *cursor) sealedBefore(r *found) bool {
	return r.version == 0 && r.tx < c.upto && r.at.Before(c.passed.Add(-restoredMargin))
}

// restoredMargin is more than a row's moment may lie before its commit.
const restoredMargin = 2 * late

// reach is SQL for the transaction before which the sealer has passed all rows with a moment, by the cursor k.
func reach(moment string) string {
	return fmt.Sprintf(`greatest(k.tx_id, CASE WHEN %s < k.passed_at - interval '%d s' THEN k.restored_upto END)`, moment, int(restoredMargin.Seconds()))
}

// snapshot says which transactions have ended: those below xmax but for the running.
type snapshot struct {
	xmax    uint64
	running []uint64
}

// Where a batch reads.
type side int

const (
	ahead    side = iota // behind the cursor
	inHole               // in a transaction that was running when the cursor passed it
	restored             // rows with transactions that this server has yet to give
)

// walk is one run of the sealer over a table.
type walk struct {
	table audit.Table
	// restored is up to where rows were read that came from another server, with transactions beyond those of this one. It is
	// not kept: what has an entry is passed over.
	restored     place
	restoredDone bool
}

// readCursor reads the cursor and a snapshot, in one statement. What is read in later statements is at least what the snapshot shows: a
// transaction that has ended in it has no more rows to show. A cursor beyond the server's transactions was restored from another server:
// the walk begins again, and remembers how far that server had come.
func (w *walk) readCursor(ctx context.Context, tx pgx.Tx) (c cursor, s snapshot, beyond bool, err error) {
	var (
		text, newest       string
		at, hole           *string
		tenant, row        *[16]byte
		holeTenant, holeAt *[16]byte
		holes              []string
		passed             *time.Time
		from, upto         *string
	)
	err = tx.QueryRow(ctx, fmt.Sprintf(`SELECT pg_current_snapshot()::text, coalesce((SELECT tx_id FROM %[1]s%[2]s ORDER BY tx_id DESC LIMIT 1), '0')::text,
			c.tx_id::text, c.tenant, c.row_id, c.holes::text[], c.hole::text, c.hole_tenant, c.hole_row, c.passed_at,
			c.restored_from::text, c.restored_upto::text
		FROM (SELECT) AS one LEFT JOIN %[1]saudit_cursors c ON c.tab = '%[2]s'`, schema, w.table.Name)).
		Scan(&text, &newest, &at, &tenant, &row, &holes, &hole, &holeTenant, &holeAt, &passed, &from, &upto)
	if err != nil {
		return c, s, false, err
	}
	parts := strings.Split(text, ":") // xmin:xmax:running,running
	if len(parts) != 3 {
		return c, s, false, fmt.Errorf("malformed snapshot %q", text)
	}
	s.xmax, s.running = number64(parts[1]), numbers(strings.Split(parts[2], ","))
	if passed != nil {
		c.passed = passed.UTC()
	}
	if from != nil && upto != nil {
		c.from, c.upto = number64(*from), number64(*upto)
	}
	c.holes = numbers(holes)
	switch {
	case at == nil:
	case number64(*at) > s.xmax:
		c.from, c.upto = number64(*at), max(number64(*at), number64(newest)+1, c.upto)
	default:
		c.at = place{number64(*at), keyOf(tenant[:], row[:])}
		// The release before leaves the hole as it is when it drops it from the list.
		if hole != nil && slices.Contains(c.holes, number64(*hole)) {
			c.hole = place{number64(*hole), keyOf(holeTenant[:], holeAt[:])}
		}
	}
	return c, s, number64(newest) >= s.xmax, nil
}

// number64 is a transaction's number, which the server has written.
func number64(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0 // no transaction has it
	}
	return n
}

func numbers(texts []string) (all []uint64) {
	for _, t := range texts {
		if n := number64(t); n > 0 {
			all = append(all, n)
		}
	}
	return all
}

// next chooses where the next batch reads: first what was left behind.
func (w *walk) next(c *cursor, s *snapshot, beyond bool) side {
	if c.hole.tx == 0 {
		for _, h := range c.holes {
			if !slices.Contains(s.running, h) && (c.hole.tx == 0 || h < c.hole.tx) {
				c.hole = place{tx: h}
			}
		}
	}
	switch {
	case c.hole.tx != 0:
		return inHole
	case beyond && !w.restoredDone:
		if first := max(s.xmax, c.from); w.restored.tx < first {
			w.restored = place{tx: first}
		}
		return restored
	}
	return ahead
}

// readKeys reads the next keys, with what the chain knows of their rows.
func (w *walk) readKeys(ctx context.Context, tx pgx.Tx, where side, c *cursor, s *snapshot) ([]found, error) {
	from, below := c.at, s.xmax
	switch where {
	case inHole:
		from, below = c.hole, c.hole.tx+1
	case restored:
		from, below = w.restored, 1<<63
	}
	rows, err := tx.Query(ctx, fmt.Sprintf(`SELECT t.tx_id::text, t.tenant_id, t.id, coalesce(c.version, 0), coalesce(c.tx_id = t.tx_id, false), c.row_hash, coalesce(c.form, %[3]d)
		FROM (SELECT t.tx_id, t.tenant_id, t.id FROM %[1]s%[2]s t WHERE (t.tx_id, t.tenant_id, t.id) > ($1::text::xid8, $2::uuid, $3::uuid)
			AND t.tx_id < $4::text::xid8 ORDER BY t.tx_id, t.tenant_id, t.id LIMIT $5) t
		LEFT JOIN LATERAL (SELECT version, tx_id, row_hash, form FROM %[1]saudit_chain c
			WHERE c.tenant = t.tenant_id AND c.tab = '%[2]s' AND c.row_id = t.id ORDER BY c.version DESC LIMIT 1) c ON true
		ORDER BY t.tx_id, t.tenant_id, t.id`, schema, w.table.Name, audit.AuditWeighed),
		strconv.FormatUint(from.tx, 10), [16]byte(from.key[:16]), [16]byte(from.key[16:]), strconv.FormatUint(below, 10), sealBatch)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (f found, err error) {
		var txID string
		err = r.Scan(&txID, &f.tenant, &f.row, &f.version, &f.sameTx, &f.before, &f.form)
		f.tx = number64(txID)
		return f, err
	})
}

// moved is the cursor after keys were dealt with, all there were or not, and whether there is more to read.
func (w *walk) moved(where side, c cursor, s *snapshot, done []found, all bool, now time.Time) (_ cursor, more bool) {
	var last place
	if len(done) > 0 {
		last = done[len(done)-1].place()
	}
	switch {
	case where == inHole && all:
		c.holes = slices.DeleteFunc(c.holes, func(h uint64) bool { return h == c.hole.tx })
		c.hole = place{}
	case where == inHole:
		c.hole = last
	case where == restored:
		w.restored, w.restoredDone = last, all
	default:
		c.at = last
		if all {
			c.at, c.passed = place{tx: s.xmax}, now
		}
		c.holes = slices.DeleteFunc(slices.Clone(s.running), func(x uint64) bool { return x > c.at.tx })
		return c, !all
	}
	return c, true
}

func (w *walk) keepCursor(ctx context.Context, tx pgx.Tx, c *cursor) error {
	holes := make([]string, 0, len(c.holes))
	for _, h := range c.holes {
		holes = append(holes, strconv.FormatUint(h, 10))
	}
	var (
		hole            *string
		holeTenant, row *[16]byte
		passed          *time.Time
		from, upto      *string
	)
	if c.upto != 0 {
		first, behind := strconv.FormatUint(c.from, 10), strconv.FormatUint(c.upto, 10)
		from, upto = &first, &behind
	}
	if c.hole.tx != 0 {
		text, tenant, id := strconv.FormatUint(c.hole.tx, 10), [16]byte(c.hole.key[:16]), [16]byte(c.hole.key[16:])
		hole, holeTenant, row = &text, &tenant, &id
	}
	if !c.passed.IsZero() {
		passed = &c.passed
	}
	_, err := tx.Exec(ctx, `INSERT INTO bff_backoffice.audit_cursors (tab, tx_id, tenant, row_id, holes, hole, hole_tenant, hole_row, passed_at, restored_from, restored_upto)
		VALUES ($1, $2::text::xid8, $3, $4, $5::text[]::xid8[], $6::text::xid8, $7, $8, $9, $10::text::xid8, $11::text::xid8)
		ON CONFLICT (tab) DO UPDATE SET tx_id = excluded.tx_id, tenant = excluded.tenant, row_id = excluded.row_id, holes = excluded.holes,
			hole = excluded.hole, hole_tenant = excluded.hole_tenant, hole_row = excluded.hole_row, passed_at = excluded.passed_at,
			restored_from = excluded.restored_from, restored_upto = excluded.restored_upto`,
		w.table.Name, strconv.FormatUint(c.at.tx, 10), [16]byte(c.at.key[:16]), [16]byte(c.at.key[16:]), holes, hole, holeTenant, row, passed, from, upto)
	return err
}
