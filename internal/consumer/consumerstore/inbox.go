package consumerstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/inbox"
	"melmastoon.ghasi.io/bff/internal/pubsub"
)

// Inbox remembers received events in Postgres (DATA_MODEL §3.2) and counts failed
// deliveries.
type Inbox struct{ db *pgxpool.Pool }

// NewInbox returns the inbox of a database.
func NewInbox(db *pgxpool.Pool) *Inbox { return &Inbox{db: db} }

var (
	_ consumer.Inbox  = (*Inbox)(nil)
	_ pubsub.Attempts = (*Inbox)(nil)

	inboxTable = inbox.NewTable(inbox.Shape{Name: "bff_consumer.inbox", ID: "event_id", Digest: "digest"})
)

// Receive notes an event.
func (i *Inbox) Receive(ctx context.Context, in consumer.Inbound) (consumer.Reception, error) {
	return receive(ctx, i.db, in)
}

// Processed notes that an event has had its effect.
func (i *Inbox) Processed(ctx context.Context, in consumer.Inbound) error {
	return processed(ctx, i.db, in)
}

func receive(ctx context.Context, q inbox.Querier, in consumer.Inbound) (consumer.Reception, error) {
	seen, err := inboxTable.Receive(ctx, q, entry(in))
	switch seen {
	case inbox.Again:
		return consumer.ReceivedAgain, err
	case inbox.Other:
		return consumer.ReceivedOther, err
	default:
		return consumer.ReceivedFirst, err
	}
}

func processed(ctx context.Context, q inbox.Querier, in consumer.Inbound) error {
	return inboxTable.Processed(ctx, q, entry(in))
}

func entry(in consumer.Inbound) inbox.Event {
	return inbox.Event{ID: in.ID, Subject: in.Subject, Digest: in.Digest}
}

// Failed counts one more failed delivery.
func (i *Inbox) Failed(ctx context.Context, d pubsub.Delivery, cause error) (int, error) {
	return inboxTable.Failed(ctx, i.db, inbox.Failure{Event: inbox.EventOf(d), Cause: cause, Away: errors.Is(cause, consumer.ErrAway)})
}
