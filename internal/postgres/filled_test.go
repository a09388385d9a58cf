package postgres_test

import (
	"errors"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

// Every file works on a database that is in use: after each of them all tables are
// filled with rows that are valid there, one for each combination of the words that
// their checks know, and the next files have to take them along. Those of later releases
// than the first run beside instances that serve: none may keep them from writing while
// it works through rows.
func TestMigrationsOverFilledTables(t *testing.T) {
	t.Parallel()
	// The files that the first release begins with: nothing ran before it.
	first := map[string]string{"bff_consumer": "0019", "bff_backoffice": "0035"}
	for _, set := range []migrations.Set{migrations.Consumer(), migrations.Backoffice()} {
		t.Run(set.Schema, func(t *testing.T) {
			t.Parallel()
			admin := testkit.Postgres(t)
			conn := connect(t, admin)
			names, err := fs.Glob(set.FS, "*.sql")
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(names)
			watched := watch(t, conn, set.Schema)
			upTo := set
			files := fstest.MapFS{}
			upTo.FS = files
			for _, name := range names {
				text, err := fs.ReadFile(set.FS, name)
				if err != nil {
					t.Fatal(err)
				}
				files[name] = &fstest.MapFile{Data: text}
				if err := postgres.Migrate(testkit.Context(t), admin, upTo, postgres.MigrateOptions{}); err != nil {
					t.Fatalf("%s, over rows that were valid before it: %v", name, err)
				}
				ordinal, _, _ := strings.Cut(name, "_")
				if found := watched(); ordinal > first[set.Schema] && len(found) > 0 {
					t.Errorf("%s: %s", name, strings.Join(found, "; "))
				}
				for _, table := range tablesOf(t, conn, set.Schema) {
					table.fill(t, conn, ordinal)
				}
				for _, sql := range special[set.Schema+" "+ordinal] {
					if _, err := conn.Exec(testkit.Context(t), sql); err != nil {
						t.Fatalf("after %s: %v", name, err)
					}
				}
			}
			if set.Schema != migrations.Backoffice().Schema {
				return
			}
			// Lock actions from before they could be settled are what their outcome says.
			want := []string{
				"extend failure failed true", "extend success issued true", "issue failure failed true", "issue failure unknown false", "issue success issued true",
				"rebind failure failed true", "rebind success issued true", "revoke failure failed true", "revoke success revoked true",
			}
			got := strs(t, conn, `SELECT DISTINCT concat_ws(' ', action, outcome, state, CASE WHEN settled_at IS NULL THEN 'false' ELSE 'true' END) AS row
				FROM bff_backoffice.lock_action_proxy_audit WHERE operator_id LIKE 'at-0017-%' ORDER BY row`)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// special are rows that say more than made-up ones, by schema and ordinal.
var special = map[string][]string{
	"bff_backoffice 0017": {`INSERT INTO bff_backoffice.lock_action_proxy_audit
			(tenant_id, property_id, operator_id, device_id, reservation_id, action, vendor, outcome, error_code, upstream_request_id, upstream_latency_ms)
		VALUES (gen_random_uuid(), gen_random_uuid(), 'at-0017-unknown', 'd', 'r', 'issue', 'v', 'failure', 'LOCK_OUTCOME_UNKNOWN', 'u', 1)`},
}

// filledTable is what a made-up row has to know of one.
type filledTable struct {
	name    string
	columns []tableColumn
}

type tableColumn struct {
	name, kind, check string
	optional          bool
}

// tablesOf lists the tables of a schema with the columns that a row needs, or that a
// check knows.
func tablesOf(t *testing.T, conn *pgx.Conn, schema string) (all []filledTable) {
	t.Helper()
	rows, err := conn.Query(testkit.Context(t), `SELECT format('%I.%I', $1::text, c.relname), a.attname::text, format_type(a.atttypid, NULL),
			coalesce((SELECT string_agg(pg_get_constraintdef(k.oid), ' ') FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'c' AND k.conkey = ARRAY[a.attnum]), ''),
			NOT a.attnotnull OR a.atthasdef
		FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attidentity = '' AND a.attgenerated = ''
			AND (a.attnotnull AND NOT a.atthasdef
				OR EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'c' AND a.attnum = ANY(k.conkey)))
		WHERE c.relnamespace = to_regnamespace($1) AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname <> 'schema_migrations'
		ORDER BY c.relname, a.attnum`, pgx.QueryExecModeExec, schema)
	if err != nil {
		t.Fatal(err)
	}
	var name string
	var column, kind, check *string
	var optional *bool
	_, err = pgx.ForEachRow(rows, []any{&name, &column, &kind, &check, &optional}, func() error {
		if len(all) == 0 || all[len(all)-1].name != name {
			all = append(all, filledTable{name: name})
		}
		if column != nil {
			last := &all[len(all)-1]
			last.columns = append(last.columns, tableColumn{*column, *kind, *check, *optional})
		}
		return nil
	})
	if err := errors.Join(err, rows.Err()); err != nil {
		t.Fatal(err)
	}
	return all
}

// fill adds a row for each combination of values that the checks allow, and fails if
// there is none in the table.
func (tb *filledTable) fill(t *testing.T, conn *pgx.Conn, ordinal string) {
	t.Helper()
	names, choices := make([]string, len(tb.columns)), make([][]string, len(tb.columns))
	for i, c := range tb.columns {
		names[i], choices[i] = c.name, c.values(ordinal)
	}
	var all strings.Builder
	for try := range 512 {
		values, left := make([]string, len(names)), try
		for i, of := range choices {
			values[i], left = of[left%len(of)], left/len(of)
		}
		if left > 0 {
			break
		}
		what := "DEFAULT VALUES"
		if len(names) > 0 {
			what = "(" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(values, ", ") + ")"
		}
		// Some words do not go together, and some keys are words.
		all.WriteString("BEGIN INSERT INTO " + tb.name + " " + what + "; EXCEPTION WHEN check_violation OR unique_violation THEN NULL; END;\n")
	}
	if _, err := conn.Exec(testkit.Context(t), "DO $$ BEGIN\n"+all.String()+"END $$", pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("after %s: fill %s: %v", ordinal, tb.name, err)
	}
	if strs(t, conn, "SELECT EXISTS (SELECT FROM "+tb.name+")::text")[0] != "true" {
		t.Fatalf("after %s no row can be made up for %s", ordinal, tb.name)
	}
}

var (
	closedWords = regexp.MustCompile(`= ANY \(ARRAY\[([^]]*)\]`)
	closedWord  = regexp.MustCompile(`'((?:[^']|'')*)'`)
	idPrefix    = regexp.MustCompile(`~ '\^([a-z]+_)\[0-7\]`)
)

// values are what to try for the column, as expressions.
func (c tableColumn) values(ordinal string) (all []string) {
	if c.optional {
		all = append(all, "DEFAULT")
	}
	if c.name == "outcome" && c.check == "" { // the words that were written before a check knew them
		return []string{"'success'", "'failure'", "'denied'"}
	}
	if m := closedWords.FindStringSubmatch(c.check); m != nil {
		for _, w := range closedWord.FindAllStringSubmatch(m[1], -1) {
			all = append(all, "'"+w[1]+"'")
		}
		return all
	}
	return append(all, c.sample(ordinal))
}

// sample is an expression of the column's type, different with each use.
func (c tableColumn) sample(ordinal string) string {
	if m := idPrefix.FindStringSubmatch(c.check); m != nil {
		return "'" + m[1] + "0' || upper(left(md5(random()::text), 25))"
	}
	switch c.name {
	case "check_out":
		return "CURRENT_DATE + 1"
	case "expires_at":
		return "now() + interval '10 minutes'"
	}
	switch kind := c.kind; {
	case strings.HasSuffix(kind, "[]"):
		return "'{}'"
	case kind == "uuid":
		return "gen_random_uuid()"
	case strings.HasPrefix(kind, "timestamp"), kind == "date":
		return "now()"
	case kind == "boolean":
		return "false"
	case kind == "json", kind == "jsonb":
		return "'{}'"
	case kind == "bytea":
		return "sha256(gen_random_uuid()::text::bytea)"
	case kind == "text":
		return "'at-" + ordinal + "-' || gen_random_uuid()"
	case strings.HasPrefix(kind, "character"):
		return "'USD'"
	case kind == "real", strings.HasPrefix(kind, "double"):
		return "0.5"
	case kind == "xid8":
		return "pg_current_xact_id()"
	}
	return "1"
}
