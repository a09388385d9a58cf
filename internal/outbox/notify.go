package outbox

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff/internal/pause"
)

const (
	// notifyEvery is the least time between two notifications of one process.
	notifyEvery   = 5 * time.Millisecond
	notifyTimeout = 2 * time.Second
)

// Notifier wakes the leader in another process. The notification is a
// transaction of its own, made by one goroutine at a bounded rate: writers pay
// for setting a flag.
type Notifier struct {
	db    *pgxpool.Pool
	table *Table
	log   *slog.Logger

	wake  chan struct{}
	start sync.Once
	stop  context.CancelFunc
	ctx   context.Context //nolint:containedctx // the life of the goroutine, not of a call
	done  sync.WaitGroup
}

// NewNotifier returns a Notifier whose goroutine starts with the first Wake.
func NewNotifier(db *pgxpool.Pool, table *Table, log *slog.Logger) *Notifier {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	return &Notifier{db: db, table: table, log: log, wake: make(chan struct{}, 1), ctx: ctx, stop: stop}
}

// Wake never blocks.
func (n *Notifier) Wake() {
	select {
	case n.wake <- struct{}{}:
		n.start.Do(func() { n.done.Go(n.run) })
	default:
	}
}

// Close ends the goroutine and waits for it. A wake-up that is lost with it costs
// one poll interval.
func (n *Notifier) Close() {
	n.stop()
	n.start.Do(func() {})
	n.done.Wait()
}

func (n *Notifier) run() {
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-n.wake:
		}
		ctx, cancel := context.WithTimeout(n.ctx, notifyTimeout)
		_, err := n.db.Exec(ctx, "SELECT pg_notify($1, '')", n.table.channel())
		cancel()
		if err != nil && n.ctx.Err() == nil {
			n.log.Debug("outbox notification failed", "table", n.table.name, "error", err)
		}
		if !pause.For(n.ctx, notifyEvery) {
			return
		}
	}
}
