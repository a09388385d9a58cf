package postgres_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

// watch has the database itself look at each statement of a migration before its locks
// go: which tables it has kept from writers, whether it read rows meanwhile, and whether
// it would have waited for these locks for ever, with all writers behind it. The function
// returned tells what the last files did, and knows all tables for the next.
func watch(t *testing.T, conn *pgx.Conn, schema string) func() []string {
	t.Helper()
	run := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(testkit.Context(t), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	const watched = `CREATE TABLE watched_tables (id oid);
		CREATE TABLE watched (said text);
		CREATE FUNCTION watch_locks() RETURNS void LANGUAGE sql AS $$
			WITH held AS (SELECT DISTINCT l.relation::regclass::text AS tbl FROM pg_locks l JOIN public.watched_tables w ON w.id = l.relation
				WHERE l.pid = pg_backend_pid() AND l.granted AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')),
			seen AS (SELECT s.relid::regclass::text AS tbl FROM pg_stat_xact_user_tables s JOIN public.watched_tables w ON w.id = s.relid
				WHERE s.seq_tup_read + coalesce(s.idx_tup_fetch, 0) > 0)
			INSERT INTO public.watched SELECT 'keeps writers from ' || held.tbl || ' while it reads ' || seen.tbl FROM held, seen
				UNION SELECT 'may wait for ever for ' || tbl FROM held WHERE current_setting('lock_timeout') = '0';
			SELECT pg_stat_force_next_flush()
		$$;
		CREATE FUNCTION watch_statement() RETURNS event_trigger SECURITY DEFINER LANGUAGE plpgsql AS $$ BEGIN PERFORM public.watch_locks(); END $$;
		CREATE FUNCTION watch_file() RETURNS trigger SECURITY DEFINER LANGUAGE plpgsql AS $$ BEGIN PERFORM public.watch_locks(); RETURN NULL; END $$;
		CREATE EVENT TRIGGER watch_statement ON ddl_command_end EXECUTE FUNCTION watch_statement()`
	run(watched)
	return func() []string {
		found := strs(t, conn, "SELECT DISTINCT said FROM watched ORDER BY said")
		run(fmt.Sprintf(`TRUNCATE watched, watched_tables;
			INSERT INTO watched_tables SELECT oid FROM pg_class WHERE relnamespace = %[1]s::regnamespace AND relkind IN ('r', 'p') AND relname <> 'schema_migrations';
			CREATE OR REPLACE TRIGGER watch_file AFTER INSERT ON %[2]s.schema_migrations FOR EACH ROW EXECUTE FUNCTION watch_file()`, "'"+schema+"'", schema))
		return found
	}
}

// later is the consumer's set of a later release, with one more file.
func later(ordinal int, sql string) migrations.Set {
	set := migrations.Consumer()
	set.FS = fstest.MapFS{fmt.Sprintf("%d_later.sql", ordinal): {Data: []byte(sql + ";\n")}}
	return set
}

// What the watch on migrations finds, and what it lets pass.
func TestMigrationsAreWatched(t *testing.T) {
	t.Parallel()
	const table = "bff_consumer.wishlist_anonymous"
	const keeps, waits = "keeps writers from " + table + " while it reads " + table, "may wait for ever for " + table
	const up, alone, limited, alter = "-- +goose Up\n", "-- +goose NO TRANSACTION\n", "SET LOCAL lock_timeout = '1min';\n", "ALTER TABLE " + table
	admin := migrated(t, migrations.Consumer())
	conn := connect(t, admin)
	for _, tb := range tablesOf(t, conn, "bff_consumer") {
		tb.fill(t, conn, "now")
	}
	found := watch(t, conn, "bff_consumer")
	for i, c := range []struct {
		sql  string
		want []string
	}{
		{up + limited + alter + " ADD COLUMN a text", nil},
		{up + limited + alter + " ADD COLUMN b int NOT NULL DEFAULT 1", nil},
		{up + limited + alter + " ADD COLUMN c uuid DEFAULT gen_random_uuid()", []string{keeps}}, // writes every row
		{up + limited + alter + " ALTER COLUMN b TYPE bigint", []string{keeps}},
		{up + limited + alter + " ALTER COLUMN c SET NOT NULL", []string{keeps}},
		{up + limited + alter + " ADD CONSTRAINT whole CHECK (source <> '')", []string{keeps}},
		{up + limited + alter + " ADD CONSTRAINT soon CHECK (source <> '') NOT VALID", nil},
		{up + alter + " VALIDATE CONSTRAINT soon", nil},
		{up + limited + "CREATE INDEX i ON " + table + " (a)", []string{keeps}},
		{alone + up + "CREATE INDEX CONCURRENTLY j ON " + table + " (a)", nil},
		{alone + up + "CREATE INDEX k ON " + table + " (a)", []string{keeps, waits}},
		{up + limited + alter + " ADD COLUMN d text;\nUPDATE " + table + " SET d = source", []string{keeps}},
		{up + "UPDATE " + table + " SET d = source", nil},
		{up + alter + " ADD COLUMN e text", []string{waits}},
		{up + "CREATE TABLE bff_consumer.more AS SELECT * FROM " + table + ";\nCREATE INDEX l ON bff_consumer.more (a)", nil},
	} {
		found()
		if err := postgres.Migrate(testkit.Context(t), admin, later(9000+i, c.sql), postgres.MigrateOptions{}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, found(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s:\n%s", c.sql, diff)
		}
	}
}

// A migration that does not get its lock gives way to the writers behind it, and tries
// again until it has it.
func TestMigrationGivesWay(t *testing.T) {
	t.Parallel()
	ctx, admin := testkit.Context(t), migrated(t, migrations.Consumer())
	const write = "INSERT INTO bff_consumer.tenants_seen VALUES (gen_random_uuid())"
	long, short := connect(t, admin), connect(t, admin)
	tx, err := long.Begin(ctx)
	if err == nil {
		_, err = tx.Exec(ctx, write)
	}
	if err != nil {
		t.Fatal(err)
	}
	way, done := make(given, 1), make(chan error, 1)
	go func() {
		done <- postgres.Migrate(ctx, admin, later(9000, "-- +goose Up\nSET LOCAL lock_timeout = '1ms';\nALTER TABLE bff_consumer.tenants_seen ADD COLUMN more text"),
			postgres.MigrateOptions{Logger: slog.New(slog.NewTextHandler(way, nil))})
	}()
	select {
	case <-way:
	case err := <-done:
		t.Fatalf("ended with %v while a writer had the table", err)
	}
	if _, err := short.Exec(ctx, write); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := strs(t, connect(t, admin), "SELECT count(*)::text FROM bff_consumer.tenants_seen WHERE more IS NULL"); got[0] != "2" {
		t.Errorf("%s rows, want 2", got[0])
	}
}

// given hears of the first time that a migration gives way.
type given chan struct{}

func (g given) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("gives way")) {
		select {
		case g <- struct{}{}:
		default:
		}
	}
	return len(b), nil
}
