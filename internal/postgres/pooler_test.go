package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

// pooled opens the staff service's database through PgBouncer, as its application's role,
// with more connections than PgBouncer has to the server.
func pooled(t testing.TB) *pgxpool.Pool {
	t.Helper()
	admin := migrated(t, migrations.Backoffice())
	through := testkit.PgBouncer(t, passwords(migrations.Backoffice()))
	return openPool(t, postgres.Config{
		URL: through(asRole(t, admin, migrations.BackofficeApp)), ApplicationName: "pooled", MaxConns: 8, RequireIsolation: true,
		Pooler: postgres.TransactionPooler,
	})
}

// Every kind of call works on whichever server connection it gets, over and over,
// so that each statement meets connections that have not seen it.
func TestPoolerRunsEveryKindOfCall(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	db := pooled(t)
	if err := seed(ctx, db); err != nil {
		t.Fatal(err)
	}
	calls := map[string]func() error{
		"single statement": func() error {
			var n int
			return db.QueryRow(ctx, "SELECT count(*) FROM bff_backoffice.idempotency WHERE idem_key = $1", "of-nobody").Scan(&n)
		},
		"transaction": func() error {
			return postgres.InTx(ctx, db, func(tx pgx.Tx) error {
				var a, b int
				return errors.Join(
					tx.QueryRow(ctx, "SELECT pg_backend_pid() + $1", 0).Scan(&a),
					tx.QueryRow(ctx, "SELECT pg_backend_pid() + $1", 0).Scan(&b),
					same(a, b))
			})
		},
		"tenant's transaction": func() error {
			return postgres.NewTenants(db).InTx(ctx, tenants[0], func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "UPDATE bff_backoffice.device_sync_status SET app_version = $1", "2")
				return err
			})
		},
		"tenant's batch": func() error {
			return postgres.NewTenants(db).Tx(ctx, tenants[1], func(b *pgx.Batch) {
				b.Queue("UPDATE bff_backoffice.device_sync_status SET app_version = $1 WHERE device_id = $2", "3", "of-"+tenants[1].ULID())
			})
		},
		"tenant's read": func() error {
			n := 0
			err := postgres.NewTenants(db).Read(ctx, tenants[0], func(b *pgx.Batch) {
				b.Queue("SELECT count(*) FROM bff_backoffice.device_sync_status WHERE device_id = ANY($1)",
					[]string{"of-" + tenants[0].ULID(), "of-" + tenants[1].ULID()}).QueryRow(func(r pgx.Row) error { return r.Scan(&n) })
			})
			return errors.Join(err, same(n, 1))
		},
	}
	var wg sync.WaitGroup
	for name, call := range calls {
		for range 4 {
			wg.Go(func() {
				for range 10 {
					if err := call(); err != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
}

func same(got, want int) error {
	if got != want {
		return fmt.Errorf("%d, want %d", got, want)
	}
	return nil
}

// The tenant of one transaction must not be there in the next one on the same
// server connection, whichever client that serves.
func TestPoolerKeepsTenantsApart(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	db := pooled(t)
	if err := seed(ctx, db); err != nil {
		t.Fatal(err)
	}
	for _, tb := range tenantTables {
		for _, tenant := range []bff.ID{tenants[0], {}, tenants[1], {}} {
			want := "1"
			if tenant.IsZero() {
				want = "0"
			}
			if got := try(ctx, db, tenant, "SELECT FROM "+tb.qualified()); got != want {
				t.Errorf("%s: tenant %q sees %s rows, want %s", tb.name, tenant, got, want)
			}
		}
	}
}

// The timeouts reach the server with the role.
func TestPoolerKeepsTimeouts(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	db := pooled(t)
	var got string
	err := db.QueryRow(ctx, `SELECT concat_ws(' ', current_setting('statement_timeout'), current_setting('lock_timeout'),
		current_setting('idle_in_transaction_session_timeout'), current_setting('timezone'), current_setting('application_name'))`).Scan(&got)
	if want := "5s 3s 10s UTC pooled"; err != nil || !strings.HasPrefix(got, want) {
		t.Errorf("%q, %v, want it to begin with %q", got, err, want)
	}
}

func TestPoolerRefusesRoleWithoutTimeouts(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	admin := testkit.Postgres(t)
	role := "unlimited_" + strings.ReplaceAll(admin[strings.LastIndex(admin, "/")+1:], "?sslmode=disable", "")
	conn := connect(t, admin)
	if _, err := conn.Exec(ctx, "CREATE ROLE "+role+" LOGIN PASSWORD '"+password+"'"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := conn.Exec(context.Background(), "DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	through := testkit.PgBouncer(t, map[string]string{role: password})
	db := openPool(t, postgres.Config{URL: through(asRole(t, admin, role)), Pooler: postgres.TransactionPooler})
	if err := db.Ping(ctx); !errors.Is(err, postgres.ErrUnlimited) {
		t.Errorf("ping = %v, want %v", err, postgres.ErrUnlimited)
	}
}

func TestPoolerIsChecked(t *testing.T) {
	t.Parallel()
	for _, cfg := range []postgres.Config{
		{URL: "postgres://host/db", Pooler: "session"},
		{URL: "postgres://host/db", Pooler: postgres.TransactionPooler, StatementTimeout: 1},
	} {
		if _, err := postgres.Open(t.Context(), cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}

// A role that an older release made gets its timeouts though there is nothing to
// migrate, and what an administrator set stays.
func TestMigrateGivesRolesTheirTimeouts(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server := testkit.NewPostgres(t, false) // roles belong to the whole server
	set := migrations.Consumer()
	migrate := func() {
		t.Helper()
		if err := postgres.Migrate(ctx, server.URL(), set, postgres.MigrateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	migrate()
	conn := connect(t, server.URL())
	settings := func() string {
		t.Helper()
		return strings.Join(strs(t, conn, "SELECT unnest(rolconfig) FROM pg_roles WHERE rolname = $1 ORDER BY 1", migrations.ConsumerApp), " ")
	}
	const want = "idle_in_transaction_session_timeout=10000 lock_timeout=3000 statement_timeout=5000"
	if got := settings(); got != want {
		t.Errorf("fresh: %s, want %s", got, want)
	}
	for _, sql := range []string{"RESET ALL", "SET lock_timeout = '7s'"} {
		if _, err := conn.Exec(ctx, "ALTER ROLE "+migrations.ConsumerApp+" "+sql); err != nil {
			t.Fatal(err)
		}
	}
	migrate()
	if got, want := settings(), strings.Replace(want, "3000", "7s", 1); got != want {
		t.Errorf("again: %s, want %s", got, want)
	}
}
