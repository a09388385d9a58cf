package consumerhttp

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Bounds of the work behind answers. It is of the kind that may be lost: what a
// client was promised is never done here.
const (
	behindQueue   = 4096
	behindWorkers = 8
	behindBudget  = 2 * time.Second
)

// background runs small jobs after the answer is on its way, so that a guest
// does not wait for our bookkeeping. It is bounded: when the stores are slow,
// jobs are dropped and counted, and never pile up.
type background struct {
	dropped prometheus.Counter

	mu      sync.Mutex
	queue   []func(context.Context)
	workers int
	closed  bool
	done    sync.WaitGroup // of the workers
}

func newBackground(reg prometheus.Registerer) *background {
	b := &background{dropped: prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "bff_consumer", Name: "behind_dropped_total", Help: "Jobs behind answers that were dropped because too many waited.",
	})}
	if reg != nil {
		reg.MustRegister(b.dropped)
	}
	return b
}

// do queues a job and reports whether it was taken. Workers come with the work
// and go with it.
func (b *background) do(job func(context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || len(b.queue) >= behindQueue {
		b.dropped.Inc()
		return false
	}
	b.queue = append(b.queue, job)
	if b.workers < behindWorkers {
		b.workers++
		b.done.Go(b.work)
	}
	return true
}

func (b *background) work() {
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

func (b *background) run(job func(context.Context)) {
	ctx, cancel := context.WithTimeout(context.Background(), behindBudget)
	defer cancel()
	job(ctx)
}

// close takes no more jobs and returns when the queue is empty.
func (b *background) close(ctx context.Context) error {
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

// behind runs a job after the answer is on its way. The job gets a context of
// its own, outlives the request and must not touch it.
func (a *API) behind(job func(ctx context.Context)) { a.background.do(job) }

// Close finishes the work behind the answers already given.
func (a *API) Close(ctx context.Context) error {
	return errors.Join(a.recorder.close(ctx), a.background.close(ctx))
}
