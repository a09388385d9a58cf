package ratelimit

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestSourceAway(t *testing.T) {
	t.Parallel()
	source := &awayable{Source: NewMemory()}
	source.away.Store(true)
	l := newLimiter(t, Config{Source: source})
	key := rule(t, l, "search").Key("a")
	r := newRequest([]Key{key}, start)
	if _, ok := l.pass(r, false); !ok {
		t.Fatal("the first request had to wait")
	}
	reconcile(t, l)
	if !l.offline.Load() || l.Stats().Failures != 1 {
		t.Fatalf("offline %t after %d failures", l.offline.Load(), l.Stats().Failures)
	}
	// A third of 60, the first included, and then a third of the rate.
	if got := admitted(l, 100, start, key); got != 20 {
		t.Errorf("local share admits %d, want 20", got)
	}
	if d := l.Allow(t.Context(), []Key{key}, 1, start); d.RetryAfter != 3*time.Second {
		t.Errorf("retry after %v, want 3s", d.RetryAfter)
	}
	if got := admitted(l, 100, start.Add(30*time.Second), key); got != 10 {
		t.Errorf("local share admits %d after half a minute, want 10", got)
	}

	source.away.Store(false)
	l.probe(t.Context())
	reconcile(t, l)
	if l.offline.Load() {
		t.Fatal("still offline after an answer")
	}
	// The outage's 31 requests were charged as of when they came: 30 s ago.
	if d := l.Allow(t.Context(), []Key{key}, 1, start.Add(30*time.Second)); !d.Allowed || d.Remaining < 57 {
		t.Errorf("after the outage: %+v", d)
	}
}

// More processes than requests to share: one each, since none would shut the door.
func TestSourceAwaySmallLimit(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, Config{Limits: []Limit{{Name: "handoff", Count: 10, Period: time.Minute}}, Instances: 30})
	l.offline.Store(true)
	if got := admitted(l, 100, start, rule(t, l, "handoff").Key("a")); got != 1 {
		t.Errorf("local share admits %d, want 1", got)
	}
}

func TestMaxWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Config{Source: hung{}, Limits: []Limit{{Name: "handoff", Count: 9, Period: time.Minute}}})
		run(t, l)
		key := []Key{rule(t, l, "handoff").Key("a")}
		begin := time.Now()
		got := 0
		for range 9 {
			if l.Allow(t.Context(), key, 1, start).Allowed {
				got++
			}
		}
		if got != 3 {
			t.Errorf("admitted %d, want the share of 3", got)
		}
		// Three waits of 25 ms; the refusals needed none.
		if took := time.Since(begin); took > 100*time.Millisecond {
			t.Errorf("waited %v in all", took)
		}
		// Once the call has timed out, no request waits any more.
		<-time.After(time.Second)
		if !l.offline.Load() {
			t.Error("not offline although no answer came")
		}
		begin = time.Now()
		l.Allow(t.Context(), []Key{rule(t, l, "handoff").Key("b")}, 1, start)
		if took := time.Since(begin); took > 0 {
			t.Errorf("waited %v although offline", took)
		}
	})
}

func TestDebtsAreReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := NewMemory()
		l := newLimiter(t, Config{Source: source, Limits: []Limit{{Name: "ip", Count: 600, Period: time.Minute}}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Run(ctx) }()
		key := rule(t, l, "ip").Key("a")
		name := bucket("ip", key.id(newMACs(pepper)))
		owed := func(now time.Time) time.Duration {
			source.mu.Lock()
			defer source.mu.Unlock()
			return max(time.Duration(source.tats[name]-now.UnixMicro())*time.Microsecond, 0)
		}

		now := time.Now()
		admitted(l, 1, now, key)
		<-time.After(batchDelay)
		synctest.Wait()
		now = now.Add(4 * time.Second) // the lease has lapsed, the bucket is known
		before := owed(now)
		admitted(l, 2, now, key)
		synctest.Wait()
		if owed(now) != before {
			t.Fatal("two requests on trust were charged at once")
		}
		<-time.After(2 * sweepParts * sweepEvery)
		synctest.Wait()
		if owed(now) == before {
			t.Error("a debt was not charged by the sweeps")
		}

		// A stop reports what the sweeps have not.
		now = now.Add(14 * time.Second)
		before = owed(now)
		admitted(l, 2, now, key)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if owed(now) == before {
			t.Error("a debt was lost by the stop")
		}
	})
}

// What is forgotten is still charged.
func TestEvictionChargesDebts(t *testing.T) {
	t.Parallel()
	source := NewMemory()
	l := newLimiter(t, Config{Source: source, MaxKeys: 1})
	r := rule(t, l, "search")
	const keys = 5000 // ten times the smallest table
	for i := range keys {
		if !l.Allow(t.Context(), []Key{r.Key(fmt.Sprint(i))}, 1, start).Allowed {
			t.Fatal("refused")
		}
	}
	reconcile(t, l)
	source.mu.Lock()
	defer source.mu.Unlock()
	if got := len(source.tats); got != keys {
		t.Errorf("%d of %d debts were charged", got, keys)
	}
}

// Background settlements are batched; a request that is blocked on one is settled
// at once.
func TestNobodyWaitsForCompany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Config{Limits: []Limit{{Name: "ip", Count: 4, Period: time.Minute}}}) // too few to trust a client
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		begin := time.Now()
		d := l.Allow(ctx, []Key{rule(t, l, "ip").Key("a")}, 1, begin)
		if took := time.Since(begin); !d.Allowed || d.Local || took > 0 || l.Stats().Waits != 1 {
			t.Errorf("after %v: %+v, %+v", took, d, l.Stats())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// stalling is a source that hangs and executes what it was sent once it goes on, as a
// stopped Redis does.
type stalling struct {
	Source
	stalled atomic.Bool
	sent    []Ask
}

func (s *stalling) Settle(ctx context.Context, asks []Ask, answers []Answer) error {
	if s.stalled.Load() {
		s.sent = append(s.sent, asks...)
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Source.Settle(ctx, asks, answers)
}

// TestStall: a guest who has most of the limit left before a stall of the source has it
// afterwards.
func TestStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &stalling{Source: NewMemory()}
		l := newLimiter(t, Config{Source: source})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		key := rule(t, l, "search").Key("a")
		ask := func() Decision {
			t.Helper()
			d := l.Allow(ctx, []Key{key}, 1, time.Now())
			if !d.Allowed {
				t.Fatalf("refused: %+v", d)
			}
			<-time.After(100 * time.Millisecond)
			return d
		}
		for range 3 {
			ask()
		}
		source.stalled.Store(true)
		for range 8 {
			ask()
		}
		<-time.After(5 * time.Second)
		source.stalled.Store(false)
		synctest.Wait() // until what was sent has been given up
		if err := source.Source.Settle(ctx, source.sent, make([]Answer, len(source.sent))); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		ask()
		<-time.After(time.Second)
		if d := ask(); d.Local || d.Remaining < 45 {
			t.Errorf("after the stall: %+v, want at least 45 of 60", d)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
