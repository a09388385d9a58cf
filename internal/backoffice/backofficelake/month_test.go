package backofficelake_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff/internal/backoffice/backofficelake"
	"melmastoon.ghasi.io/bff/internal/service"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// months lists the parts of the ledger with their rows.
func (f *fixture) months() map[string]int {
	f.t.Helper()
	ctx := testkit.Context(f.t)
	//nolint:rowserrcheck // pgx.ForEachRow reports it
	rows, err := f.super.Query(ctx, `SELECT tableoid::regclass::text, count(*)::int FROM bff_backoffice.operator_activity GROUP BY 1
		UNION ALL SELECT inhrelid::regclass::text, 0 FROM pg_inherits WHERE inhparent = 'bff_backoffice.operator_activity'::regclass
			AND NOT EXISTS (SELECT FROM bff_backoffice.operator_activity WHERE tableoid = inhrelid)`)
	if err != nil {
		f.t.Fatal(err)
	}
	all := map[string]int{}
	var (
		name string
		n    int
	)
	if _, err := pgx.ForEachRow(rows, []any{&name, &n}, func() error {
		all[name] = n
		return nil
	}); err != nil {
		f.t.Fatal(err)
	}
	return all
}

func month(at time.Time) string { return "bff_backoffice.operator_activity_" + at.Format("2006_01") }

// A month whose rows are all past their time is dropped when all of them are exported as
// they stand, and not before; what keeps one row keeps no other.
func TestMonthsOfTheLedger(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	f := &sealed{fixture: newFixture(t)}
	patient := f.config()
	patient.DropWait = time.Minute
	f.Lake = backofficelake.New(patient)
	first := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	past, older := first.AddDate(0, -5, 3), first.AddDate(0, -6, 3)
	for _, at := range []time.Time{past, older} {
		f.exec(`SELECT bff_backoffice.make_activity_month($1)`, at)
	}
	export := f.Lake.Jobs()[1]
	run := func() {
		t.Helper()
		if _, err := export.Run(ctx, f.jobs, now); err != nil {
			t.Error(err)
		}
	}
	f.activity(tenantA, past, "success")
	f.activity(tenantB, past.Add(time.Hour), "failure")
	held := f.activity(tenantA, older, "unknown")
	f.activity(tenantA, older.Add(time.Hour), "success")
	f.activity(tenantA, now, "success")
	// A transaction that is open when the sealer passes has changed a row of the older month: that row is not exported as it stands.
	testkit.ChangeMeanwhile(t, f.super, `UPDATE bff_backoffice.operator_activity SET outcome = 'failure' WHERE id = '`+held.UUID()+`'`, run)
	wanted := map[string]int{month(older): 1, month(now): 1, "bff_backoffice.operator_activity_other": 0}
	for n := 1; n <= 3; n++ {
		wanted[month(first.AddDate(0, n, 0))] = 0
	}
	if diff := cmp.Diff(wanted, f.months()); diff != "" {
		t.Errorf("with a changed row (-want +got):\n%s", diff)
	}
	run()
	delete(wanted, month(older))
	if diff := cmp.Diff(wanted, f.months()); diff != "" {
		t.Errorf("after its export (-want +got):\n%s", diff)
	}
	f.run(f.Lake)
	if findings, report := f.verify(noHeads); len(findings) > 0 || !slices.ContainsFunc(report.Tenants,
		func(r backofficelake.TenantReport) bool { return r.Pruned > 0 }) {
		t.Errorf("%q %+v", findings, report)
	}
}

// Jobs make months near today and drop months that are past their time, nothing else;
// the application does neither.
func TestWhoMakesAndDropsMonths(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	f := newFixture(t)
	first := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	for sql, args := range map[string]any{
		`SELECT bff_backoffice.make_activity_month($1)`:               now.AddDate(1, 0, 0),
		`SELECT bff_backoffice.make_activity_month($1 + interval '')`: now.AddDate(-1, 0, 0),
		`SELECT bff_backoffice.drop_activity_month($1)`:               month(now)[len("bff_backoffice."):],
		`SELECT bff_backoffice.drop_activity_month($1 || '')`:         "operator_activity_other",
		`SELECT bff_backoffice.drop_activity_month('' || $1)`:         "audit_chain",
		`SELECT bff_backoffice.add_activity_part($1, 'DEFAULT')`:      "mine",
	} {
		if _, err := f.jobs.Exec(ctx, sql, args); err == nil {
			t.Errorf("%s %v: done", sql, args)
		}
	}
	// Rows of a month that was not made in time stay where they are, and the month after is made.
	late := first.AddDate(0, -2, 0)
	f.activity(tenantA, late, "success")
	for range 2 {
		if _, err := f.jobs.Exec(ctx, `SELECT bff_backoffice.make_activity_month($1), bff_backoffice.make_activity_month($2)`, late, first.AddDate(0, -1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	got := fmt.Sprint(f.months()["bff_backoffice.operator_activity_other"], len(f.months()))
	if got != "1 6" {
		t.Errorf("rows outside of months, and parts: %s, want 1 and 6", got)
	}
}

// Entries of the ledger behind a signed head that was exported are pruned after a week.
// With the export everything is verified as before; without it the rest is, and what
// is in the export alone is counted.
func TestArchivedEntries(t *testing.T) {
	t.Parallel()
	f := &sealed{fixture: newFixture(t)}
	run := func(at time.Time) {
		t.Helper()
		for _, j := range f.Lake.Jobs() {
			if _, err := j.Run(testkit.Context(t), f.jobs, at); err != nil {
				t.Errorf("%s: %v", j.Name, err)
			}
		}
	}
	old := now.Add(-8 * day)
	settled, changed, removed := f.activity(tenantA, old, "success"), f.activity(tenantA, old, "success"), f.activity(tenantA, old, "failure")
	open := f.activity(tenantA, old, "unknown")
	alert, _, _ := f.one(tenantA, old)
	run(old.Add(time.Minute)) // sealed and exported a week ago
	f.activity(tenantA, now, "success")
	run(now)
	entries := func(want ...bool) {
		t.Helper()
		if diff := cmp.Diff(want, f.chained(settled, open, alert)); diff != "" {
			t.Error(diff)
		}
	}
	entries(false, true, true)
	verify := func(export bool, unverified int64, want ...string) {
		t.Helper()
		findings, report := f.verify(noHeads, func(v *backofficelake.Verifier) {
			if !export {
				v.Bucket = nil
			}
		})
		if diff := cmp.Diff(want, findings, cmpopts.EquateEmpty()); diff != "" || report.Tenants[0].Unverified != unverified {
			t.Errorf("with the export %t: %d unverified\n%s", export, report.Tenants[0].Unverified, diff)
		}
	}
	verify(false, 3)
	verify(true, 0)
	// A row that ends late is sealed as its next version, and its first entry goes when that one is old.
	f.quietly(`UPDATE bff_backoffice.operator_activity SET outcome = 'failure' WHERE id = ` + q(open))
	f.exec(`UPDATE bff_backoffice.operator_activity SET latency_ms = 1 WHERE id = ` + q(open))
	run(now)
	verify(false, 3)
	verify(true, 0)
	f.quietly(`UPDATE bff_backoffice.operator_activity SET operator_id = 'opt_2' WHERE id = ` + q(changed))
	f.exec(`DELETE FROM bff_backoffice.operator_activity WHERE id = ` + q(removed))
	verify(true, 0, "changed database "+changed.String(), "removed database "+removed.String())
	f.exec(`UPDATE bff_backoffice.operator_activity SET operator_id = 'opt_3' WHERE id = ` + q(changed)) // and it is sealed again
	run(now)
	verify(true, 0, "changed database "+changed.String(), "changed export "+changed.String(), "removed database "+removed.String())
	f.exec(`DELETE FROM bff_backoffice.audit_heads WHERE seq = (SELECT pruned_seq FROM bff_backoffice.audit_tips)`)
	findings, _ := f.verify(noHeads, func(v *backofficelake.Verifier) { v.Bucket = nil })
	if len(findings) == 0 {
		t.Error("a chain that begins behind no signed head is taken for whole")
	}
}

// A dump is restored on a server whose transactions are far behind. Rows whose entries are in
// the lake alone are not sealed again, and go when it is time; the others are sealed.
func TestRestoredArchive(t *testing.T) {
	t.Parallel()
	f := &sealed{fixture: newFixture(t)}
	seal, export := f.Lake.Jobs()[0], f.Lake.Jobs()[1]
	run := func(at time.Time, jobs ...service.Job) {
		t.Helper()
		for _, j := range jobs {
			if _, err := j.Run(testkit.Context(t), f.jobs, at); err != nil {
				t.Errorf("%s: %v", j.Name, err)
			}
		}
	}
	then := now.AddDate(-1, 0, 0)
	f.activity(tenantA, then, "success") // in no month
	if _, err := f.Seal(testkit.Context(t), f.jobs, then.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	past := time.Date(now.Year(), now.Month()-5, 9, 0, 0, 0, 0, time.UTC)
	f.exec(`SELECT bff_backoffice.make_activity_month($1)`, past)
	f.activity(tenantA, past, "success")
	run(past.Add(time.Minute), seal)
	kept := f.activity(tenantA, now.Add(-30*day), "success")
	run(now.Add(-29*day), seal)
	for _, j := range f.Lake.Jobs()[1:] { // as of then: nothing of it is past its time
		run(then.Add(time.Hour), j)
	}
	f.forgetPasses() // the moments are ours
	run(now, seal)
	open := f.activity(tenantA, now, "success")
	entries := f.count(`SELECT count(*) FROM bff_backoffice.audit_chain`)
	if entries > 0 {
		t.Errorf("%d entries are not archived", entries)
	}
	wantWhole := func(when string) {
		t.Helper()
		for _, without := range []bool{false, true} {
			if findings, report := f.verify(noHeads, func(v *backofficelake.Verifier) {
				if without {
					v.Bucket = nil
				}
			}); findings != nil {
				t.Errorf("%s, without the lake %t: %v", when, without, report.Findings)
			}
		}
	}
	wantWhole("before")
	f.restoreElsewhere()
	wantWhole("restored")
	written := f.activity(tenantA, now, "failure")
	for range 2 {
		run(now.Add(time.Minute), seal, export)
	}
	if diff := cmp.Diff([]bool{false, true, true}, f.chained(kept, open, written)); diff != "" {
		t.Errorf("sealed after it (-want +got):\n%s", diff)
	}
	wantWhole("sealed")
	if rows, months := f.count(`SELECT count(*) FROM bff_backoffice.operator_activity`), f.months(); rows != 3 || slices.Contains(slices.Collect(maps.Keys(months)), month(past)) {
		t.Errorf("%d rows in %v: what is past its time is there", rows, months)
	}
}
