package backofficestore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

var errBudget = errors.New("the request's time budget is spent")

// A record whose time is spent while Postgres hangs fails as a store does, not as an
// upstream. What was sent may be committed later, and is there once, also when it is
// recorded again.
func TestRecordWhilePostgresHangs(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	admin := testkit.PostgresTemplate(t, "bff_backoffice", migrate)
	line := testkit.NewLine(t, admin)
	d := &desk{Ledger: openLedger(t, line.URL), admin: connect(t, admin)}
	tenant, now := id(bff.PrefixTenant), time.Now()
	if err := d.Record(ctx, []backoffice.Activity{checkIn(tenant, now)}); err != nil {
		t.Fatal(err)
	}
	line.Hang()
	did := checkIn(tenant, now)
	for range 2 { // the one that is written, and the one that waits for that
		brief, cancel := context.WithTimeoutCause(ctx, 10*time.Millisecond, errBudget)
		err := d.Record(brief, []backoffice.Activity{did}, told(tenant, now))
		cancel()
		if bff.CodeOf(err) != bff.CodeServiceUnavailable {
			t.Errorf("%v, want %s", err, bff.CodeServiceUnavailable)
		}
	}
	line.Resume()
	if err := d.Record(ctx, []backoffice.Activity{did}); err != nil {
		t.Error(err)
	}
	if n := d.rows(t, "SELECT count(*)::text FROM bff_backoffice.operator_activity"); n[0] != "2" {
		t.Errorf("%s rows, want 2", n[0])
	}
}
