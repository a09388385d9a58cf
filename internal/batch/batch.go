// Package batch lets concurrent callers share writes: while one write is under
// way, what the others bring gathers for the next. The busier, the fewer writes
// per item; no caller waits for a timer, and each is answered after the write that
// had its item. It does not know what is written where.
package batch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"melmastoon.ghasi.io/bff/internal/tracing"
)

// ErrFull refuses an item because too many wait already.
var ErrFull = errors.New("batch is full")

// ErrClosed refuses an item after Close.
var ErrClosed = errors.New("batch is closed")

// ErrLate is the answer to a caller whose time ended before its write did. The item
// may be written yet.
var ErrLate = errors.New("batch is not written in time")

// Config says how items are written.
type Config[T any] struct {
	// Write writes the items together, all or none; one write at a time. Its context
	// is of no caller: the others' items must not die with one that leaves.
	Write func(ctx context.Context, items []T) error
	// Refused reports an error for which one item may be to blame: then each is
	// written alone, and the others do not pay for it.
	Refused func(error) bool
	Weight  func(T) int   // of an item; nil = 1 each
	Size    int           // weight of one write
	Most    int           // weight that may wait
	Timeout time.Duration // of one write
}

// Writer gathers items and writes them.
type Writer[T any] struct {
	cfg     Config[T]
	mu      sync.Mutex
	queue   []*entry[T]
	queued  int // weight
	closed  bool
	writing chan struct{} // closed when all is written; nil while there is nothing to write
}

type entry[T any] struct {
	item T
	done chan error
	span trace.Span // of the caller; nil if it is not recorded
}

// New returns a Writer.
func New[T any](cfg Config[T]) *Writer[T] {
	if cfg.Weight == nil {
		cfg.Weight = func(T) int { return 1 }
	}
	cfg.Most = max(1, cfg.Most)
	return &Writer[T]{cfg: cfg}
}

// Add returns nil only after the item is written. A caller waits no longer than its
// own ctx, also while the write hangs; when that ends first, the item may still be
// written later (at most once), and the error is ErrLate or the caller's cancellation.
func (w *Writer[T]) Add(ctx context.Context, item T) error {
	e := &entry[T]{item: item, done: make(chan error, 1), span: tracing.Of(ctx)}
	weight := w.cfg.Weight(item)
	w.mu.Lock()
	switch {
	case w.closed:
		w.mu.Unlock()
		return ErrClosed
	case w.queued+weight > w.cfg.Most:
		w.mu.Unlock()
		return ErrFull
	}
	w.queue = append(w.queue, e)
	w.queued += weight
	if w.writing == nil {
		w.writing = make(chan struct{})
		go w.run(w.writing)
	}
	w.mu.Unlock()
	select {
	case err := <-e.done:
		return err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.Canceled) {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%w: %w", ErrLate, context.Cause(ctx))
	}
}

// Waiting is the weight of what waits for its write.
func (w *Writer[T]) Waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queued
}

// Close writes what waits and refuses the rest.
func (w *Writer[T]) Close(ctx context.Context) error {
	w.mu.Lock()
	w.closed = true
	writing := w.writing
	w.mu.Unlock()
	if writing == nil {
		return nil
	}
	select {
	case <-writing:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close batch: %w", context.Cause(ctx))
	}
}

// run writes until nothing waits.
func (w *Writer[T]) run(done chan struct{}) {
	defer close(done)
	for taken := w.take(); len(taken) > 0; taken = w.take() {
		w.write(taken)
	}
}

// take removes the oldest entries, up to one write's worth. Without any the writing
// has ended.
func (w *Writer[T]) take() []*entry[T] {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, weight := 0, 0
	for n < len(w.queue) && (n == 0 || weight+w.cfg.Weight(w.queue[n].item) <= w.cfg.Size) {
		weight += w.cfg.Weight(w.queue[n].item)
		n++
	}
	taken := w.queue[:n:n]
	w.queue = w.queue[n:]
	w.queued -= weight
	if n == 0 {
		w.queue, w.writing = nil, nil
	}
	return taken
}

// write writes once and answers the callers.
func (w *Writer[T]) write(taken []*entry[T]) {
	ctx, cancel := context.WithTimeout(context.Background(), w.cfg.Timeout)
	defer cancel()
	items := make([]T, len(taken))
	for i, e := range taken {
		items[i] = e.item
	}
	ctx = tracing.Under(ctx, recorded(taken))
	err := w.cfg.Write(ctx, items)
	if err != nil && len(taken) > 1 && w.cfg.Refused(err) {
		for i, e := range taken {
			e.done <- w.cfg.Write(ctx, items[i:i+1])
		}
		return
	}
	for _, e := range taken {
		e.done <- err
	}
}

// recorded is the span of the first recorded caller, or nil. The write is made once
// for all and shows in that one's trace, whichever of them makes it.
func recorded[T any](taken []*entry[T]) trace.Span {
	for _, e := range taken {
		if e.span != nil {
			return e.span
		}
	}
	return nil
}
