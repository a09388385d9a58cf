package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/postgres"
)

const (
	flushEvents  = 500
	flushTimeout = 5 * time.Second
)

// ErrFull refuses an event because too many wait to be committed already.
var ErrFull = errors.New("outbox appender is full")

// ErrClosed refuses an event after Close.
var ErrClosed = errors.New("outbox appender is closed")

// Waker is told after a commit; a Relay or a Notifier.
type Waker interface{ Wake() }

// Appender appends events that belong to no transaction, such as telemetry. While
// one insert is on its way, the events of all callers gather for the next: the
// busier, the fewer commits per event, and no caller waits for a timer.
type Appender struct {
	db     *pgxpool.Pool
	table  *Table
	waker  Waker
	most   int
	sem    chan struct{} // held by the one insert under way
	mu     sync.Mutex
	queue  []*entry
	queued int // events
	closed bool
}

// entry is one caller's events, committed together.
type entry struct {
	columns columns
	done    chan error
}

// NewAppender returns an Appender that holds at most most events waiting.
func NewAppender(db *pgxpool.Pool, table *Table, waker Waker, most int) *Appender {
	return &Appender{db: db, table: table, waker: waker, most: max(1, most), sem: make(chan struct{}, 1)}
}

// Append returns nil only after the events are committed. When ctx ends first
// the events may still be committed later; an event is written at most once.
func (a *Appender) Append(ctx context.Context, events ...bff.Event) error {
	if len(events) == 0 {
		return nil
	}
	e := &entry{done: make(chan error, 1)}
	for i := range events {
		if err := a.table.encode(&e.columns, &events[i]); err != nil {
			return err
		}
	}
	a.mu.Lock()
	switch {
	case a.closed:
		a.mu.Unlock()
		return ErrClosed
	case a.queued+len(events) > a.most:
		a.mu.Unlock()
		return ErrFull
	}
	a.queue = append(a.queue, e)
	a.queued += len(events)
	a.mu.Unlock()
	for {
		select {
		case err := <-e.done:
			return err
		case <-ctx.Done():
			return fmt.Errorf("append to outbox: %w", context.Cause(ctx))
		case a.sem <- struct{}{}: // no insert is under way: this caller inserts for all
			a.flush(ctx)
			<-a.sem
		}
	}
}

// Close commits what waits and refuses the rest.
func (a *Appender) Close(ctx context.Context) error {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	for {
		a.mu.Lock()
		left := len(a.queue)
		a.mu.Unlock()
		select {
		case a.sem <- struct{}{}:
			if left == 0 {
				<-a.sem
				return nil
			}
			a.flush(ctx)
			<-a.sem
		case <-ctx.Done():
			return fmt.Errorf("close outbox appender: %w", context.Cause(ctx))
		}
	}
}

// take removes the oldest entries, up to one insert's worth.
func (a *Appender) take() []*entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, events := 0, 0
	for n < len(a.queue) && (n == 0 || events+len(a.queue[n].columns.ids) <= flushEvents) {
		events += len(a.queue[n].columns.ids)
		n++
	}
	batch := a.queue[:n:n]
	a.queue = a.queue[n:]
	a.queued -= events
	return batch
}

func (a *Appender) flush(ctx context.Context) {
	batch := a.take()
	if len(batch) == 0 {
		return
	}
	// The others' events must not die with the caller who happens to insert.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	err := a.insert(ctx, batch)
	if refused(err) && len(batch) > 1 {
		for i := range batch { // one of them is to blame: the others must not pay
			batch[i].done <- a.insert(ctx, batch[i:i+1])
		}
	} else {
		for _, e := range batch {
			e.done <- err
		}
	}
	if a.waker != nil {
		a.waker.Wake()
	}
}

// insert may be repeated: an event that is there already is left alone, so a lost
// answer does no harm.
func (a *Appender) insert(ctx context.Context, batch []*entry) error {
	var c columns
	for _, e := range batch {
		c.append(&e.columns)
	}
	sql, args := a.table.insert(1)+" ON CONFLICT DO NOTHING", c.args(a.table)
	_, err := a.db.Exec(ctx, sql, args...)
	if postgres.Unavailable(err) && ctx.Err() == nil {
		_, err = a.db.Exec(ctx, sql, args...) // the pool may have lent a dead connection
	}
	if err != nil {
		return fmt.Errorf("append to outbox: %w", err)
	}
	return nil
}

// refused reports that the server took offence at the data.
func refused(err error) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && len(pe.Code) == 5 && (pe.Code[:2] == "22" || pe.Code[:2] == "23")
}
