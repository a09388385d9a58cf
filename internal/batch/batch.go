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

// Config says how items are written.
type Config[T any] struct {
	// Write writes the items together, all or none. It is called by one caller at a
	// time and its context does not end with that caller's.
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
	cfg    Config[T]
	sem    chan struct{} // held by the one write under way
	mu     sync.Mutex
	queue  []*entry[T]
	queued int // weight
	closed bool
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
	return &Writer[T]{cfg: cfg, sem: make(chan struct{}, 1)}
}

// Add returns nil only after the item is written. When ctx ends first, the item may
// still be written later; it is written at most once.
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
	w.mu.Unlock()
	for {
		select {
		case err := <-e.done:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case w.sem <- struct{}{}: // no write is under way: this caller writes for all
			w.flush(ctx)
		}
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
	w.mu.Unlock()
	for {
		w.mu.Lock()
		left := len(w.queue)
		w.mu.Unlock()
		select {
		case w.sem <- struct{}{}:
			if left == 0 {
				<-w.sem
				return nil
			}
			w.flush(ctx)
		case <-ctx.Done():
			return fmt.Errorf("close batch: %w", context.Cause(ctx))
		}
	}
}

// take removes the oldest entries, up to one write's worth.
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
	return taken
}

// flush writes once and gives up its turn.
func (w *Writer[T]) flush(ctx context.Context) {
	defer func() { <-w.sem }()
	taken := w.take()
	if len(taken) == 0 {
		return
	}
	// The others' items must not die with the caller that happens to write.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.Timeout)
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
