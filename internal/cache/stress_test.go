package cache

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"melmastoon.ghasi.io/bff/internal/pause"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// Reads over many lifetimes: about one fill for each, and no reader waits or gets
// a stale body. Time is synthetic, so that "no reader waits" is exact.
func TestSteadyState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTestCache(t, newMemoryStore(t))
		src := newSource("body")
		fill := func(ctx context.Context) (Fill, error) {
			pause.For(ctx, 500*time.Millisecond)
			return src.fill(ctx)
		}
		read(t, c, "k", fill)
		const windows = 40
		begin := time.Now()
		for time.Since(begin) < windows*time.Minute {
			pause.For(t.Context(), 50*time.Millisecond)
			before := time.Now()
			_, st, err := c.Get(t.Context(), "k", fill)
			if err != nil || st.Result != Hit || time.Since(before) > 0 {
				t.Fatalf("after %v: %+v, %v, waited %v", time.Since(begin), st, err, time.Since(before))
			}
			if st.Age > time.Minute {
				t.Fatalf("hit of age %v", st.Age)
			}
		}
		pause.For(t.Context(), time.Second)
		if got := float64(src.calls.Load()-1) / windows; got > 1.05 {
			t.Errorf("%.3f fills per lifetime, want at most 1.05", got)
		}
	})
}

// Several processes read keys while their source changes and its changes are
// invalidated. A read after an invalidation was acknowledged, in the
// process that made it, sees the change or a later one; and all see the last
// one in the end.
func TestNoOldData(t *testing.T) {
	t.Parallel()
	eachTopology(t, func(t *testing.T, urls []string) {
		t.Helper()
		const processes, keys, changes = 3, 4, 150
		fx := newFixture(t, processes, urls)
		var source [keys]atomic.Int64          // the truth
		var told [processes][keys]atomic.Int64 // versions whose invalidation was acknowledged here
		fill := func(k int) FillFunc {
			return func(ctx context.Context) (Fill, error) {
				v := source[k].Load()
				pause.For(ctx, time.Duration(v%3)*time.Millisecond) // changes overtake fills
				return Fill{Body: []byte(strconv.FormatInt(v, 10)), Tags: []string{fmt.Sprint("tag:", k), "all"}}, nil
			}
		}
		get := func(p, k int) int64 {
			e, _, err := fx.caches[p].Get(t.Context(), fx.key(strconv.Itoa(k)), fill(k))
			if err != nil {
				t.Errorf("read: %v", err)
				return 0
			}
			v, err := strconv.ParseInt(string(e.Body()), 10, 64)
			if err != nil {
				t.Error(err)
			}
			return v
		}
		ctx, stop := context.WithCancel(t.Context())
		var readers, writers sync.WaitGroup
		for p := range processes {
			for range 4 {
				readers.Go(func() {
					for i := 0; ctx.Err() == nil; i++ {
						k := i % keys
						floor := told[p][k].Load()
						if got := get(p, k); got < floor {
							t.Errorf("process %d reads version %d of key %d, was told of %d", p, got, k, floor)
							return
						}
					}
				})
			}
			writers.Go(func() {
				for i := range changes {
					k := (i + p) % keys
					v := source[k].Add(1)
					if err := fx.stores[p].Invalidate(ctx, fmt.Sprint("tag:", k)); err != nil {
						t.Errorf("invalidate: %v", err)
						return
					}
					for old := told[p][k].Load(); old < v && !told[p][k].CompareAndSwap(old, v); old = told[p][k].Load() {
					}
				}
			})
		}
		writers.Wait()
		stop()
		readers.Wait()
		for p := range processes {
			for k := range keys {
				testkit.Until(t, "last version everywhere", func() bool { return get(p, k) == source[k].Load() })
			}
		}
	})
}

// A process that is shut down while it leads hands over: no reader elsewhere
// fails.
func TestLeaderCloses(t *testing.T) {
	t.Parallel()
	eachTopology(t, func(t *testing.T, urls []string) {
		t.Helper()
		fx := newFixture(t, 2, urls)
		k := fx.key("k")
		begun := make(chan struct{})
		var ends sync.WaitGroup
		ends.Go(func() {
			_, _, err := fx.caches[0].Get(t.Context(), k, func(ctx context.Context) (Fill, error) {
				close(begun)
				<-ctx.Done()
				return Fill{Body: []byte("half")}, context.Cause(ctx)
			})
			if err == nil {
				t.Error("cancelled fill: no error")
			}
		})
		<-begun
		src := newSource("whole")
		ends.Go(func() {
			if got := read(t, fx.caches[1], k, src.fill); got.Body != "whole" {
				t.Errorf("follower: %+v", got)
			}
		})
		testkit.Until(t, "follower waits", func() bool {
			fx.stores[1].bus.mu.Lock()
			defer fx.stores[1].bus.mu.Unlock()
			return len(fx.stores[1].bus.watchers) == 1
		})
		now, cancel := context.WithCancel(t.Context())
		cancel() // no time to finish
		if err := fx.stores[0].Close(now); err == nil {
			t.Error("close says nothing of the fill it cancelled")
		}
		ends.Wait()
	})
}
