// Package batch lets concurrent callers share writes: while one write is under
// way, what the others bring gathers for the next. The busier, the fewer writes
// per item; no caller waits for a timer, and each is answered after the write that
// had its item. Items that no caller waits for may gather longer. It does not know
// what is written where.
package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	// Pause is the least time between the beginnings of two writes, by how many items the
	// first had, while no caller waits; nil = none.
	Pause func(items int) time.Duration
}

// Writer gathers items and writes them.
type Writer[T any] struct {
	cfg     Config[T]
	mu      sync.Mutex
	queue   []entry[T]
	queued  int // weight
	closed  bool
	writing chan struct{} // closed when all is written; nil while there is nothing to write
	hurry   chan struct{} // a caller waits
}

type entry[T any] struct {
	item  T
	flush bool       // there is no item, only a caller that waits for those before
	done  chan error // nil = no caller waits
	span  trace.Span // of the caller; nil if it is not recorded
}

// New returns a Writer.
func New[T any](cfg Config[T]) *Writer[T] {
	if cfg.Weight == nil {
		cfg.Weight = func(T) int { return 1 }
	}
	cfg.Most = max(1, cfg.Most)
	return &Writer[T]{cfg: cfg, hurry: make(chan struct{}, 1)}
}

// Add returns nil only after the item is written. A caller waits no longer than its
// own ctx, also while the write hangs; when that ends first, the item may still be
// written later (at most once), and the error is ErrLate or the caller's cancellation.
func (w *Writer[T]) Add(ctx context.Context, item T) error {
	return w.wait(ctx, entry[T]{item: item, span: tracing.Of(ctx)})
}

// Put queues an item that no caller waits for, and which may be lost with the process.
func (w *Writer[T]) Put(span trace.Span, item T) error {
	return w.enqueue(entry[T]{item: item, span: span})
}

// Flush returns after everything that was put before is written, or when ctx ends.
func (w *Writer[T]) Flush(ctx context.Context) error {
	w.mu.Lock()
	idle := w.writing == nil
	w.mu.Unlock()
	if idle {
		return nil
	}
	return w.wait(ctx, entry[T]{flush: true})
}

// wait queues an entry and returns after its write.
func (w *Writer[T]) wait(ctx context.Context, e entry[T]) error {
	done := make(chan error, 1)
	e.done = done
	if err := w.enqueue(e); err != nil {
		return err
	}
	w.wake()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.Canceled) {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%w: %w", ErrLate, context.Cause(ctx))
	}
}

// wake ends a pause.
func (w *Writer[T]) wake() {
	select {
	case w.hurry <- struct{}{}:
	default:
	}
}

func (w *Writer[T]) weight(e *entry[T]) int {
	if e.flush {
		return 0
	}
	return w.cfg.Weight(e.item)
}

func (w *Writer[T]) enqueue(e entry[T]) error {
	weight := w.weight(&e)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return ErrClosed
	case w.queued+weight > w.cfg.Most:
		return ErrFull
	}
	w.queue = append(w.queue, e)
	w.queued += weight
	if w.writing == nil {
		w.writing = make(chan struct{})
		go w.run(w.writing)
	}
	return nil
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
	w.wake()
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
	var taken []entry[T]
	for {
		began := time.Now()
		if taken = w.take(taken); len(taken) == 0 {
			return
		}
		w.write(taken)
		clear(taken)
		w.pause(len(taken), began)
	}
}

// pause lets items gather, unless they fill the next write.
func (w *Writer[T]) pause(written int, began time.Time) {
	if w.cfg.Pause == nil || w.full() {
		return
	}
	select {
	case <-time.After(w.cfg.Pause(written) - time.Since(began)):
	case <-w.hurry:
	}
}

// full reports whether the next write need not wait for more.
func (w *Writer[T]) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed || w.queued >= w.cfg.Size
}

// take removes the oldest entries, up to one write's worth. Without any the writing
// has ended.
func (w *Writer[T]) take(taken []entry[T]) []entry[T] {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, weight := 0, 0
	for n < len(w.queue) && (n == 0 || weight+w.weight(&w.queue[n]) <= w.cfg.Size) {
		weight += w.weight(&w.queue[n])
		n++
	}
	taken = append(taken[:0], w.queue[:n]...)
	w.queue = slices.Delete(w.queue, 0, n)
	w.queued -= weight
	if n == 0 {
		w.writing = nil
	}
	return taken
}

// write writes once and answers the callers.
func (w *Writer[T]) write(taken []entry[T]) {
	ctx, cancel := context.WithTimeout(context.Background(), w.cfg.Timeout)
	defer cancel()
	ctx = tracing.Under(ctx, recorded(taken))
	items := make([]T, 0, len(taken))
	for i := range taken {
		if !taken[i].flush {
			items = append(items, taken[i].item)
		}
	}
	var err error
	if len(items) > 0 {
		err = w.cfg.Write(ctx, items)
	}
	alone := err != nil && len(items) > 1 && w.cfg.Refused(err)
	for i := range taken {
		e := &taken[i]
		if alone && !e.flush {
			err = w.cfg.Write(ctx, []T{e.item})
		}
		if e.done != nil {
			e.done <- err
		}
	}
}

// recorded is the span of the first recorded caller, or nil. The write is made once
// for all and shows in that one's trace, whichever of them makes it.
func recorded[T any](taken []entry[T]) trace.Span {
	for i := range taken {
		if taken[i].span != nil {
			return taken[i].span
		}
	}
	return nil
}
