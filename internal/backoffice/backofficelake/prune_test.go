package backofficelake_test

import (
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/testkit"
)

// An old row that is about to change while it is pruned stays until it was exported as
// it is now, or the change would be missing from the audit.
func TestPruneSparesChangedRow(t *testing.T) {
	t.Parallel()
	f := &sealed{fixture: newFixture(t)}
	ctx := testkit.Context(t)
	run := func(now time.Time) {
		for _, j := range f.Lake.Jobs() {
			if _, err := j.Run(ctx, f.jobs, now); err != nil {
				t.Errorf("%s: %v", j.Name, err)
			}
		}
	}
	row := f.activity(tenantA, now.Add(-91*day), "unknown")
	run(now.Add(-2 * day)) // exported, too young to be pruned
	testkit.ChangeMeanwhile(t, f.super, `UPDATE bff_backoffice.operator_activity SET outcome = 'failure', error_code = 'X'`, func() { run(now) })
	if n := f.count(`SELECT count(*) FROM bff_backoffice.operator_activity WHERE id = $1`, row.UUID()); n != 1 {
		t.Error("the row is gone before its change was exported")
	}
	run(now)
	if n := f.count(`SELECT count(*) FROM bff_backoffice.operator_activity`); n != 0 {
		t.Error("the row is left after its change was exported")
	}
	if n := f.count(`SELECT sum(rows)::int FROM bff_backoffice.audit_exports WHERE tab = 'operator_activity' AND confirmed_at IS NOT NULL`); n != 2 {
		t.Errorf("%d versions of the row exported, want 2", n)
	}
}
