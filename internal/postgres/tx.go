package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff/internal/pause"
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

func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, defaultTimeout)
}

// retry runs fn again after conflicts, with growing random pauses.
func retry(ctx context.Context, fn func() error) error {
	next := 5 * time.Millisecond
	for try := 1; ; try++ {
		err := fn()
		if err == nil || try == maxTries || !conflict(err) || !pause.For(ctx, next/2+rand.N(next)) { //nolint:gosec // spread, not secrecy
			return err
		}
		next *= 2
	}
}
