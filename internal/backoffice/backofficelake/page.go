package backofficelake

import (
	"bytes"
	"context"
	"encoding/binary"
	"strconv"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
)

// pageRows are entries of one page: statements far below the statement timeout, and none
// holds back the server's clean-up.
const (
	pageRows = 4 << 10
	// pageBytes is what the rows of a page weigh, but for the last of them.
	pageBytes = 16 << 20
)

// page is what is read at once of a range: entries of the chain and the rows that they are about.
type page struct {
	entries [][][]byte
	rows    map[rowKey]audit.Row
	refused string // why the row of the only entry can not be read
}

// rowKey is a row's tenant and id.
type rowKey [32]byte

// readPage reads the entries behind a position up to another, with their rows: as many as a limit says at most, which changes with what the
// rows cost. A statement that takes too long is tried with fewer; a row that takes too long alone is passed over.
func readPage(ctx context.Context, conn *pgx.Conn, t *table, s span, limit *int) (*page, error) {
	for {
		entries, err := collect(ctx, conn, t.kinds, t.entries(), s.First, s.Last, *limit, pageBytes)
		if err != nil || t.audited == nil || len(entries) == 0 {
			return &page{entries: entries}, err
		}
		p := &page{entries: entries, rows: make(map[rowKey]audit.Row, len(entries))}
		err = p.readRows(ctx, conn, t, *limit == 1)
		switch {
		case err == nil:
			*limit = min(pageRows, *limit*4)
			return p, nil
		case refusalOf(ctx, err) == "":
			return nil, err
		case *limit == 1:
			return &page{entries: entries, refused: refusalOf(ctx, err)}, nil
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
	var first, last place
	form, settled := entryForm(p.entries[0]), 0
	for i, e := range p.entries {
		if entryForm(e) != form { // the next page's
			p.entries = p.entries[:i]
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
	columns, from := source(t.audited, form)
	if settled > 0 {
		if err := p.addRows(ctx, conn, t, alone, `SELECT `+columns+` FROM `+from+` WHERE (t.tx_id, t.tenant_id, t.id) >= ($1::text::xid8, $2::uuid, $3::uuid)
			AND (t.tx_id, t.tenant_id, t.id) <= ($4::text::xid8, $5::uuid, $6::uuid) ORDER BY t.tx_id, t.tenant_id, t.id LIMIT $7`,
			first.text(), first.key.tenant(), first.key.id(), last.text(), last.key.tenant(), last.key.id(), len(p.entries)); err != nil {
			return err
		}
	}
	var tenants, ids [][16]byte
	for _, e := range p.entries {
		if key := keyOf(e[entryTenant], e[entryRow]); e[entryUnsettled] == nil && p.rows[key] == nil {
			tenants, ids = append(tenants, key.tenant()), append(ids, key.id())
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return p.addRows(ctx, conn, t, alone, `SELECT `+columns+` FROM unnest($1::uuid[], $2::uuid[]) AS k(tenant, id)
		JOIN `+from+` ON t.tenant_id = k.tenant AND t.id = k.id`, tenants, ids)
}

// addRows adds rows. A row that is read alone has more time.
func (p *page) addRows(ctx context.Context, conn *pgx.Conn, t *table, alone bool, query string, args ...any) error {
	timeout := chunkTimeout
	if alone {
		timeout = deferredTimeout
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := byIndex(ctx, tx); err != nil {
			return err
		}
		return attempt(ctx, tx, timeout, func(tx pgx.Tx) error {
			rows, err := collect(ctx, tx, kindsOf(t.audited), query, args...)
			for _, r := range rows {
				p.rows[keyOf(r[1], r[0])] = r // id and tenant are the first columns of every audited table
			}
			return err
		})
	})
}

// last is the position of the last entry.
func (p *page) last() int64 { return number(p.entries[len(p.entries)-1][entryPos]) }

func keyOf(tenant, id []byte) (k rowKey) {
	copy(k[:16], tenant)
	copy(k[16:], id)
	return k
}

func (k rowKey) tenant() [16]byte { return [16]byte(k[:16]) }
func (k rowKey) id() [16]byte     { return [16]byte(k[16:]) }

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

// text is the transaction as SQL takes it.
func (p place) text() string { return strconv.FormatUint(p.tx, 10) }

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// collect reads the results of a query as values of their columns' kinds.
func collect(ctx context.Context, db querier, kinds []kind, query string, args ...any) (all [][][]byte, err error) {
	rows, err := db.Query(ctx, query, append([]any{pgx.QueryResultFormats{pgx.BinaryFormatCode}}, args...)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		all = append(all, canonical(kinds, rows.RawValues()))
	}
	return all, rows.Err()
}

// microsecondsTo2000 is Postgres' epoch.
const microsecondsTo2000 = 946684800000000

// canonical is a row of values from their binary forms on the wire.
func canonical(kinds []kind, raw [][]byte) [][]byte {
	size := 0
	for _, v := range raw {
		size += len(v)
	}
	data, values := make([]byte, 0, size), make([][]byte, len(raw))
	for i, v := range raw {
		if v == nil {
			continue
		}
		at := len(data)
		if kinds[i] == audit.AuditTime {
			data = binary.BigEndian.AppendUint64(data, binary.BigEndian.Uint64(v)+microsecondsTo2000)
		} else {
			data = append(data, v...)
		}
		values[i] = data[at:len(data):len(data)] // an empty text is not null
	}
	return values
}

// kindsOf are the kinds of a table's columns.
func kindsOf(t *audit.Table) []kind {
	all := make([]kind, len(t.Columns))
	for i, c := range t.Columns {
		all[i] = c.Kind
	}
	return all
}

// entryForm is the form that an entry's row was sealed in.
func entryForm(entry [][]byte) audit.Form {
	return audit.Form(number(entry[entryFormNumber]))
}
