package backofficelake

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
)

// table is something that is exported: rows of an audited table, or the chain.
type table struct {
	name    string
	moment  string // column whose month is the file's
	columns []Column
	// only restricts positions to the table's own.
	only string
	// chain is the list of what is read of the chain, pos first, and kinds are the kinds of that.
	chain string
	kinds []kind
	// weight is the SQL for what an entry's row weighs.
	weight string
	// audited is the table whose rows are read as well; nil = the chain itself is exported.
	audited *audit.Table
	// row makes a file's row of an entry and its row, and says in which month it belongs.
	row func(entry [][]byte, row audit.Row) (values [][]byte, at time.Time, err error)
}

// entries reads what is behind a position up to another: a page at most, by number and by weight.
func (t *table) entries() string {
	return fmt.Sprintf(`SELECT %s FROM (SELECT *, sum(%s) OVER (ORDER BY pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
			FROM (SELECT * FROM %saudit_chain WHERE %s AND pos > $1 AND pos <= $2 ORDER BY pos LIMIT $3) AS c) AS c
		WHERE coalesce(before, 0) < $4 ORDER BY pos`, t.chain, t.weight, schema, t.only)
}

// The columns of an entry that an exported row needs.
const (
	entryPos = iota
	entrySeq
	entryVersion
	entryAt
	entryHash
	entryUnsettled
	entryRow
	entryTenant
	entryTx
	entryFormNumber
)

// unique are columns with another value in nearly every row.
var unique = []string{
	"id", "resource_id", "alert_id", "suggestion_id", "inbox_entry_id", "reservation_id",
	"upstream_request_id", "credential_id", "mfa_attestation_id", "activity_ids",
}

// rowColumns are what an exported row has beside its own columns.
func rowColumns(t *audit.Table) []Column {
	var all []Column
	for _, c := range t.Columns {
		all = append(all, Column{Name: c.Name, Kind: c.Kind, Required: c.Required, Unique: slices.Contains(unique, c.Name)})
	}
	return append(all,
		Column{Name: "audit_seq", Kind: audit.AuditInt, Required: true},
		Column{Name: "audit_version", Kind: audit.AuditInt, Required: true})
}

// Withheld is a row that is not in the lake, because it is gone or is not as it was sealed.
type Withheld struct {
	Tenant bff.ID `json:"tenantId"`
	Row    bff.ID `json:"rowId"`
	Seq    int64  `json:"sequence"`
	Detail string `json:"detail"`
}

func (w *Withheld) Error() string {
	return fmt.Sprintf("%s of tenant %s %s", w.Row, w.Tenant, w.Detail)
}

// weightOf is what an entry's row weighs; one that was sealed whole did not say, and may weigh a lot if it has JSON.
func weightOf(t *audit.Table) string {
	unknown := 1 << 10
	if slices.ContainsFunc(t.Columns, func(c audit.Column) bool { return c.JSON && !c.Texts }) {
		unknown = audit.AuditWeight
	}
	return fmt.Sprintf("coalesce(bytes, %d)", unknown)
}

// rowTable exports the rows of an audited table as they were sealed. A row that is
// missing, or is not as it was sealed, is withheld.
func rowTable(t audit.Table) table {
	const number64, text, moment = audit.AuditInt, audit.AuditText, audit.AuditTime
	return table{
		name: t.Name, moment: t.Moment, columns: rowColumns(&t), only: "tab = '" + t.Name + "'", audited: &t, weight: weightOf(&t),
		chain: "pos, seq, version::bigint, at, row_hash, unsettled, row_id, tenant, tx_id, form::bigint",
		kinds: []kind{number64, number64, number64, moment, text, text, text, text, number64, number64},
		row: func(entry [][]byte, row audit.Row) ([][]byte, time.Time, error) {
			at, form := timeOf(entry[entryAt]), entryForm(entry)
			fail := func(detail string) ([][]byte, time.Time, error) {
				return nil, at, &Withheld{
					Tenant: bff.IDFromBytes(bff.PrefixTenant, [16]byte(entry[entryTenant])), Row: bff.IDFromBytes(t.Prefix, [16]byte(entry[entryRow])),
					Seq: number(entry[entrySeq]), Detail: detail,
				}
			}
			if entry[entryUnsettled] != nil {
				var err error
				if row, err = t.Decode(form, entry[entryUnsettled]); err != nil {
					return fail("can not be read from the chain: run audit verify")
				}
			}
			if row == nil {
				return fail("was sealed and is gone: run audit verify")
			}
			if sum := sha256.Sum256(t.Encode(nil, form, row)); string(sum[:]) != string(entry[entryHash]) {
				return fail("is not as it was sealed: run audit verify")
			}
			return slices.Concat(row, [][]byte{entry[entrySeq], entry[entryVersion]}), at, nil
		},
	}
}

// chainColumns are those of the exported chain.
func chainColumns() []Column {
	return []Column{
		{Name: "pos", Kind: audit.AuditInt, Required: true},
		{Name: "tenant_id", Kind: audit.AuditUUID, Required: true},
		{Name: "seq", Kind: audit.AuditInt, Required: true},
		{Name: "table_name", Kind: audit.AuditText, Required: true},
		{Name: "row_id", Kind: audit.AuditUUID, Required: true, Unique: true},
		{Name: "version", Kind: audit.AuditInt, Required: true},
		{Name: "at", Kind: audit.AuditTime, Required: true},
		{Name: "sealed_at", Kind: audit.AuditTime, Required: true},
		{Name: "settled", Kind: audit.AuditInt, Required: true},
		{Name: "row_hash", Kind: kindHash, Required: true},
		{Name: "hash", Kind: kindHash, Required: true},
		{Name: "form", Kind: audit.AuditInt},
		{Name: "since", Kind: audit.AuditTime},
	}
}

// chainTable exports the chain itself.
func chainTable() table {
	t := table{
		name: ChainTable, moment: "sealed_at", columns: chainColumns(), only: "true", weight: "0",
		chain: "pos, tenant, seq, tab, row_id, version::bigint, at, sealed_at, (unsettled IS NULL)::int::bigint, row_hash, hash, form::bigint, since",
		row: func(entry [][]byte, _ audit.Row) ([][]byte, time.Time, error) {
			const sealedAt = 7
			return entry, timeOf(entry[sealedAt]), nil
		},
	}
	for _, c := range t.columns {
		t.kinds = append(t.kinds, c.Kind)
	}
	return t
}

// timeOf is the value of a moment.
func timeOf(value []byte) time.Time { return time.UnixMicro(number(value)).UTC() }
