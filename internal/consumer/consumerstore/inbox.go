package consumerstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/pubsub"
)

// Inbox remembers received events in Postgres (DATA_MODEL §3.2). It also counts
// failed deliveries, so that poison is set aside after the configured attempts
// however many instances and restarts they were spread over.
type Inbox struct{ db *pgxpool.Pool }

// NewInbox returns the inbox of a database.
func NewInbox(db *pgxpool.Pool) *Inbox { return &Inbox{db: db} }

var (
	_ consumer.Inbox  = (*Inbox)(nil)
	_ pubsub.Attempts = (*Inbox)(nil)
)

// Receive notes an event.
func (i *Inbox) Receive(ctx context.Context, in consumer.Inbound) (consumer.Reception, error) {
	return receive(ctx, i.db, in)
}

// Processed notes that an event has had its effect.
func (i *Inbox) Processed(ctx context.Context, in consumer.Inbound) error {
	return processed(ctx, i.db, in)
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// receive inserts the event or takes the lock on its row: a concurrent delivery
// of the same event waits here until the first has ended.
func receive(ctx context.Context, q querier, in consumer.Inbound) (consumer.Reception, error) {
	var digest []byte
	var processed *time.Time
	err := q.QueryRow(ctx, `INSERT INTO bff_consumer.inbox AS i (event_id, subject, digest) VALUES ($1, $2, $3)
		ON CONFLICT (event_id) DO UPDATE SET subject = i.subject
		RETURNING digest, processed_at`, in.ID, in.Subject, in.Digest[:]).Scan(&digest, &processed)
	switch {
	case err != nil:
		return 0, fmt.Errorf("receive event: %w", err)
	case string(digest) != string(in.Digest[:]):
		return consumer.ReceivedOther, nil
	case processed != nil:
		return consumer.ReceivedAgain, nil
	}
	return consumer.ReceivedFirst, nil
}

func processed(ctx context.Context, q querier, in consumer.Inbound) error {
	err := q.QueryRow(ctx, `UPDATE bff_consumer.inbox SET processed_at = now(), last_error = NULL
		WHERE event_id = $1 RETURNING event_id`, in.ID).Scan(new(string))
	if err != nil {
		return fmt.Errorf("mark event: %w", err)
	}
	return nil
}

const maxLastError = 500

// Failed counts one more failed delivery. What failed because a server is away
// says nothing about the event and is not counted: an outage must not empty the
// subscriptions into the dead-letter topics.
func (i *Inbox) Failed(ctx context.Context, d pubsub.Delivery, cause error) (int, error) {
	if errors.Is(cause, consumer.ErrAway) || postgres.Unavailable(cause) {
		return 0, nil
	}
	// What cannot be read has no name but Pub/Sub's.
	in := consumer.Inbound{ID: "message:" + d.ID, Subject: d.Topic, Digest: sha256.Sum256(d.Data)}
	if e, err := bff.ParseReceived(d.Data); err == nil {
		in = consumer.NewInbound(e, d.PublishTime)
	}
	text := strings.ToValidUTF8(strings.ReplaceAll(cause.Error(), "\x00", ""), "")
	if len(text) > maxLastError {
		text = strings.ToValidUTF8(text[:maxLastError], "")
	}
	var attempts int
	err := i.db.QueryRow(ctx, `INSERT INTO bff_consumer.inbox AS i (event_id, subject, digest, attempts, last_error) VALUES ($1, $2, $3, 1, $4)
		ON CONFLICT (event_id) DO UPDATE SET attempts = i.attempts + 1, last_error = excluded.last_error
		RETURNING attempts`, in.ID, in.Subject, in.Digest[:], text).Scan(&attempts)
	if err != nil {
		return 0, fmt.Errorf("count attempt: %w", err)
	}
	return attempts, nil
}
