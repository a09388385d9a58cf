package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/batch"
	"melmastoon.ghasi.io/bff/internal/postgres"
)

const (
	flushEvents  = 500
	flushTimeout = 5 * time.Second
)

// ErrFull refuses an event because too many wait to be committed already.
var ErrFull = batch.ErrFull

// ErrClosed refuses an event after Close.
var ErrClosed = batch.ErrClosed

// Waker is told after a commit; a Relay or a Notifier.
type Waker interface{ Wake() }

// Appender appends events that belong to no transaction, such as telemetry, those
// of concurrent callers in one insert.
type Appender struct {
	db     *pgxpool.Pool
	table  *Table
	waker  Waker
	writer *batch.Writer[*columns] // of one caller's events each
}

// NewAppender returns an Appender that holds at most most events waiting.
func NewAppender(db *pgxpool.Pool, table *Table, waker Waker, most int) *Appender {
	a := &Appender{db: db, table: table, waker: waker}
	a.writer = batch.New(batch.Config[*columns]{
		Write: a.insert, Refused: postgres.Refused, Weight: func(c *columns) int { return len(c.ids) },
		Size: flushEvents, Most: most, Timeout: flushTimeout,
	})
	return a
}

// Append returns nil only after the events are committed. When ctx ends first
// the events may still be committed later; an event is written at most once.
func (a *Appender) Append(ctx context.Context, events ...bff.Event) error {
	if len(events) == 0 {
		return nil
	}
	c := newColumns(len(events))
	for i := range events {
		if err := a.table.encode(c, &events[i]); err != nil {
			return err
		}
	}
	if err := a.writer.Add(ctx, c); err != nil {
		return fmt.Errorf("append to outbox: %w", err)
	}
	return nil
}

// Close commits what waits and refuses the rest.
func (a *Appender) Close(ctx context.Context) error { return a.writer.Close(ctx) }

// insert may be repeated: an event that is there already is left alone, so a lost
// answer does no harm.
func (a *Appender) insert(ctx context.Context, entries []*columns) error {
	events := 0
	for _, e := range entries {
		events += len(e.ids)
	}
	c := newColumns(events)
	for _, e := range entries {
		c.append(e)
	}
	sql, args := a.table.insert(1)+" ON CONFLICT DO NOTHING", c.args(a.table)
	_, err := a.db.Exec(ctx, sql, args...)
	if postgres.Unavailable(err) && ctx.Err() == nil {
		_, err = a.db.Exec(ctx, sql, args...) // the pool may have lent a dead connection
	}
	if a.waker != nil {
		a.waker.Wake()
	}
	return err
}
