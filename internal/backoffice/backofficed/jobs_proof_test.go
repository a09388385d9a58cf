package backofficed

import (
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// Jobs run as two processes at once, and one is killed with SIGKILL somewhere in the
// middle, again and again, while rows are written. In the end every row is in the
// export exactly once, nothing was pruned that was not exported, and the chain is whole.
func TestProofJobsAreKilled(t *testing.T) {
	t.Parallel()
	rounds, rows := testkit.Proof(2, 60), testkit.Proof(1000, 20_000)
	s := &staff{t: t, World: testkit.NewWorld(t, func(p *platform.Places) { p.LakeURL = "file://" + t.TempDir() })}
	s.run("migrate")
	ctx := testkit.Context(t)
	super, err := postgres.Open(t.Context(), testkit.Patient(s.PostgresURL))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(super.Close)
	// Half of the rows are past their time; some may still change.
	const add = `INSERT INTO bff_backoffice.operator_activity (tenant_id, operator_id, device_id, session_id, occurred_at, category, action, outcome)
		SELECT ('00000000-0000-7000-8000-00000000000' || n % 3)::uuid, 'o', 'd', 's', now() - (n % 2) * interval '91 days' - interval '1 minute', 'c', 'a',
			CASE WHEN n % 100 = 0 THEN 'unknown' ELSE 'success' END FROM generate_series(1, $1) AS n`
	for range rounds {
		if _, err := super.Exec(ctx, add, rows); err != nil {
			t.Fatal(err)
		}
		if _, err := super.Exec(ctx, `UPDATE bff_backoffice.audit_cursors SET passed_at = NULL`); err != nil { // the old rows are no forgeries
			t.Fatal(err)
		}
		doomed, other := s.command("jobs", "all"), s.command("jobs", "all")
		for _, c := range []*exec.Cmd{doomed, other} {
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _ = super.Exec(ctx, `SELECT pg_sleep($1)`, rand.Float64()*0.5) //nolint:gosec // where it dies is chance
			_ = doomed.Process.Kill()                                         // it may have ended
		})
		wg.Go(func() {
			if _, err := super.Exec(ctx, `UPDATE bff_backoffice.operator_activity SET outcome = 'failure', error_code = 'X' WHERE outcome = 'unknown'`); err != nil {
				t.Error(err)
			}
		})
		_ = doomed.Wait() // killed
		_ = other.Wait()  // may have met a row that was about to change; the last run decides
		wg.Wait()
	}
	s.run("jobs", "all")
	total := rounds * rows
	for what, sql := range map[string]string{
		"rows that were sealed": `SELECT count(DISTINCT row_id) FROM bff_backoffice.audit_chain`,
		"rows that were exported, each version once": `SELECT (SELECT sum(rows) FROM bff_backoffice.audit_exports WHERE tab = 'operator_activity' AND confirmed_at IS NOT NULL)
			- (SELECT count(*) FROM bff_backoffice.audit_chain) + (SELECT count(DISTINCT row_id) FROM bff_backoffice.audit_chain)`,
		"rows that are left, and rows that were pruned": `SELECT (SELECT count(*) FROM bff_backoffice.operator_activity) + (SELECT count(DISTINCT row_id) FROM bff_backoffice.audit_chain
			LEFT JOIN bff_backoffice.operator_activity ON id = row_id WHERE at < now() - interval '90 days' AND id IS NULL)`,
		"rows past their time, all of which are pruned": `SELECT count(*) + $1 FROM bff_backoffice.operator_activity WHERE occurred_at < now() - interval '90 days'`,
	} {
		var n int
		args := []any{}
		if strings.Contains(sql, "$1") {
			args = append(args, total)
		}
		if err := super.QueryRow(ctx, sql, args...).Scan(&n); err != nil || n != total {
			t.Errorf("%s: %d, %v; want %d", what, n, err, total)
		}
	}
	if got := s.run("audit", "verify", "--export", s.LakeURL); !strings.HasSuffix(got, "nothing was changed, removed, inserted or reordered\n") {
		t.Errorf("audit verify:\n%s", got)
	}
	if got := s.run("audit", "verify", "--export", s.LakeURL, "--only-export"); !strings.HasSuffix(got, "nothing was changed, removed, inserted or reordered\n") {
		t.Errorf("audit verify of the export alone:\n%s", got)
	}
}
