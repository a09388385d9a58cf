package web

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff/internal/tracing"
)

// BackgroundConfig bounds the work behind answers; zero fields have defaults.
type BackgroundConfig struct {
	Queue   int           // jobs that may wait; 4096
	Workers int           // jobs at once; 8
	Budget  time.Duration // the longest time of a job; 2 s
	// Metrics and Namespace count the jobs that were dropped; nil = nothing does.
	Metrics   prometheus.Registerer
	Namespace string
}

// Background runs small jobs after the answer is on its way, so that a client
// does not wait for bookkeeping. It is for work that may be lost, never for what
// a client was promised: when the stores are slow, jobs are dropped and counted,
// and never pile up.
type Background struct {
	cfg     BackgroundConfig
	dropped prometheus.Counter

	mu      sync.Mutex
	queue   []func(context.Context)
	workers int
	closed  bool
	done    sync.WaitGroup // of the workers
}

// NewBackground returns a queue without jobs.
func NewBackground(cfg BackgroundConfig) *Background {
	if cfg.Queue == 0 {
		cfg.Queue = 4096
	}
	if cfg.Workers == 0 {
		cfg.Workers = 8
	}
	if cfg.Budget == 0 {
		cfg.Budget = 2 * time.Second
	}
	b := &Background{cfg: cfg, dropped: prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: cfg.Namespace, Name: "behind_dropped_total", Help: "Jobs behind answers that were dropped because too many waited.",
	})}
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(b.dropped)
	}
	return b
}

// Do queues a job and reports whether it was taken. The job gets a context of its
// own, outlives the request and must not touch it. Workers are started with the
// first job and end with the last.
func (b *Background) Do(job func(context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || len(b.queue) >= b.cfg.Queue {
		b.dropped.Inc()
		return false
	}
	b.queue = append(b.queue, job)
	if b.workers < b.cfg.Workers {
		b.workers++
		b.done.Go(b.work)
	}
	return true
}

// DoFor is Do for a job that the work under ctx caused: it belongs to the same trace.
func (b *Background) DoFor(ctx context.Context, job func(context.Context)) bool {
	span := tracing.Of(ctx)
	if span == nil {
		return b.Do(job)
	}
	return b.Do(func(ctx context.Context) { job(tracing.Under(ctx, span)) })
}

// Drop counts a job that its owner had to drop before it could be queued.
func (b *Background) Drop() { b.dropped.Inc() }

func (b *Background) work() {
	for {
		b.mu.Lock()
		if len(b.queue) == 0 {
			b.workers--
			b.mu.Unlock()
			return
		}
		job := b.queue[0]
		b.queue[0] = nil
		b.queue = b.queue[1:]
		b.mu.Unlock()
		b.run(job)
	}
}

func (b *Background) run(job func(context.Context)) {
	ctx, cancel := context.WithTimeout(context.Background(), b.cfg.Budget)
	defer cancel()
	job(ctx)
}

// Close takes no more jobs and returns when the queue is empty.
func (b *Background) Close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		b.done.Wait()
		close(idle)
	}()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
