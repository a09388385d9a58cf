package consumerhttp

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestBackgroundIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		b := newBackground(reg)
		blocked := make(chan struct{})
		var done atomic.Int32
		const jobs = behindQueue + 2*behindWorkers
		taken := 0
		for range jobs {
			if b.do(func(context.Context) {
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
		if n := metrics[0].GetMetric()[0].GetCounter().GetValue(); taken < behindQueue || taken > behindQueue+behindWorkers || int(n) != jobs-taken {
			t.Errorf("%d taken and %v dropped of %d", taken, n, jobs)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close with stuck jobs: %v", err)
		}
		close(blocked)
		if err := b.close(t.Context()); err != nil || int(done.Load()) != taken {
			t.Errorf("drained %d of %d, %v", done.Load(), taken, err)
		}
		if b.do(func(context.Context) {}) {
			t.Error("a job was taken after the close")
		}
	})
}

func TestBackgroundJobsHaveADeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackground(nil)
		var wg sync.WaitGroup
		wg.Add(1)
		began := time.Now()
		b.do(func(ctx context.Context) {
			defer wg.Done()
			<-ctx.Done()
		})
		wg.Wait()
		if took := time.Since(began); took != behindBudget {
			t.Errorf("a job ran for %s, want %s", took, behindBudget)
		}
	})
}
