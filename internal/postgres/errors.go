package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/batch"
)

// ErrOutcomeUnknown wraps the loss of a COMMIT's answer: the transaction may
// stand or not. Only an idempotent caller may try again.
var ErrOutcomeUnknown = errors.New("transaction outcome unknown")

// Unavailable reports whether the server, not the statement, is at fault: it is
// away, full, shutting down, or did not answer in time. Callers answer 503. A
// cancelled caller is not an outage.
func Unavailable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrAway) || errors.Is(err, batch.ErrLate) {
		return true
	}
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pe.Code {
		case "57P01", "57P02", "57P03", // shutdown, crash, starting up
			"57014",          // statement timeout
			"55P03",          // lock timeout
			"25P03",          // idle in transaction timeout
			"40001", "40P01": // still in conflict after the retries
			return true
		}
		return pe.Code[:min(2, len(pe.Code))] == "08" || pe.Code[:min(2, len(pe.Code))] == "53"
	}
	return connectionLost(err)
}

// retryStore is when a client may sensibly try a refused change again.
const retryStore = 2 * time.Second

// Durable codes the failure of a write that must not be lost: whether the server is
// away or too much waits for it, the client may try again.
func Durable(err error) error {
	if err == nil {
		return nil
	}
	if _, coded := errors.AsType[*bff.Error](err); coded || errors.Is(err, context.Canceled) {
		return err
	}
	if errors.Is(err, batch.ErrFull) || errors.Is(err, batch.ErrClosed) || Unavailable(err) || errors.Is(err, ErrOutcomeUnknown) {
		return &bff.Error{Code: bff.CodeServiceUnavailable, RetryAfter: retryStore, Err: err}
	}
	return err
}

// connectionLost reports a failure of the connection rather than an answer.
func connectionLost(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, puddle.ErrClosedPool) || pgconn.SafeToRetry(err) || pgconn.Timeout(err)
}

// severed reports that the server ended the connection, in words or without.
func severed(err error) bool {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pe.Severity == "FATAL" || pe.Severity == "PANIC"
	}
	return connectionLost(err)
}

// conflict reports an error after which the same transaction may simply be run
// again: the server has undone it.
func conflict(err error) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pe.Code == "40001" || pe.Code == "40P01")
}

// commitError tells a failed commit from one whose answer was lost.
func commitError(err error) error {
	if errors.Is(err, pgx.ErrTxCommitRollback) || errors.Is(err, pgx.ErrTxClosed) || pgconn.SafeToRetry(err) {
		return fmt.Errorf("commit: %w", err)
	}
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok && !severed(pe) {
		return fmt.Errorf("commit: %w", err)
	}
	return fmt.Errorf("commit: %w: %w", ErrOutcomeUnknown, err)
}

// UniqueViolation reports whether err is the refusal of a duplicate by the named
// constraint or unique index; an empty name means any.
func UniqueViolation(err error, name string) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pe.Code == "23505" && (name == "" || pe.ConstraintName == name)
}

// Refused reports that the server took offence at the data: a value that it cannot
// store or a constraint.
func Refused(err error) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && len(pe.Code) == 5 && (pe.Code[:2] == "22" || pe.Code[:2] == "23")
}
