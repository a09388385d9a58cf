package cache

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"melmastoon.ghasi.io/bff/internal/pause"
)

// Kept returns what is there, waits for a fill under way, and begins none.
func TestKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTestCache(t, newMemoryStore(t))
		src := newSource("old")
		if _, _, err := c.Kept(t.Context(), "k"); !errors.Is(err, ErrNotKept) {
			t.Errorf("nothing is there: %v", err)
		}
		slow := func(ctx context.Context) (Fill, error) {
			pause.For(ctx, time.Second)
			return src.fill(ctx)
		}
		go read(t, c, "k", slow)
		synctest.Wait()
		e, st, err := c.Kept(t.Context(), "k")
		if err != nil || string(e.Body()) != "old" || !st.Collapsed {
			t.Fatalf("did not join the fill: %+v %v", st, err)
		}
		for _, step := range []struct {
			age  time.Duration
			want Result
			err  error
		}{{age: time.Second, want: Hit}, {age: 70 * time.Second, want: Stale}, {age: 5 * time.Minute, err: ErrNotKept}} {
			pause.For(t.Context(), step.age)
			_, st, err := c.Kept(t.Context(), "k")
			if !errors.Is(err, step.err) || err == nil && st.Result != step.want {
				t.Errorf("%v later: %+v %v", step.age, st, err)
			}
		}
		synctest.Wait()
		if got := src.calls.Load(); got != 1 {
			t.Errorf("%d fills, want the one that was under way", got)
		}
	})
}

func TestKeptShared(t *testing.T) {
	t.Parallel()
	eachTopology(t, func(t *testing.T, urls []string) {
		t.Helper()
		fx := newFixture(t, 2, urls)
		src, k := newSource("one"), fx.key("k")
		read(t, fx.caches[0], k, src.fill)
		waitShared(t, fx.caches[0], k)
		e, st, err := fx.caches[1].Kept(t.Context(), k)
		if err != nil || string(e.Body()) != "one" || st.Result != Hit || !st.Shared {
			t.Errorf("what another process filled: %+v %v", st, err)
		}
	})
}
