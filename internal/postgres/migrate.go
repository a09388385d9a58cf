package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"melmastoon.ghasi.io/bff/internal/pause"
	"melmastoon.ghasi.io/bff/migrations"
)

// MigrateOptions is what an operator may add to a migration.
type MigrateOptions struct {
	// Passwords sets the passwords of the set's login roles, by role name. A role
	// that is not named keeps the password it has; a fresh one has none and can
	// log in only where the server asks for none.
	Passwords map[string]string
	Logger    *slog.Logger
}

// Migrate brings the schema up to the newest file of the set. It creates the
// set's roles and schema when they are missing and runs the files as the owning
// role, so adminURL must name a superuser or a role with CREATEROLE and CREATE
// on the database. Several processes may call it at once: one works, the others
// wait and find nothing to do. With nothing to do it costs one connection and
// one query.
func Migrate(ctx context.Context, adminURL string, set migrations.Set, opts MigrateOptions) error {
	for role := range opts.Passwords {
		if !slices.Contains(set.Logins, role) {
			return fmt.Errorf("migrate %s: password for unknown role %q", set.Schema, role)
		}
	}
	cfg, err := pgx.ParseConfig(adminURL)
	if err != nil {
		return fmt.Errorf("migrate %s: malformed URL", set.Schema)
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = 5 * time.Second
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("migrate %s: %w", set.Schema, err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()

	newest, err := newestVersion(set.FS)
	if err != nil {
		return fmt.Errorf("migrate %s: %w", set.Schema, err)
	}
	current, limited, legible, err := appliedVersion(ctx, conn, set)
	if err != nil {
		return fmt.Errorf("migrate %s: %w", set.Schema, err)
	}
	if current >= newest && legible && !limited {
		if err := execShared(ctx, conn, limits(set)); err != nil {
			return fmt.Errorf("migrate %s: set timeouts of roles: %w", set.Schema, err)
		}
	}
	if current < newest || !legible {
		if err := prepare(ctx, conn, set); err != nil {
			return fmt.Errorf("migrate %s: %w", set.Schema, err)
		}
		if err := up(ctx, cfg, set, opts.Logger); err != nil {
			return fmt.Errorf("migrate %s: %w", set.Schema, err)
		}
	}
	for role, password := range opts.Passwords {
		verifier, err := scramVerifier(password)
		if err != nil {
			return fmt.Errorf("password of %s: %w", role, err)
		}
		// A verifier is hexadecimal, base64 and punctuation without quotes. The
		// password itself never reaches the server's statement log.
		sql := fmt.Sprintf("ALTER ROLE %s PASSWORD '%s'", quote(role), verifier)
		if err := execShared(ctx, conn, sql); err != nil {
			return fmt.Errorf("password of %s: %w", role, err)
		}
	}
	return nil
}

// versions reads the ordinals of the file names.
func versions(fsys fs.FS) ([]int64, error) {
	names, err := fs.Glob(fsys, "*.sql")
	if err != nil {
		return nil, err
	}
	var all []int64
	for _, name := range names {
		ordinal, _, _ := strings.Cut(name, "_")
		v, err := strconv.ParseInt(ordinal, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("file %s has no ordinal", name)
		}
		all = append(all, v)
	}
	if len(all) == 0 {
		return nil, errors.New("no migration files")
	}
	slices.Sort(all)
	return all, nil
}

// newestVersion is the highest ordinal.
func newestVersion(fsys fs.FS) (int64, error) {
	all, err := versions(fsys)
	if err != nil {
		return 0, err
	}
	return all[len(all)-1], nil
}

// appliedVersion is 0 when the table does not stand yet. It also reports whether
// every login role has a statement timeout, and may read the table.
func appliedVersion(ctx context.Context, conn *pgx.Conn, set migrations.Set) (version int64, limited, legible bool, err error) {
	err = conn.QueryRow(ctx, `SELECT coalesce(max(version_id), 0), (SELECT count(*) = cardinality($1::text[]) FROM pg_roles, unnest(rolconfig) AS setting
			WHERE rolname = ANY($1) AND starts_with(setting, 'statement_timeout=')),
			(SELECT count(*) = cardinality($1::text[]) FROM pg_roles WHERE rolname = ANY($1) AND has_table_privilege(oid, $2::regclass, 'SELECT'))
		FROM `+versionTable(set)+" WHERE is_applied", pgx.QueryExecModeExec, set.Logins, versionTable(set)).Scan(&version, &limited, &legible)
	if isMissing(err) {
		return 0, false, false, nil
	}
	if err != nil {
		return 0, false, false, fmt.Errorf("read version: %w", err)
	}
	return version, limited, legible, nil
}

// versionTable is where goose notes what is applied.
func versionTable(set migrations.Set) string { return quote(set.Schema, "schema_migrations") }

// isMissing reports whether a table or its schema does not stand.
func isMissing(err error) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pe.Code == "42P01" || pe.Code == "3F000")
}

// prepare creates what the files stand on. Roles belong to the whole server
// while an advisory lock belongs to one database, so two databases may create
// the same role at once: the loser takes the duplicate as success.
func prepare(ctx context.Context, conn *pgx.Conn, set migrations.Set) (err error) {
	err = poll(ctx, func() (locked bool, err error) {
		err = conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", pgx.QueryExecModeExec, lockID(set.Schema)).Scan(&locked)
		return locked, err
	})
	if err != nil {
		return fmt.Errorf("wait for others: %w", err)
	}
	defer func() {
		_, unlockErr := conn.Exec(ctx, "SELECT pg_advisory_unlock($1)", pgx.QueryExecModeExec, lockID(set.Schema))
		err = errors.Join(err, unlockErr)
	}()
	var b strings.Builder
	role := func(name, login string) {
		fmt.Fprintf(&b, `DO $$ BEGIN
	IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = %s) THEN
		CREATE ROLE %s %s NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
	END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
END $$;
`, literal(name), quote(name), login)
	}
	role(set.Owner, "NOLOGIN")
	for _, name := range set.Logins {
		role(name, "LOGIN")
	}
	// A managed server's administrator is no superuser and must be a member of the
	// role that it works as.
	fmt.Fprintf(&b, `DO $$ BEGIN
	IF NOT pg_has_role(current_user, %[1]s, 'USAGE') THEN
		EXECUTE format('GRANT %[2]s TO %%I', current_user);
	END IF;
END $$;
CREATE SCHEMA IF NOT EXISTS %[3]s AUTHORIZATION %[2]s;
`, literal(set.Owner), quote(set.Owner), quote(set.Schema))
	b.WriteString(limits(set))
	if err := execShared(ctx, conn, b.String()); err != nil {
		return fmt.Errorf("create roles and schema: %w", err)
	}
	return nil
}

// limits gives the login roles their timeouts: through a transaction pooler a
// process can not set them itself. What an administrator has set stays. An
// administrator who may not change the roles, because another one made them, is
// no reason to stop: without a pooler each connection brings its own.
func limits(set migrations.Set) string {
	var b strings.Builder
	for _, role := range set.Logins {
		b.WriteString("DO $$ BEGIN\n")
		for _, limit := range []struct {
			name  string
			value time.Duration
		}{
			{"statement_timeout", statementTimeout},
			{"lock_timeout", lockTimeout},
			{"idle_in_transaction_session_timeout", idleInTransactionTimeout},
		} {
			fmt.Fprintf(&b, `	IF NOT EXISTS (SELECT FROM pg_roles, unnest(rolconfig) AS setting WHERE rolname = %s AND starts_with(setting, '%[2]s=')) THEN
		ALTER ROLE %[3]s SET %[2]s = '%[4]s';
	END IF;
`, literal(role), limit.name, quote(role), millis(limit.value))
		}
		b.WriteString("EXCEPTION WHEN insufficient_privilege THEN NULL;\nEND $$;\n")
	}
	return b.String()
}

// execShared runs a statement over the server-wide catalogs, which know no row
// locks: two sessions that touch the same row fail with "tuple concurrently
// updated" (XX000) and need only try again.
func execShared(ctx context.Context, conn *pgx.Conn, sql string) error {
	for try := 1; ; try++ {
		_, err := conn.PgConn().Exec(ctx, sql).ReadAll()
		pe, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || try == 10 || pe.Code != "XX000" || !pause.For(ctx, time.Duration(try)*10*time.Millisecond) {
			return err
		}
	}
}

const (
	lockNotAvailable = "55P03"
	giveWay          = time.Second
)

func up(ctx context.Context, cfg *pgx.ConnConfig, set migrations.Set, log *slog.Logger) (err error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	cfg = cfg.Copy()
	cfg.RuntimeParams["role"] = set.Owner // everything that the files create is the owner's
	db := stdlib.OpenDB(*cfg)
	defer func() { err = errors.Join(err, db.Close()) }()
	locker := sessionLocker(lockID(set.Schema))
	p, err := goose.NewProvider(goose.DialectPostgres, db, set.FS,
		goose.WithTableName(set.Schema+".schema_migrations"),
		goose.WithSessionLocker(locker),
		goose.WithDisableGlobalRegistry(true),
		goose.WithSlog(log))
	if err != nil {
		return fmt.Errorf("read files: %w", err)
	}
	for {
		_, err := p.Up(ctx)
		if err == nil {
			break
		}
		// The file's own lock_timeout: for as long as it waits, all that come after it wait.
		pe, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || pe.Code != lockNotAvailable {
			return fmt.Errorf("apply: %w", err)
		}
		log.WarnContext(ctx, "a migration gives way to writers, and is tried again", "error", err)
		if !pause.For(ctx, giveWay) {
			return fmt.Errorf("apply: %w", err)
		}
	}
	return allowReading(ctx, db, set, locker)
}

// allowReading lets the login roles see what is applied: a process is not ready before
// all that it embeds is. The table is goose's, so no file can grant it.
func allowReading(ctx context.Context, db *sql.DB, set migrations.Set, locker sessionLocker) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := locker.SessionLock(ctx, conn); err != nil { // two grants at once fail
		return err
	}
	_, err = conn.ExecContext(ctx, "GRANT SELECT ON "+versionTable(set)+" TO "+strings.Join(set.Logins, ", ")) //nolint:gosec // names of the program itself
	if err != nil {
		err = fmt.Errorf("let roles see what is applied: %w", err)
	}
	return errors.Join(err, locker.SessionUnlock(ctx, conn))
}

// poll asks for a lock until it is had. A statement that waits for it would have a
// snapshot, and an index that is built concurrently waits for all of those: the one that
// has the lock and those that want it would wait for each other.
func poll(ctx context.Context, try func() (bool, error)) error {
	for {
		locked, err := try()
		if err != nil || locked {
			return err
		}
		if !pause.For(ctx, 50*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

// sessionLocker asks again and again; a process that dies with the lock loses it with
// its connection.
type sessionLocker int64

var _ lock.SessionLocker = sessionLocker(0)

func (l sessionLocker) SessionLock(ctx context.Context, conn *sql.Conn) error {
	return poll(ctx, func() (locked bool, err error) {
		err = conn.QueryRowContext(ctx, "SELECT pg_try_advisory_lock($1)", int64(l)).Scan(&locked)
		return locked, err
	})
}

func (l sessionLocker) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, "SELECT pg_advisory_unlock($1)", int64(l))
	return err
}

func lockID(schema string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("migrate " + schema)) // never fails
	return int64(h.Sum64() >> 1)
}

func quote(parts ...string) string { return pgx.Identifier(parts).Sanitize() }

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
