package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

const password = "correct horse"

func passwords(set migrations.Set) map[string]string {
	m := map[string]string{}
	for _, role := range set.Logins {
		m[role] = password
	}
	return m
}

// asRole is the superuser's URL with another user in it.
func asRole(t testing.TB, admin, role string) string {
	t.Helper()
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, password)
	return u.String()
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(testkit.Context(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func openPool(t testing.TB, cfg postgres.Config) *pgxpool.Pool {
	t.Helper()
	patient := testkit.Patient(cfg.URL) // a busy machine is not a failure
	cfg.ConnectTimeout = patient.ConnectTimeout
	if cfg.Pooler == "" {
		cfg.StatementTimeout, cfg.LockTimeout = patient.StatementTimeout, patient.LockTimeout
	}
	pool, err := postgres.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func migrated(t testing.TB, set migrations.Set) string {
	t.Helper()
	return testkit.PostgresTemplate(t, set.Schema, func(url string) error {
		return postgres.Migrate(context.Background(), url, set, postgres.MigrateOptions{Passwords: passwords(set)})
	})
}

func strs(t testing.TB, conn *pgx.Conn, sql string, args ...any) []string {
	t.Helper()
	rows, err := conn.Query(testkit.Context(t), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestMigrateManyAtOnce(t *testing.T) {
	t.Parallel()
	// Two databases on one server: the roles are shared, the locks are not.
	urls := []string{testkit.Postgres(t), testkit.Postgres(t)}
	ctx := testkit.Context(t)
	var wg sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		set := migrations.Consumer()
		if i%4 >= 2 {
			set = migrations.Backoffice()
		}
		opts := postgres.MigrateOptions{Passwords: passwords(set)}
		wg.Go(func() { errs[i] = postgres.Migrate(ctx, urls[i%2], set, opts) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Errorf("instance %d: %v", i, err)
		}
	}
	for _, u := range urls {
		conn := connect(t, u)
		for _, schema := range []string{"bff_consumer", "bff_backoffice"} {
			got := strs(t, conn, fmt.Sprintf("SELECT version_id::text FROM %s.schema_migrations WHERE version_id > 0 GROUP BY version_id HAVING count(*) > 1", schema))
			if len(got) > 0 {
				t.Errorf("%s: applied more than once: %v", schema, got)
			}
		}
	}
}

func TestMigrateOwnership(t *testing.T) {
	t.Parallel()
	for _, set := range []migrations.Set{migrations.Consumer(), migrations.Backoffice()} {
		conn := connect(t, migrated(t, set))
		got := strs(t, conn, `SELECT c.relname || ' is owned by ' || pg_get_userbyid(c.relowner)
			FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = $1 AND pg_get_userbyid(c.relowner) <> $2`, set.Schema, set.Owner)
		if len(got) > 0 {
			t.Errorf("%s: %v", set.Schema, got)
		}
		got = strs(t, conn, `SELECT rolname FROM pg_roles WHERE rolname = ANY($1)
			AND (rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb OR NOT rolcanlogin)`, set.Logins)
		if len(got) > 0 {
			t.Errorf("%s: roles with too much or no login: %v", set.Schema, got)
		}
		got = strs(t, conn, `SELECT grantee || ' may ' || privilege_type || ' on ' || table_name
			FROM information_schema.role_table_grants WHERE table_schema = $1 AND grantee = 'PUBLIC'`, set.Schema)
		if len(got) > 0 {
			t.Errorf("%s: %v", set.Schema, got)
		}
	}
}

// The names are part of the platform's contract (DATA_MODEL §7).
func TestConsumerFiles(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(migrations.Consumer().FS, "000[1-7]_*.sql")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		"0001_init_schema.sql", "0002_create_outbox_inbox.sql", "0003_create_handoff_replay_log.sql",
		"0004_create_wishlist_anonymous.sql", "0005_create_bot_score_log.sql", "0006_create_idempotency_keys.sql",
		"0007_create_tenant_suspended_cache.sql",
	}, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	conn := connect(t, migrated(t, migrations.Consumer()))
	want := []string{
		"bot_score_log", "cleared_sessions", "handoff_replay_log", "idempotency_keys", "inbox", "job_runs", "outbox", "outbox_marks", "outbox_retries", "schema_migrations",
		"telemetry_refusals", "tenant_status_marks", "tenant_suspended_cache", "tenants_seen", "wishlist_anonymous",
	}
	got := strs(t, conn, "SELECT tablename FROM pg_tables WHERE schemaname = 'bff_consumer' ORDER BY 1")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
}

func TestMigrateTwiceDoesNothing(t *testing.T) {
	t.Parallel()
	url := migrated(t, migrations.Backoffice())
	if err := postgres.Migrate(testkit.Context(t), url, migrations.Backoffice(), postgres.MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestMigrateRefusesUnknownRole(t *testing.T) {
	t.Parallel()
	err := postgres.Migrate(t.Context(), "postgres://nowhere", migrations.Consumer(),
		postgres.MigrateOptions{Passwords: map[string]string{"postgres": "correct horse"}})
	if err == nil || !strings.Contains(err.Error(), "unknown role") {
		t.Errorf("err = %v, want unknown role", err)
	}
}

// The server is the oracle for the verifier: it lets in who knows the password.
// It is asked again on a schema that needs no migration: that is a rotation.
func TestMigrateSetsPasswords(t *testing.T) {
	t.Parallel()
	admin := testkit.NewPostgres(t, false).DatabaseURL("postgres")
	ctx := testkit.Context(t)
	for _, secret := range []string{"it's \"$ecret\" \\ %40", "rotated since"} {
		err := postgres.Migrate(ctx, admin, migrations.Consumer(),
			postgres.MigrateOptions{Passwords: map[string]string{migrations.ConsumerApp: secret}})
		if err != nil {
			t.Fatal(err)
		}
		for try, want := range map[string]bool{secret: true, secret + "x": false, "": false} {
			cfg, err := pgx.ParseConfig(admin)
			if err != nil {
				t.Fatal(err)
			}
			cfg.User, cfg.Password = migrations.ConsumerApp, try
			conn, err := pgx.ConnectConfig(ctx, cfg)
			if (err == nil) != want {
				t.Errorf("password %q: %v, want success %v", try, err, want)
			}
			if err == nil {
				_ = conn.Close(ctx)
			}
		}
	}
}

// A managed server's administrator is no superuser.
func TestMigrateWithoutSuperuser(t *testing.T) {
	t.Parallel()
	p := testkit.NewPostgres(t, false)
	conn := connect(t, p.DatabaseURL("postgres"))
	for _, sql := range []string{"CREATE ROLE cloudadmin LOGIN CREATEROLE CREATEDB PASSWORD '" + password + "'", "CREATE DATABASE app OWNER cloudadmin"} {
		if _, err := conn.Exec(testkit.Context(t), sql); err != nil {
			t.Fatal(err)
		}
	}
	url := asRole(t, p.DatabaseURL("app"), "cloudadmin")
	for _, set := range []migrations.Set{migrations.Consumer(), migrations.Backoffice()} {
		if err := postgres.Migrate(testkit.Context(t), url, set, postgres.MigrateOptions{}); err != nil {
			t.Errorf("%s: %v", set.Schema, err)
		}
	}
}

func TestOpenRefusesUnboundRole(t *testing.T) {
	t.Parallel()
	admin := migrated(t, migrations.Backoffice())
	for url, want := range map[string]error{
		admin: postgres.ErrUnbound, asRole(t, admin, migrations.BackofficeApp): nil, asRole(t, admin, migrations.BackofficeJobs): nil,
	} {
		pool := openPool(t, postgres.Config{URL: url, RequireIsolation: true})
		if err := pool.Ping(testkit.Context(t)); !errors.Is(err, want) {
			t.Errorf("%s: ping = %v, want %v", pool.Config().ConnConfig.User, err, want)
		}
	}
}

func TestOpenReportsAllAtOnce(t *testing.T) {
	t.Parallel()
	_, err := postgres.Open(t.Context(), postgres.Config{MaxConns: -1, StatementTimeout: -1})
	if err == nil {
		t.Fatal("no error")
	}
	got := strings.Split(err.Error(), "\n")
	slices.Sort(got)
	want := []string{"postgres: negative statement timeout", "postgres: no URL", "postgres: pool size out of range"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, err = postgres.Open(t.Context(), postgres.Config{URL: "postgres://u:secret@host:notaport/db"})
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("err = %v, want one without the password", err)
	}
}
