package upstream

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"melmastoon.ghasi.io/bff/internal/pause"
)

// An upstream that can take any load must not be protected from it, whatever
// its latencies do.
func TestLimiterLeavesTheHealthyAlone(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		spread   float64
		slower   int64   // times, after half of the time
		atOnce   int     // calls at the very start
		wantShed float64 // share of the calls, at most
	}{
		{name: "two very different routes", spread: 0.7, slower: 1, wantShed: 0},
		{name: "twice as slow by itself", spread: 0.7, slower: 2, wantShed: 0.03},
		{name: "twice as slow by itself, evenly", spread: 0.2, slower: 2, wantShed: 0.03},
		{name: "cold burst", spread: 0.5, slower: 1, atOnce: 120, wantShed: 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var factor atomic.Int64
				factor.Store(1)
				c := newClient(t, Config{Timeout: 4 * time.Second, Transport: far(func(r *http.Request) int {
					median := 5 * time.Millisecond
					if r.URL.Path == "/slow" {
						median = 150 * time.Millisecond
					}
					pause.For(r.Context(), lognormal(median, tt.spread)*time.Duration(factor.Load()))
					return http.StatusOK
				})})
				var all sync.WaitGroup
				var calls, shed atomic.Int64
				call := func(route string) {
					all.Go(func() {
						calls.Add(1)
						if ReasonOf(c.Get(t.Context(), route, route, nil, nil)) == Shed {
							shed.Add(1)
						}
					})
				}
				for range tt.atOnce {
					call("/slow")
				}
				for begin := time.Now(); time.Since(begin) < 30*time.Second; {
					pause.For(t.Context(), time.Duration(rand.ExpFloat64()*float64(time.Second)/300))
					call([]string{"/slow", "/fast"}[rand.IntN(2)])
					if time.Since(begin) > 15*time.Second {
						factor.Store(tt.slower)
					}
				}
				all.Wait()
				if got := float64(shed.Load()) / float64(calls.Load()); got > tt.wantShed {
					t.Errorf("shed %.1f %%, want at most %.1f %%", 100*got, 100*tt.wantShed)
				}
			})
		})
	}
}

func TestLimiterPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newClient(t, Config{MaxConcurrent: 2, Timeout: 400 * time.Millisecond}).limiter
		take := func(ctx context.Context) <-chan error {
			done := make(chan error, 1)
			go func() {
				_, err := l.acquire(ctx, &call{route: "/r", cap: 400 * time.Millisecond})
				done <- err
			}()
			synctest.Wait()
			return done
		}
		a, err := l.acquire(t.Context(), &call{route: "/r", cap: 400 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := l.spare("/r"); !ok {
			t.Error("no spare place with one of two taken")
		}
		if _, ok := l.spare("/r"); ok {
			t.Error("a spare place with both taken")
		}

		gone, cancel := context.WithCancel(t.Context())
		left, first, second := take(gone), take(t.Context()), take(t.Context())
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("a waiter that left: %v", err)
		}
		a.drop()
		if err := <-first; err != nil {
			t.Errorf("first come: %v", err)
		}
		if err := <-second; !errors.Is(err, errSaturated) { // after its time
			t.Errorf("second come: %v", err)
		}
		if l.inflight != 2 || l.waiters.Len() != 0 {
			t.Errorf("%d under way, %d waiting", l.inflight, l.waiters.Len())
		}
	})
}

// TestLimiterBurst: all desks come back at once, each for another tenant. A healthy upstream
// answers every one of them, and is asked once for each.
func TestLimiterBurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		c := newClient(t, Config{Timeout: 800 * time.Millisecond, Retries: 1, FairBy: "X-Tenant-Id", Transport: far(func(r *http.Request) int {
			asked.Add(1)
			pause.For(r.Context(), 50*time.Millisecond)
			return http.StatusOK
		})})
		const desks = 1000
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		var all sync.WaitGroup
		for i := range desks {
			all.Go(func() {
				if err := c.Get(ctx, "/r", "/r", nil, nil, Header("X-Tenant-Id", strconv.Itoa(i))); err != nil {
					t.Errorf("tenant %d: %v", i, err)
				}
			})
		}
		all.Wait()
		if asked.Load() != desks {
			t.Errorf("asked %d times for %d desks", asked.Load(), desks)
		}
	})
}

// TestLimiterTurns: the calls of one tenant do not keep those of others waiting.
func TestLimiterTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		c := newClient(t, Config{MaxConcurrent: 1, FairBy: "X-Tenant-Id", Transport: far(func(r *http.Request) int {
			mu.Lock()
			order = append(order, r.Header.Get("X-Tenant-Id"))
			mu.Unlock()
			pause.For(r.Context(), time.Second)
			return http.StatusOK
		})})
		var all sync.WaitGroup
		for _, tenant := range []string{"a", "a", "a", "a", "b", "b", "c"} {
			all.Go(func() {
				if err := c.Get(t.Context(), "/r", "/r", nil, nil, Header("X-Tenant-Id", tenant)); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		all.Wait()
		if got := strings.Join(order, ""); got != "aabcaba" {
			t.Errorf("served in the order %s", got)
		}
	})
}

// TestWaitingIsOurs: the wait for a place is taken neither off the upstream's time nor from its
// good name, and a call does not go out to an upstream that was given up meanwhile.
func TestWaitingIsOurs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = time.Second
		var sent atomic.Int64
		failing := false
		c := newClient(t, Config{MaxConcurrent: 1, Timeout: limit, Breaker: BreakerConfig{Failures: 1}, Transport: far(func(r *http.Request) int {
			sent.Add(1)
			pause.For(r.Context(), limit*9/10)
			if failing {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		})})
		both := func() (first, second error) {
			var all sync.WaitGroup
			all.Go(func() { first = c.Get(t.Context(), "/r", "/r", nil, nil) })
			synctest.Wait()
			all.Go(func() { second = c.Get(t.Context(), "/r", "/r", nil, nil) })
			all.Wait()
			return first, second
		}
		if first, second := both(); first != nil || second != nil || c.State() != "closed" {
			t.Errorf("%v, %v, breaker %s", first, second, c.State())
		}
		sent.Store(0)
		failing = true
		if first, second := both(); ReasonOf(first) != Failed || ReasonOf(second) != Breaker || sent.Load() != 1 {
			t.Errorf("%v, %v, sent %d times", first, second, sent.Load())
		}
		if c.limiter.inflight != 0 {
			t.Errorf("%d places are still taken", c.limiter.inflight)
		}
	})
}

func TestAllowance(t *testing.T) {
	t.Parallel()
	a := newAllowance(0.25, 2, 1)
	if first, second := a.spend(), a.spend(); !first || second {
		t.Fatal("one token at the start, no more")
	}
	for range 100 {
		a.earn()
	}
	saved := 0
	for a.spend() {
		saved++
	}
	if saved != 2 {
		t.Fatalf("saved up %d, want 2", saved)
	}
}
