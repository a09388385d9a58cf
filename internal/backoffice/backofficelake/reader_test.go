package backofficelake_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficelake"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// parquetTool is the other reader: in `make parts` that of DuckDB, /duckdb.
var parquetTool = "../../../tools/parquet" + os.Getenv("MELMASTOON_LAKE_READER")

// record is a row as the other reader prints it: every value as text, or null.
type record map[string]*string

// A reader that shares no code with the writer finds in the files exactly what is in
// the tables, by Postgres's own account.
func TestOtherReader(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.activities(300)
	f.activity(tenantA, now.AddDate(0, -1, 0), "success")
	f.exec(
		`UPDATE bff_backoffice.operator_activity SET property_id = gen_random_uuid(), error_code = E'é 客 \U0001F511 "\\ \n' WHERE tenant_id = $1`,
		tenantA.UUID(),
	)
	f.activity(tenantB, now, "unknown")
	f.one(tenantA, now)
	f.one(tenantB, now.AddDate(0, -2, 0))
	f.exec(`UPDATE bff_backoffice.alert_ack_log SET notes_truncated = 'called twice' WHERE tenant_id = $1`, tenantA.UUID())
	// The seal exports the chain, the others what it covers.
	f.run(f.Lake)
	files := otherReader(t, f.dir)
	for _, table := range audit.AuditTables() {
		t.Run(table.Name, func(t *testing.T) {
			var columns []string
			for _, c := range table.Columns {
				columns = append(columns, "'"+c.Name+"', "+printed(c, "t."+c.Name))
			}
			want := f.records(fmt.Sprintf(`SELECT jsonb_build_object(%s, 'audit_seq', c.seq::text, 'audit_version', c.version::text) FROM bff_backoffice.%s t
				JOIN bff_backoffice.audit_chain c ON c.tab = '%[2]s' AND c.tenant = t.tenant_id AND c.row_id = t.id ORDER BY t.tenant_id, c.seq`, strings.Join(columns, ", "), table.Name))
			compare(t, want, files[table.Name], "tenant_id", "audit_seq")
		})
	}
	t.Run(backofficelake.ChainTable, func(t *testing.T) {
		want := f.records(`SELECT jsonb_build_object('pos', pos::text, 'tenant_id', tenant::text, 'seq', seq::text, 'table_name', tab, 'row_id', row_id::text, 'version', version::text,
			'at', (extract(epoch FROM at) * 1000000)::bigint::text, 'sealed_at', (extract(epoch FROM sealed_at) * 1000000)::bigint::text,
			'settled', CASE WHEN unsettled IS NULL THEN '1' ELSE '0' END, 'row_hash', encode(row_hash, 'hex'), 'hash', encode(hash, 'hex'), 'form', form::text, 'since', (extract(epoch FROM since) * 1000000)::bigint::text)
			FROM bff_backoffice.audit_chain ORDER BY tenant, seq`)
		compare(t, want, files[backofficelake.ChainTable], "tenant_id", "seq")
	})
	// What it counts is what `audit verify` has verified, hash by hash.
	findings, report := (&sealed{fixture: f}).verify()
	for _, tenant := range report.Tenants {
		var rows, entries int64
		for table, all := range files {
			for _, r := range all {
				switch {
				case *r["tenant_id"] != tenant.Tenant.UUID():
				case table == backofficelake.ChainTable:
					entries++
				default:
					rows++
				}
			}
		}
		if rows != tenant.Exported || entries != tenant.Entries || len(findings) > 0 {
			t.Errorf("%d rows and %d entries, verified were %+v: %v", rows, entries, tenant, findings)
		}
	}
}

// printed is an expression for a column as the other reader prints it.
func printed(c audit.Column, name string) string {
	switch {
	case c.Form == audit.AuditWhole:
		return "NULL"
	case c.LengthOf != "":
		return "length(t." + c.LengthOf + ")::text"
	case c.DigestOf != "":
		return "encode(sha256(t." + c.DigestOf + "::bytea), 'hex')"
	case c.JSON:
		return "to_jsonb(" + name + ")::text"
	case c.Kind == audit.AuditTime:
		return "(extract(epoch FROM " + name + ") * 1000000)::bigint::text"
	}
	return name + "::text"
}

func (f *fixture) records(sql string) (all []record) {
	f.t.Helper()
	rows, err := f.super.Query(testkit.Context(f.t), sql)
	if err != nil {
		f.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var r record
		if err := rows.Scan(&r); err != nil {
			f.t.Fatal(err)
		}
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		f.t.Fatal(err)
	}
	return all
}

// compare compares records by a key of two columns.
func compare(t *testing.T, want, got []record, a, b string) {
	t.Helper()
	if len(want) == 0 || len(got) != len(want) {
		t.Errorf("%d rows in the files, %d in the table", len(got), len(want))
	}
	byKey := map[string]record{}
	for _, r := range got {
		byKey[*r[a]+" "+*r[b]] = r
	}
	for _, r := range want {
		key := *r[a] + " " + *r[b]
		if !reflect.DeepEqual(r, byKey[key]) { // cmp takes seconds for thousands of rows
			t.Errorf("row %s (-table +files):\n%s", key, cmp.Diff(r, byKey[key]))
		}
	}
}

// otherReader lists the rows of all files, by table.
func otherReader(t *testing.T, dir string) map[string][]record {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*", "month=*", "*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	installReader(t)
	var stderr bytes.Buffer
	cmd := exec.CommandContext(testkit.Context(t), "node", append([]string{filepath.Join(parquetTool, "rows.js")}, paths...)...) //nolint:gosec // our own script
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("read %s: %v\n%s", paths, err, &stderr)
	}
	var files map[string][]record
	if err := json.Unmarshal(out, &files); err != nil {
		t.Fatal(err)
	}
	tables := map[string][]record{}
	for path, rows := range files {
		table := filepath.Base(filepath.Dir(filepath.Dir(path)))
		tables[table] = append(tables[table], rows...)
	}
	return tables
}

// installReader installs the other reader where the Makefile has not done so.
func installReader(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Fatal("the second Parquet reader needs Node.js 20 or newer with npm: run tools/need node")
	}
	_, err := os.Stat(filepath.Join(parquetTool, "node_modules"))
	if !errors.Is(err, os.ErrNotExist) {
		return
	}
	cmd := exec.CommandContext(testkit.Context(t), "npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = parquetTool
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the second Parquet reader is not installed, run `npm ci` in tools/parquet: %v\n%s", err, out)
	}
}
