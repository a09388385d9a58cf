package backofficelake_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficelake"
	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

var (
	tenantA = bff.MustParseID(bff.PrefixTenant, "tnt_01H8YN7QV4D8KZ4F8Y5CK4MV3A")
	tenantB = bff.MustParseID(bff.PrefixTenant, "tnt_01H8YN7QV4D8KZ4F8Y5CK4MV3B")
	now     = time.Now().UTC().Truncate(time.Second)
)

const day = 24 * time.Hour

// fixture is a lake over a real database and a directory.
type fixture struct {
	t     testing.TB
	super *pgxpool.Pool // who owns everything, and tampers
	jobs  *pgxpool.Pool
	dir   string
	keys  *audit.Keys
	*backofficelake.Lake
}

func testKeys(t testing.TB) *audit.Keys {
	t.Helper()
	keys, err := audit.ParseAuditKeys([]string{"test-1:" + base64.StdEncoding.EncodeToString(make([]byte, ed25519.SeedSize))})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	return openFixture(t, testkit.PostgresTemplate(t, "bff_backoffice", migrate))
}

func migrate(dsn string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return postgres.Migrate(ctx, dsn, migrations.Backoffice(), postgres.MigrateOptions{})
}

// openFixture is a fixture over a migrated database.
func openFixture(t testing.TB, address string) *fixture {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("role", migrations.BackofficeJobs)
	u.RawQuery = q.Encode()
	f := &fixture{t: t, super: open(t, address), jobs: open(t, u.String()), dir: t.TempDir(), keys: testKeys(t)}
	f.forgetPasses()
	f.Lake = backofficelake.New(f.config())
	return f
}

// forgetPasses lets rows with old moments, which tests write by hand, pass for those of a database that was never sealed.
func (f *fixture) forgetPasses() {
	f.t.Helper()
	f.exec(`UPDATE bff_backoffice.audit_cursors SET passed_at = NULL`)
}

func (f *fixture) config() backofficelake.Config {
	return backofficelake.Config{
		Outbox: outbox.NewTable(outbox.Shape{
			Name: "bff_backoffice.outbox", Archive: "bff_backoffice.outbox_archive", UUID: true,
			Topic: "subject", Envelope: "envelope", Created: "enqueued_at", Key: func(*bff.Envelope) string { return "" },
		}),
		News: backoffice.NewEnvelopes("test"), Log: slog.New(slog.DiscardHandler),
		Keys:   func(context.Context) (*audit.Keys, error) { return f.keys, nil },
		Bucket: func(context.Context) (backofficelake.Bucket, error) { return backofficelake.OpenDirectory(f.dir) },
	}
}

func open(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	db, err := postgres.Open(t.Context(), testkit.Patient(url))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.super.Exec(testkit.Context(f.t), sql, args...); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
}

func (f *fixture) count(sql string, args ...any) (n int) {
	f.t.Helper()
	if err := f.super.QueryRow(testkit.Context(f.t), sql, args...).Scan(&n); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

const insertActivity = `INSERT INTO bff_backoffice.operator_activity (id, tenant_id, operator_id, device_id, session_id, occurred_at, category, action, outcome,
	latency_ms, resource_id, roles) VALUES ($1, $2, 'opt_1', 'dev_1', 'bos_1', $3, 'folio', $4, $5, 7, '', ARRAY['front_desk', 'with "quotes"'])`

// activity adds a row and returns its id.
func (f *fixture) activity(tenant bff.ID, at time.Time, outcome string) bff.ID {
	f.t.Helper()
	id := bff.NewID(bff.PrefixActivity, at)
	f.exec(insertActivity, id.UUID(), tenant.UUID(), at, "charge", outcome)
	return id
}

// one adds a row to each of the other tables.
func (f *fixture) one(tenant bff.ID, at time.Time) (alert, decision, lock bff.ID) {
	f.t.Helper()
	alert, decision, lock = bff.NewID(bff.PrefixAlertInbox, at), bff.NewID(bff.PrefixDecision, at), bff.NewID(bff.PrefixLockAudit, at)
	f.exec(`INSERT INTO bff_backoffice.alert_ack_log (id, tenant_id, alert_id, category, severity, raised_at, acknowledged_at, acknowledged_by, device_id)
		VALUES ($1, $2, $3, 'c', 'high', $4, $4, 'opt_1', 'dev_1')`, alert.UUID(), tenant.UUID(), alert.String(), at)
	f.exec(`INSERT INTO bff_backoffice.ai_decision_log (id, tenant_id, suggestion_id, inbox_entry_id, category, severity, outcome, modified_delta, decided_at, decided_by, device_id, provenance)
		VALUES ($1, $2, $3, 'i', 'c', 's', 'modified', '{"rate":  12.50, "a":[1,null]}', $4, 'o', 'd', '{}')`, decision.UUID(), tenant.UUID(), decision.String(), at)
	f.exec(`INSERT INTO bff_backoffice.lock_action_proxy_audit (id, tenant_id, property_id, operator_id, device_id, reservation_id, action, vendor, occurred_at, outcome, error_code, upstream_request_id, upstream_latency_ms)
		VALUES ($1, $2, gen_random_uuid(), 'o', 'd', 'rsv_1', 'issue', 'v', $3, 'failure', 'LOCK_OUTCOME_UNKNOWN', $4, 0)`, lock.UUID(), tenant.UUID(), at, lock.String())
	return alert, decision, lock
}

// run runs all jobs of the lake.
func (f *fixture) run(l *backofficelake.Lake) {
	f.t.Helper()
	for _, j := range l.Jobs() {
		if _, err := j.Run(testkit.Context(f.t), f.jobs, now); err != nil {
			f.t.Errorf("%s: %v", j.Name, err)
		}
	}
}

// The columns that are sealed and exported are those of the tables.
func TestColumns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, table := range audit.AuditTables() {
		want := map[string]bool{"tx_id": true}
		for _, c := range table.Columns {
			if c.LengthOf == "" && c.DigestOf == "" {
				want[c.Name] = true
			}
		}
		for _, c := range table.Bookkeeping {
			want[c] = true
		}
		rows, err := f.super.Query(
			testkit.Context(t), `SELECT attname::text FROM pg_attribute WHERE attrelid = ('bff_backoffice.' || $1)::regclass AND attnum > 0 AND NOT attisdropped`,
			table.Name,
		)
		if err != nil {
			t.Fatal(err)
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, n := range names {
			got[n] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-sealed +in the table):\n%s", table.Name, diff)
		}
	}
}

// Rows are sealed, exported and pruned; one that changes is exported again; two runs at
// once do it once.
func TestExport(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	old, unknown := f.activity(tenantA, now.Add(-91*day), "success"), f.activity(tenantA, now.Add(-100*day), "unknown")
	f.activity(tenantB, now, "denied")
	f.one(tenantA, now)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { f.run(f.Lake) })
	}
	wg.Wait()
	f.run(f.Lake)
	if n := f.count(`SELECT count(*) FROM bff_backoffice.audit_chain`); n != 6 {
		t.Errorf("%d entries, want 6", n)
	}
	if n := f.count(`SELECT count(*) FROM bff_backoffice.operator_activity WHERE id = ANY($1)`, []string{old.UUID(), unknown.UUID()}); n != 0 {
		t.Errorf("%d old rows are left", n)
	}
	if n := f.count(`SELECT count(*) FROM bff_backoffice.outbox WHERE subject LIKE '%audit.sealed.v1'`); n < 2 {
		t.Errorf("%d events", n)
	}
	if n := f.count(`SELECT sum(rows)::int FROM bff_backoffice.audit_exports WHERE tab = 'operator_activity'`); n != 3 {
		t.Errorf("%d rows exported, want 3", n)
	}
	// A lock action ends: its row is sealed and exported again.
	f.exec(`UPDATE bff_backoffice.lock_action_proxy_audit SET asked_at = now()`)
	f.run(f.Lake)
	f.exec(`UPDATE bff_backoffice.lock_action_proxy_audit SET outcome = 'success', error_code = NULL, state = 'issued', settled_at = now()`)
	f.run(f.Lake)
	if n := f.count(`SELECT sum(rows)::int FROM bff_backoffice.audit_exports WHERE tab = 'lock_action_proxy_audit'`); n != 2 {
		t.Errorf("%d versions of a lock action exported, want 2", n)
	}
	for _, path := range listFiles(t, f.dir) {
		if strings.HasPrefix(path, "_tmp/") {
			t.Errorf("%s was left", path)
		}
	}
}

func listFiles(t testing.TB, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			for _, f := range listFiles(t, dir+"/"+e.Name()) {
				all = append(all, e.Name()+"/"+f)
			}
			continue
		}
		all = append(all, e.Name())
	}
	return all
}
