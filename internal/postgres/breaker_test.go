package postgres

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Only a probe that is not answered says that Postgres is away; a refusal is an
// answer. Many that suspect are one probe at a time.
func TestProbesDecide(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var (
			hangs  atomic.Bool
			probes atomic.Int32
		)
		b := NewBreaker(prometheus.NewRegistry(), "test")
		defer b.Close()
		b.probe = func(ctx context.Context) error {
			probes.Add(1)
			if hangs.Load() {
				<-ctx.Done()
				return ctx.Err()
			}
			return errors.New("too many clients already")
		}
		suspects := func() {
			for range 10 {
				b.suspect()
			}
			synctest.Wait()
		}
		suspects()
		if b.away.Load() || probes.Load() == 0 {
			t.Errorf("%d probes refused: away %v", probes.Load(), b.away.Load())
		}
		hangs.Store(true)
		probes.Store(0)
		suspects()
		if b.away.Load() {
			t.Error("away before the probe is decided")
		}
		<-time.After(probeTimeout)
		synctest.Wait()
		if !b.away.Load() || probes.Load() != 1 {
			t.Errorf("away %v after %d probes, want true after 1", b.away.Load(), probes.Load())
		}
		<-time.After(10 * (probeTimeout + probePause))
		if n := probes.Load(); n < 10 || n > 12 {
			t.Errorf("%d probes in the time of ten", n)
		}
		hangs.Store(false)
		<-time.After(probeTimeout + probePause)
		synctest.Wait()
		if b.away.Load() {
			t.Error("away although a probe was answered")
		}
		hangs.Store(true)
		suspects()
		b.Close()
		synctest.Wait() // the probe ends with it, or the test does not
		if b.away.Load() {
			t.Error("a probe that was ended says nothing")
		}
	})
}
