package backofficelake_test

import (
	"context"
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
	tx, err := f.super.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // it has ended, unless the test failed
	if _, err := tx.Exec(ctx, `UPDATE bff_backoffice.operator_activity SET outcome = 'failure', error_code = 'X'`); err != nil {
		t.Fatal(err)
	}
	pruned := make(chan struct{})
	go func() {
		defer close(pruned)
		run(now)
	}()
	for f.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%DELETE FROM bff_backoffice.operator_activity%'`) == 0 {
		select {
		case <-pruned:
			t.Fatal("the row was not pruned")
		case <-ctx.Done():
			t.Fatal("the prune does not wait for the row")
		case <-time.After(10 * time.Millisecond):
		}
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	<-pruned
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
