package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
)

const (
	maxTries       = 4
	defaultTimeout = 10 * time.Second // for callers that brought no deadline
	rollbackBudget = time.Second
)

// InTx runs fn in a transaction and commits when it returns nil. On an error or
// a panic it rolls back. Deadlocks and serialization failures, which the server
// has already undone, run fn again a few times: fn must have no effect outside
// the transaction. A commit whose answer was lost is ErrOutcomeUnknown and is not
// tried again.
func InTx(ctx context.Context, db *pgxpool.Pool, fn func(pgx.Tx) error) error {
	return inTx(ctx, db, pgx.TxOptions{}, fn)
}

// InTenantTx is InTx with the tenant set for its length, for work whose later
// statements depend on earlier answers; TenantTx needs one round trip only.
func InTenantTx(ctx context.Context, db *pgxpool.Pool, tenant bff.ID, fn func(pgx.Tx) error) error {
	if err := checkTenant(tenant); err != nil {
		return err
	}
	// One round trip for both. The tenant is written as hexadecimal from 16 bytes:
	// nothing of a caller's text gets into the statement.
	begin := "begin; select set_config('app.tenant_id', '" + tenant.UUID() + "', true)"
	return inTx(ctx, db, pgx.TxOptions{BeginQuery: begin}, fn)
}

func inTx(ctx context.Context, db *pgxpool.Pool, opts pgx.TxOptions, fn func(pgx.Tx) error) error {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	return retry(ctx, func() error { return once(ctx, db, opts, fn) })
}

func once(ctx context.Context, db *pgxpool.Pool, opts pgx.TxOptions, fn func(pgx.Tx) error) error {
	tx, err := db.BeginTx(ctx, opts)
	if err != nil && severed(err) && ctx.Err() == nil {
		// A pooled connection that died since its last use: nothing has run yet.
		tx, err = db.BeginTx(ctx, opts)
	}
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	done := false
	defer func() {
		if !done {
			rollback(ctx, tx)
		}
	}()
	if err := fn(tx); err != nil {
		return err
	}
	done = true
	if err := tx.Commit(ctx); err != nil {
		return commitError(err)
	}
	return nil
}

// rollback outlives the caller's cancellation: otherwise the pool would have to
// throw the connection away.
func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackBudget)
	defer cancel()
	_ = tx.Rollback(ctx) // on failure pgx closes the connection, and the server rolls back
}

// TenantTx runs the queued statements as one transaction of the tenant in one
// round trip: everything is sent before anything is answered. The statements
// therefore can not depend on each other's results in Go (use one statement with
// a CTE, or InTenantTx), and an error returned by a result callback, such as
// pgx.ErrNoRows, does not undo the transaction: only an error of a statement
// does. A lost answer is ErrOutcomeUnknown.
func TenantTx(ctx context.Context, db *pgxpool.Pool, tenant bff.ID, queue func(*pgx.Batch)) error {
	return pipeline(ctx, db, tenant, setTenant, queue, func(err error) error {
		if severed(err) || errors.Is(err, context.Canceled) {
			return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		}
		return err
	})
}

// TenantRead is TenantTx for statements that only read, and the server holds
// them to it. It may therefore be sent again when a pooled connection turns out
// to be dead.
func TenantRead(ctx context.Context, db *pgxpool.Pool, tenant bff.ID, queue func(*pgx.Batch)) error {
	same := func(err error) error { return err }
	err := pipeline(ctx, db, tenant, setTenantReadOnly, queue, same)
	if err != nil && severed(err) && ctx.Err() == nil {
		err = pipeline(ctx, db, tenant, setTenantReadOnly, queue, same)
	}
	return err
}

const (
	setTenant         = `SELECT set_config('app.tenant_id', $1, true)`
	setTenantReadOnly = `SELECT set_config('app.tenant_id', $1, true), set_config('transaction_read_only', 'on', true)`
)

func pipeline(ctx context.Context, db *pgxpool.Pool, tenant bff.ID, set string, queue func(*pgx.Batch), lost func(error) error) error {
	if err := checkTenant(tenant); err != nil {
		return err
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	return retry(ctx, func() error {
		conn, err := db.Acquire(ctx)
		if err != nil {
			return fmt.Errorf("acquire: %w", err)
		}
		defer conn.Release()
		// Until its single Sync a pipeline is one implicit transaction: the setting
		// lives exactly as long as the statements behind it.
		var b pgx.Batch
		b.Queue(set, tenant.UUID())
		queue(&b)
		if err := conn.SendBatch(ctx, &b).Close(); err != nil {
			return lost(err)
		}
		return nil
	})
}

func checkTenant(tenant bff.ID) error {
	if tenant.Prefix() != bff.PrefixTenant {
		return errors.New("tenant transaction: not a tenant id")
	}
	return nil
}

func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, defaultTimeout)
}

// retry runs fn again after conflicts, with growing random pauses.
func retry(ctx context.Context, fn func() error) error {
	pause := 5 * time.Millisecond
	for try := 1; ; try++ {
		err := fn()
		if err == nil || try == maxTries || !conflict(err) {
			return err
		}
		t := time.NewTimer(pause/2 + rand.N(pause)) //nolint:gosec // spread, not secrecy
		select {
		case <-ctx.Done():
			t.Stop()
			return err
		case <-t.C:
		}
		pause *= 2
	}
}
