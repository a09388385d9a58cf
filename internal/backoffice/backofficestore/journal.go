package backofficestore

import (
	"context"
	"errors"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/postgres"
)

// Journal writes events to the outbox.
type Journal struct{ appender *outbox.Appender }

// NewJournal returns the journal of an outbox.
func NewJournal(a *outbox.Appender) *Journal { return &Journal{a} }

var _ backoffice.Journal = (*Journal)(nil)

// retryStore is when a client may sensibly try again.
const retryStore = 2 * time.Second

// Record implements backoffice.Journal: it returns after the commit.
func (j *Journal) Record(ctx context.Context, events ...bff.Event) error {
	err := j.appender.Append(ctx, events...)
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, outbox.ErrFull), errors.Is(err, outbox.ErrClosed), postgres.Unavailable(err),
		errors.Is(err, postgres.ErrOutcomeUnknown), errors.Is(err, context.DeadlineExceeded):
		return &bff.Error{Code: bff.CodeServiceUnavailable, Detail: "this cannot be recorded right now and is not done: try again shortly", RetryAfter: retryStore, Err: err}
	}
	return err
}
