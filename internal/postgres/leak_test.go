package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

// Randomised statements of both tenants and of none over one small pool, with
// errors, panics, cancellations and rollbacks in between: no row ever crosses.
func TestProofNothingLeaksThroughThePool(t *testing.T) {
	t.Parallel()
	statements := testkit.Proof(5_000, 1_000_000)
	t.Run("direct", func(t *testing.T) {
		t.Parallel()
		admin := migrated(t, migrations.Backoffice())
		proveNoLeak(t, openPool(t, postgres.Config{URL: asRole(t, admin, migrations.BackofficeApp), MaxConns: 3, RequireIsolation: true}), statements)
	})
	// Here clients share server connections as well.
	t.Run("pooler", func(t *testing.T) {
		t.Parallel()
		proveNoLeak(t, pooled(t), statements/4) // each cancelled one costs a server connection
	})
}

func proveNoLeak(t *testing.T, app *pgxpool.Pool, statements int) {
	t.Helper()
	ctx := t.Context()
	if err := seed(ctx, app); err != nil {
		t.Fatal(err)
	}
	const workers = 6
	seedling := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seedling)
	failed := make(chan error, workers)
	for w := range workers {
		go func() {
			rng := rand.New(rand.NewPCG(seedling, uint64(w)))
			var err error
			for done := 0; done < statements/workers && err == nil; {
				err = patiently(ctx, func(ctx context.Context) error { return randomStatement(ctx, app, rng) })
				if cutOff(err) { // does not count
					err = nil
					continue
				}
				done++
			}
			failed <- err
		}()
	}
	for range workers {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

// patiently gives one statement a deadline of its own: what the package gives to
// callers without one is too short for a machine that is busy with other tests.
func patiently(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return do(ctx)
}

// cutOff reports whether a statement ended because the machine is too slow for the
// role's timeouts: it saw nothing then.
func cutOff(err error) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains([]string{"57014", "25P03", "55P03"}, pe.Code) // statement, idle in transaction, lock
}

// randomStatement does one thing and checks what it sees.
func randomStatement(ctx context.Context, db *pgxpool.Pool, rng *rand.Rand) error {
	tb := tenantTables[rng.IntN(len(tenantTables))]
	mine := rng.IntN(2)
	me, other := tenants[mine], tenants[1-mine]
	door := postgres.NewTenants(db)
	seen := map[string]bool{}
	collect := func(rows pgx.Rows) error {
		clear(seen)
		for rows.Next() {
			var tenant string
			if err := rows.Scan(&tenant); err != nil {
				return err
			}
			seen[tenant] = true
		}
		return rows.Err()
	}
	check := func(want string, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", tb.name, err)
		}
		for tenant := range seen {
			if tenant != want {
				return fmt.Errorf("%s: tenant %s saw a row of %s", tb.name, want, tenant)
			}
		}
		if want != "" && len(seen) == 0 {
			return fmt.Errorf("%s: tenant %s lost its row", tb.name, want)
		}
		return nil
	}
	read := "SELECT tenant_id::text FROM " + tb.qualified()
	switch kind(rng) {
	case 0: // without a tenant
		return check("", query(ctx, db, read, collect))
	case 1: // pipelined
		err := door.Tx(ctx, me, func(b *pgx.Batch) { b.Queue(read).Query(collect) })
		return check(me.UUID(), err)
	case 2: // pipelined, with a statement that fails behind
		err := door.Tx(ctx, me, func(b *pgx.Batch) {
			b.Queue(read).Query(collect)
			b.Queue("SELECT 1/0")
		})
		if pe, ok := errors.AsType[*pgconn.PgError](err); !ok || pe.Code != "22012" {
			return fmt.Errorf("division: %w", err)
		}
		return check(me.UUID(), nil)
	case 3: // many steps, rolled back
		err := undone(ctx, door, me, func(tx pgx.Tx) error { return query(ctx, tx, read, collect) })
		return check(me.UUID(), err)
	case 4: // cancelled somewhere
		cut, cancel := context.WithTimeout(ctx, time.Duration(rng.IntN(1500))*time.Microsecond)
		defer cancel()
		_ = door.InTx(cut, me, func(tx pgx.Tx) error {
			_, err := tx.Exec(cut, "SELECT pg_sleep(0.001)")
			return err
		})
		return nil
	case 5: // the other's row by name
		err := door.Read(ctx, me, func(b *pgx.Batch) {
			b.Queue(read+" WHERE "+tb.text+" = $1 OR tenant_id = $2", "of-"+other.ULID(), other.UUID()).Query(collect)
		})
		return check("", err)
	case 6: // a planted row
		err := door.Tx(ctx, me, func(b *pgx.Batch) {
			b.Queue(tb.insertSQL(), tenants[rng.IntN(2)].UUID(), "planted")
			b.Queue("SELECT 1/0") // undo what was allowed
		})
		if err == nil {
			return fmt.Errorf("%s: the batch was not undone", tb.name)
		}
		return nil
	case 7: // cancelled while the answers of a batch arrive
		cut, cancel := context.WithTimeout(ctx, time.Duration(rng.IntN(1500))*time.Microsecond)
		defer cancel()
		_ = door.Tx(cut, me, func(b *pgx.Batch) {
			b.Queue("SELECT pg_sleep(0.001)")
			b.Queue(read).Query(collect)
		})
		if len(seen) == 0 { // it did not come so far
			return nil
		}
		return check(me.UUID(), nil)
	case 8: // a panic in the middle of a transaction
		return check(me.UUID(), panics(func() error {
			return door.InTx(ctx, me, func(tx pgx.Tx) error {
				if err := query(ctx, tx, read, collect); err != nil {
					return err
				}
				panic(errPlanned)
			})
		}))
	case 9: // a panic while the answers of a batch are read
		return panics(func() error {
			return door.Tx(ctx, me, func(b *pgx.Batch) {
				b.Queue(read).Query(func(pgx.Rows) error { panic(errPlanned) })
				b.Queue(read)
			})
		})
	case 10: // both tenants in one transaction, each with its own
		theirs := map[string]bool{}
		err := door.Each(ctx, []postgres.Part{
			{Tenant: other, Queue: func(b *pgx.Batch) {
				b.Queue(read).Query(func(rows pgx.Rows) error {
					err := collect(rows)
					theirs = maps.Clone(seen)
					return err
				})
			}},
			{Tenant: me, Queue: func(b *pgx.Batch) { b.Queue(read).Query(collect) }},
		})
		if err := check(me.UUID(), err); err != nil {
			return err
		}
		seen = theirs
		return check(other.UUID(), nil)
	default: // a savepoint that is given up keeps the tenant
		err := undone(ctx, door, me, func(tx pgx.Tx) error {
			sub, err := tx.Begin(ctx)
			if err != nil {
				return err
			}
			if err := sub.Rollback(ctx); err != nil {
				return err
			}
			return query(ctx, tx, read, collect)
		})
		return check(me.UUID(), err)
	}
}

// kind picks what randomStatement does. What costs the connection is rarer: it
// would be most of the time otherwise.
func kind(rng *rand.Rand) int {
	if rng.IntN(100) < 3 {
		return []int{4, 7, 9}[rng.IntN(3)]
	}
	return []int{0, 1, 2, 3, 5, 6, 8, 10, 11}[rng.IntN(9)]
}

var (
	errPlanned = errors.New("planned panic")
	errUndo    = errors.New("undo")
)

// panics runs what must panic as planned, and returns the error that it ends with
// instead.
func panics(f func() error) (err error) {
	defer func() {
		got := recover()
		if planned, ok := got.(error); got != nil && ok && errors.Is(planned, errPlanned) {
			err = nil
		} else if got != nil {
			err = fmt.Errorf("recovered %v", got)
		}
	}()
	return fmt.Errorf("no panic: %w", f())
}

// undone rolls everything back.
func undone(ctx context.Context, door *postgres.Tenants, tenant bff.ID, fn func(pgx.Tx) error) error {
	err := door.InTx(ctx, tenant, func(tx pgx.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return errUndo
	})
	if errors.Is(err, errUndo) {
		return nil
	}
	return err
}

func query(ctx context.Context, db querier, sql string, collect func(pgx.Rows) error) error {
	rows, err := db.Query(ctx, sql)
	if err != nil {
		return err
	}
	defer rows.Close()
	return errors.Join(collect(rows), rows.Err())
}
