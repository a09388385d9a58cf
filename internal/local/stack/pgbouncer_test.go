package stack

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestPgBouncer(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	server := startPostgres(t, PostgresConfig{})
	pooler, err := StartPgBouncer(ctx, PgBouncerConfig{ServerURL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pooler.Close(); err != nil {
			t.Error(err)
		}
	})
	through := pooler.URL(server.URL())
	session := func() *pgx.Conn {
		t.Helper()
		c, err := pgx.Connect(ctx, through)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(ctx) })
		return c
	}
	backend := func(c *pgx.Conn) (pid int) {
		t.Helper()
		if err := c.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid); err != nil {
			t.Fatal(err)
		}
		return pid
	}
	// Transaction mode: while one client holds a server connection in a transaction,
	// another's statements run on the next.
	first, second := session(), session()
	tx, err := first.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	held := backend(first)
	if got := backend(second); got == held {
		t.Errorf("backend %d serves a client while another's transaction holds it", got)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}

	config, err := pgx.ParseConfig(through)
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["statement_timeout"] = "1000"
	_, err = pgx.ConnectConfig(ctx, config)
	if pe, ok := errors.AsType[*pgconn.PgError](err); !ok || !strings.Contains(pe.Message, "statement_timeout") {
		t.Errorf("startup parameter: %v, want a refusal", err)
	}
	stranger, err := url.Parse(through)
	if err != nil {
		t.Fatal(err)
	}
	stranger.User = url.UserPassword("postgres", "guess")
	if _, err := pgx.Connect(ctx, stranger.String()); err == nil {
		t.Error("a wrong password was accepted")
	}
}
