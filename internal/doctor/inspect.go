package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/migrations"
)

// server is what a server says of itself.
type server struct {
	Version int // such as 160004
	Release string
	Time    time.Time
}

// inspectServer asks a server for its version and time.
func inspectServer(ctx context.Context, db *pgxpool.Pool) (s server, err error) {
	err = db.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version'), clock_timestamp()`).
		Scan(&s.Version, &s.Release, &s.Time)
	return s, err
}

// inspectRole reports what the role of a pool can do that none of a service may:
// own objects, step over row level security, or become a role that can.
func inspectRole(ctx context.Context, db *pgxpool.Pool, set migrations.Set) (role string, flaws []Finding, err error) {
	var super, bypass, createRole, createDB, replication bool
	err = db.QueryRow(ctx, `SELECT rolname::text, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication FROM pg_roles WHERE rolname = current_user`).
		Scan(&role, &super, &bypass, &createRole, &createDB, &replication)
	if err != nil {
		return role, nil, fmt.Errorf("inspect role: %w", err)
	}
	add := func(has bool, text, advice string) {
		if has {
			flaws = append(flaws, wrong("role "+role, text, advice))
		}
	}
	add(!slices.Contains(set.Logins, role), fmt.Sprintf("is none of the roles that the migrations make (%s)", strings.Join(set.Logins, ", ")),
		"connect as one of them")
	add(super, "is a superuser: nothing in the database binds it", "connect as "+set.Logins[0]+", or ALTER ROLE "+quote(role)+" NOSUPERUSER")
	add(bypass, "has BYPASSRLS: it sees and changes every tenant's rows", "ALTER ROLE "+quote(role)+" NOBYPASSRLS")
	add(createRole, "has CREATEROLE: it could give itself other roles", "ALTER ROLE "+quote(role)+" NOCREATEROLE")
	add(createDB, "has CREATEDB, which no process needs", "ALTER ROLE "+quote(role)+" NOCREATEDB")
	add(replication, "has REPLICATION: it could read all data from the write-ahead log", "ALTER ROLE "+quote(role)+" NOREPLICATION")
	if super { // it owns and is everything
		return role, flaws, nil
	}
	var owned, roles []string
	err = db.QueryRow(ctx, `SELECT
			ARRAY(SELECT relname::text FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relowner = current_user::regrole AND relkind <> 'i' ORDER BY 1 LIMIT 5),
			ARRAY(SELECT rolname::text FROM pg_roles WHERE rolname <> current_user AND pg_has_role(current_user, oid, 'MEMBER')
				AND (rolsuper OR rolbypassrls OR rolname = $2 OR rolname = ANY($3)) ORDER BY 1 LIMIT 5)`,
		quote(set.Schema), set.Owner, set.Logins).Scan(&owned, &roles)
	if err != nil {
		return role, nil, fmt.Errorf("inspect role: %w", err)
	}
	add(len(owned) > 0, "owns "+strings.Join(owned, ", ")+": an owner can lift row level security", "ALTER TABLE … OWNER TO "+quote(set.Owner))
	add(len(roles) > 0, "is a member of "+strings.Join(roles, ", ")+" and can act as it", "REVOKE … FROM "+quote(role))
	return role, flaws, nil
}

// inspectSchema reports what the set's files make and the database lacks, such as what
// was removed by hand.
func inspectSchema(ctx context.Context, db *pgxpool.Pool, set migrations.Set) (flaws []Finding, err error) {
	d, err := readDeclared(set)
	if err != nil {
		return nil, err
	}
	stands := map[object]bool{}
	var o object
	//nolint:rowserrcheck // pgx.ForEachRow reports it
	rows, _ := db.Query(ctx, `SELECT CASE WHEN relkind IN ('r', 'p') THEN 'table' ELSE 'index' END, '', relname::text FROM pg_class
			WHERE relnamespace = to_regnamespace($1) AND relkind IN ('r', 'p', 'i', 'I')
		UNION ALL SELECT 'column', relname::text, attname::text FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
			WHERE relnamespace = to_regnamespace($1) AND relkind IN ('r', 'p')`, quote(set.Schema))
	_, err = pgx.ForEachRow(rows, []any{&o.kind, &o.table, &o.name}, func() error { stands[o] = true; return nil })
	if err != nil {
		return nil, fmt.Errorf("inspect schema: %w", err)
	}
	for _, o := range d.sorted() {
		if !stands[o] && (o.table == "" || stands[object{"table", "", o.table}]) {
			flaws = append(flaws, wrong(o.String(), "is missing, which migration "+d.objects[o]+" makes", "run the command migrate"))
		}
	}
	return flaws, nil
}

// policy is a row of pg_policy.
type policy struct {
	table, name, command, roles string
	permissive                  bool
	using, check                string
	whole                       string // the table that its table is a part of
}

func (p policy) key() string { return p.table + "." + p.name }

// errUndo ends a transaction that only looks.
var errUndo = errors.New("undo")

// inspectPolicies reports tables of tenants without forced row level security, and
// policies that are missing, changed or not from the set's files. What a policy
// should say the server itself works out: the files' own statements are run on
// temporary tables, in a transaction that is undone.
func inspectPolicies(ctx context.Context, db *pgxpool.Pool, set migrations.Set) (tables, policies int, flaws []Finding, err error) {
	d, err := readDeclared(set)
	if err != nil {
		return 0, 0, nil, err
	}
	err = postgres.InTx(ctx, db, func(tx pgx.Tx) error {
		tables, flaws, err = unforced(ctx, tx, set)
		if err != nil {
			return err
		}
		stand, err := listPolicies(ctx, tx, "to_regnamespace('"+quote(set.Schema)+"')")
		if err != nil {
			return err
		}
		if err := d.rehearse(ctx, tx, set); err != nil {
			return err
		}
		want, err := listPolicies(ctx, tx, "pg_my_temp_schema()")
		if err != nil {
			return err
		}
		policies = len(want)
		flaws = append(flaws, comparePolicies(want, stand)...)
		return errUndo
	})
	if errors.Is(err, errUndo) {
		err = nil
	}
	return tables, policies, flaws, err
}

// unforced finds the tables with a tenant that row level security does not bind.
func unforced(ctx context.Context, tx pgx.Tx, set migrations.Set) (tables int, flaws []Finding, err error) {
	var (
		name            string
		enabled, forced bool
	)
	//nolint:rowserrcheck // pgx.ForEachRow reports it
	rows, _ := tx.Query(ctx, `SELECT relname::text, relrowsecurity, relforcerowsecurity FROM pg_class c
		WHERE relnamespace = to_regnamespace($1) AND relkind IN ('r', 'p')
			AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped) ORDER BY 1`, quote(set.Schema))
	_, err = pgx.ForEachRow(rows, []any{&name, &enabled, &forced}, func() error {
		tables++
		switch at := quote(set.Schema, name); {
		case !enabled:
			flaws = append(flaws, wrong(name, "has no row level security: every tenant's rows are everyone's", "ALTER TABLE "+at+" ENABLE ROW LEVEL SECURITY"))
		case !forced:
			flaws = append(flaws, wrong(name, "does not force row level security: its owner is not bound", "ALTER TABLE "+at+" FORCE ROW LEVEL SECURITY"))
		}
		return nil
	})
	if err != nil {
		return 0, nil, fmt.Errorf("inspect tables: %w", err)
	}
	return tables, flaws, nil
}

// listPolicies reads the policies of a schema. The schema is an expression of ours.
func listPolicies(ctx context.Context, tx pgx.Tx, schema string) (map[string]policy, error) {
	out := map[string]policy{}
	var p policy
	//nolint:rowserrcheck // pgx.ForEachRow reports it
	rows, _ := tx.Query(ctx, `SELECT relname::text, polname::text, polcmd::text, polpermissive,
			array_to_string(ARRAY(SELECT CASE WHEN r = 0 THEN 'public' ELSE pg_get_userbyid(r)::text END FROM unnest(polroles) r ORDER BY 1), ', '),
			coalesce(pg_get_expr(polqual, polrelid), ''), coalesce(pg_get_expr(polwithcheck, polrelid), ''),
			coalesce((SELECT w.relname::text FROM pg_inherits JOIN pg_class w ON w.oid = inhparent WHERE inhrelid = polrelid), '')
		FROM pg_policy JOIN pg_class ON pg_class.oid = polrelid WHERE relnamespace = `+schema)
	_, err := pgx.ForEachRow(rows, []any{&p.table, &p.name, &p.command, &p.permissive, &p.roles, &p.using, &p.check, &p.whole}, func() error {
		out[p.key()] = p
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("inspect policies: %w", err)
	}
	return out, nil
}

// rehearse makes the files' policies on temporary tables with the columns of the
// standing ones.
func (d *declared) rehearse(ctx context.Context, tx pgx.Tx, set migrations.Set) error {
	made := map[string]bool{}
	for _, s := range d.policies {
		if !made[s.table] {
			made[s.table] = true
			var columns string
			err := tx.QueryRow(ctx, `SELECT coalesce(string_agg(quote_ident(attname) || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum), '')
				FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped`, quote(set.Schema, s.table)).Scan(&columns)
			if err != nil {
				return fmt.Errorf("columns of %s: %w", s.table, err)
			}
			if _, err := tx.Exec(ctx, "CREATE TEMP TABLE "+quote(s.table)+" ("+columns+") ON COMMIT DROP"); err != nil {
				return fmt.Errorf("temporary copy of %s: %w", s.table, err)
			}
		}
		if _, err := tx.Exec(ctx, s.sql); err != nil {
			if pe, ok := errors.AsType[*pgconn.PgError](err); ok && pe.Code == "42703" { // the column is missing, which inspectSchema tells
				return fmt.Errorf("the table %s lacks a column of its policies: %w", s.table, err)
			}
			return fmt.Errorf("policy of %s: %w", s.table, err)
		}
	}
	return nil
}

func comparePolicies(want, stand map[string]policy) []Finding {
	var flaws []Finding
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if s, ok := stand[key]; ok {
			flaws = append(flaws, comparePolicy(want[key], s)...)
		} else {
			flaws = append(flaws, wrong(key, "this policy is missing", "CREATE POLICY as the migrations have it"))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(stand)) {
		if _, ok := want[key]; ok {
			continue
		}
		s := stand[key]
		// A part lets through what the whole does, or less.
		if w, ok := want[policy{table: s.whole, name: s.name}.key()]; ok {
			flaws = append(flaws, comparePolicy(w, s)...)
			continue
		}
		flaws = append(flaws, wrong(key, "no migration made this policy: it may let in what the others keep out", "DROP POLICY, unless you know why it is there"))
	}
	return flaws
}

// comparePolicy says how a policy differs from what the migrations made.
func comparePolicy(w, s policy) []Finding {
	switch key := s.key(); {
	case s.permissive != w.permissive || s.command != w.command:
		return []Finding{wrong(key, "this policy is of another kind than the migrations made it", "drop it and CREATE POLICY as the migrations have it")}
	case s.roles != w.roles:
		return []Finding{wrong(key, fmt.Sprintf("this policy is for %s, the migrations made it for %s", s.roles, w.roles), "ALTER POLICY … TO "+w.roles)}
	case s.using != w.using || s.check != w.check:
		return []Finding{wrong(key, "this policy has another condition than the migrations gave it", "ALTER POLICY as the migrations have it")}
	}
	return nil
}

func quote(parts ...string) string { return pgx.Identifier(parts).Sanitize() }
