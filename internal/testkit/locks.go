package testkit

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// ChangeMeanwhile makes the change in a transaction that is open while work runs, and
// commits it when a statement of work waits for a row of it: that statement has chosen
// its rows before the change.
func ChangeMeanwhile(t testing.TB, db *pgxpool.Pool, change string, work func()) {
	t.Helper()
	ctx := Context(t)
	tx, err := db.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // it has ended, unless the test failed
	if _, err := tx.Exec(ctx, change); err != nil {
		t.Fatalf("%s: %v", change, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	Until(t, "a statement that waits for "+change, func() (waits bool) {
		select {
		case <-done:
			t.Fatalf("nothing has waited for %s", change)
		default:
		}
		err := db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid)))`, tx.Conn().PgConn().PID()).Scan(&waits)
		if err != nil {
			t.Fatal(err)
		}
		return waits
	})
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	<-done
}
