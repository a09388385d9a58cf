package postgres_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

// BenchmarkTenantRead: a page of a tenant's ledger under row level security, in one
// round trip that also sets the tenant, over the same page read by a role that no
// policy binds, which therefore has to ask for the tenant itself. Aim: 0.85. The
// context has a deadline, as that of every request has. Beside it the very text of
// the free query under row level security, where it asks for the tenant a second
// time, and the read in steps, each with a round trip of its own.
func BenchmarkTenantRead(b *testing.B) {
	admin := migrated(b, migrations.Backoffice())
	app := openPool(b, postgres.Config{URL: asRole(b, admin, migrations.BackofficeApp), RequireIsolation: true})
	unbound := openPool(b, postgres.Config{URL: admin})
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	if err := seed(ctx, app); err != nil {
		b.Fatal(err)
	}
	_, err := unbound.Exec(ctx, `INSERT INTO bff_backoffice.operator_activity
			(tenant_id, operator_id, device_id, session_id, occurred_at, category, action, outcome)
		SELECT CASE WHEN n % 50 = 0 THEN $1::uuid ELSE gen_random_uuid() END, 'o', 'd', 's', now() - n * interval '1 second', 'c', 'a', 'success'
		FROM generate_series(1, 20000) n`, tenants[0].UUID())
	if err != nil {
		b.Fatal(err)
	}
	if _, err := unbound.Exec(ctx, "ANALYZE bff_backoffice.operator_activity"); err != nil {
		b.Fatal(err)
	}
	const (
		columns = `SELECT id::text, action, outcome, occurred_at FROM bff_backoffice.operator_activity`
		page    = ` ORDER BY occurred_at DESC LIMIT 50`
	)
	got := 0
	take := func(rows pgx.Rows) error {
		got = 0
		for rows.Next() {
			got++
		}
		return rows.Err()
	}
	door := postgres.NewTenants(app)
	const asked = columns + " WHERE tenant_id = $1" + page
	free := func() error { return readOnce(ctx, unbound, asked, take, tenants[0].UUID()) }
	for name, tenant := range map[string]func() error{
		"tenant": func() error {
			return door.Read(ctx, tenants[0], func(b *pgx.Batch) { b.Queue(columns + page).Query(take) })
		},
		"same text": func() error {
			return door.Read(ctx, tenants[0], func(b *pgx.Batch) { b.Queue(asked, tenants[0].UUID()).Query(take) })
		},
		"steps": func() error {
			return door.InTx(ctx, tenants[0], func(tx pgx.Tx) error { return readOnce(ctx, tx, columns+page, take) })
		},
	} {
		b.Run(name, func(b *testing.B) {
			// The two take turns: a read is quicker after another one of the same server
			// process, and so each comes after the other.
			ways, took := []func() error{free, tenant}, make([][]time.Duration, 2)
			for b.Loop() {
				for i, read := range ways {
					start := time.Now()
					if err := read(); err != nil || got != 50 {
						b.Fatalf("%d rows, %v", got, err)
					}
					took[i] = append(took[i], time.Since(start))
				}
			}
			for i := range took {
				slices.Sort(took[i])
			}
			median := func(i int) float64 { return float64(took[i][len(took[i])/2]) }
			b.ReportMetric(median(0)/median(1), "ratio")
			b.ReportMetric(median(1)/1000, "µs")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkPooler: what a statement and a transaction of a tenant cost with
// statements parsed each time, and with PgBouncer between as well, over statements
// that are prepared once. The three take turns, so that a noisy machine is fair.
func BenchmarkPooler(b *testing.B) {
	admin := migrated(b, migrations.Backoffice())
	role := asRole(b, admin, migrations.BackofficeApp)
	through := testkit.PgBouncer(b, passwords(migrations.Backoffice()))
	names := []string{"prepared", "parsed", "pgbouncer"}
	pools := []*pgxpool.Pool{
		openPool(b, postgres.Config{URL: role}),
		openPool(b, postgres.Config{URL: role, Pooler: postgres.TransactionPooler}),
		openPool(b, postgres.Config{URL: through(role), Pooler: postgres.TransactionPooler}),
	}
	for name, call := range map[string]func(*pgxpool.Pool) error{
		"statement": func(db *pgxpool.Pool) error {
			_, err := db.Exec(b.Context(), `SELECT response, status_code FROM bff_backoffice.idempotency
				WHERE tenant_id = $1 AND idem_key = $2 AND expires_at > now()`, tenants[0].UUID(), "k")
			return err
		},
		"transaction": func(db *pgxpool.Pool) error {
			return postgres.NewTenants(db).InTx(b.Context(), tenants[0], func(tx pgx.Tx) error {
				_, err := tx.Exec(b.Context(), `INSERT INTO bff_backoffice.device_sync_status (tenant_id, device_id) VALUES ($1, $2)
					ON CONFLICT (tenant_id, device_id) DO UPDATE SET last_heartbeat_at = now()`, tenants[0].UUID(), "d")
				return err
			})
		},
	} {
		b.Run(name, func(b *testing.B) {
			took := make([][]time.Duration, len(pools))
			for b.Loop() {
				for i, db := range pools {
					start := time.Now()
					if err := call(db); err != nil {
						b.Fatal(err)
					}
					took[i] = append(took[i], time.Since(start))
				}
			}
			for i := range took {
				slices.Sort(took[i])
				median := took[i][len(took[i])/2]
				b.ReportMetric(float64(median)/1000, names[i]+"-µs")
				b.ReportMetric(float64(median)/float64(took[0][len(took[0])/2]), names[i]+"-ratio")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func readOnce(ctx context.Context, db querier, sql string, take func(pgx.Rows) error, args ...any) error {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	return errors.Join(take(rows), rows.Err())
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}
