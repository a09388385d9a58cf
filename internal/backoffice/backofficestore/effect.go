package backofficestore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/backoffice/inbox"
	"melmastoon.ghasi.io/bff/internal/backoffice/lock"
)

// effects are what an attempt writes, in one round trip.
type effects struct {
	ledger   *Ledger
	batch    *pgx.Batch
	activity *backoffice.Activity
	at       time.Time
	// answers: the attempt's own answer is kept. It is not if another attempt was
	// quicker: what there is once was written then.
	answers bool
	// after are asked when the batch was sent, for what was there already.
	after []func(context.Context, pgx.Tx) error
}

// add queues an effect. This is the one place that knows them all; how each is written
// is said in the file of its noun.
func (w *effects) add(e backoffice.Effect) error {
	if e.OfTenant() != w.activity.Tenant {
		return fmt.Errorf("%T of another tenant", e)
	}
	switch e := e.(type) {
	case device.PreferencesCopy:
		w.batch.Queue(keepPreferences, preferencesArgs(e)...)
	case device.CursorCopy:
		w.batch.Queue(keepCursor, cursorArgs(e, w.at)...)
	case inbox.Decision:
		return w.decide(e)
	case inbox.Acknowledgement:
		return w.acknowledge(e)
	case *lock.Audit:
		return w.auditLock(e)
	case lock.Settlement:
		return w.settleLock(e)
	default:
		return fmt.Errorf("nothing writes a %T", e)
	}
	return nil
}

// publish queues the events of an effect.
func (w *effects) publish(events []bff.Event) error {
	queue, err := w.ledger.queued(w.activity.Tenant, events)
	if err == nil {
		queue(w.batch)
	}
	return err
}

// send writes what was queued.
func (w *effects) send(ctx context.Context, tx pgx.Tx) error {
	if err := tx.SendBatch(ctx, w.batch).Close(); err != nil {
		return err
	}
	for _, ask := range w.after {
		if err := ask(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

// endsOtherwise is the error of an effect that was there already: nothing of the attempt
// is written, and it ends as this says.
type endsOtherwise struct{ instead backoffice.Finished }

func (*endsOtherwise) Error() string { return "an effect of the attempt was there already" }
