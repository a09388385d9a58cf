package backofficelake_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/parquet-go/parquet-go"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficelake"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// sealed is a lake with some rows, all of them sealed and exported.
type sealed struct {
	*fixture
	acts                  []bff.ID // of tenant A, in the order of the chain: 1, 2, …
	old                   bff.ID   // pruned
	alert, decision, lock bff.ID
	heads                 []audit.Head // published, and kept elsewhere
}

// model is the lake that newSealed copies. It is made once.
var model struct {
	sealed
	files map[string][]byte
}

func newSealed(t *testing.T) *sealed {
	t.Helper()
	address := testkit.PostgresTemplate(t, "bff_backoffice, sealed", func(dsn string) error {
		if err := migrate(dsn); err != nil {
			return err
		}
		makeModel(t, dsn)
		return nil
	})
	s := model.sealed
	s.fixture, s.acts = openFixture(t, address), slices.Clone(s.acts)
	for path, b := range model.files {
		path = filepath.Join(s.dir, path)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return &s
}

func makeModel(t *testing.T, address string) {
	t.Helper()
	s := &sealed{fixture: openFixture(t, address)}
	for i := range 6 {
		s.acts = append(s.acts, s.activity(tenantA, now.Add(time.Duration(i-10)*time.Minute), "success"))
	}
	s.old = s.activity(tenantA, now.Add(-91*day), "success")
	s.alert, s.decision, s.lock = s.one(tenantA, now.Add(-time.Minute))
	s.activity(tenantB, now.Add(-time.Minute), "success")
	s.run(s.Lake)
	rows, err := s.super.Query(
		testkit.Context(t),
		`SELECT jsonb_build_object('envelope', envelope, 'payload', payload)::text FROM bff_backoffice.outbox WHERE subject LIKE '%audit.sealed.v1'`,
	)
	if err != nil {
		t.Fatal(err)
	}
	events, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		h, err := audit.ReadAuditHead([]byte(e))
		if err != nil {
			t.Fatal(err)
		}
		s.heads = append(s.heads, h)
	}
	if len(s.heads) != 2 {
		t.Fatalf("%d heads were published, want 2", len(s.heads))
	}
	model.sealed, model.files = *s, map[string][]byte{}
	for _, path := range listFiles(t, s.dir) {
		model.files[path] = s.bytes(filepath.Join(s.dir, path))
	}
	s.super.Close() // a database with sessions is not copied
	s.jobs.Close()
}

// quietly tampers without the database's own stamps, as a superuser can.
func (s *sealed) quietly(statements ...string) {
	s.t.Helper()
	ctx := testkit.Context(s.t)
	conn, err := s.super.Acquire(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Release()
	for _, sql := range append([]string{"SET session_replication_role = replica"}, append(statements, "RESET session_replication_role")...) {
		if _, err := conn.Exec(ctx, sql); err != nil {
			s.t.Fatalf("%s: %v", sql, err)
		}
	}
}

// verify returns the findings, one line each: kind, place, row or sequence.
func (s *sealed) verify(change ...func(*backofficelake.Verifier)) ([]string, backofficelake.Report) {
	s.t.Helper()
	ctx := testkit.Context(s.t)
	bucket, err := backofficelake.OpenDirectory(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = bucket.Close() }()
	v := &backofficelake.Verifier{DB: s.jobs, Bucket: bucket, Keys: s.keys, Heads: s.heads, Now: now}
	for _, c := range change {
		c(v)
	}
	report, err := v.Verify(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	var lines []string
	for _, f := range report.Findings {
		what := fmt.Sprint(f.Seq)
		if !f.Row.IsZero() {
			what = f.Row.String()
		}
		lines = append(lines, f.Kind+" "+f.Where+" "+what)
	}
	slices.Sort(lines)
	return slices.Compact(lines), report
}

func databaseOnly(v *backofficelake.Verifier) { v.Bucket = nil }
func noHeads(v *backofficelake.Verifier)      { v.Heads = nil }

func q(id bff.ID) string { return "'" + id.UUID() + "'" }

// Whatever a superuser does to rows and chain is found and named.
func TestTampering(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		tamper func(*sealed)
		with   []func(*backofficelake.Verifier)
		want   func(*sealed) []string
	}{
		"nothing": {func(*sealed) {}, nil, func(*sealed) []string { return nil }},
		"a row changed in silence": {
			func(s *sealed) {
				s.quietly(`UPDATE bff_backoffice.operator_activity SET operator_id = 'opt_2' WHERE id = ` + q(s.acts[2]))
			},
			nil, func(s *sealed) []string { return []string{"changed database " + s.acts[2].String()} },
		},
		"a settled row changed openly and sealed again": {
			func(s *sealed) {
				s.exec(`UPDATE bff_backoffice.ai_decision_log SET notes_truncated = 'x'`)
				s.run(s.Lake)
			},
			nil, func(s *sealed) []string { return []string{"changed database " + s.decision.String()} },
		},
		"a row and its hash in the chain changed": {
			func(s *sealed) {
				s.quietly(`UPDATE bff_backoffice.operator_activity SET operator_id = 'opt_2' WHERE id = `+q(s.acts[2]),
					`UPDATE bff_backoffice.audit_chain SET row_hash = sha256('x') WHERE row_id = `+q(s.acts[2]))
			},
			[]func(*backofficelake.Verifier){databaseOnly},
			func(s *sealed) []string { return []string{"changed database " + s.acts[2].String()} },
		},
		"a young row removed": {
			func(s *sealed) { s.exec(`DELETE FROM bff_backoffice.operator_activity WHERE id = ` + q(s.acts[1])) },
			nil, func(s *sealed) []string { return []string{"removed database " + s.acts[1].String()} },
		},
		"a regulated row removed": {
			func(s *sealed) { s.exec(`DELETE FROM bff_backoffice.lock_action_proxy_audit`) },
			nil, func(s *sealed) []string { return []string{"removed database " + s.lock.String()} },
		},
		"a row and its entry removed": {
			func(s *sealed) {
				s.exec(`DELETE FROM bff_backoffice.operator_activity WHERE id = ` + q(s.acts[3]))
				s.exec(`DELETE FROM bff_backoffice.audit_chain WHERE row_id = ` + q(s.acts[3]))
			},
			nil, func(*sealed) []string { return []string{"removed database 4"} },
		},
		"a row and its entry removed, the rest renumbered": {
			func(s *sealed) {
				s.exec(`DELETE FROM bff_backoffice.operator_activity WHERE id = ` + q(s.acts[3]))
				s.exec(`DELETE FROM bff_backoffice.audit_chain WHERE row_id = ` + q(s.acts[3]))
				s.exec(`UPDATE bff_backoffice.audit_chain SET seq = seq + 1000 WHERE tenant = $1 AND seq > 4`, tenantA.UUID())
				s.exec(`UPDATE bff_backoffice.audit_chain SET seq = seq - 1001 WHERE tenant = $1 AND seq > 1000`, tenantA.UUID())
			},
			nil, func(*sealed) []string { return []string{"removed database 4"} },
		},
		"a row inserted behind the sealer": {
			func(s *sealed) {
				s.quietly(`INSERT INTO bff_backoffice.operator_activity (id, tenant_id, operator_id, device_id, session_id, occurred_at, category, action, outcome, tx_id)
					VALUES ('01900000-0000-7000-8000-000000000001', ` + q(tenantA) + `, 'o', 'd', 's', now(), 'c', 'a', 'success', '3')`)
			},
			nil, func(*sealed) []string { return []string{"inserted database act_01J0000000E008000000000001"} },
		},
		"a row of yesterday inserted": {
			func(s *sealed) { s.acts[0] = s.activity(tenantA, now.Add(-day), "success") },
			nil, func(s *sealed) []string { return []string{"inserted database " + s.acts[0].String()} },
		},
		"entries swapped": {
			func(s *sealed) {
				for _, move := range [][2]int{{2, 1000}, {4, 2}, {1000, 4}} {
					s.exec(`UPDATE bff_backoffice.audit_chain SET seq = $2 WHERE tenant = $3 AND seq = $1`, move[0], move[1], tenantA.UUID())
				}
			},
			[]func(*backofficelake.Verifier){databaseOnly},
			func(s *sealed) []string {
				return []string{"reordered database " + s.acts[1].String(), "reordered database " + s.acts[3].String()}
			},
		},
		"an entry inserted": {
			func(s *sealed) {
				s.exec(`UPDATE bff_backoffice.audit_chain SET seq = seq + 1000 WHERE tenant = $1 AND seq > 2`, tenantA.UUID())
				s.exec(`UPDATE bff_backoffice.audit_chain SET seq = seq - 999 WHERE tenant = $1 AND seq > 1000`, tenantA.UUID())
				s.exec(`INSERT INTO bff_backoffice.audit_chain (tenant, seq, tab, row_id, version, at, sealed_at, row_hash, hash, tx_id)
					SELECT tenant, 3, tab, '01900000-0000-7000-8000-000000000001', 1, at, sealed_at, row_hash, hash, tx_id FROM bff_backoffice.audit_chain WHERE tenant = $1 AND seq = 2`, tenantA.UUID())
				s.quietly(`INSERT INTO bff_backoffice.operator_activity (id, tenant_id, operator_id, device_id, session_id, occurred_at, category, action, outcome, tx_id)
					VALUES ('01900000-0000-7000-8000-000000000001', ` + q(tenantA) + `, 'o', 'd', 's', now(), 'c', 'a', 'success', '3')`)
			},
			[]func(*backofficelake.Verifier){databaseOnly},
			func(*sealed) []string {
				return []string{"changed database act_01J0000000E008000000000001", "inserted database act_01J0000000E008000000000001"}
			},
		},
		"the end cut off, with its heads": {
			func(s *sealed) {
				s.exec(`DELETE FROM bff_backoffice.audit_chain WHERE tenant = $1 AND seq > 5`, tenantA.UUID())
				s.exec(`DELETE FROM bff_backoffice.audit_heads WHERE tenant = $1`, tenantA.UUID())
				s.exec(`DELETE FROM bff_backoffice.operator_activity WHERE id = ` + q(s.acts[5]))
				s.exec(`DELETE FROM bff_backoffice.alert_ack_log`)
				s.exec(`DELETE FROM bff_backoffice.ai_decision_log`)
				s.exec(`DELETE FROM bff_backoffice.lock_action_proxy_audit`)
			},
			[]func(*backofficelake.Verifier){databaseOnly},
			func(*sealed) []string { return []string{"removed database 6"} },
		},
		"everything rewritten": {
			func(s *sealed) { s.rewrite(2) },
			[]func(*backofficelake.Verifier){databaseOnly},
			func(*sealed) []string { return []string{"rewritten database 10"} },
		},
		"everything rewritten, and the heads of the database thrown away": {
			func(s *sealed) {
				s.rewrite(2)
				s.exec(`DELETE FROM bff_backoffice.audit_heads`)
			},
			[]func(*backofficelake.Verifier){databaseOnly},
			func(*sealed) []string { return []string{"rewritten database 10"} },
		},
		"everything rewritten, with an export": {
			func(s *sealed) { s.rewrite(2) },
			[]func(*backofficelake.Verifier){noHeads},
			func(s *sealed) []string {
				return []string{"changed database " + s.acts[2].String(), "rewritten database 10"}
			},
		},
		"a head forged": {
			func(s *sealed) {
				s.exec(`UPDATE bff_backoffice.audit_heads SET seq = 9 WHERE tenant = $1`, tenantA.UUID())
			},
			nil, func(*sealed) []string { return []string{"forged database 9"} },
		},
		"an unsettled row ends": {
			func(s *sealed) {
				s.exec(`UPDATE bff_backoffice.lock_action_proxy_audit SET outcome = 'success', error_code = NULL, state = 'issued', settled_at = now()`)
			},
			nil, func(*sealed) []string { return nil },
		},
		"an unsettled row ends, and is another's": {
			func(s *sealed) {
				s.exec(`UPDATE bff_backoffice.lock_action_proxy_audit SET outcome = 'success', error_code = NULL, state = 'issued', settled_at = now(), operator_id = 'opt_2'`)
				s.run(s.Lake)
			},
			nil, func(s *sealed) []string { return []string{"changed database " + s.lock.String()} },
		},
		"a pruned row's export lost": {
			func(s *sealed) {
				s.edit(func(rows []parquet.Row) []parquet.Row {
					return slices.DeleteFunc(rows, func(r parquet.Row) bool { return s.is(r, s.old) })
				})
			},
			nil, func(s *sealed) []string {
				return []string{"removed database " + s.old.String(), "removed export " + s.old.String()}
			},
		},
		"a row changed in the export": {
			func(s *sealed) {
				s.edit(func(rows []parquet.Row) []parquet.Row {
					for _, r := range rows {
						if s.is(r, s.acts[4]) {
							s.set(r, "action", "refund")
						}
					}
					return rows
				})
			},
			nil, func(s *sealed) []string { return []string{"changed export " + s.acts[4].String()} },
		},
		"rows changing places in the export": {
			func(s *sealed) {
				s.edit(func(rows []parquet.Row) []parquet.Row {
					a := slices.IndexFunc(rows, func(r parquet.Row) bool { return s.is(r, s.acts[1]) })
					b := slices.IndexFunc(rows, func(r parquet.Row) bool { return s.is(r, s.acts[4]) })
					if a >= 0 && b >= 0 {
						i := s.column("audit_seq")
						rows[a][i], rows[b][i] = rows[b][i], rows[a][i]
					}
					return rows
				})
			},
			nil, func(s *sealed) []string {
				return []string{"reordered export " + s.acts[1].String(), "reordered export " + s.acts[4].String()}
			},
		},
		"a row inserted in the export": {
			func(s *sealed) {
				s.edit(func(rows []parquet.Row) []parquet.Row {
					for _, r := range rows {
						if s.is(r, s.acts[4]) {
							return append(rows, r.Clone())
						}
					}
					return rows
				})
			},
			nil, func(s *sealed) []string { return []string{"inserted export " + s.acts[4].String()} },
		},
		"a file removed": {
			func(s *sealed) {
				for _, path := range s.glob("lock_action_proxy_audit/*/*.parquet") {
					if err := os.Remove(path); err != nil {
						s.t.Fatal(err)
					}
				}
			},
			nil, func(s *sealed) []string { return []string{"changed export 0", "removed export " + s.lock.String()} },
		},
		"a file that no manifest names": {
			func(s *sealed) {
				path := s.glob("alert_ack_log/*/*.parquet")[0]
				b, err := os.ReadFile(path)
				if err == nil {
					err = os.WriteFile(filepath.Dir(path)+"/stray.parquet", b, 0o600)
				}
				if err != nil {
					s.t.Fatal(err)
				}
			},
			nil, func(*sealed) []string { return []string{"inserted export 0"} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSealed(t)
			tc.tamper(s)
			got, report := s.verify(tc.with...)
			if diff := cmp.Diff(tc.want(s), got); diff != "" {
				t.Errorf("findings (-want +got):\n%s\n%v", diff, report.Findings)
			}
		})
	}
}

// rewrite changes a row and makes the whole chain fit it, as an administrator could who
// knows how chains are made but has no key.
func (s *sealed) rewrite(at int) {
	s.t.Helper()
	ctx := testkit.Context(s.t)
	s.quietly(`UPDATE bff_backoffice.operator_activity SET operator_id = 'opt_2' WHERE id = ` + q(s.acts[at]))
	fresh := backofficelake.New(s.config())
	for _, sql := range []string{
		`CREATE TABLE kept AS TABLE bff_backoffice.audit_chain`, `CREATE TABLE heads AS TABLE bff_backoffice.audit_heads`,
		`DELETE FROM bff_backoffice.audit_chain`, `DELETE FROM bff_backoffice.audit_tips`, `DELETE FROM bff_backoffice.audit_heads`, `DELETE FROM bff_backoffice.audit_cursors`,
	} {
		s.exec(sql)
	}
	if _, err := fresh.Seal(ctx, s.jobs, now); err != nil {
		s.t.Fatal(err)
	}
	// The pruned row cannot be made up: its entry is taken over, and everything is
	// numbered and hashed anew in the old order.
	rows, err := s.super.Query(ctx, `SELECT k.seq, k.tab, k.row_id, k.version, k.at, k.sealed_at, coalesce(c.row_hash, k.row_hash), k.unsettled IS NULL FROM kept k
		LEFT JOIN bff_backoffice.audit_chain c ON c.tenant = k.tenant AND c.tab = k.tab AND c.row_id = k.row_id WHERE k.tenant = $1 ORDER BY k.seq`, tenantA.UUID())
	if err != nil {
		s.t.Fatal(err)
	}
	entries, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (e audit.Entry, err error) {
		var hash []byte
		if err := r.Scan(&e.Seq, &e.Table, &e.Row, &e.Version, &e.At, &e.SealedAt, &hash, &e.Settled); err != nil {
			return e, err
		}
		e.RowHash, e.Tenant = audit.Digest(hash), tenantA.Bytes()
		return e, nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.exec(`DELETE FROM bff_backoffice.audit_chain`)
	s.exec(`INSERT INTO bff_backoffice.audit_chain OVERRIDING SYSTEM VALUE SELECT * FROM kept`)
	s.exec(`DELETE FROM bff_backoffice.audit_heads`)
	s.exec(`INSERT INTO bff_backoffice.audit_heads SELECT * FROM heads`)
	var before audit.Digest
	for i := range entries {
		before = entries[i].Sum(before)
		s.exec(
			`UPDATE bff_backoffice.audit_chain SET row_hash = $3, hash = $4 WHERE tenant = $1 AND seq = $2`, tenantA.UUID(), entries[i].Seq,
			entries[i].RowHash[:], before[:],
		)
	}
	s.exec(`DROP TABLE kept, heads`)
}

func (s *sealed) glob(pattern string) []string {
	s.t.Helper()
	paths, err := filepath.Glob(s.dir + "/" + pattern)
	if err != nil || len(paths) == 0 {
		s.t.Fatalf("no %s: %v", pattern, err)
	}
	return paths
}

// column is a column's place in the files of activities.
func (s *sealed) column(name string) int {
	s.t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(s.bytes(s.glob("operator_activity/*/*.parquet")[0])), s.size(s.glob("operator_activity/*/*.parquet")[0]))
	if err != nil {
		s.t.Fatal(err)
	}
	col, ok := f.Schema().Lookup(name)
	if !ok {
		s.t.Fatalf("no column %s", name)
	}
	return col.ColumnIndex
}

func (s *sealed) bytes(path string) []byte {
	s.t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

func (s *sealed) size(path string) int64 { return int64(len(s.bytes(path))) }

func (s *sealed) is(r parquet.Row, id bff.ID) bool {
	return string(r[s.column("id")].ByteArray()) == id.UUID()
}

func (s *sealed) set(r parquet.Row, column, value string) {
	i := s.column(column)
	r[i] = parquet.ByteArrayValue([]byte(value)).Level(r[i].RepetitionLevel(), r[i].DefinitionLevel(), i)
}

// edit rewrites the files of activities, and the manifests as well: write access to
// the bucket allows both.
func (s *sealed) edit(change func([]parquet.Row) []parquet.Row) {
	s.t.Helper()
	const table = "operator_activity"
	var edited [][]byte
	paths := s.glob(table + "/*/*.parquet")
	for _, path := range paths {
		b := s.bytes(path)
		f, err := parquet.OpenFile(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			s.t.Fatal(err)
		}
		rows := make([]parquet.Row, f.NumRows())
		reader := parquet.NewReader(f)
		if n, err := reader.ReadRows(rows); n != len(rows) {
			s.t.Fatal(n, err)
		}
		for i := range rows {
			rows[i] = rows[i].Clone()
		}
		var out bytes.Buffer
		w := parquet.NewWriter(&out, f.Schema())
		if _, err := w.WriteRows(change(rows)); err != nil {
			s.t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			s.t.Fatal(err)
		}
		edited = append(edited, out.Bytes())
	}
	for i, path := range paths {
		if err := os.WriteFile(path, edited[i], 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, path := range s.glob("_manifests/" + table + "/*.json") {
		var m backofficelake.Manifest
		if err := json.Unmarshal(s.bytes(path), &m); err != nil {
			s.t.Fatal(err)
		}
		for i := range m.Files {
			f := &m.Files[i]
			b := s.bytes(s.dir + "/" + f.Path)
			sum := sha256.Sum256(b)
			pf, err := parquet.OpenFile(bytes.NewReader(b), int64(len(b)))
			if err != nil {
				s.t.Fatal(err)
			}
			f.SHA256, f.Bytes, f.Rows = hex.EncodeToString(sum[:]), int64(len(b)), pf.NumRows()
		}
		b, err := json.Marshal(m)
		if err == nil {
			err = os.WriteFile(path, b, 0o600)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// What is new is reported as new, with its age, and what was pruned is verified from
// the export.
func TestVerifyReports(t *testing.T) {
	t.Parallel()
	s := newSealed(t)
	s.activity(tenantA, now.Add(-5*time.Minute), "success")
	found, report := s.verify()
	if found != nil {
		t.Error(report.Findings)
	}
	want := []backofficelake.TenantReport{
		{Tenant: tenantA, Entries: 10, Rows: 9, Exported: 10, Pruned: 1, Signed: 10, Unsealed: 1, OldestUnsealed: 5 * time.Minute},
		{Tenant: tenantB, Entries: 1, Rows: 1, Exported: 1, Signed: 1},
	}
	if diff := cmp.Diff(want, report.Tenants, cmp.Comparer(func(a, b bff.ID) bool { return a == b })); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if found, report := s.verify(func(v *backofficelake.Verifier) { v.Tenant = tenantB }); found != nil || len(report.Tenants) != 1 {
		t.Errorf("one tenant: %v, %+v", found, report.Tenants)
	}
	if lines := strings.Join(s.keys.Public(), "\n"); !strings.HasPrefix(lines, "test-1:public:") {
		t.Errorf("public keys: %s", lines)
	}
	public, err := audit.ParseAuditKeys(s.keys.Public())
	if err != nil {
		t.Fatal(err)
	}
	if found, _ := s.verify(func(v *backofficelake.Verifier) { v.Keys = public }); found != nil {
		t.Errorf("with public keys alone: %v", found)
	}
}
