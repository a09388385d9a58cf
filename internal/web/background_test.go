package web

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"melmastoon.ghasi.io/bff/internal/tracing"
	"melmastoon.ghasi.io/bff/internal/tracing/tracingtest"
)

func TestBackgroundIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const queue, workers = 64, 8
		reg := prometheus.NewRegistry()
		b := NewBackground(BackgroundConfig{Queue: queue, Workers: workers, Metrics: reg, Namespace: "test"})
		blocked := make(chan struct{})
		var done atomic.Int32
		const jobs = queue + 2*workers
		taken := 0
		for range jobs {
			if b.Do(func(context.Context) {
				<-blocked
				done.Add(1)
			}) {
				taken++
			}
		}
		synctest.Wait()
		metrics, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		if n := metrics[0].GetMetric()[0].GetCounter().GetValue(); taken < queue || taken > queue+workers || int(n) != jobs-taken {
			t.Errorf("%d taken and %v dropped of %d", taken, n, jobs)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close with stuck jobs: %v", err)
		}
		close(blocked)
		if err := b.Close(t.Context()); err != nil || int(done.Load()) != taken {
			t.Errorf("drained %d of %d, %v", done.Load(), taken, err)
		}
		if b.Do(func(context.Context) {}) {
			t.Error("a job was taken after the close")
		}
	})
}

func TestBackgroundJobsHaveADeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBackground(BackgroundConfig{Budget: 3 * time.Second})
		var wg sync.WaitGroup
		wg.Add(1)
		began := time.Now()
		b.Do(func(ctx context.Context) {
			defer wg.Done()
			<-ctx.Done()
		})
		wg.Wait()
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("a job ran for %s, want 3s", took)
		}
	})
}

// TestBackgroundKeepsTheTrace of the work that queued a job.
func TestBackgroundKeepsTheTrace(t *testing.T) {
	t.Parallel()
	tracer, _ := tracingtest.New(1)
	recorded, span := tracer.Begin(t.Context(), "request", trace.SpanKindServer)
	for want, ctx := range map[trace.Span]context.Context{span: recorded, nil: t.Context()} {
		b := NewBackground(BackgroundConfig{})
		var got trace.Span
		b.DoFor(ctx, func(ctx context.Context) { got = tracing.Of(ctx) })
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("the job is recorded under %v, want %v", got, want)
		}
	}
}
