package cache

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff/internal/testkit"
)

// TestSharedEntry: one process reads what another filled.
func TestSharedEntry(t *testing.T) {
	t.Parallel()
	eachTopology(t, func(t *testing.T, urls []string) {
		t.Helper()
		fx := newFixture(t, 2, urls)
		src := newSource(string(body(20_000)), "tenant:1", "property:2")
		fill := func(ctx context.Context) (Fill, error) {
			f, err := src.fill(ctx)
			f.Meta, f.ContentType = []byte("meta"), "text/plain"
			return f, err
		}
		k := fx.key("k")
		began := time.Now()
		first, st, err := fx.caches[0].Get(t.Context(), k, fill)
		if err != nil || st.Result != Miss {
			t.Fatalf("fill: %+v %v", st, err)
		}
		waitShared(t, fx.caches[0], k)
		second, st, err := fx.caches[1].Get(t.Context(), k, fill)
		if err != nil {
			t.Fatal(err)
		}
		st.Age = 0
		if diff := cmp.Diff(Status{Result: Hit, Shared: true}, st); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
		for enc := range encodings {
			if diff := cmp.Diff(first.variant[enc].body, second.variant[enc].body); diff != "" {
				t.Errorf("%s body differs", encodingName[enc])
			}
			if first.variant[enc].etag != second.variant[enc].etag {
				t.Errorf("%s etag differs", encodingName[enc])
			}
		}
		if diff := cmp.Diff(first.Tags(), second.Tags()); diff != "" {
			t.Errorf("tags (-want +got):\n%s", diff)
		}
		if string(second.Meta()) != "meta" || second.kind[0] != "text/plain" {
			t.Errorf("meta %q, type %q", second.Meta(), second.kind)
		}
		// Ages agree up to what the calls took, although only durations crossed.
		if d := (end(first) - end(second)).Abs(); d > time.Since(began)+rounding {
			t.Errorf("ends of life are %v apart", d)
		}
		if src.calls.Load() != 1 {
			t.Errorf("%d fills, want 1", src.calls.Load())
		}
	})
}

func TestOneFillForManyProcesses(t *testing.T) {
	t.Parallel()
	eachTopology(t, func(t *testing.T, urls []string) {
		t.Helper()
		fx := newFixture(t, 5, urls)
		src := newSource("one")
		k := fx.key("k")
		open := make(chan struct{})
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				got := read(t, fx.caches[i%len(fx.caches)], k, func(ctx context.Context) (Fill, error) {
					<-open
					return src.fill(ctx)
				})
				if got.Body != "one" {
					t.Errorf("got %+v", got)
				}
			})
		}
		// Every other process has come to wait for the leader.
		testkit.Until(t, "four followers", func() bool {
			n := 0
			for _, s := range fx.stores {
				s.bus.mu.Lock()
				n += len(s.bus.watchers)
				s.bus.mu.Unlock()
			}
			return n == 5
		})
		close(open)
		wg.Wait()
		if got := src.calls.Load(); got != 1 {
			t.Errorf("%d fills, want 1", got)
		}
	})
}

// TestSharedAge: an entry is as old in one process as in another.
func TestSharedAge(t *testing.T) {
	t.Parallel()
	eachTopology(t, func(t *testing.T, urls []string) {
		t.Helper()
		fx := newFixture(t, 2, urls)
		k := fx.key("k")
		began := time.Now()
		e, _, err := fx.caches[0].Get(t.Context(), k, newSource("old").fill)
		if err != nil {
			t.Fatal(err)
		}
		waitShared(t, fx.caches[0], k)
		e.born -= int64(30 * time.Second)
		fx.caches[0].writeShared(t.Context(), k, e)
		e, err = fx.caches[1].readShared(t.Context(), k)
		if err != nil || e == nil {
			t.Fatal(e, err)
		}
		// A reader takes the time before its call for that of the answer, so the call's own
		// time may count twice.
		if got := e.Age(); got < 30*time.Second || got > 30*time.Second+2*time.Since(began)+rounding {
			t.Errorf("age %v, want 30 s and what the calls took", got)
		}
		e.born -= int64(3 * time.Minute)
		fx.caches[0].writeShared(t.Context(), k, e) // past its life: not written
		if e, err := fx.caches[1].readShared(t.Context(), k); err != nil || e == nil || e.Age() > time.Minute {
			t.Errorf("dead entry was written: %v", err)
		}
	})
}

// Fills so quick that processes meet at every point of a flight: a
// leader ends between another's look and its bid.
func TestOneFillForEachOfManyKeys(t *testing.T) {
	t.Parallel()
	eachTopology(t, func(t *testing.T, urls []string) {
		t.Helper()
		fx := newFixture(t, 4, urls)
		sources := make([]*source, 300)
		for i := range sources {
			sources[i] = newSource(strconv.Itoa(i))
		}
		var wg sync.WaitGroup
		for _, c := range fx.caches {
			wg.Go(func() {
				for i, src := range sources {
					if got := read(t, c, fx.key(strconv.Itoa(i)), src.fill); got.Body != strconv.Itoa(i) {
						t.Errorf("key %d: %+v", i, got)
					}
				}
			})
		}
		wg.Wait()
		for i, src := range sources {
			if got := src.calls.Load(); got != 1 {
				t.Errorf("key %d: %d fills, want 1", i, got)
			}
		}
	})
}

// TestSharedFailure: the processes that waited for a fill get its failure.
func TestSharedFailure(t *testing.T) {
	t.Parallel()
	eachTopology(t, func(t *testing.T, urls []string) {
		t.Helper()
		fx := newFixture(t, 3, urls, func(c *Config) { c.ErrorHold = 20 * time.Second })
		src := newSource("")
		src.failWith(errUpstream)
		k := fx.key("k")
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() {
				_, _, err := fx.caches[i%3].Get(t.Context(), k, src.fill)
				if _, remote := errors.AsType[*LeaderError](err); !remote && !errors.Is(err, errUpstream) {
					t.Errorf("got %v", err)
				}
			})
		}
		wg.Wait()
		if got := src.calls.Load(); got != 1 {
			t.Errorf("%d fills, want 1", got)
		}
	})
}

// TestSharedNegative: a negative answer is known to all processes.
func TestSharedNegative(t *testing.T) {
	t.Parallel()
	eachTopology(t, func(t *testing.T, urls []string) {
		t.Helper()
		fx := newFixture(t, 2, urls)
		src := newSource("")
		src.failWith(Negative(errUpstream, 20*time.Second))
		k := fx.key("k")
		if _, _, err := fx.caches[0].Get(t.Context(), k, src.fill); !errors.Is(err, errUpstream) {
			t.Fatal(err)
		}
		testkit.Until(t, "answer is in redis", func() bool {
			b, err := fx.stores[1].newLease(k).acquire(t.Context())
			return err == nil && b.failed
		})
		_, _, err := fx.caches[1].Get(t.Context(), k, src.fill)
		if _, ok := errors.AsType[*LeaderError](err); !ok || src.calls.Load() != 1 {
			t.Errorf("%v after %d fills", err, src.calls.Load())
		}
		if _, ok := errors.AsType[*negativeError](err); !ok {
			t.Error("the answer has become a failure")
		}
	})
}

// TestLeaseToken: only its holder releases a lease.
func TestLeaseToken(t *testing.T) {
	t.Parallel()
	eachTopology(t, func(t *testing.T, urls []string) {
		t.Helper()
		fx := newFixture(t, 1, urls)
		k := fx.key("k")
		mine, other := fx.stores[0].newLease(k), fx.stores[0].newLease(k)
		for _, step := range []struct {
			name string
			do   func() bool
			want bool
		}{
			{"acquire", func() bool { return won(t, mine) }, true},
			{"again", func() bool { return won(t, mine) }, true},
			{"other", func() bool { return won(t, other) }, false},
			{"after a stranger's release", func() bool { other.release(t.Context(), "", 0); return won(t, other) }, false},
			{"after mine", func() bool { mine.release(t.Context(), "", 0); return won(t, other) }, true},
		} {
			if got := step.do(); got != step.want {
				t.Errorf("%s: %v, want %v", step.name, got, step.want)
			}
		}
	})
}

// TestLastResort: a follower that waited long enough fills by itself, if it is allowed to.
func TestLastResort(t *testing.T) {
	t.Parallel()
	eachTopology(t, func(t *testing.T, urls []string) {
		t.Helper()
		fx := newFixture(t, 1, urls, func(c *Config) { c.FollowTimeout = 50 * time.Millisecond })
		held := fx.stores[0].newLease(fx.key("k"))
		if !won(t, held) {
			t.Fatal("not acquired")
		}
		defer held.hold(t.Context())()
		src := newSource("direct")
		if got := read(t, fx.caches[0], fx.key("k"), src.fill); got != (answer{Body: "direct"}) {
			t.Errorf("allowed: %+v", got)
		}
		fx.caches[0].allow = func() bool { return false }
		if err := fx.caches[0].Delete(t.Context(), fx.key("k")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := fx.caches[0].Get(t.Context(), fx.key("k"), src.fill); !errors.Is(err, ErrBusy) {
			t.Errorf("refused: %v", err)
		}
	})
}

func won(t *testing.T, l *lease) bool {
	t.Helper()
	b, err := l.acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b.won
}

// waitShared waits until an entry is in Redis: readers are answered before.
func waitShared(t *testing.T, c *Cache, key string) {
	t.Helper()
	testkit.Until(t, "entry is in redis", func() bool {
		e, err := c.readShared(t.Context(), key)
		return err == nil && e != nil
	})
}

// rounding is what an age loses to Redis, which counts in milliseconds.
const rounding = 5 * time.Millisecond

// end is how long from now on an entry may be served at all.
func end(e *Entry) time.Duration { return e.ttl.life() - e.Age() }
