package cache

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff/internal/local/stack"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// Redis dies, or swallows packets, under a process that is warm: no read fails,
// not even of keys that have to be refreshed or are new.
func TestRedisGone(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		lose    func(t *testing.T, r *stack.Redis, pid int)
		restore func(t *testing.T, r *stack.Redis, pid int)
	}{
		{
			name: "killed",
			lose: func(t *testing.T, r *stack.Redis, _ int) {
				t.Helper()
				if err := r.Kill(); err != nil {
					t.Fatal(err)
				}
			},
			restore: func(t *testing.T, r *stack.Redis, _ int) {
				t.Helper()
				if err := r.Start(testkit.Context(t)); err != nil {
					t.Fatal(err)
				}
			},
		},
		{
			name:    "black hole",
			lose:    func(t *testing.T, _ *stack.Redis, pid int) { t.Helper(); signal(t, pid, syscall.SIGSTOP) },
			restore: func(t *testing.T, _ *stack.Redis, pid int) { t.Helper(); signal(t, pid, syscall.SIGCONT) },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := testkit.NewRedis(t)
			client := dial(t, server.URL())
			pid := processID(t, client)
			prefix := newPrefix()
			s := newTestStore(t, StoreConfig{Redis: client, Prefix: prefix})
			c := newTestCache(t, s, func(cfg *Config) {
				cfg.TTL = func() TTL { return TTL{Fresh: 300 * time.Millisecond, Grace: time.Minute, Stale: time.Minute} }
			})
			src := newSource("warm", "tenant:1")
			key := func(i int) string { return prefix + "cache:" + strconv.Itoa(i) }
			for i := range 20 {
				read(t, c, key(i), src.fill)
			}

			var phase atomic.Int32 // 0 with Redis, 1 without, 2 with keys that must be filled anew
			var waits [3][]time.Duration
			var mu sync.Mutex
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					tick := time.NewTicker(2 * time.Millisecond)
					defer tick.Stop()
					for i := 0; ; i++ {
						select {
						case <-stop:
							return
						case <-tick.C:
						}
						p, begin := phase.Load(), time.Now()
						_, _, err := c.Get(t.Context(), key(i%20), src.fill)
						took := time.Since(begin)
						if err != nil {
							t.Errorf("read failed: %v", err)
							return
						}
						mu.Lock()
						waits[p] = append(waits[p], took)
						mu.Unlock()
					}
				})
			}
			enough := func(p int) func() bool {
				return func() bool {
					mu.Lock()
					defer mu.Unlock()
					return len(waits[p]) > 1000
				}
			}
			testkit.Until(t, "reads with redis", enough(0))
			phase.Store(1)
			tc.lose(t, server, pid)
			testkit.Until(t, "store has noticed", func() bool { return !s.Up() })
			testkit.Until(t, "reads without redis", enough(1))

			phase.Store(2)
			// A new key, and an invalidation, which takes effect here at once.
			if got := read(t, c, prefix+"cache:new", src.fill); got != (answer{Body: "warm"}) {
				t.Errorf("new key: %+v", got)
			}
			src.say("changed")
			if err := s.Invalidate(t.Context(), "tenant:1"); err == nil {
				t.Error("invalidation without redis: no error")
			}
			for i := range 20 {
				if got := read(t, c, key(i), src.fill); got.Body != "changed" {
					t.Errorf("key %d after invalidation: %+v", i, got)
				}
			}
			close(stop)
			wg.Wait()
			t.Logf("p99 with redis %v, without %v", p99(waits[0]), p99(waits[1]))

			tc.restore(t, server, pid)
			testkit.Until(t, "store is back", s.Up)
			// What could not be logged is logged now: a new process knows it.
			testkit.Until(t, "invalidation is in the log", func() bool {
				late, err := NewStore(StoreConfig{Redis: client, Prefix: prefix})
				if err != nil {
					t.Fatal(err)
				}
				defer closeStore(t, late)
				v, _ := late.tags.check(stamp{epoch: late.tags.stamp().epoch}, []string{"tenant:1"})
				return v == invalid
			})
		})
	}
}

// A process that starts without Redis serves, and joins it later.
func TestStartWithoutRedis(t *testing.T) {
	t.Parallel()
	server := testkit.NewRedis(t)
	client := dial(t, server.URL())
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	prefix := newPrefix()
	s := newTestStore(t, StoreConfig{Redis: client, Prefix: prefix})
	c := newTestCache(t, s)
	src := newSource("alone")
	if got := read(t, c, prefix+"k", src.fill); got != (answer{Body: "alone"}) || s.Up() {
		t.Errorf("got %+v, up %v", got, s.Up())
	}
	if err := server.Start(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "joined", s.Up)
	// What was filled alone cannot be judged by the log: it is refreshed once,
	// and then shared.
	testkit.Until(t, "shared", func() bool {
		read(t, c, prefix+"k", src.fill)
		e, err := c.readShared(t.Context(), prefix+"k")
		return err == nil && e != nil
	})
}

func signal(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

func processID(t *testing.T, c rueidis.Client) int {
	t.Helper()
	info, err := c.Do(t.Context(), c.B().Info().Section("server").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "process_id:"); ok {
			pid, err := strconv.Atoi(id)
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatal("server does not say its process id")
	return 0
}

func p99(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[len(d)*99/100]
}
