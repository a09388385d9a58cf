package upstream

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestGather(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	sleep := func(d time.Duration) func(context.Context) error {
		return func(ctx context.Context) error {
			pause(ctx, d)
			return ctx.Err()
		}
	}
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, Config{Timeout: 200 * ms, Transport: far(func(r *http.Request) int {
			pause(r.Context(), time.Hour)
			return http.StatusOK
		})})
		hang := func(ctx context.Context) error { return c.Get(ctx, "/r", "/r", nil, nil) }

		start := time.Now()
		outcomes := Gather(t.Context(), 500*ms,
			Branch{Part: "whole", Cap: 450 * ms, Run: sleep(10 * ms)},
			Branch{Part: "own cap", Cap: 100 * ms, Run: sleep(time.Hour)},
			Branch{Part: "all that is left", Run: sleep(time.Hour)},
			Branch{Part: "cap beyond the budget", Cap: time.Second, Run: sleep(time.Hour)},
			Branch{Part: "cap before the upstream's", Cap: 100 * ms, Run: hang},
			Branch{Part: "the upstream's cap", Cap: 400 * ms, Run: hang},
			Branch{Part: "other error", Run: func(context.Context) error { return errors.New("broken") }},
		)
		if took := time.Since(start); took != 500*ms {
			t.Errorf("took %v", took)
		}
		type row struct {
			Part   string
			Reason Reason
			Took   time.Duration
		}
		var got []row
		for _, o := range outcomes {
			if (o.Err == nil) != (o.Reason == "") {
				t.Errorf("%s: reason %q, error %v", o.Part, o.Reason, o.Err)
			}
			got = append(got, row{o.Part, o.Reason, o.Took})
		}
		want := []row{
			{"whole", "", 10 * ms},
			{"own cap", Timeout, 100 * ms},
			{"all that is left", Budget, 500 * ms},
			{"cap beyond the budget", Budget, 500 * ms},
			{"cap before the upstream's", Timeout, 100 * ms},
			{"the upstream's cap", Timeout, 200 * ms},
			{"other error", Failed, 0},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
		if n := len(Partial(outcomes)); n != 6 {
			t.Errorf("%d partial", n)
		}
	})
}

func TestEachYieldsAsTheyComeAndStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Int64
		branch := func(part string, d time.Duration) Branch {
			return Branch{Part: part, Run: func(ctx context.Context) error {
				defer ended.Add(1)
				pause(ctx, d)
				return nil
			}}
		}
		var got []string
		start := time.Now()
		for o := range Each(t.Context(), 0, branch("c", 3*time.Second), branch("a", time.Second), branch("d", time.Hour), branch("b", 2*time.Second)) {
			if got = append(got, o.Part); len(got) == 3 {
				break
			}
		}
		if diff := cmp.Diff([]string{"a", "b", "c"}, got); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
		if ended.Load() != 4 || time.Since(start) != 3*time.Second {
			t.Errorf("%d branches ended after %v, want all at once", ended.Load(), time.Since(start))
		}
	})
}

// A panic surfaces where a server's recovery can see it.
func TestGatherPanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if p, ok := recover().(string); !ok || !strings.Contains(p, "branch b: boom") {
			t.Errorf("recovered %v", p)
		}
	}()
	Gather(t.Context(), 0,
		Branch{Part: "a", Run: func(ctx context.Context) error { <-ctx.Done(); return nil }},
		Branch{Part: "b", Run: func(context.Context) error { panic("boom") }})
}
