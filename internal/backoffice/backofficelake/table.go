package backofficelake

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// table is something that is exported: rows of an audited table, or the chain.
type table struct {
	name    string
	moment  string // column whose month is the file's
	columns []Column
	// only restricts positions to the table's own.
	only string
	// page reads rows behind position $1 up to $2, at most $3: pos first.
	page string
	// row makes a file's row of a page's values, and says in which month it belongs.
	row func(raw [][]byte) (values [][]byte, at time.Time, err error)
}

// rowColumns are what an exported row has beside its own columns.
func rowColumns(t *backoffice.AuditTable) []Column {
	var all []Column
	for _, c := range t.Columns {
		all = append(all, Column{Name: c.Name, Kind: c.Kind, JSON: c.JSON, Required: c.Required, Unique: c.Name == "id"})
	}
	return append(all,
		Column{Name: "audit_seq", Kind: backoffice.AuditInt, Required: true},
		Column{Name: "audit_version", Kind: backoffice.AuditInt, Required: true})
}

// rowTable exports the rows of an audited table as they were sealed. A row that is
// missing, or is not as it was sealed, stops the export: it must be neither passed over
// nor pruned.
func rowTable(t backoffice.AuditTable) table {
	const own = 8 // columns of the chain before those of the row
	values := make([][]byte, len(t.Columns)+2)
	var encoded []byte
	return table{
		name: t.Name, moment: t.Moment, columns: rowColumns(&t), only: "tab = '" + t.Name + "'",
		page: fmt.Sprintf(`SELECT c.pos, c.seq, c.version::bigint, c.at, c.row_hash, c.unsettled, c.row_id, c.tenant, %s
			FROM %[2]saudit_chain c LEFT JOIN %[2]s%[3]s t ON t.tenant_id = c.tenant AND t.id = c.row_id
			WHERE c.tab = '%[3]s' AND c.pos > $1 AND c.pos <= $2 ORDER BY c.pos LIMIT $3`, expressions(&t, "t"), schema, t.Name),
		row: func(raw [][]byte) ([][]byte, time.Time, error) {
			at := moment(raw[3])
			id := bff.IDFromBytes(t.Prefix, [16]byte(raw[6]))
			switch {
			case raw[5] != nil:
				row, err := t.Decode(raw[5])
				if err != nil {
					return nil, at, fmt.Errorf("%s %s: %w", t.Name, id, err)
				}
				copy(values, row)
			case raw[own] == nil:
				return nil, at, fmt.Errorf("%s %s of tenant %s was sealed and is gone: run audit verify", t.Name, id, bff.IDFromBytes(bff.PrefixTenant, [16]byte(raw[7])))
			default:
				for i := range t.Columns {
					values[i] = raw[own+i]
					if t.Columns[i].Kind == backoffice.AuditTime && values[i] != nil {
						values[i] = canonical(backoffice.AuditTime, values[i])
					}
				}
			}
			encoded = t.Encode(encoded[:0], values[:len(t.Columns)])
			if sum := sha256.Sum256(encoded); string(sum[:]) != string(raw[4]) {
				return nil, at, fmt.Errorf("%s %s of tenant %s is not as it was sealed: run audit verify", t.Name, id, bff.IDFromBytes(bff.PrefixTenant, [16]byte(raw[7])))
			}
			values[len(t.Columns)], values[len(t.Columns)+1] = raw[1], raw[2]
			return values, at, nil
		},
	}
}

// chainColumns are those of the exported chain.
func chainColumns() []Column {
	return []Column{
		{Name: "pos", Kind: backoffice.AuditInt, Required: true},
		{Name: "tenant_id", Kind: backoffice.AuditUUID, Required: true},
		{Name: "seq", Kind: backoffice.AuditInt, Required: true},
		{Name: "table_name", Kind: backoffice.AuditText, Required: true},
		{Name: "row_id", Kind: backoffice.AuditUUID, Required: true, Unique: true},
		{Name: "version", Kind: backoffice.AuditInt, Required: true},
		{Name: "at", Kind: backoffice.AuditTime, Required: true},
		{Name: "sealed_at", Kind: backoffice.AuditTime, Required: true},
		{Name: "settled", Kind: backoffice.AuditInt, Required: true},
		{Name: "row_hash", Kind: kindHash, Required: true},
		{Name: "hash", Kind: kindHash, Required: true},
	}
}

// chainTable exports the chain itself.
func chainTable() table {
	return table{
		name: ChainTable, moment: "sealed_at", columns: chainColumns(), only: "true",
		page: `SELECT pos, tenant, seq, tab, row_id, version::bigint, at, sealed_at, (unsettled IS NULL)::int::bigint, row_hash, hash
			FROM bff_backoffice.audit_chain WHERE pos > $1 AND pos <= $2 ORDER BY pos LIMIT $3`,
		row: func(raw [][]byte) ([][]byte, time.Time, error) {
			values := append([][]byte{}, raw...)
			sealed := moment(raw[7])
			values[6], values[7] = canonical(backoffice.AuditTime, raw[6]), canonical(backoffice.AuditTime, raw[7])
			return values, sealed, nil
		},
	}
}

// moment reads a timestamp's binary form.
func moment(raw []byte) time.Time {
	return time.UnixMicro(int64(binary.BigEndian.Uint64(raw)) + microsecondsTo2000).UTC() //nolint:gosec // the bits
}
