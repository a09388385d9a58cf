// Package inbox remembers received events in Postgres, so that each has its effect
// once, and counts failed deliveries, so that poison is set aside after the
// configured attempts however many instances and restarts they were spread over. The
// table is each service's own.
package inbox

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/pubsub"
)

// Shape names a service's table and its columns.
type Shape struct {
	Name   string // schema.table
	ID     string // column of the event's id
	Digest string // column of the hash of what the event says; empty = none
}

// Event is a received event as the inbox knows it.
type Event struct {
	ID      string // as received: producers use several styles
	Subject string
	Digest  [sha256.Size]byte
}

// Reception says how an event stands to those received before.
type Reception int

// An event is new, or was dealt with before, or bears the id of another one.
const (
	First Reception = iota
	Again
	Other
)

// Querier is a transaction or a pool.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Table is a service's inbox.
type Table struct {
	digest                  bool
	receive, process, count string
}

// NewTable returns the inbox of a table.
func NewTable(s Shape) *Table {
	columns, values, returned := "", "", "NULL::bytea"
	if s.Digest != "" {
		columns, values, returned = ", "+s.Digest, ", $3", "i."+s.Digest
	}
	next := 3
	if s.Digest != "" {
		next = 4
	}
	return &Table{
		digest: s.Digest != "",
		// A concurrent delivery of the same event waits for the lock on its row until
		// the first has ended.
		receive: fmt.Sprintf(`INSERT INTO %s AS i (%s, subject%s) VALUES ($1, $2%s)
			ON CONFLICT (%[2]s) DO UPDATE SET subject = i.subject RETURNING %[5]s, i.processed_at`, s.Name, s.ID, columns, values, returned),
		process: fmt.Sprintf(`UPDATE %s SET processed_at = now(), last_error = NULL WHERE %s = $1 RETURNING 1`, s.Name, s.ID),
		count: fmt.Sprintf(`INSERT INTO %s AS i (%s, subject%s, attempts, last_error) VALUES ($1, $2%s, 1, $%d)
			ON CONFLICT (%[2]s) DO UPDATE SET attempts = i.attempts + 1, last_error = excluded.last_error
			RETURNING i.attempts`, s.Name, s.ID, columns, values, next),
	}
}

func (t *Table) args(e Event) []any {
	args := []any{e.ID, e.Subject}
	if t.digest {
		args = append(args, e.Digest[:])
	}
	return args
}

// Receive notes an event. Until it is Processed it counts as first.
func (t *Table) Receive(ctx context.Context, q Querier, e Event) (Reception, error) {
	var digest []byte
	var processed *time.Time
	err := q.QueryRow(ctx, t.receive, t.args(e)...).Scan(&digest, &processed)
	switch {
	case err != nil:
		return 0, fmt.Errorf("receive event: %w", err)
	case t.digest && string(digest) != string(e.Digest[:]):
		return Other, nil
	case processed != nil:
		return Again, nil
	}
	return First, nil
}

// Processed notes that an event has had its effect.
func (t *Table) Processed(ctx context.Context, q Querier, e Event) error {
	if err := q.QueryRow(ctx, t.process, e.ID).Scan(new(int)); err != nil {
		return fmt.Errorf("mark event: %w", err)
	}
	return nil
}

const maxLastError = 500

// Failed counts one more failed delivery and returns how many there were. A failure
// that is a server's says nothing about the event and is not counted: an outage must
// not empty the subscriptions into the dead-letter topics.
func (t *Table) Failed(ctx context.Context, q Querier, f Failure) (int, error) {
	if f.Away || postgres.Unavailable(f.Cause) {
		return 0, nil
	}
	text := strings.ToValidUTF8(strings.ReplaceAll(f.Cause.Error(), "\x00", ""), "")
	if len(text) > maxLastError {
		text = strings.ToValidUTF8(text[:maxLastError], "")
	}
	var attempts int
	if err := q.QueryRow(ctx, t.count, append(t.args(f.Event), text)...).Scan(&attempts); err != nil {
		return 0, fmt.Errorf("count attempt: %w", err)
	}
	return attempts, nil
}

// Failure is a failed delivery.
type Failure struct {
	Event Event
	Cause error
	Away  bool // the cause is a server that is unreachable
}

// EventOf names a delivery: by the event in it or, if it cannot be read, by Pub/Sub's
// own id.
func EventOf(d pubsub.Delivery) Event {
	e, err := bff.ParseReceived(d.Data)
	if err != nil {
		return Event{ID: "message:" + d.ID, Subject: d.Topic, Digest: sha256.Sum256(d.Data)}
	}
	return Event{ID: e.ID, Subject: e.Subject, Digest: Digest(e)}
}

// Inbox is a table in a database, for receivers whose effects are elsewhere.
type Inbox struct {
	db    *pgxpool.Pool
	table *Table
	away  []error
}

// New returns the inbox in a database. Failures that wrap one of away are a server's and
// are not counted.
func New(db *pgxpool.Pool, table *Table, away ...error) *Inbox {
	return &Inbox{db: db, table: table, away: away}
}

var _ pubsub.Attempts = (*Inbox)(nil)

// Receive is the table's.
func (i *Inbox) Receive(ctx context.Context, e Event) (Reception, error) {
	return i.table.Receive(ctx, i.db, e)
}

// Processed is the table's.
func (i *Inbox) Processed(ctx context.Context, e Event) error {
	return i.table.Processed(ctx, i.db, e)
}

// Failed implements pubsub.Attempts.
func (i *Inbox) Failed(ctx context.Context, d pubsub.Delivery, cause error) (int, error) {
	away := slices.ContainsFunc(i.away, func(err error) bool { return errors.Is(cause, err) })
	return i.table.Failed(ctx, i.db, Failure{Event: EventOf(d), Cause: cause, Away: away})
}
