package backofficelake_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

const insertDecision = `INSERT INTO bff_backoffice.ai_decision_log (id, tenant_id, suggestion_id, inbox_entry_id, category, severity, outcome, modified_delta, notes_truncated, decided_at, decided_by, device_id, provenance)
	VALUES ($1, $2, $3, 'i', 'c', 's', 'modified', $4::text::jsonb, $5, $6, 'o', 'd', '{}')`

// addDecision adds one with a delta and notes.
func (f *fixture) addDecision(tenant bff.ID, at time.Time, delta, notes string) bff.ID {
	f.t.Helper()
	id := bff.NewID(bff.PrefixDecision, at)
	f.exec(insertDecision, id.UUID(), tenant.UUID(), id.String(), delta, notes, at)
	return id
}

// unreadable adds a decision that can not be written as text: its delta is nested deeper than the server's stack, of which
// the superuser had more when it was read.
func (f *fixture) unreadable(tenant bff.ID, at time.Time) bff.ID {
	f.t.Helper()
	id := bff.NewID(bff.PrefixDecision, at)
	ctx := testkit.Context(f.t)
	for depth := 40_000; depth > 5_000; depth -= 1_000 {
		err := pgx.BeginFunc(ctx, f.super, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `SET LOCAL max_stack_depth = '7MB'`); err != nil {
				f.t.Fatal(err)
			}
			_, err := tx.Exec(ctx, insertDecision, id.UUID(), tenant.UUID(), id.String(), strings.Repeat("[", depth)+strings.Repeat("]", depth), "", at)
			return err
		})
		if err == nil {
			return id
		}
		if pe, ok := errors.AsType[*pgconn.PgError](err); !ok || pe.Code != "54001" {
			f.t.Fatal(err)
		}
	}
	f.t.Fatal("no depth can be written and not be read")
	return id
}

// runAll runs all jobs of the lake and returns the errors of each.
func (f *fixture) runAll() map[string]string {
	f.t.Helper()
	failed := map[string]string{}
	for _, j := range f.Jobs() {
		if _, err := j.Run(testkit.Context(f.t), f.jobs, now); err != nil {
			failed[j.Name] = err.Error()
		}
	}
	return failed
}

// chained returns which of the rows have an entry that a signed head covers.
func (f *fixture) chained(rows ...bff.ID) (all []bool) {
	f.t.Helper()
	for _, id := range rows {
		all = append(all, f.count(`SELECT count(*) FROM bff_backoffice.audit_chain c WHERE row_id = $1
			AND seq <= (SELECT max(seq) FROM bff_backoffice.audit_heads h WHERE h.tenant = c.tenant)`, id.UUID()) == 1)
	}
	return all
}

// A row that can not be read is put off and reported by the sealer and by verification. Rows of the same table, of the same
// tenant and of others are sealed, signed, exported and pruned. When it can be read it is sealed like any other.
func TestUnreadableRowHoldsUpNothing(t *testing.T) {
	t.Parallel()
	f := &sealed{fixture: newFixture(t)}
	bad := f.unreadable(tenantA, now.Add(-time.Minute))
	own, other := f.addDecision(tenantA, now, `{"a":1}`, ""), f.addDecision(tenantB, now, `{"a":1}`, "")
	_, _, lock := f.one(tenantB, now)
	f.activity(tenantA, now.Add(-91*day), "success")
	failed := f.runAll()
	if len(failed) != 1 || !strings.Contains(failed["audit-seal"], "1 rows can not be sealed, the first: ai_decision_log "+bad.String()) {
		t.Errorf("failed: %q", failed)
	}
	if diff := cmp.Diff([]bool{false, true, true, true}, f.chained(bad, own, other, lock)); diff != "" {
		t.Errorf("sealed and signed (-want +got):\n%s", diff)
	}
	if n := f.count(`SELECT sum(rows)::int FROM bff_backoffice.audit_exports WHERE tab = 'ai_decision_log' AND confirmed_at IS NOT NULL`); n != 3 {
		t.Errorf("%d decisions exported, want 3", n)
	}
	if n := f.count(`SELECT count(*) FROM bff_backoffice.operator_activity`); n != 0 {
		t.Error("the old row was not pruned")
	}
	if findings, report := f.verify(noHeads); len(findings) != 1 || findings[0] != "unsealed database "+bad.String() {
		t.Errorf("%v", report.Findings)
	}
	f.exec(`UPDATE bff_backoffice.ai_decision_log SET modified_delta = '{}' WHERE id = ` + q(bad))
	if failed := f.runAll(); len(failed) > 0 {
		t.Errorf("readable: %q", failed)
	}
	if diff := cmp.Diff([]bool{true}, f.chained(bad)); diff != "" {
		t.Errorf("readable (-want +got):\n%s", diff)
	}
	if findings, report := f.verify(noHeads); findings != nil || f.count(`SELECT count(*) FROM bff_backoffice.audit_deferred`) != 0 {
		t.Errorf("readable: %v", report.Findings)
	}
}

// A table that can not be read, and a tenant whose chain does not take entries or whose head is there already, hold up no
// other table and no other tenant.
func TestBrokenTableAndTenantHoldUpNothing(t *testing.T) {
	t.Parallel()
	s := newSealed(t)
	s.exec(`REVOKE SELECT ON bff_backoffice.alert_ack_log FROM bff_backoffice_jobs`)
	s.exec(`CREATE TABLE kept AS SELECT * FROM bff_backoffice.audit_tips WHERE tenant = ` + q(tenantA))
	s.exec(`DELETE FROM bff_backoffice.audit_tips WHERE tenant = ` + q(tenantA))
	a, b := s.activity(tenantA, now, "success"), s.activity(tenantB, now, "success")
	seq := s.count(`SELECT seq FROM bff_backoffice.audit_tips WHERE tenant = ` + q(tenantB))
	third := bff.MustParseID(bff.PrefixTenant, "tnt_01H8YN7QV4D8KZ4F8Y5CK4MV3C")
	c := s.activity(third, now, "success")
	s.exec(`INSERT INTO bff_backoffice.audit_heads (tenant, seq, hash, sealed_at, key_id, signature) VALUES ($1, $2, '', now(), '', '')`, tenantB.UUID(), seq+1)
	_, err := s.Seal(testkit.Context(t), s.jobs, now)
	for _, want := range []string{
		"seal alert_ack_log: ", "sign the audit chain of tenant " + tenantB.String(), "1 rows can not be sealed, the first: operator_activity " + a.String(),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the run does not say %q: %v", want, err)
		}
	}
	if diff := cmp.Diff([]bool{false, true}, s.chained(a, c)); diff != "" {
		t.Errorf("sealed and signed (-want +got):\n%s", diff)
	}
	if n := s.count(`SELECT count(*) FROM bff_backoffice.audit_chain WHERE row_id = ` + q(b)); n != 1 {
		t.Error("the tenant with a false head was not sealed")
	}

	s.exec(`GRANT SELECT ON bff_backoffice.alert_ack_log TO bff_backoffice_jobs`)
	s.exec(`INSERT INTO bff_backoffice.audit_tips SELECT * FROM kept`)
	s.exec(`DELETE FROM bff_backoffice.audit_heads WHERE key_id = ''`)
	s.run(s.Lake)
	if diff := cmp.Diff([]bool{true, true, true}, s.chained(a, b, c)); diff != "" {
		t.Errorf("mended (-want +got):\n%s", diff)
	}
	if findings, report := s.verify(); findings != nil {
		t.Errorf("mended: %v", report.Findings)
	}
}

// What weighs little in the database and a lot as text is sealed and exported by its digest, which verification holds the
// row to.
func TestHeavyValues(t *testing.T) {
	t.Parallel()
	f := &sealed{fixture: newFixture(t)}
	var members []string
	for i := range 3 {
		members = append(members, fmt.Sprintf(`"k%d":1e131071`, i))
	}
	heavy := f.addDecision(tenantA, now, "{"+strings.Join(members, ",")+"}", "")
	f.exec(`UPDATE bff_backoffice.ai_decision_log SET inbox_entry_id = repeat('x', 300000)`)
	f.run(f.Lake)
	var want string
	if err := f.super.QueryRow(testkit.Context(t), `SELECT '{"sha256":"' || encode(sha256(convert_to(modified_delta::text, 'UTF8')), 'hex') || '","bytes":' || octet_length(modified_delta::text) || '}'
		FROM bff_backoffice.ai_decision_log`).Scan(&want); err != nil {
		t.Fatal(err)
	}
	rows := readParquet[struct {
		ModifiedDelta string `parquet:"modified_delta,optional"`
		InboxEntryID  string `parquet:"inbox_entry_id"`
	}](f.fixture, "ai_decision_log")
	if len(rows) != 1 || rows[0].ModifiedDelta != want || !strings.HasSuffix(rows[0].InboxEntryID, `","bytes":300000}`) {
		t.Errorf("exported %.200v, want %s", rows, want)
	}
	if findings, report := f.verify(noHeads); findings != nil {
		t.Errorf("%v", report.Findings)
	}
	// The digest itself in the row's place is another row.
	f.quietly(`UPDATE bff_backoffice.ai_decision_log SET modified_delta = '` + want + `'`)
	if findings, _ := f.verify(noHeads, databaseOnly); len(findings) != 1 || findings[0] != "changed database "+heavy.String() {
		t.Errorf("a digest in place of the value: %q", findings)
	}
}

// Rows of one transaction are sealed batch by batch, whether the sealer comes upon them or has passed them while the
// transaction ran, and whatever the server believes of the chain's size.
func TestSealOneLargeTransaction(t *testing.T) {
	t.Parallel()
	f := &sealed{fixture: newFixture(t)}
	ctx := testkit.Context(t)
	const rows, batch = 5000, 2000
	cfg := f.jobs.Config()
	cfg.ConnConfig.RuntimeParams["plan_cache_mode"] = "force_generic_plan" // as after some batches
	var err error
	if f.jobs, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.jobs.Close)
	f.one(tenantA, now)
	f.run(f.Lake)
	f.exec(`ANALYZE bff_backoffice.audit_chain`) // it has three entries, of other tables
	const before = 3
	insert := fmt.Sprintf(`INSERT INTO bff_backoffice.operator_activity (tenant_id, operator_id, device_id, session_id, occurred_at, category, action, outcome)
		SELECT $1, 'o', 'd', 's', $2, 'c', 'a', 'success' FROM generate_series(1, %d)`, rows)
	late, err := f.super.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{`SET LOCAL idle_in_transaction_session_timeout = 0`, `SET LOCAL statement_timeout = 0`} {
		if _, err := late.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := late.Exec(ctx, insert, tenantB.UUID(), now); err != nil {
		t.Fatal(err)
	}
	f.exec(insert, tenantA.UUID(), now)
	f.run(f.Lake)
	wantChain(f, "while the other runs", before+rows)
	if err := late.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	f.run(f.Lake)
	wantChain(f, "after both have ended", before+2*rows)
	if n := f.count(`SELECT max(n) FROM (SELECT count(*) AS n FROM bff_backoffice.audit_chain GROUP BY xmin::text) AS c`); n > batch {
		t.Errorf("one transaction of the sealer has added %d entries", n)
	}
	// The sealer's sessions tell what they have read when they end.
	f.jobs.Close()
	f.super.Reset()
	for f.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`) > 0 {
		if ctx.Err() != nil {
			t.Fatal("sessions of jobs are left")
		}
	}
	if n := f.count(`SELECT seq_tup_read + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes i WHERE i.relid = t.relid)::bigint
		FROM pg_stat_user_tables t WHERE schemaname = 'bff_backoffice' AND relname = 'audit_chain'`); n > 100*rows {
		t.Errorf("%d entries of the chain were read to seal and export %d rows: it was looked through for each", n, 2*rows)
	}
}

// A row that is not as it was sealed is withheld: the others are exported and pruned, it is not, and each run says so.
func TestExportWithholds(t *testing.T) {
	t.Parallel()
	f := &sealed{fixture: newFixture(t)}
	bad, good := f.activity(tenantA, now.Add(-91*day), "success"), f.activity(tenantA, now.Add(-91*day), "success")
	if _, err := f.Seal(testkit.Context(t), f.jobs, now); err != nil {
		t.Fatal(err)
	}
	f.quietly(`UPDATE bff_backoffice.operator_activity SET operator_id = 'opt_2' WHERE id = ` + q(bad))
	for range 2 {
		failed := f.runAll()
		if len(failed) != 1 || !strings.Contains(failed["activity-export"], bad.String()+" of tenant "+tenantA.String()+" is not as it was sealed") {
			t.Errorf("failed: %q", failed)
		}
	}
	if n := f.count(`SELECT count(*) FROM bff_backoffice.operator_activity WHERE id = ` + q(good)); n != 0 {
		t.Error("what is as it was sealed was not pruned")
	}
	if n := f.count(`SELECT count(*) FROM bff_backoffice.operator_activity WHERE id = ` + q(bad)); n != 1 {
		t.Error("what was withheld was pruned")
	}
	findings, _ := f.verify(noHeads)
	if diff := cmp.Diff([]string{"changed database " + bad.String(), "removed export " + bad.String()}, findings); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
