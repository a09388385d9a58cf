package probe

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/doctor"
	"melmastoon.ghasi.io/bff/internal/postgres"
)

// attackTenants tries on every table with a tenant, as the role of the pool, to read,
// change, remove and add rows of the victim as another tenant and as none. Rows are
// planted and everything is tried in transactions that are undone. Both tenants must
// be reserved ones.
func attackTenants(ctx context.Context, db *pgxpool.Pool, schema string, victim, attacker bff.ID) (found []doctor.Finding, err error) {
	tables, err := tenantTables(ctx, db, schema)
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	var unprobed []doctor.Finding
	for _, t := range tables {
		flaws, planted, err := t.attack(ctx, db, victim, attacker)
		if ctx.Err() != nil {
			return found, ctx.Err()
		}
		if err != nil {
			return found, fmt.Errorf("%s: %w", t.name, err)
		}
		if !planted && t.writable {
			unprobed = append(unprobed, doctor.Finding{
				Check: "table " + t.name, Verdict: doctor.Warning, Found: "no row could be planted: only what stood there was tried",
			})
		}
		found = append(found, flaws...)
	}
	if len(found) == 0 {
		found = doctor.Good("on %d tables, another tenant and none can neither read, add, change nor remove rows", len(tables))
	}
	return append(found, unprobed...), nil
}

// tenantTable is a table with a tenant, as far as an attack has to know it.
type tenantTable struct {
	name, qualified string
	needs           []column // that a new row needs, or that a check has together with others
	change          string   // a column that the role may change; empty if there is none
	writable        bool     // the role may add rows
}

type column struct {
	name, kind string
	optional   bool
	only       []string // the words that a check of this column alone allows; empty = any
}

// values are what to try for the column, as expressions.
func (c column) values(tenant bff.ID) []string {
	var out []string
	if c.optional {
		out = append(out, "DEFAULT")
	}
	for _, w := range c.only {
		out = append(out, literal(w))
	}
	if len(c.only) == 0 {
		out = append(out, c.sample(tenant))
	}
	return out
}

// word finds the words of a check such as state = ANY (ARRAY['a'::text, 'b'::text]).
var word = regexp.MustCompile(`'((?:[^']|'')*)'::`)

func tenantTables(ctx context.Context, db *pgxpool.Pool, schema string) ([]*tenantTable, error) {
	var (
		out                       []*tenantTable
		table, check, change, lit string
		c                         column
		writable                  bool
	)
	//nolint:rowserrcheck // pgx.ForEachRow reports it
	rows, _ := db.Query(ctx, tenantColumns, quote(schema))
	_, err := pgx.ForEachRow(rows, []any{&table, &c.name, &c.kind, &check, &c.optional, &change, &writable}, func() error {
		if len(out) == 0 || out[len(out)-1].name != table {
			out = append(out, &tenantTable{name: table, qualified: quote(schema, table), change: change, writable: writable})
		}
		if c.name == "" {
			return nil
		}
		c.only = nil
		for _, m := range word.FindAllStringSubmatch(check, -1) {
			if lit = strings.ReplaceAll(m[1], "''", "'"); lit != "" {
				c.only = append(c.only, lit)
			}
		}
		t := out[len(out)-1]
		t.needs = append(t.needs, c)
		return nil
	})
	return out, err
}

// tenantColumns lists of each table with a tenant the columns that a new row needs, with
// the checks on each alone, and what the role may do.
const tenantColumns = `SELECT c.relname::text, coalesce(a.attname::text, ''), coalesce(format_type(a.atttypid, NULL), ''),
		coalesce((SELECT string_agg(pg_get_constraintdef(k.oid), ' ') FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'c' AND k.conkey = ARRAY[a.attnum]), ''),
		coalesce(NOT a.attnotnull OR a.atthasdef, false),
		coalesce((SELECT u.attname::text FROM pg_attribute u WHERE u.attrelid = c.oid AND u.attnum > 0 AND NOT u.attisdropped
			AND has_column_privilege(c.oid, u.attnum, 'UPDATE') ORDER BY u.attnum LIMIT 1), ''), has_any_column_privilege(c.oid, 'INSERT')
		FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attidentity = '' AND a.attgenerated = ''
		AND (a.attnotnull AND NOT a.atthasdef OR EXISTS (
			SELECT FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'c' AND cardinality(k.conkey) > 1 AND a.attnum = ANY(k.conkey)))
		WHERE c.relnamespace = to_regnamespace($1) AND c.relkind IN ('r', 'p')
		AND EXISTS (SELECT FROM pg_attribute t WHERE t.attrelid = c.oid AND t.attname = 'tenant_id' AND NOT t.attisdropped)
		ORDER BY c.relname, a.attnotnull AND NOT a.atthasdef, a.attnum DESC`

// attack plants a row of the victim and then tries to get at it.
func (t *tenantTable) attack(ctx context.Context, db *pgxpool.Pool, victim, attacker bff.ID) (flaws []doctor.Finding, planted bool, err error) {
	flaw := func(text string) {
		flaws = append(flaws, doctor.Finding{
			Check: "table " + t.name, Verdict: doctor.Wrong, Found: text, Advice: "compare its policies and the role with what the command doctor finds on them",
		})
	}
	err = postgres.NewTenants(db).InTx(ctx, victim, func(tx pgx.Tx) error {
		flaws = nil // a conflict repeats the attack
		if planted, err = t.plant(ctx, tx, victim); err != nil {
			return err
		}
		own, err := try(ctx, tx, `SELECT FROM `+t.qualified+` WHERE tenant_id = $1 LIMIT 1`, victim.UUID())
		if err == nil && planted && own == 0 {
			flaw("a tenant does not see the row that it has just added")
		}
		for _, as := range []struct{ tenant, who string }{{attacker.UUID(), "another tenant"}, {"", "no tenant"}} {
			if _, err := tx.Exec(ctx, `SELECT set_config('app.tenant_id', $1, true)`, as.tenant); err != nil {
				return err
			}
			if err := t.steal(ctx, tx, as.who, victim, attacker, flaw); err != nil {
				return err
			}
		}
		return errUndo
	})
	if errors.Is(err, errUndo) {
		err = nil
	}
	return flaws, planted, err
}

// steal tries as someone else what only the victim may do.
func (t *tenantTable) steal(ctx context.Context, tx pgx.Tx, who string, victim, attacker bff.ID, flaw func(string)) error {
	attempts := []struct{ sql, tenant, did string }{
		{`SELECT FROM ` + t.qualified + ` WHERE tenant_id <> $1 LIMIT 1`, attacker.UUID(), "can read rows of a tenant"},
		{`DELETE FROM ` + t.qualified + ` WHERE tenant_id = $1`, victim.UUID(), "can remove a row of a tenant"},
	}
	if t.change != "" {
		column := quote(t.change)
		attempts = append(attempts, struct{ sql, tenant, did string }{
			`UPDATE ` + t.qualified + ` SET ` + column + ` = ` + column + ` WHERE tenant_id = $1`, victim.UUID(), "can change a row of a tenant",
		})
	}
	for _, a := range attempts {
		n, err := try(ctx, tx, a.sql, a.tenant)
		switch {
		case err == nil && n > 0:
			flaw(who + " " + a.did)
		case err != nil && !refused(err):
			return err
		}
	}
	added, err := t.plant(ctx, tx, victim)
	if added {
		flaw(who + " can add a row to a tenant")
	}
	return err
}

const maxPlantings = 512 // combinations of values

// plant adds a row of the tenant, made up from the catalogue, and reports whether it
// stands. A role that may not, or a check that no made-up row passes, is no error.
func (t *tenantTable) plant(ctx context.Context, tx pgx.Tx, tenant bff.ID) (bool, error) {
	names, choices := make([]string, len(t.needs)), make([][]string, len(t.needs))
	for i, c := range t.needs {
		names[i], choices[i] = quote(c.name), c.values(tenant)
	}
	for try := range maxPlantings {
		values, left := make([]string, len(t.needs)), try
		for i, of := range choices {
			values[i], left = of[left%len(of)], left/len(of)
		}
		if left > 0 { // all combinations were tried
			return false, nil
		}
		sub, err := tx.Begin(ctx)
		if err != nil {
			return false, err
		}
		_, err = sub.Exec(ctx, `INSERT INTO `+t.qualified+` (`+strings.Join(names, ", ")+`) VALUES (`+strings.Join(values, ", ")+`)`)
		if err == nil {
			return true, sub.Commit(ctx)
		}
		if rollErr := sub.Rollback(ctx); rollErr != nil {
			return false, rollErr
		}
		pe, ok := errors.AsType[*pgconn.PgError](err)
		switch {
		case !ok:
			return false, err
		case pe.Code == "23514": // a check: other words may pass
		default: // not allowed, or no made-up row will do
			return false, nil
		}
	}
	return false, nil
}

// sample is an expression of the column's type, different with each use where a key
// may need it.
func (c column) sample(tenant bff.ID) string {
	switch kind := strings.TrimSuffix(c.kind, "[]"); {
	case c.name == "tenant_id":
		return literal(tenant.UUID())
	case kind != c.kind:
		return "'{}'"
	case kind == "uuid":
		return "gen_random_uuid()"
	case strings.HasPrefix(kind, "timestamp") || kind == "date" || kind == "time":
		return "now()"
	case kind == "boolean":
		return "false"
	case kind == "json" || kind == "jsonb":
		return "'{}'"
	case kind == "bytea":
		return "sha256(gen_random_uuid()::text::bytea)"
	case kind == "text" || strings.HasPrefix(kind, "character") || kind == "name":
		return literal("doctor-" + strconv.FormatInt(time.Now().UnixNano(), 36))
	case kind == "interval":
		return "'0'"
	}
	return "1"
}

// try runs a statement, undoes it and returns how many rows it was about.
func try(ctx context.Context, tx pgx.Tx, sql string, args ...any) (int64, error) {
	sub, err := tx.Begin(ctx)
	if err != nil {
		return 0, err
	}
	tag, err := sub.Exec(ctx, sql, args...)
	return tag.RowsAffected(), errors.Join(err, sub.Rollback(ctx))
}

// refused reports whether a grant or a policy was in the way.
func refused(err error) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pe.Code == "42501"
}

// attackPool looks for a tenant on connections of which none should have one: a fresh
// one, and one that has just been used for a tenant, by each way that there is.
func attackPool(ctx context.Context, cfg postgres.Config, tenant bff.ID) ([]doctor.Finding, error) {
	cfg.MaxConns = 1 // the next use gets the same connection
	db, err := postgres.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	tenants := postgres.NewTenants(db)
	uses := []struct {
		after, advice string
		use           func() error
	}{
		{
			"begins with a tenant", "ALTER ROLE … RESET app.tenant_id, or ALTER DATABASE … RESET app.tenant_id",
			func() error { return nil },
		},
		{
			"still has its tenant after a batch", leak,
			func() error { return tenants.Tx(ctx, tenant, func(b *pgx.Batch) { b.Queue("SELECT 1") }) },
		},
		{
			"still has its tenant after a transaction", leak,
			func() error { return tenants.InTx(ctx, tenant, func(pgx.Tx) error { return nil }) },
		},
		{
			"still has its tenant after a transaction that failed", leak,
			func() error {
				err := tenants.InTx(ctx, tenant, func(pgx.Tx) error { return errUndo })
				if errors.Is(err, errUndo) {
					return nil
				}
				return err
			},
		},
	}
	var found []doctor.Finding
	for _, u := range uses {
		if err := u.use(); err != nil {
			return found, err
		}
		var left string
		if err := db.QueryRow(ctx, `SELECT coalesce(current_setting('app.tenant_id', true), '')`).Scan(&left); err != nil {
			return found, err
		}
		if left != "" {
			found = append(found, doctor.Finding{Check: "connection", Verdict: doctor.Wrong, Found: u.after, Advice: u.advice})
		}
	}
	if len(found) == 0 {
		found = doctor.Good("a connection has no tenant before and after it was used for one")
	}
	return found, nil
}

const leak = "check the pooler between here and the server: postgres-pooler must say that it shares connections by transaction"

// errUndo ends a transaction of an attack.
var errUndo = errors.New("undo")

func quote(parts ...string) string { return pgx.Identifier(parts).Sanitize() }

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
