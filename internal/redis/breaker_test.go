package redis

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"
)

// hanging is a client whose server answers, or does not.
type hanging struct {
	rueidis.Client
	hangs atomic.Bool
	calls atomic.Int32
}

func (h *hanging) B() rueidis.Builder { return rueidis.Builder{} }
func (h *hanging) Close()             {}

func (h *hanging) Do(ctx context.Context, _ rueidis.Completed) rueidis.RedisResult {
	h.calls.Add(1)
	if h.hangs.Load() {
		<-ctx.Done()
		return rueidis.NewErrorResult(ctx.Err())
	}
	return rueidis.NewResult(rueidis.RedisMessage{}, nil)
}

func (h *hanging) DoMulti(ctx context.Context, multi ...rueidis.Completed) (all []rueidis.RedisResult) {
	for range multi {
		all = append(all, h.Do(ctx, rueidis.Completed{}))
	}
	return all
}

// recovery is the longest time until an answer is noticed: a ping is under way.
const recovery = probeTimeout + probePause + time.Millisecond

// ask makes a call of 250 ms at most and returns how long it took.
func ask(t *testing.T, c rueidis.Client) (time.Duration, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := c.Do(ctx, rueidis.Completed{}).NonRedisError()
	return time.Since(began), err
}

func breakerOn(server *Breakers, c rueidis.Client, tier string) *breaker {
	b, _ := server.Wrap(c, NewBreakerMetrics(prometheus.NewRegistry(), "test", tier)).(*breaker)
	return b
}

// TestHangingRedis: one call waits for its timeout and all others for nothing,
// until Redis answers again.
func TestHangingRedis(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := new(hanging)
		c := breakerOn(new(Breakers), inner, "session")
		defer c.Close()
		if _, err := ask(t, c); err != nil {
			t.Fatal(err)
		}
		inner.hangs.Store(true)
		for i, want := range []time.Duration{250 * time.Millisecond, 0, 0, 0, 0, 0} {
			took, err := ask(t, c)
			if took != want || err == nil || i > 0 && !errors.Is(err, ErrAway) {
				t.Errorf("call %d took %v, want %v: %v", i, took, want, err)
			}
		}
		if all := c.DoMulti(t.Context(), make([]rueidis.Completed, 3)...); len(all) != 3 || !errors.Is(all[2].NonRedisError(), ErrAway) {
			t.Errorf("several commands: %v", all)
		}
		before := inner.calls.Load()
		<-time.After(10 * (probeTimeout + probePause))
		if got := inner.calls.Load() - before; got < 9 || got > 11 {
			t.Errorf("%d pings in the time of ten", got)
		}
		inner.hangs.Store(false)
		<-time.After(recovery)
		if took, err := ask(t, c); err != nil || took != 0 {
			t.Errorf("back again: %v after %v", err, took)
		}
	})
}

// TestTiersWaitOnce: a request that asks several tiers of one server waits for one
// timeout, a tier whose own ping is answered goes on, and one of another server is
// not concerned.
func TestTiersWaitOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := new(Breakers)
		inner := map[string]*hanging{"session": {}, "cache": {}, "bus": {}, "elsewhere": {}}
		tiers := map[string]*breaker{}
		for name, c := range inner {
			on := server
			if name == "elsewhere" {
				on = new(Breakers)
			}
			tiers[name] = breakerOn(on, c, name)
			defer tiers[name].Close()
		}
		inner["session"].hangs.Store(true)
		inner["cache"].hangs.Store(true)
		for i, step := range []struct {
			tier string
			want time.Duration
			away bool
		}{
			{"session", 250 * time.Millisecond, false}, // waits for itself
			{"cache", 0, true},
			{"session", 0, true},
			{"bus", 0, false},
			{"elsewhere", 0, false},
			{"cache", 0, true},
		} {
			took, err := ask(t, tiers[step.tier])
			if took != step.want || errors.Is(err, ErrAway) != step.away {
				t.Errorf("call %d, to %s, took %v, want %v: %v", i, step.tier, took, step.want, err)
			}
		}
		for _, name := range []string{"session", "cache"} {
			inner[name].hangs.Store(false)
		}
		<-time.After(recovery)
		for name, tier := range tiers {
			if took, err := ask(t, tier); err != nil || took != 0 {
				t.Errorf("%s is back: %v after %v", name, err, took)
			}
		}
	})
}

// TestSlowAnswerIsNoOutage: calls after one that was too slow are made, and a timeout
// or a cancellation that is the caller's own says nothing about Redis.
func TestSlowAnswerIsNoOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := new(hanging)
		c := breakerOn(new(Breakers), inner, "session")
		defer c.Close()
		inner.hangs.Store(true)
		short, cancel := context.WithTimeout(t.Context(), patience/2)
		defer cancel()
		if err := c.Do(short, rueidis.Completed{}).NonRedisError(); !errors.Is(err, context.DeadlineExceeded) || c.away.Load() {
			t.Errorf("the last moment of a request: %v, away %v", err, c.away.Load())
		}
		gone, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		if err := c.Do(gone, rueidis.Completed{}).NonRedisError(); !errors.Is(err, context.Canceled) || c.away.Load() {
			t.Errorf("a client that leaves: %v, away %v", err, c.away.Load())
		}
		if _, err := ask(t, c); !errors.Is(err, context.DeadlineExceeded) || !c.away.Load() {
			t.Errorf("a hanging call: %v, away %v", err, c.away.Load())
		}
		inner.hangs.Store(false) // the ping that is under way still fails
		<-time.After(recovery)
		if _, err := ask(t, c); err != nil {
			t.Error(err)
		}
	})
}
