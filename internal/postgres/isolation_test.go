package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
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

// table is what is promised of one table of the staff service.
type table struct {
	name   string
	insert string // columns and values; of a tenant's table with $1, the tenant, and $2, a text
	text   string // the column that takes $2; empty = the table is no tenant's
	change string // what an UPDATE of the whole table sets
	aged   string // what makes a row old, or finished: then jobs may have it, and the tenant may no longer change it

	// What comes of reading all, adding a row of one's own, adding one to another
	// tenant, changing all and removing all: how many rows, "denied" by a missing
	// grant or "refused" by a policy. Each tenant has one young and one old row; a
	// table that is no tenant's has one row.
	app    string // the application without a tenant
	tenant string // the application as a tenant
	jobs   string // the role of jobs, which a tenant that it sets does not help
	more   []promise
}

// promise is a statement and what comes of it.
type promise struct{ who, sql, want string }

// promises has a line for every table.
var promises = []table{
	{
		name: "idempotency", insert: `(tenant_id, idem_key, request_hash, response, status_code, device_id, operator_id)
			VALUES ($1, $2, 'h', '{}', 200, 'd', 'o')`,
		text: "idem_key", change: "request_hash = 'x'", aged: "expires_at = now() - interval '1 minute'",
		app: "0 refused refused 0 denied", tenant: "2 1 refused 2 denied", jobs: "2 denied denied denied 2",
		more: []promise{
			{"jobs", "SELECT response FROM bff_backoffice.idempotency", "denied"},
			{"tenant", "UPDATE bff_backoffice.idempotency SET tenant_id = '" + tenants[1].UUID() + "'", "denied"},
		},
	},
	{
		name: "device_sync_status", insert: `(tenant_id, device_id) VALUES ($1, $2)`,
		text: "device_id", change: "status = 'offline'", aged: "status = 'offline'",
		app: "0 refused refused 0 denied", tenant: "2 1 refused 2 denied", jobs: "4 denied denied 2 denied",
		more: []promise{
			{"jobs", "UPDATE bff_backoffice.device_sync_status SET status = 'online'", "refused"},
			{"jobs", "UPDATE bff_backoffice.device_sync_status SET last_pull_cursor = 'x'", "denied"},
			{"jobs", "SELECT pending_hints FROM bff_backoffice.device_sync_status", "denied"},
			{"tenant", "UPDATE bff_backoffice.device_sync_status SET tenant_id = '" + tenants[1].UUID() + "'", "denied"},
		},
	},
	{
		name: "operator_preferences", insert: `(tenant_id, operator_id, payload) VALUES ($1, $2, '{}')`,
		text: "operator_id", change: "payload = '[]'",
		app: "0 refused refused 0 denied", tenant: "2 1 refused 2 denied", jobs: "denied denied denied denied denied",
		more: []promise{{"tenant", "UPDATE bff_backoffice.operator_preferences SET tenant_id = '" + tenants[1].UUID() + "'", "denied"}},
	},
	{
		name: "operator_activity", insert: `(tenant_id, operator_id, device_id, session_id, occurred_at, category, action, outcome)
			VALUES ($1, $2, 'd', 's', now(), 'lock', 'a', 'unknown')`,
		text: "operator_id", change: "outcome = 'failure'", aged: "outcome = 'success', occurred_at = now() - interval '91 days'",
		app: "0 refused refused 0 denied", tenant: "2 1 refused 1 denied", jobs: "4 denied denied 2 2",
		more: []promise{
			{"tenant", "UPDATE bff_backoffice.operator_activity SET operator_id = 'x'", "denied"},
			{"tenant", "UPDATE bff_backoffice.operator_activity SET occurred_at = now()", "denied"},
			{"jobs", "UPDATE bff_backoffice.operator_activity SET category = 'lock'", "denied"},
		},
	},
	{
		name: "alert_ack_log", insert: `(tenant_id, alert_id, category, severity, raised_at, acknowledged_by, device_id)
			VALUES ($1, $2, 'c', 's', now(), 'o', 'd')`,
		text: "alert_id", change: "category = 'x'", aged: "acknowledged_at = now() - interval '366 days'",
		app: "0 refused refused denied denied", tenant: "2 1 refused denied denied", jobs: "4 denied denied denied 2",
	},
	{
		name: "ai_decision_log", insert: `(tenant_id, suggestion_id, inbox_entry_id, category, severity, outcome, decided_by, device_id, provenance)
			VALUES ($1, $2, 'i', 'c', 's', 'accepted', 'o', 'd', '{}')`,
		text: "suggestion_id", change: "outcome = 'rejected'",
		app: "0 refused refused denied denied", tenant: "2 1 refused denied denied", jobs: "4 denied denied denied denied",
	},
	{
		name: "lock_action_proxy_audit", insert: `(tenant_id, reservation_id, property_id, operator_id, device_id, action, vendor, outcome, error_code, upstream_request_id, upstream_latency_ms)
			VALUES ($1, $2, gen_random_uuid(), 'o', 'd', 'issue', 'v', 'failure', 'LOCK_OUTCOME_UNKNOWN', $2, 0)`,
		text: "reservation_id", change: "outcome = 'success', error_code = NULL, state = 'issued', settled_at = now()",
		aged: "outcome = 'success', error_code = NULL, state = 'issued', settled_at = now()",
		app:  "0 refused refused 0 denied", tenant: "2 1 refused 1 denied", jobs: "4 denied denied 2 denied",
		more: []promise{
			{"tenant", "UPDATE bff_backoffice.lock_action_proxy_audit SET operator_id = 'x'", "denied"},
			{"tenant", "UPDATE bff_backoffice.lock_action_proxy_audit SET occurred_at = now()", "denied"},
			{"tenant", "UPDATE bff_backoffice.lock_action_proxy_audit SET asked_at = now()", "denied"},
			{"jobs", "UPDATE bff_backoffice.lock_action_proxy_audit SET mfa_attestation_id = 'x'", "denied"},
			{"jobs", "UPDATE bff_backoffice.lock_action_proxy_audit SET upstream_request_id = 'x'", "denied"},
		},
	},
	{
		name: "offline_action_queue_hints", insert: `(tenant_id, device_id, operator_id, payload, app_version) VALUES ($1, $2, 'o', '{}', '1')`,
		text: "device_id", change: "payload = '[]'", aged: "reported_at = now() - interval '8 days'",
		app: "0 refused refused denied denied", tenant: "2 1 refused denied denied", jobs: "2 denied denied denied 2",
		more: []promise{{"jobs", "SELECT payload FROM bff_backoffice.offline_action_queue_hints", "denied"}},
	},

	// No tenant's: requests add to the outbox and use the inbox, the rest is for relay and jobs.
	{
		name: "outbox", insert: "(subject, payload, envelope) VALUES ('s', '{}', '{}')", change: "attempts = 1",
		app: "denied 1 - denied denied", tenant: "denied 1 - denied denied", jobs: "1 1 - 1 1",
	},
	{
		name: "inbox", insert: "(message_id, subject) VALUES (gen_random_uuid(), 's')", change: "attempts = 1",
		app: "1 1 - 1 denied", tenant: "1 1 - 1 denied", jobs: "1 denied - denied 1",
	},
	{
		name: "outbox_archive", insert: `(id, subject, payload, envelope, enqueued_at, attempts, next_attempt_at, dlq, tx_id, ordering_key)
			VALUES (gen_random_uuid(), 's', '{}', '{}', now(), 0, now(), false, '1', '')`, change: "attempts = 1",
		app: none, tenant: none, jobs: "1 1 - denied 1",
	},
	{name: "outbox_marks", insert: "(published_at, ids) VALUES (now(), '{}')", change: "ids = '{}'", app: none, tenant: none, jobs: "1 1 - denied 1"},
	{
		name: "outbox_retries", insert: "(topic, ordering_key, event_id, due_at) VALUES (gen_random_uuid(), 'k', '', now())", change: "due_at = now()",
		app: none, tenant: none, jobs: "1 1 - 1 1",
	},
	{name: "job_state", insert: "(job, state) VALUES (gen_random_uuid(), '{}')", change: "state = '{}'", app: none, tenant: none, jobs: "1 1 - 1 denied"},
	{
		name: "job_runs", insert: "(job, ended_at, rows, error, instance) VALUES (gen_random_uuid(), now(), 0, '', 'i')", change: "rows = 1",
		app: none, tenant: none, jobs: "1 1 - 1 denied",
	},
	{
		name: "audit_chain", insert: `(tenant, seq, tab, row_id, version, at, sealed_at, row_hash, hash, tx_id)
			VALUES (gen_random_uuid(), 1, 't', gen_random_uuid(), 1, now(), now(), '', '', '1')`, change: "version = 2",
		app: none, tenant: none, jobs: "1 1 - denied 0",
	},
	{
		name: "audit_heads", insert: "(tenant, seq, hash, sealed_at, key_id, signature) VALUES (gen_random_uuid(), 1, '', now(), 'k', '')", change: "seq = 2",
		app: none, tenant: none, jobs: "1 1 - denied denied",
	},
	{name: "audit_tips", insert: "(tenant, seq, hash) VALUES (gen_random_uuid(), 1, '')", change: "seq = 2", app: none, tenant: none, jobs: "1 1 - 1 denied"},
	{
		name: "audit_cursors", insert: "(tab, tx_id, tenant, row_id, holes) VALUES (gen_random_uuid(), '1', gen_random_uuid(), gen_random_uuid(), '{}')", change: "tx_id = '2'",
		app: none, tenant: none, jobs: "5 1 - 5 denied", // four are of the migration
	},
	{
		name: "audit_deferred", insert: "(tab, tenant, row_id, reason) VALUES ('t', gen_random_uuid(), gen_random_uuid(), '')", change: "reason = 'x'",
		app: none, tenant: none, jobs: "1 1 - 1 1",
		more: []promise{{"jobs", "UPDATE bff_backoffice.audit_deferred SET since = now()", "denied"}},
	},
	{
		name: "audit_exports", insert: "(tab, first, last) VALUES (gen_random_uuid(), 0, 1)", change: "confirmed_at = now()",
		app: none, tenant: none, jobs: "1 1 - 1 denied",
		more: []promise{{"jobs", "UPDATE bff_backoffice.audit_exports SET last = 2", "denied"}},
	},
	{
		name: "schema_migrations", insert: "(version_id, is_applied) VALUES (0, true)", change: "is_applied = false", app: readsVersions,
		tenant: readsVersions, jobs: readsVersions,
	},
}

const none = "denied denied - denied denied"

// readsVersions: every process sees whether its migrations are applied, and no more.
var readsVersions = func() string {
	files, err := fs.Glob(migrations.Backoffice().FS, "*.sql")
	if err != nil {
		panic(err) // of a malformed pattern
	}
	return strconv.Itoa(1+len(files)) + " denied - denied denied" // goose begins with a row of its own
}()

// tenantTables are those that hold rows of tenants.
var tenantTables = promises[:slices.IndexFunc(promises, func(tb table) bool { return tb.text == "" })]

func (tb table) qualified() string { return "bff_backoffice." + tb.name }

func (tb table) insertSQL() string { return "INSERT INTO " + tb.qualified() + " " + tb.insert }

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

// wall is a database with rows of two tenants, and those who try to get at them.
type wall struct {
	admin            *pgx.Conn
	app, jobs, owner *pgxpool.Pool
}

func newWall(t *testing.T) *wall {
	t.Helper()
	ctx, url := testkit.Context(t), migrated(t, migrations.Backoffice())
	w := &wall{
		admin: connect(t, url),
		app:   openPool(t, postgres.Config{URL: asRole(t, url, migrations.BackofficeApp), RequireIsolation: true}),
		jobs:  openPool(t, postgres.Config{URL: asRole(t, url, migrations.BackofficeJobs), RequireIsolation: true}),
		// The owner has every grant, so that nothing but FORCE holds it back. It can
		// not log in: the superuser takes its role for the whole session.
		owner: openPool(t, postgres.Config{URL: url + sep(url) + "role=" + migrations.BackofficeOwner}),
	}
	if err := seed(ctx, w.app); err != nil {
		t.Fatal(err)
	}
	for _, tb := range promises {
		switch {
		case tb.name == "schema_migrations": // has its rows
		case tb.text == "":
			w.exec(t, tb.insertSQL())
		default:
			for _, tenant := range tenants {
				w.exec(t, tb.insertSQL(), tenant.UUID(), "old-"+tenant.ULID())
			}
			if tb.aged != "" {
				w.exec(t, "UPDATE "+tb.qualified()+" SET "+tb.aged+" WHERE "+tb.text+" LIKE 'old-%'")
			}
		}
	}
	return w
}

// parts are the promises of each part of a partitioned table: the application reaches it
// by the whole table alone, and jobs remove what is past its time.
func (w *wall) parts(t *testing.T) (all []table) {
	t.Helper()
	for _, name := range strs(t, w.admin, `SELECT relname::text FROM pg_class WHERE relnamespace = 'bff_backoffice'::regnamespace AND relkind = 'r' AND relispartition ORDER BY 1`) {
		tb := tenantTables[slices.IndexFunc(tenantTables, func(tb table) bool { return strings.HasPrefix(name, tb.name+"_") })]
		counts := strs(t, w.admin, `SELECT count(*) || ' denied denied denied ' || count(*) FILTER (WHERE occurred_at < now() - interval '90 days') FROM bff_backoffice.`+name)
		moment := "2000-01-01" // is in no month
		if year, month, ok := strings.Cut(strings.TrimPrefix(name, tb.name+"_"), "_"); ok {
			moment = year + "-" + month + "-15"
		}
		tb.insert = strings.Replace(tb.insert, "now()", "'"+moment+"'", 1)
		tb.name, tb.app, tb.tenant, tb.jobs, tb.more = name, "denied denied denied denied denied", "denied denied denied denied denied", counts[0], nil
		all = append(all, tb)
	}
	return all
}

// exec is what only an administrator may do.
func (w *wall) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := w.admin.Exec(testkit.Context(t), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func sep(url string) string {
	if strings.Contains(url, "?") {
		return "&"
	}
	return "?"
}

// try says what comes of a statement, and undoes it.
func try(ctx context.Context, db *pgxpool.Pool, tenant bff.ID, sql string, args ...any) string {
	rows := int64(0)
	undo := errors.New("undo")
	work := func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, sql, args...)
		if err != nil {
			return err
		}
		rows = tag.RowsAffected()
		return undo
	}
	var err error
	if tenant.IsZero() {
		err = postgres.InTx(ctx, db, work)
	} else {
		err = postgres.NewTenants(db).InTx(ctx, tenant, work)
	}
	switch {
	case errors.Is(err, undo):
		return strconv.FormatInt(rows, 10)
	case refusedByPolicy(err):
		return "refused"
	case denied(err):
		return "denied"
	}
	return err.Error()
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

// broken lists what is promised of a table and does not hold.
func (w *wall) broken(ctx context.Context, tb table) []string {
	type principal struct {
		name   string
		db     *pgxpool.Pool
		tenant bff.ID
		want   string
	}
	all := []principal{
		{"app", w.app, bff.ID{}, tb.app},
		{"tenant", w.app, tenants[0], tb.tenant},
		{"jobs", w.jobs, bff.ID{}, tb.jobs},
		{"jobs with a tenant", w.jobs, tenants[0], tb.jobs},
	}
	if tb.text != "" { // elsewhere the owner has all
		const nothing = "0 refused refused 0 0"
		all = append(all, principal{"owner", w.owner, bff.ID{}, nothing}, principal{"owner with a tenant", w.owner, tenants[0], nothing})
	}
	var found []string
	for _, p := range all {
		got := []string{try(ctx, p.db, p.tenant, "SELECT FROM "+tb.qualified())}
		if tb.text == "" {
			got = append(got, try(ctx, p.db, p.tenant, tb.insertSQL()), "-")
		} else {
			for _, whose := range tenants {
				got = append(got, try(ctx, p.db, p.tenant, tb.insertSQL(), whose.UUID(), "new"))
			}
		}
		got = append(got,
			try(ctx, p.db, p.tenant, "UPDATE "+tb.qualified()+" SET "+tb.change),
			try(ctx, p.db, p.tenant, "DELETE FROM "+tb.qualified()))
		if got := strings.Join(got, " "); got != p.want {
			found = append(found, fmt.Sprintf("%s: %s: %s, want %s", tb.name, p.name, got, p.want))
		}
		for _, m := range tb.more {
			if !strings.HasPrefix(p.name, m.who) {
				continue
			}
			if got := try(ctx, p.db, p.tenant, m.sql); got != m.want {
				found = append(found, fmt.Sprintf("%s: %s: %s: %s, want %s", tb.name, p.name, m.sql, got, m.want))
			}
		}
	}
	return found
}

// Every table that stands keeps its promises: reading, adding, changing and
// removing, without a tenant, as a tenant, as jobs and as the owner.
func TestIsolation(t *testing.T) {
	t.Parallel()
	w := newWall(t)
	existing := strs(t, w.admin, `SELECT relname::text FROM pg_class
		WHERE relnamespace = 'bff_backoffice'::regnamespace AND relkind IN ('r', 'p', 'f') AND NOT relispartition ORDER BY 1`)
	var promised []string
	for _, tb := range promises {
		promised = append(promised, tb.name)
	}
	slices.Sort(promised)
	if diff := cmp.Diff(promised, existing); diff != "" {
		t.Fatalf("tables (-promised +existing):\n%s", diff)
	}
	parts := w.parts(t)
	if len(parts) < 5 { // this month, three ahead and what lies in none
		t.Errorf("%d parts", len(parts))
	}
	for _, tb := range slices.Concat(promises, parts) {
		for _, what := range w.broken(testkit.Context(t), tb) {
			t.Error(what)
		}
	}
}

// What the catalogue says of the schema, whatever tables will be added.
func TestSchemaHasNoWayAroundIsolation(t *testing.T) {
	t.Parallel()
	conn := connect(t, migrated(t, migrations.Backoffice()))
	const inSchema = " relnamespace = 'bff_backoffice'::regnamespace "
	for what, sql := range map[string]string{
		"a tenant's table without forced row level security": `SELECT relname::text FROM pg_class c WHERE` + inSchema + `AND relkind IN ('r', 'p')
			AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id') AND NOT (relrowsecurity AND relforcerowsecurity)`,
		"a tenant's table that may be without a tenant": `SELECT relname::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
			WHERE` + inSchema + `AND relkind IN ('r', 'p') AND a.attname = 'tenant_id' AND NOT a.attnotnull`,
		// A duplicate of another tenant's row is refused, and so tells of it.
		"a unique key that does not lead with the tenant": `SELECT indexrelid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
			JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id' WHERE` + inSchema + `AND i.indisunique AND i.indkey[0] <> a.attnum`,
		// A read by it takes the longer, the more rows other tenants have.
		"an index of tenants' reads that does not lead with the tenant": `SELECT indexrelid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
			JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id' WHERE` + inSchema + `AND i.indkey[0] <> a.attnum
			AND indexrelid::regclass::text NOT IN ('bff_backoffice.ix_idem_expiry', 'bff_backoffice.ix_device_sync_status_status_heartbeat',
				'bff_backoffice.ix_activity_jobs', 'bff_backoffice.ix_alert_ack_jobs', 'bff_backoffice.ix_ai_decision_jobs', 'bff_backoffice.ix_lock_audit_jobs')
			AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = indexrelid AND inhparent = 'bff_backoffice.ix_activity_jobs'::regclass)`,
		// A view reads as its owner, a function may run as its owner.
		"a view or a foreign table": `SELECT relname::text FROM pg_class WHERE` + inSchema + `AND relkind IN ('v', 'm', 'f')`,
		// Jobs make and drop the months of the ledger as the owner, and the functions say which: see TestMonthsOfTheLedger.
		"a function that is no trigger of its caller's": `SELECT proname::text FROM pg_proc WHERE pronamespace = 'bff_backoffice'::regnamespace
			AND (prosecdef OR prorettype <> 'trigger'::regtype) AND (has_function_privilege('bff_backoffice_app', oid, 'EXECUTE')
				OR has_function_privilege('bff_backoffice_jobs', oid, 'EXECUTE') AND proname NOT IN ('make_activity_month', 'drop_activity_month')
				OR prosecdef AND NOT 'search_path=pg_catalog, pg_temp' = ANY(proconfig))`,
		"a right beyond rows": `SELECT relname || ' ' || r || ' ' || p FROM pg_class, unnest(ARRAY['bff_backoffice_app', 'bff_backoffice_jobs']) r,
			unnest(ARRAY['TRUNCATE', 'REFERENCES', 'TRIGGER']) p WHERE` + inSchema + `AND relkind IN ('r', 'p') AND has_table_privilege(r, oid, p)`,
		"a right on the schema": `SELECT r FROM unnest(ARRAY['bff_backoffice_app', 'bff_backoffice_jobs']) r
			WHERE has_schema_privilege(r, 'bff_backoffice', 'CREATE')`,
		"a role that is another": `SELECT a || ' is ' || b FROM unnest(ARRAY['bff_backoffice_app', 'bff_backoffice_jobs']) a,
			unnest(ARRAY['bff_backoffice_app', 'bff_backoffice_jobs', 'bff_backoffice_owner']) b WHERE a <> b AND pg_has_role(a, b, 'MEMBER')`,
	} {
		if got := strs(t, conn, sql); len(got) > 0 {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// The application can not take its walls down.
func TestAppCanNotLiftIsolation(t *testing.T) {
	t.Parallel()
	w := newWall(t)
	for _, sql := range []string{
		"TRUNCATE bff_backoffice.operator_activity",
		"ALTER TABLE bff_backoffice.operator_activity NO FORCE ROW LEVEL SECURITY",
		"DROP POLICY activity_iso ON bff_backoffice.operator_activity",
		"CREATE POLICY mine ON bff_backoffice.operator_activity USING (true)",
		"CREATE TABLE bff_backoffice.mine (id int)",
		"SET ROLE bff_backoffice_owner",
		"SET ROLE bff_backoffice_jobs",
	} {
		if got := try(testkit.Context(t), w.app, tenants[0], sql); got != "denied" {
			t.Errorf("%s: %s, want denied", sql, got)
		}
	}
	// Without row level security a statement fails instead of showing more.
	err := undone(testkit.Context(t), postgres.NewTenants(w.app), tenants[0], func(tx pgx.Tx) error {
		if _, err := tx.Exec(testkit.Context(t), "SET LOCAL row_security = off"); err != nil {
			return err
		}
		_, err := tx.Exec(testkit.Context(t), "SELECT FROM bff_backoffice.operator_activity")
		return err
	})
	if !denied(err) {
		t.Errorf("row_security = off: %v, want a refusal", err)
	}
}
