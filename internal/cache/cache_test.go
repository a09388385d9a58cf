package cache

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff/internal/pause"
)

// The states of an entry's life, at the bounds of each. Time is synthetic: a
// read that waited for anything would move it.
func TestLife(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		age      time.Duration
		failing  bool
		want     answer // of the read at that age
		wantNext answer // of the read after that, when background work is done
		wantWait bool
	}{
		{
			name: "fresh", age: 57 * time.Second,
			want: answer{Body: "old", Result: Hit}, wantNext: answer{Body: "old", Result: Hit},
		},
		{
			name: "due for refresh", age: time.Minute - 1,
			want: answer{Body: "old", Result: Hit}, wantNext: answer{Body: "new", Result: Hit},
		},
		{
			name: "due, upstream down", age: time.Minute - 1, failing: true,
			want: answer{Body: "old", Result: Hit}, wantNext: answer{Body: "old", Result: Stale, Err: errUpstream.Error()},
		},
		{
			name: "grace", age: time.Minute,
			want: answer{Body: "old", Result: Stale}, wantNext: answer{Body: "new", Result: Hit},
		},
		{
			name: "grace, upstream down", age: 2*time.Minute - 1, failing: true,
			want: answer{Body: "old", Result: Stale}, wantNext: answer{Body: "old", Result: Stale, Err: errUpstream.Error()},
		},
		{
			name: "past grace", age: 2 * time.Minute, wantWait: true,
			want: answer{Body: "new", Result: Miss}, wantNext: answer{Body: "new", Result: Hit},
		},
		{
			name: "past grace, upstream down", age: 2 * time.Minute, failing: true, wantWait: true,
			want:     answer{Body: "old", Result: Stale, Err: errUpstream.Error()},
			wantNext: answer{Body: "old", Result: Stale, Err: errUpstream.Error()},
		},
		{
			name: "gone", age: 3 * time.Minute, wantWait: true,
			want: answer{Body: "new", Result: Miss}, wantNext: answer{Body: "new", Result: Hit},
		},
		{
			name: "gone, upstream down", age: 3 * time.Minute, failing: true, wantWait: true,
			want: answer{Err: errUpstream.Error()}, wantNext: answer{Err: errUpstream.Error()},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newTestCache(t, newMemoryStore(t))
				src := newSource("old")
				slow := func(ctx context.Context) (Fill, error) {
					pause.For(ctx, 10*time.Millisecond)
					return src.fill(ctx)
				}
				if got := read(t, c, "k", src.fill); got.Result != Miss {
					t.Fatalf("first read: %+v", got)
				}
				src.say("new")
				if tc.failing {
					src.failWith(errUpstream)
				}
				pause.For(t.Context(), tc.age)
				begin := time.Now()
				got := read(t, c, "k", slow)
				waited := time.Since(begin) > 0
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("read (-want +got):\n%s", diff)
				}
				if waited != tc.wantWait {
					t.Errorf("waited %v, want %v", waited, tc.wantWait)
				}
				pause.For(t.Context(), 20*time.Millisecond)
				if diff := cmp.Diff(tc.wantNext, read(t, c, "k", slow)); diff != "" {
					t.Errorf("next read (-want +got):\n%s", diff)
				}
				if got := src.calls.Load(); got > 2 {
					t.Errorf("%d fills, want at most 2", got)
				}
				pause.For(t.Context(), time.Second) // for the background
			})
		})
	}
}

// The bounds themselves: memory forgets dead entries too, but in its own time.
func TestJudge(t *testing.T) {
	t.Parallel()
	s := newMemoryStore(t)
	e, _, err := newTestCache(t, s).Fetch(t.Context(), newSource("", "tag").fill)
	if err != nil {
		t.Fatal(err)
	}
	e.refresh = 58 * time.Second
	for _, tc := range []struct {
		age  time.Duration
		want state
	}{
		{0, settled},
		{58*time.Second - 1, settled},
		{58 * time.Second, due},
		{time.Minute - 1, due},
		{time.Minute, grace},
		{2*time.Minute - 1, grace},
		{2 * time.Minute, stale},
		{3*time.Minute - 1, stale},
		{3 * time.Minute, gone},
		{24 * time.Hour, gone},
	} {
		if got := s.judge(e, e.born+int64(tc.age)); got != tc.want {
			t.Errorf("at %v: %d, want %d", tc.age, got, tc.want)
		}
	}
	for _, step := range []struct {
		name string
		do   func(context.Context, ...string) error
		want state
	}{
		{"expired", s.Expire, grace},
		{"invalidated", s.Invalidate, gone},
	} {
		if err := step.do(t.Context(), "tag"); err != nil {
			t.Fatal(err)
		}
		if got := s.judge(e, e.born); got != step.want {
			t.Errorf("%s: %d, want %d", step.name, got, step.want)
		}
	}
}

func TestSingleFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTestCache(t, newMemoryStore(t))
		src := newSource("one")
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				got := read(t, c, "k", func(ctx context.Context) (Fill, error) {
					pause.For(ctx, time.Second)
					return src.fill(ctx)
				})
				if diff := cmp.Diff(answer{Body: "one"}, got); diff != "" {
					t.Error(diff)
				}
			})
		}
		wg.Wait()
		if got := src.calls.Load(); got != 1 {
			t.Errorf("%d fills, want 1", got)
		}
	})
}

// All who wait for a fill that fails get its error, and so do those who come in
// the moment after: the upstream is called once.
func TestErrorIsShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTestCache(t, newMemoryStore(t))
		src := newSource("")
		src.failWith(errUpstream)
		want := answer{Err: errUpstream.Error()}
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				pause.For(t.Context(), time.Duration(i)*time.Millisecond)
				got := read(t, c, "k", func(ctx context.Context) (Fill, error) {
					pause.For(ctx, 50*time.Millisecond)
					return src.fill(ctx)
				})
				if got != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
			})
		}
		wg.Wait()
		if got := src.calls.Load(); got != 1 {
			t.Errorf("%d fills, want 1", got)
		}
		pause.For(t.Context(), time.Second)
		src.failWith(nil)
		src.say("back")
		if got := read(t, c, "k", src.fill); got != (answer{Body: "back"}) {
			t.Errorf("after the moment: %+v", got)
		}
	})
}

func TestNegative(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTestCache(t, newMemoryStore(t))
		errNone := errors.New("no such property")
		src := newSource("there")
		read(t, c, "k", src.fill)
		pause.For(t.Context(), 2*time.Minute) // past grace
		src.failWith(Negative(errNone, 3*time.Second))
		_, _, err := c.Get(t.Context(), "k", src.fill)
		if !errors.Is(err, errNone) {
			t.Fatalf("an answer must not be papered over: %v", err)
		}
		pause.For(t.Context(), 3*time.Second-time.Millisecond)
		if _, _, err := c.Get(t.Context(), "k", src.fill); !errors.Is(err, errNone) || src.calls.Load() != 2 {
			t.Errorf("not remembered: %v after %d fills", err, src.calls.Load())
		}
		pause.For(t.Context(), 2*time.Millisecond)
		src.failWith(nil)
		if got := read(t, c, "k", src.fill); got != (answer{Body: "there"}) {
			t.Errorf("remembered for too long: %+v", got)
		}
	})
}

// The client that asked first goes away; those who wait with it are served.
func TestClientGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTestCache(t, newMemoryStore(t))
		src := newSource("one")
		slow := func(ctx context.Context) (Fill, error) {
			pause.For(ctx, time.Second)
			if ctx.Err() != nil {
				return Fill{}, ctx.Err()
			}
			return src.fill(ctx)
		}
		first, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, _, err := c.Get(first, "k", slow); !errors.Is(err, context.Canceled) {
				t.Errorf("first: %v", err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if got := read(t, c, "k", slow); got != (answer{Body: "one"}) {
				t.Errorf("second: %+v", got)
			}
		})
		synctest.Wait()
		leave()
		wg.Wait()
	})
}

func TestFillLimits(t *testing.T) {
	t.Parallel()
	src := newSource("too late")
	hang := func(ctx context.Context) (Fill, error) {
		<-ctx.Done()
		f, _ := src.fill(ctx)
		return f, context.Cause(ctx)
	}
	t.Run("deadline", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			c := newTestCache(t, newMemoryStore(t))
			begin := time.Now()
			_, _, err := c.Get(t.Context(), "k", hang)
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 5*time.Second {
				t.Errorf("%v after %v", err, time.Since(begin))
			}
		})
	})
	t.Run("fills at the same time", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			c := newTestCache(t, newMemoryStore(t), func(cfg *Config) { cfg.MaxFills = 1 })
			var wg sync.WaitGroup
			busy := 0
			var mu sync.Mutex
			for i := range 20 {
				wg.Go(func() {
					_, _, err := c.Get(t.Context(), string(rune('a'+i)), hang)
					mu.Lock()
					defer mu.Unlock()
					if errors.Is(err, ErrBusy) {
						busy++
					}
				})
			}
			wg.Wait()
			if busy != 19 { // 15 wait in vain, 4 are turned away at once
				t.Errorf("%d of 20 were refused, want 19", busy)
			}
		})
	})
	t.Run("panic", func(t *testing.T) {
		t.Parallel()
		c := newTestCache(t, newMemoryStore(t))
		_, _, err := c.Get(t.Context(), "k", func(context.Context) (Fill, error) { panic("oops") })
		if p, ok := errors.AsType[*PanicError](err); !ok || p.Value != "oops" || len(p.Stack) == 0 {
			t.Errorf("got %v", err)
		}
	})
	t.Run("too large to keep", func(t *testing.T) {
		t.Parallel()
		c := newTestCache(t, newTestStore(t, StoreConfig{MaxBody: 10}))
		src := newSource("more than ten bytes")
		for range 2 {
			if got := read(t, c, "k", src.fill); got != (answer{Body: "more than ten bytes"}) {
				t.Errorf("got %+v", got)
			}
		}
		if got := src.calls.Load(); got != 2 {
			t.Errorf("%d fills, want 2", got)
		}
	})
	t.Run("closed", func(t *testing.T) {
		t.Parallel()
		s := newMemoryStore(t)
		c := newTestCache(t, s)
		src := newSource("kept")
		read(t, c, "k", src.fill)
		closeStore(t, s)
		if got := read(t, c, "k", src.fill); got != (answer{Body: "kept", Result: Hit}) {
			t.Errorf("memory: %+v", got)
		}
		if _, _, err := c.Get(t.Context(), "other", src.fill); !errors.Is(err, ErrClosed) {
			t.Errorf("miss: %v", err)
		}
	})
}

func TestFillOverrides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTestCache(t, newMemoryStore(t))
		src := newSource("partial")
		short := func(ctx context.Context) (Fill, error) {
			f, err := src.fill(ctx)
			f.TTL = TTL{Fresh: 5 * time.Second}
			return f, err
		}
		read(t, c, "partial", short)
		pause.For(t.Context(), 5*time.Second)
		if got := read(t, c, "partial", short); got != (answer{Body: "partial"}) {
			t.Errorf("past its own lifetime: %+v", got)
		}
		never := func(ctx context.Context) (Fill, error) {
			f, err := src.fill(ctx)
			f.NoStore = true
			return f, err
		}
		for range 2 {
			if got := read(t, c, "never", never); got != (answer{Body: "partial"}) {
				t.Errorf("not to be stored: %+v", got)
			}
		}
		e, st, err := c.Fetch(t.Context(), src.fill)
		if err != nil || st.Result != Bypass || string(e.Body()) != "partial" {
			t.Errorf("fetch: %v %v", st, err)
		}
	})
}

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	s := newMemoryStore(t)
	newTestCache(t, s)
	for name, change := range map[string]func(*Config){
		"name":        func(c *Config) { c.Name = "Bad name" },
		"taken":       func(*Config) {},
		"no lifetime": func(c *Config) { c.Name, c.TTL = "b", nil },
		"no memory":   func(c *Config) { c.Name, c.MaxBytes = "b", 0 },
		"slow fill":   func(c *Config) { c.Name, c.FillTimeout = "b", time.Minute },
		"negative":    func(c *Config) { c.Name, c.MaxFills = "b", -1 },
	} {
		cfg := Config{Name: "test", TTL: minute, MaxBytes: 1 << 20}
		change(&cfg)
		if _, err := New(s, cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := NewStore(StoreConfig{MaxBody: -1}); err == nil {
		t.Error("negative limit accepted")
	}
}
