package backofficelake

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// pageRows are entries of one page: statements far below the statement timeout, and none
// holds back the server's clean-up.
const (
	pageRows = 16 << 10
	// pageBytes is what the rows of a page weigh, but for the last of them.
	pageBytes = 16 << 20
)

// page is what is read at once of a range: entries of the chain and the rows that they
// are about, in the bytes that Postgres has sent.
type page struct {
	entries, rows tuples
	rowOf         []int // of each entry its row among rows; -1 = none
	form          backoffice.AuditForm
	refused       string // why the row of the only entry can not be read
}

// rowKey is a row's tenant and id.
type rowKey [32]byte

// read reads the entries behind a position up to another, with their rows: as many as a limit says at most, which changes with what the
// rows cost. A statement that takes too long is tried with fewer; a row that takes too long alone is passed over.
func (p *page) read(ctx context.Context, conn *pgx.Conn, t *table, s span, limit *int) error {
	for {
		p.entries.reset()
		p.rows.reset()
		p.rowOf, p.form, p.refused = p.rowOf[:0], 0, ""
		if err := p.entries.copy(ctx, conn, t.entries(s, *limit)); err != nil {
			return err
		}
		if t.audited == nil || p.entries.len() == 0 {
			return nil
		}
		err := p.readRows(ctx, conn, t, *limit == 1)
		switch {
		case err == nil:
			*limit = min(pageRows, *limit*4)
			return nil
		case refusalOf(ctx, err) == "":
			return err
		case *limit == 1:
			p.rows.reset()
			p.rowOf, p.refused = append(p.rowOf[:0], -1), refusalOf(ctx, err)
			return nil
		}
		*limit = max(1, *limit/16)
	}
}

// readRows reads the rows of the page's entries.
//
// Rows are sealed in the order of their transactions, so those of a page lie side by side
// in the index by transaction, and are read in one go: looked up one by one they would
// cost more than all the rest of an export. Those that are not there are looked up, at
// most a page: a transaction that ended late is far from the rest, and a row may have
// been written again without changing what is sealed of it.
func (p *page) readRows(ctx context.Context, conn *pgx.Conn, t *table, alone bool) error {
	var (
		entry       [entryColumns][]byte
		first, last place
		settled     int
	)
	for i := range p.entries.len() {
		e := p.entries.values(i, entry[:])
		form := backoffice.AuditForm(number(e[entryForm]))
		if i == 0 {
			p.form = form
		}
		if form != p.form { // the next page's
			p.entries.at = p.entries.at[:i]
			break
		}
		if e[entryUnsettled] != nil {
			continue
		}
		at := place{binary.BigEndian.Uint64(e[entryTx]), keyOf(e[entryTenant], e[entryRow])}
		if settled == 0 || at.before(first) {
			first = at
		}
		if settled == 0 || last.before(at) {
			last = at
		}
		settled++
	}
	if settled > 0 {
		if err := p.copyRows(ctx, conn, t.rowsBetween(p.form, first, last, p.entries.len()), alone); err != nil {
			return err
		}
	}
	if missing := p.match(); len(missing) > 0 {
		if err := p.copyRows(ctx, conn, t.rowsByKey(p.form, missing), alone); err != nil {
			return err
		}
		p.match()
	}
	return nil
}

// copyRows appends rows. A row that is read alone has more time.
func (p *page) copyRows(ctx context.Context, conn *pgx.Conn, query string, alone bool) error {
	timeout := chunkTimeout
	if alone {
		timeout = deferredTimeout
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := byIndex(ctx, tx); err != nil {
			return err
		}
		return attempt(ctx, tx, timeout, func(tx pgx.Tx) error { return p.rows.copy(ctx, tx.Conn(), query) })
	})
}

// match finds each entry's row. It returns the keys of the rows that an entry needs and
// that were not read. Entries and rows have the same order but for the exceptions.
func (p *page) match() (missing []rowKey) {
	var (
		entry [entryColumns][]byte
		byKey map[rowKey]int
		next  int
	)
	p.rowOf = p.rowOf[:0]
	for i := range p.entries.len() {
		e := p.entries.values(i, entry[:])
		key := keyOf(e[entryTenant], e[entryRow])
		if next < p.rows.len() && p.rowKey(next) == key {
			p.rowOf = append(p.rowOf, next)
			next++
			continue
		}
		if byKey == nil {
			byKey = p.index()
		}
		at, ok := byKey[key]
		switch {
		case ok:
			next = at + 1
		case e[entryUnsettled] == nil:
			missing = append(missing, key)
			fallthrough
		default:
			at = -1
		}
		p.rowOf = append(p.rowOf, at)
	}
	return missing
}

// index finds rows by their keys.
func (p *page) index() map[rowKey]int {
	byKey := make(map[rowKey]int, p.rows.len())
	for i := range p.rows.len() {
		byKey[p.rowKey(i)] = i
	}
	return byKey
}

// rowKey is the key of a row that was read: id and tenant are the first columns of every
// audited table.
func (p *page) rowKey(i int) rowKey {
	var ids [2][]byte
	p.rows.values(i, ids[:])
	return keyOf(ids[1], ids[0])
}

// row sets the values of an entry's row; nil = it has none.
func (p *page) row(entry int, values [][]byte) [][]byte {
	if len(p.rowOf) == 0 || p.rowOf[entry] < 0 {
		return nil
	}
	return p.rows.values(p.rowOf[entry], values)
}

// last is the position of the last entry.
func (p *page) last() int64 {
	var pos [1][]byte
	return int64(binary.BigEndian.Uint64(p.entries.values(p.entries.len()-1, pos[:])[entryPos])) //nolint:gosec // from 1 upwards
}

func keyOf(tenant, id []byte) (k rowKey) {
	copy(k[:16], tenant)
	copy(k[16:], id)
	return k
}

// place is where a row stands in the order in which rows are sealed.
type place struct {
	tx  uint64
	key rowKey
}

func (p place) before(q place) bool {
	if p.tx != q.tx {
		return p.tx < q.tx
	}
	return bytes.Compare(p.key[:], q.key[:]) < 0
}

// String is a row of values in SQL: transaction, tenant, id.
func (p place) String() string {
	return fmt.Sprintf("('%d'::xid8, '%x'::uuid, '%x'::uuid)", p.tx, p.key[:16], p.key[16:])
}

// rowsBetween reads the rows of a range of places, at most so many.
func (t *table) rowsBetween(form backoffice.AuditForm, first, last place, most int) string {
	columns, from := source(t.audited, form, true)
	return fmt.Sprintf(`SELECT %s FROM %s WHERE (t.tx_id, t.tenant_id, t.id) >= %s AND (t.tx_id, t.tenant_id, t.id) <= %s
		ORDER BY t.tx_id, t.tenant_id, t.id LIMIT %d`, columns, from, first, last, most)
}

// rowsByKey reads rows one by one.
func (t *table) rowsByKey(form backoffice.AuditForm, keys []rowKey) string {
	tenants, ids := make([]string, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		tenants[i], ids[i] = hex.EncodeToString(k[:16]), hex.EncodeToString(k[16:])
	}
	columns, from := source(t.audited, form, true)
	return fmt.Sprintf(`SELECT %s FROM unnest('{%s}'::uuid[], '{%s}'::uuid[]) AS k(tenant, id) JOIN %s ON t.tenant_id = k.tenant AND t.id = k.id`,
		columns, strings.Join(tenants, ","), strings.Join(ids, ","), from)
}

// tuples are the results of queries as COPY sends them in its binary format.
type tuples struct {
	data []byte
	at   []int // where each begins
}

func (t *tuples) reset() { t.data, t.at = t.data[:0], t.at[:0] }

func (t *tuples) len() int { return len(t.at) }

// columns is how many values each tuple has.
func (t *tuples) columns() int { return int(binary.BigEndian.Uint16(t.data[t.at[0]:])) }

// Write takes what COPY sends.
func (t *tuples) Write(b []byte) (int, error) {
	t.data = append(t.data, b...)
	return len(b), nil
}

// copy appends the results of a query, whose values are our own constants and what the
// database gave: COPY takes no parameters.
func (t *tuples) copy(ctx context.Context, conn *pgx.Conn, query string) error {
	at := len(t.data)
	if _, err := conn.PgConn().CopyTo(ctx, t, "COPY ("+query+") TO STDOUT (FORMAT binary)"); err != nil {
		return err
	}
	const signature = "PGCOPY\n\xff\r\n\x00"
	const header = len(signature) + 8 // flags, length of what follows them
	if len(t.data) < at+header || string(t.data[at:at+len(signature)]) != signature {
		return errCopy
	}
	at += header + int(binary.BigEndian.Uint32(t.data[at+header-4:]))
	for at+2 <= len(t.data) {
		columns := int16(binary.BigEndian.Uint16(t.data[at:])) //nolint:gosec // the bits
		if columns < 0 {
			return nil
		}
		t.at = append(t.at, at)
		at += 2
		for range columns {
			if at+4 > len(t.data) {
				return errCopy
			}
			at += 4 + max(0, int(int32(binary.BigEndian.Uint32(t.data[at:])))) //nolint:gosec // the bits: -1 is null
		}
	}
	return errCopy
}

var errCopy = errors.New("COPY was cut short or is not in its binary format")

// values sets the values of a tuple, which has as many; nil = null. They are parts of
// the page.
func (t *tuples) values(i int, values [][]byte) [][]byte {
	b := t.data[t.at[i]+2:]
	for k := range values {
		n := int32(binary.BigEndian.Uint32(b)) //nolint:gosec // the bits: -1 is null
		b = b[4:]
		if n < 0 {
			values[k] = nil
			continue
		}
		values[k] = b[:n:n]
		b = b[n:]
	}
	return values
}
