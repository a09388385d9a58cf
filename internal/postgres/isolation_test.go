package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

// tenants are two hotels that must never see each other.
var tenants = [2]bff.ID{
	bff.MustParseID(bff.PrefixTenant, "tnt_01H8YN7QV4D8KZ4F8Y5CK4MV3A"),
	bff.MustParseID(bff.PrefixTenant, "tnt_01H8YN7QV4D8KZ4F8Y5CK4MV3B"),
}

// table is a tenant's table: how to add a row whose marked text column holds
// $2, and a column that the app role may write (or else "").
type table struct {
	name, insert, text, update string
}

var tenantTables = []table{
	{
		"idempotency", `(tenant_id, idem_key, request_hash, response, status_code, device_id, operator_id)
		VALUES ($1, $2, 'h', '{}', 200, 'd', 'o')`, "idem_key", "request_hash",
	},
	{"device_sync_status", `(tenant_id, device_id) VALUES ($1, $2)`, "device_id", "app_version"},
	{"operator_preferences", `(tenant_id, operator_id, payload) VALUES ($1, $2, '{}')`, "operator_id", "payload"},
	{
		"operator_activity", `(tenant_id, operator_id, device_id, session_id, occurred_at, category, action, outcome)
		VALUES ($1, $2, 'd', 's', now(), 'c', 'a', 'o')`, "operator_id", "",
	},
	{
		"alert_ack_log", `(tenant_id, alert_id, category, severity, raised_at, acknowledged_by, device_id)
		VALUES ($1, $2, 'c', 's', now(), 'o', 'd')`, "alert_id", "",
	},
	{
		"ai_decision_log", `(tenant_id, suggestion_id, inbox_entry_id, category, severity, outcome, decided_by, device_id, provenance)
		VALUES ($1, $2, 'i', 'c', 's', 'accepted', 'o', 'd', '{}')`, "suggestion_id", "",
	},
	{
		"lock_action_proxy_audit", `(tenant_id, reservation_id, property_id, operator_id, device_id, action, vendor, outcome, error_code, upstream_request_id, upstream_latency_ms)
		VALUES ($1, $2, gen_random_uuid(), 'o', 'd', 'issue', 'v', 'failure', 'LOCK_OUTCOME_UNKNOWN', 'r', 0)`, "reservation_id", "vendor",
	},
	{
		"offline_action_queue_hints", `(tenant_id, device_id, operator_id, payload, app_version)
		VALUES ($1, $2, 'o', '{}', '1')`, "device_id", "",
	},
}

func (tb table) qualified() string { return "bff_backoffice." + tb.name }

func (tb table) insertSQL() string { return "INSERT INTO " + tb.qualified() + " " + tb.insert }

// setValue is an assignment to the writable column.
func (tb table) setValue() string {
	if tb.update == "payload" {
		return "payload = '{}'"
	}
	return tb.update + " = 'changed'"
}

// Every table with a tenant_id is in the list, or the proof proves too little.
func TestEveryTenantTableIsProven(t *testing.T) {
	t.Parallel()
	conn := connect(t, migrated(t, migrations.Backoffice()))
	var want []string
	for _, tb := range tenantTables {
		want = append(want, tb.name)
	}
	got := strs(t, conn, `SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
		WHERE n.nspname = 'bff_backoffice' AND c.relkind IN ('r', 'p') AND c.relrowsecurity AND c.relforcerowsecurity ORDER BY 1`)
	all := strs(t, conn, `SELECT table_name FROM information_schema.columns
		WHERE table_schema = 'bff_backoffice' AND column_name = 'tenant_id' ORDER BY 1`)
	if diff := cmp.Diff(all, got); diff != "" {
		t.Errorf("tables without forced row level security (-all +forced):\n%s", diff)
	}
	if diff := cmp.Diff(sorted(want), got); diff != "" {
		t.Errorf("tables (-proven +standing):\n%s", diff)
	}
}

func sorted(s []string) []string {
	out := slices.Clone(s)
	slices.Sort(out)
	return out
}

// violation is a hole in the isolation of one table.
type violation struct{ table, what string }

// seed gives both tenants one row in every table, as the tenants themselves.
func seed(ctx context.Context, db *pgxpool.Pool) error {
	for _, tenant := range tenants {
		err := postgres.NewTenants(db).Tx(ctx, tenant, func(b *pgx.Batch) {
			for _, tb := range tenantTables {
				b.Queue(tb.insertSQL(), tenant.UUID(), "of-"+tenant.ULID())
			}
		})
		if err != nil {
			return fmt.Errorf("seed: %w", err)
		}
	}
	return nil
}

// violations tries everything that one tenant, or nobody, may not do to the
// other's row of one table. role is who connects.
func violations(ctx context.Context, db *pgxpool.Pool, tb table) ([]violation, error) {
	a, b := tenants[0], tenants[1]
	var found []violation
	report := func(what string) { found = append(found, violation{tb.name, what}) }

	var n int
	if err := db.QueryRow(ctx, "SELECT count(*) FROM "+tb.qualified()).Scan(&n); err != nil {
		return nil, fmt.Errorf("%s: without a tenant: %w", tb.name, err)
	}
	if n != 0 {
		report("rows without a tenant")
	}
	if _, err := db.Exec(ctx, tb.insertSQL(), a.UUID(), "orphan"); !refusedByPolicy(err) {
		report("insert without a tenant")
	}
	// Reading, by scan, by key and by tenant column.
	for _, sql := range []string{
		"SELECT count(*) FROM " + tb.qualified() + " WHERE " + tb.text + " = 'of-" + b.ULID() + "'",
		"SELECT count(*) FROM " + tb.qualified() + " WHERE tenant_id <> '" + a.UUID() + "'",
		"SELECT count(*) FROM (TABLE " + tb.qualified() + ") x WHERE tenant_id = '" + b.UUID() + "'",
	} {
		if err := inTenant(ctx, db, a, func(tx pgx.Tx) error { return tx.QueryRow(ctx, sql).Scan(&n) }); err != nil {
			return nil, fmt.Errorf("%s: read: %w", tb.name, err)
		}
		if n != 0 {
			report("read of the other tenant")
		}
	}
	// Writing a row into the other tenant.
	err := inTenant(ctx, db, a, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, tb.insertSQL(), b.UUID(), "planted")
		return err
	})
	if !refusedByPolicy(err) {
		report("insert into the other tenant")
	}
	if err != nil && strings.Contains(err.Error(), b.UUID()) {
		report("error message names the other tenant")
	}
	// Changing and deleting the other's rows: refused outright, or zero rows.
	var writes []string
	if tb.update != "" {
		writes = append(writes, "UPDATE "+tb.qualified()+" SET "+tb.setValue()+" WHERE "+tb.text+" = 'of-"+b.ULID()+"'")
	}
	writes = append(writes,
		"UPDATE "+tb.qualified()+" SET tenant_id = '"+b.UUID()+"'",
		"UPDATE "+tb.qualified()+" SET tenant_id = '"+a.UUID()+"' WHERE tenant_id = '"+b.UUID()+"'",
		"DELETE FROM "+tb.qualified()+" WHERE "+tb.text+" = 'of-"+b.ULID()+"'")
	for _, sql := range writes {
		var touched int64
		err := inTenant(ctx, db, a, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, sql)
			touched = tag.RowsAffected()
			return err
		})
		if err != nil && !denied(err) {
			return nil, fmt.Errorf("%s: %s: %w", tb.name, sql, err)
		}
		if err == nil && touched != 0 {
			report(strings.Fields(sql)[0] + " of the other tenant")
		}
	}
	return found, nil
}

// inTenant rolls everything back.
func inTenant(ctx context.Context, db *pgxpool.Pool, tenant bff.ID, fn func(pgx.Tx) error) error {
	undo := errors.New("undo")
	err := postgres.NewTenants(db).InTx(ctx, tenant, func(tx pgx.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return undo
	})
	if errors.Is(err, undo) {
		return nil
	}
	return err
}

// refusedByPolicy: row level security says 42501, as a missing grant does, but
// in other words.
func refusedByPolicy(err error) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pe.Code == "42501" && strings.Contains(pe.Message, "row-level security")
}

func denied(err error) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pe.Code == "42501"
}

func TestIsolation(t *testing.T) {
	t.Parallel()
	admin := migrated(t, migrations.Backoffice())
	ctx := testkit.Context(t)
	app := openPool(t, postgres.Config{URL: asRole(t, admin, migrations.BackofficeApp), RequireIsolation: true})
	if err := seed(ctx, app); err != nil {
		t.Fatal(err)
	}
	// The owner has every grant, so nothing but FORCE holds it back. It can not log
	// in: the superuser takes its role for the whole session.
	owner := openPool(t, postgres.Config{URL: admin + sep(admin) + "role=" + migrations.BackofficeOwner})
	for name, db := range map[string]*pgxpool.Pool{"app": app, "owner": owner} {
		for _, tb := range tenantTables {
			found, err := violations(ctx, db, tb)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for _, v := range found {
				t.Errorf("%s: %s: %s", name, v.table, v.what)
			}
		}
	}
	// And each still sees its own.
	for _, tb := range tenantTables {
		for _, tenant := range tenants {
			var n int
			err := postgres.NewTenants(app).Read(ctx, tenant, func(b *pgx.Batch) {
				b.Queue("SELECT count(*) FROM " + tb.qualified()).QueryRow(func(r pgx.Row) error { return r.Scan(&n) })
			})
			if err != nil || n != 1 {
				t.Errorf("%s: a tenant sees %d of its rows, %v", tb.name, n, err)
			}
		}
	}
}

func sep(url string) string {
	if strings.Contains(url, "?") {
		return "&"
	}
	return "?"
}

// Take any of the walls away and the check above must notice: otherwise it
// proves nothing.
func TestIsolationProofNoticesEveryMissingPolicy(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	admin := migrated(t, migrations.Backoffice())
	app := openPool(t, postgres.Config{URL: asRole(t, admin, migrations.BackofficeApp)})
	if err := seed(ctx, app); err != nil {
		t.Fatal(err)
	}
	conn := connect(t, admin)
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, tb := range tenantTables {
		policies := strs(t, conn, `SELECT polname::text FROM pg_policy
			WHERE polrelid = $1::regclass AND polroles = '{0}' AND polpermissive`, tb.qualified())
		if len(policies) != 1 {
			t.Fatalf("%s: policies for everybody: %v, want one", tb.name, policies)
		}
		alter := "ALTER POLICY " + policies[0] + " ON " + tb.qualified()
		const wall = "(tenant_id = NULLIF(current_setting('app.tenant_id', true), '')::uuid)"
		for _, m := range []struct{ name, breach, mend string }{
			{"no row level security", "ALTER TABLE " + tb.qualified() + " DISABLE ROW LEVEL SECURITY", "ALTER TABLE " + tb.qualified() + " ENABLE ROW LEVEL SECURITY"},
			{"open policy", alter + " USING (true) WITH CHECK (true)", alter + " USING " + wall + " WITH CHECK " + wall},
			{"open reading", alter + " USING (true)", alter + " USING " + wall},
			{"open writing", alter + " WITH CHECK (true)", alter + " WITH CHECK " + wall},
			{"another policy beside", "CREATE POLICY beside ON " + tb.qualified() + " USING (true)", "DROP POLICY beside ON " + tb.qualified()},
		} {
			exec(m.breach)
			found, err := violations(ctx, app, tb)
			if err != nil || len(found) == 0 {
				t.Errorf("%s: %s: nobody noticed, %v", tb.name, m.name, err)
			}
			// What the breach let through is undone, the seed included.
			exec("TRUNCATE " + tb.qualified())
			exec(m.mend)
			for _, tenant := range tenants {
				err := postgres.NewTenants(app).Tx(ctx, tenant, func(b *pgx.Batch) {
					b.Queue(tb.insertSQL(), tenant.UUID(), "of-"+tenant.ULID())
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if found, err := violations(ctx, app, tb); err != nil || len(found) > 0 {
				t.Fatalf("%s: not mended after %s: %v, %v", tb.name, m.name, found, err)
			}
		}
		// Without its policy a table shows nothing at all: closed, and noticed.
		exec("DROP POLICY " + policies[0] + " ON " + tb.qualified())
		var n int
		err := postgres.NewTenants(app).Read(ctx, tenants[0], func(b *pgx.Batch) {
			b.Queue("SELECT count(*) FROM " + tb.qualified()).QueryRow(func(r pgx.Row) error { return r.Scan(&n) })
		})
		if err != nil || n != 0 {
			t.Errorf("%s: %d rows without a policy, %v", tb.name, n, err)
		}
	}
}

// Without FORCE the owner walks through.
func TestIsolationProofNoticesMissingForce(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	admin := migrated(t, migrations.Backoffice())
	if err := seed(ctx, openPool(t, postgres.Config{URL: asRole(t, admin, migrations.BackofficeApp)})); err != nil {
		t.Fatal(err)
	}
	owner := openPool(t, postgres.Config{URL: admin + sep(admin) + "role=" + migrations.BackofficeOwner})
	conn := connect(t, admin)
	for _, tb := range tenantTables {
		if _, err := conn.Exec(ctx, "ALTER TABLE "+tb.qualified()+" NO FORCE ROW LEVEL SECURITY"); err != nil {
			t.Fatal(err)
		}
		found, err := violations(ctx, owner, tb)
		if err != nil || len(found) == 0 {
			t.Errorf("%s: nobody noticed, %v", tb.name, err)
		}
	}
}

// The same upstream id in two tenants is two things (the keys lead with the
// tenant): no error tells one of the other, and no write is dropped.
func TestUniqueKeysDoNotCollideAcrossTenants(t *testing.T) {
	t.Parallel()
	admin := migrated(t, migrations.Backoffice())
	ctx := testkit.Context(t)
	app := openPool(t, postgres.Config{URL: asRole(t, admin, migrations.BackofficeApp)})
	for _, tb := range tenantTables {
		for _, tenant := range tenants {
			err := postgres.NewTenants(app).Tx(ctx, tenant, func(b *pgx.Batch) {
				b.Queue(tb.insertSQL()+" ON CONFLICT DO NOTHING", tenant.UUID(), "same").Exec(func(tag pgconn.CommandTag) error {
					if tag.RowsAffected() != 1 {
						return errors.New("the write was dropped in silence")
					}
					return nil
				})
			})
			if err != nil {
				t.Errorf("%s: %v", tb.name, err)
			}
		}
	}
}

// What the grants leave out, whoever the tenant is.
func TestAppCanNotRewriteHistory(t *testing.T) {
	t.Parallel()
	admin := migrated(t, migrations.Backoffice())
	ctx := testkit.Context(t)
	app := openPool(t, postgres.Config{URL: asRole(t, admin, migrations.BackofficeApp)})
	if err := seed(ctx, app); err != nil {
		t.Fatal(err)
	}
	exec := func(sql string) (int64, error) {
		var n int64
		err := postgres.NewTenants(app).InTx(ctx, tenants[0], func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, sql)
			n = tag.RowsAffected()
			return err
		})
		return n, err
	}
	for _, sql := range []string{
		"DELETE FROM bff_backoffice.operator_activity",
		"DELETE FROM bff_backoffice.alert_ack_log",
		"DELETE FROM bff_backoffice.ai_decision_log",
		"DELETE FROM bff_backoffice.lock_action_proxy_audit",
		"DELETE FROM bff_backoffice.idempotency",
		"UPDATE bff_backoffice.operator_activity SET outcome = 'x'",
		"UPDATE bff_backoffice.ai_decision_log SET outcome = 'rejected'",
		"UPDATE bff_backoffice.lock_action_proxy_audit SET operator_id = 'x'",
		"UPDATE bff_backoffice.lock_action_proxy_audit SET occurred_at = now()",
		"SELECT * FROM bff_backoffice.outbox",
		"UPDATE bff_backoffice.outbox SET payload = '{}'",
		"DELETE FROM bff_backoffice.outbox",
		"SELECT * FROM bff_backoffice.outbox_archive",
		"SELECT * FROM bff_backoffice.outbox_retries",
		"DELETE FROM bff_backoffice.outbox_retries",
		"SELECT * FROM bff_backoffice.schema_migrations",
		"TRUNCATE bff_backoffice.operator_activity",
		"ALTER TABLE bff_backoffice.operator_activity NO FORCE ROW LEVEL SECURITY",
		"DROP POLICY activity_iso ON bff_backoffice.operator_activity",
		"CREATE TABLE bff_backoffice.mine (id int)",
		"SET ROLE bff_backoffice_owner",
		"SET ROLE bff_backoffice_jobs",
	} {
		if _, err := exec(sql); !denied(err) {
			t.Errorf("%s: %v, want permission denied", sql, err)
		}
	}
	// The outcome of a lock action is filled in once.
	const outcome = "UPDATE bff_backoffice.lock_action_proxy_audit SET outcome = 'success', error_code = NULL, upstream_latency_ms = 12"
	for _, want := range []int64{1, 0} {
		if n, err := exec(outcome); n != want || err != nil {
			t.Errorf("outcome written to %d rows, %v, want %d", n, err, want)
		}
	}
	// The first decision on a suggestion wins, whoever takes it.
	_, err := exec(strings.Replace(tenantTables[5].insertSQL(), "VALUES ($1, $2, 'i', 'c', 's', 'accepted', 'o'",
		"VALUES ('"+tenants[0].UUID()+"', 'of-"+tenants[0].ULID()+"', 'i', 'c', 's', 'accepted', 'someone else'", 1))
	if !postgres.UniqueViolation(err, "ux_ai_decision_once") {
		t.Errorf("second decision: %v, want a duplicate", err)
	}
}

// The jobs role sees what its jobs need: old rows to prune, ledgers to export.
func TestJobsAreNarrow(t *testing.T) {
	t.Parallel()
	admin := migrated(t, migrations.Backoffice())
	ctx := testkit.Context(t)
	app := openPool(t, postgres.Config{URL: asRole(t, admin, migrations.BackofficeApp)})
	jobs := openPool(t, postgres.Config{URL: asRole(t, admin, migrations.BackofficeJobs), RequireIsolation: true})
	if err := seed(ctx, app); err != nil {
		t.Fatal(err)
	}
	rows := func(sql string) (int64, error) {
		tag, err := jobs.Exec(ctx, sql)
		return tag.RowsAffected(), err
	}
	for _, test := range []struct {
		sql  string
		want int64 // -1 is permission denied
	}{
		{"DELETE FROM bff_backoffice.idempotency", 0},
		{"DELETE FROM bff_backoffice.operator_activity", 0},
		{"DELETE FROM bff_backoffice.alert_ack_log", 0},
		{"DELETE FROM bff_backoffice.offline_action_queue_hints", 0},
		{"DELETE FROM bff_backoffice.ai_decision_log", -1},
		{"DELETE FROM bff_backoffice.lock_action_proxy_audit", -1},
		{"SELECT response FROM bff_backoffice.idempotency", -1},
		{"SELECT payload FROM bff_backoffice.offline_action_queue_hints", -1},
		{"SELECT payload FROM bff_backoffice.operator_preferences", -1},
		{"SELECT id FROM bff_backoffice.operator_activity", 2},
		{"SELECT id FROM bff_backoffice.lock_action_proxy_audit", 2},
		{"UPDATE bff_backoffice.device_sync_status SET status = 'offline', updated_at = now() WHERE status = 'online'", 2},
		{"UPDATE bff_backoffice.device_sync_status SET status = 'online' WHERE status = 'offline'", 0},
		{"UPDATE bff_backoffice.device_sync_status SET last_pull_cursor = 'x'", -1},
	} {
		got, err := rows(test.sql)
		if denied(err) {
			got, err = -1, nil
		}
		if got != test.want || err != nil {
			t.Errorf("%s: %d, %v, want %d", test.sql, got, err, test.want)
		}
	}
	// Old rows do go.
	conn := connect(t, admin)
	for _, sql := range []string{
		"UPDATE bff_backoffice.idempotency SET expires_at = now() - interval '1 minute'",
		"UPDATE bff_backoffice.operator_activity SET occurred_at = now() - interval '91 days'",
		"UPDATE bff_backoffice.alert_ack_log SET acknowledged_at = now() - interval '366 days'",
		"UPDATE bff_backoffice.offline_action_queue_hints SET reported_at = now() - interval '8 days'",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
		table := strings.Fields(sql)[1]
		if n, err := rows("DELETE FROM " + table); n != 2 || err != nil {
			t.Errorf("%s: pruned %d, %v, want 2", table, n, err)
		}
	}
}
