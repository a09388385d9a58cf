package backofficestore_test

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficestore"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

const password = "correct horse"

func migrate(url string) error {
	return postgres.Migrate(context.Background(), url, migrations.Backoffice(), postgres.MigrateOptions{
		Passwords: map[string]string{migrations.BackofficeApp: password, migrations.BackofficeJobs: password},
	})
}

type noRelay struct{}

func (noRelay) Wake() {}

// desk is the staff's database as requests and an administrator see it.
type desk struct {
	*backofficestore.Ledger
	admin *pgx.Conn
}

func openDesk(t testing.TB) *desk {
	t.Helper()
	admin := testkit.PostgresTemplate(t, "bff_backoffice", migrate)
	return &desk{Ledger: openLedger(t, admin), admin: connect(t, admin)}
}

// atAnyTime lets the application write rows of other times than now, for tests of what is days apart.
func (d *desk) atAnyTime(t testing.TB) {
	t.Helper()
	for _, table := range []string{"operator_activity", "lock_action_proxy_audit"} {
		if _, err := d.admin.Exec(testkit.Context(t), `ALTER TABLE bff_backoffice.`+table+` DISABLE TRIGGER timely`); err != nil {
			t.Fatal(err)
		}
	}
}

// openLedger connects as the application's role.
func openLedger(t testing.TB, admin string) *backofficestore.Ledger {
	t.Helper()
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(migrations.BackofficeApp, password)
	db, err := postgres.Open(t.Context(), postgres.Config{
		URL: u.String(), RequireIsolation: true, ConnectTimeout: 30 * time.Second, LockTimeout: time.Minute, StatementTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return backofficestore.NewLedger(backofficestore.LedgerConfig{
		DB: postgres.NewTenants(db), Outbox: backofficestore.OutboxTable(), Waker: noRelay{},
	})
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

// rows returns a query's rows as texts.
func (d *desk) rows(t testing.TB, sql string, args ...any) []string {
	t.Helper()
	found, err := d.admin.Query(testkit.Context(t), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func id(p bff.Prefix) bff.ID { return bff.NewID(p, time.Now()) }

// pressed is a mutation whose key was made this moment by its sender's clock, with some body.
func pressed(key string, body byte) backoffice.Once {
	return backoffice.Once{Key: key, Digest: [32]byte{body}, Sent: bff.MustParseID(bff.PrefixRequest, "req_"+key).Time()}
}

// checkIn is what an operator at a front desk does.
func checkIn(tenant bff.ID, now time.Time) backoffice.Activity {
	return backoffice.Activity{
		ID: id(bff.PrefixActivity), Tenant: tenant, Property: id(bff.PrefixProperty), Operator: "opt_1", Device: id(bff.PrefixDevice),
		Session: id(bff.PrefixBackofficeLogin), Roles: []string{"front_desk"}, At: now, Category: "reservation", Action: "check_in",
		Resource: backoffice.Resource{Kind: "reservation", ID: "rsv_1"}, Outcome: backoffice.Succeeded, Context: backoffice.ContextHash("ip", "ua"),
	}
}

// told is an event of a tenant.
func told(tenant bff.ID, now time.Time) bff.Event {
	name := tenant.String()
	return bff.Event{
		Envelope: bff.Envelope{
			EventID: bff.NewID(bff.PrefixEvent, now).String(), Subject: "melmastoon.bff.backoffice.mutation.proxied.v1", Version: 1,
			OccurredAt: bff.At(now), TenantID: &name,
		},
		Payload: []byte(`{}`),
	}
}
