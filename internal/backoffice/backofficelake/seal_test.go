package backofficelake_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficelake"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// Two transactions have their moments, ids and transaction ids before a seal of several
// batches and end after it. What the one has written is sealed by the next seal, once;
// the other has written nothing.
func TestSealLateCommit(t *testing.T) {
	t.Parallel()
	f := &sealed{fixture: newFixture(t)}
	ctx := testkit.Context(t)
	at := now.Add(-10 * time.Minute)
	row := bff.NewID(bff.PrefixActivity, at)
	late, lost := f.begin(row, at), f.begin(bff.NewID(bff.PrefixActivity, at), at)
	const others = 2001 // two batches, all behind the two
	f.activities(others)
	f.run(f.Lake)
	f.run(f.Lake)
	wantChain(f, "while both run", others)
	if err := late.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := lost.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if n := unsealedOf(f); n != 1 {
		t.Errorf("committed behind the seal: %d rows are new, want 1", n)
	}
	f.run(f.Lake)
	f.run(f.Lake)
	wantChain(f, "after both have ended", others+1)
	if n := f.count(`SELECT count(*) FROM bff_backoffice.audit_chain WHERE row_id = $1`, row.UUID()); n != 1 {
		t.Errorf("the late row was sealed %d times", n)
	}
}

// begin adds a row in a transaction that may run for long.
func (f *sealed) begin(row bff.ID, at time.Time) pgx.Tx {
	f.t.Helper()
	ctx := testkit.Context(f.t)
	tx, err := f.super.Begin(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // it has ended, unless the test failed
	if _, err := tx.Exec(ctx, `SET LOCAL idle_in_transaction_session_timeout = 0`); err != nil {
		f.t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, insertActivity, row.UUID(), tenantA.UUID(), at, "charge", "success"); err != nil {
		f.t.Fatal(err)
	}
	return tx
}

// wantChain wants an entry for each of so many rows, and nothing to complain of.
func wantChain(f *sealed, when string, rows int) {
	f.t.Helper()
	if n, all := f.count(`SELECT count(DISTINCT row_id) FROM bff_backoffice.audit_chain`), f.count(`SELECT count(*) FROM bff_backoffice.audit_chain`); n != rows || all != rows {
		f.t.Errorf("%s: %d entries of %d rows, want %d", when, all, n, rows)
	}
	if n := unsealedOf(f); n != 0 {
		f.t.Errorf("%s: %d rows are not sealed", when, n)
	}
}

// unsealedOf counts the rows that verification finds new. It complains of nothing else.
func unsealedOf(f *sealed) (n int64) {
	f.t.Helper()
	findings, report := f.verify(noHeads)
	if findings != nil {
		f.t.Errorf("%v", report.Findings)
	}
	for _, t := range report.Tenants {
		n += t.Unsealed
	}
	return n
}

// restoreElsewhere moves the database to a server whose transactions are far behind.
func (f *sealed) restoreElsewhere() {
	f.t.Helper()
	const ahead = 1_000_000_000
	var moves []string
	for _, table := range []string{"operator_activity", "alert_ack_log", "ai_decision_log", "lock_action_proxy_audit", "audit_chain", "audit_cursors"} {
		moves = append(moves, fmt.Sprintf(`UPDATE bff_backoffice.%s SET tx_id = ((tx_id::text::bigint + %d)::text)::xid8`, table, ahead))
	}
	f.quietly(append(moves, fmt.Sprintf(`UPDATE bff_backoffice.audit_cursors SET holes = ARRAY['%d']::xid8[]`, ahead+5))...)
}

// The database is restored on a server whose transactions are far behind: rows, entries
// and cursor name transactions that the server has yet to give. What was sealed is not
// sealed again; what was not, and what is written from then on, is. If the backup is
// older than a published head, verification names what is missing.
func TestSealRestored(t *testing.T) {
	t.Parallel()
	s := newSealed(t)
	unsealed := s.activity(tenantA, now.Add(-3*time.Minute), "success")
	s.restoreElsewhere()
	entries := s.count(`SELECT count(*) FROM bff_backoffice.audit_chain`)
	if findings, _ := s.verify(); findings != nil {
		t.Errorf("restored: %q", findings)
	}
	written := s.activity(tenantB, now.Add(-2*time.Minute), "success")
	for range 3 {
		s.run(s.Lake)
	}
	var chained []string
	for _, id := range []bff.ID{unsealed, written} {
		if s.count(`SELECT count(*) FROM bff_backoffice.audit_chain WHERE row_id = $1`, id.UUID()) == 1 {
			chained = append(chained, id.String())
		}
	}
	if diff := cmp.Diff([]string{unsealed.String(), written.String()}, chained); diff != "" {
		t.Errorf("sealed once after the restoration (-want +got):\n%s", diff)
	}
	if n := s.count(`SELECT count(*) FROM bff_backoffice.audit_chain`); n != entries+2 {
		t.Errorf("%d entries, want %d", n, entries+2)
	}
	if findings, report := s.verify(); findings != nil {
		t.Errorf("sealed: %v", report.Findings)
	}

	// A backup of the moment before: the export and the published head know more.
	s.quietly(
		`DELETE FROM bff_backoffice.operator_activity WHERE id = `+q(unsealed),
		`DELETE FROM bff_backoffice.audit_chain WHERE row_id = `+q(unsealed),
		`DELETE FROM bff_backoffice.audit_heads WHERE tenant = `+q(tenantA)+` AND seq > 10`,
		`UPDATE bff_backoffice.audit_tips SET seq = 10, head_seq = 10, hash = (SELECT hash FROM bff_backoffice.audit_chain WHERE tenant = `+q(tenantA)+` AND seq = 10) WHERE tenant = `+q(tenantA),
	)
	findings, _ := s.verify()
	if diff := cmp.Diff([]string{backofficelake.Removed + " database 11"}, findings); diff != "" {
		t.Errorf("an older backup (-want +got):\n%s", diff)
	}
}
