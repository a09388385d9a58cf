package testkit

import (
	"crypto/rand"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(Context(t), url)
	if err != nil {
		t.Fatal(err)
	}
	// Left open on purpose: dropping the database must not wait for it.
	return conn
}

func TestPostgresTemplateIsPreparedOnce(t *testing.T) {
	t.Parallel()
	var prepared atomic.Int32
	name := "once" + rand.Text() // a second run in the same process has its own
	prepare := func(url string) error {
		prepared.Add(1)
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			return err
		}
		// Not closed: a careless prepare must not block the copies.
		_, err = conn.Exec(t.Context(), "CREATE TABLE stay (id int); INSERT INTO stay VALUES (7)")
		return err
	}
	for range 4 {
		t.Run("copy", func(t *testing.T) {
			t.Parallel()
			ctx := Context(t)
			conn := connect(t, PostgresTemplate(t, name, prepare))
			// Every copy must see the template's row, not another copy's.
			if _, err := conn.Exec(ctx, "UPDATE stay SET id = id + 1"); err != nil {
				t.Fatal(err)
			}
			var id int
			if err := conn.QueryRow(ctx, "SELECT id FROM stay").Scan(&id); err != nil {
				t.Fatal(err)
			}
			if id != 8 {
				t.Errorf("id = %d, want 8", id)
			}
		})
	}
	t.Cleanup(func() {
		if got := prepared.Load(); got != 1 {
			t.Errorf("prepared %d times, want 1", got)
		}
	})
}

func TestContextEndsBeforeTheRun(t *testing.T) {
	t.Parallel()
	got, ok := Context(t).Deadline()
	if !ok {
		t.Fatal("no deadline")
	}
	if end, ok := t.Deadline(); ok && !got.Before(end) {
		t.Errorf("deadline %v is not before the run's %v", got, end)
	}
}

// told is a test whose failures are counted.
type told struct {
	testing.TB
	failures int
}

func (t *told) Errorf(string, ...any) { t.failures++ }

// Attempts that failed are made again as long as the run has forgiven few.
func TestForgivenessEnds(t *testing.T) {
	t.Cleanup(func() { forgiven.n = 0 }) // not parallel: there is one budget
	left := 3
	if !Retry(t, "the fourth attempt", func() bool { left--; return left < 0 }) {
		t.Error("no attempt succeeded")
	}
	fake := &told{TB: t}
	for i := 3; i < maxForgiven; i++ {
		if !Forgive(fake, "within the budget") {
			t.Fatalf("attempt %d is not forgiven", i)
		}
	}
	if Retry(fake, "one too many", func() bool { return false }) || fake.failures != 1 {
		t.Errorf("%d failures were told, want the one above the budget", fake.failures)
	}
}
