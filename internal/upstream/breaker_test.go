package upstream

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff/internal/pause"
)

func TestBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		status := http.StatusInternalServerError
		calls := 0
		slow := time.Duration(0)
		var logged bytes.Buffer
		reg := prometheus.NewRegistry()
		c := newClient(t, Config{
			Timeout: time.Second, Retries: 2, HedgeAfter: 10 * time.Millisecond,
			Log: slog.New(slog.NewTextHandler(&logged, nil)), Metrics: reg,
			Transport: far(func(r *http.Request) int {
				calls++
				pause.For(r.Context(), slow)
				return status
			}),
		})
		get := func() Reason { return ReasonOf(c.Get(t.Context(), "/r", "/r", nil, nil)) }
		want := func(when, state, gauge string) {
			t.Helper()
			if c.State() != state || !strings.Contains(scrape(t, reg), `circuit_breaker_state{upstream="far"} `+gauge+"\n") {
				t.Fatalf("%s: %s, want %s and a gauge at %s:\n%s", when, c.State(), state, gauge, scrape(t, reg))
			}
		}

		for range 4 {
			get()
		}
		status = http.StatusOK
		get() // four in a row, not five
		status = http.StatusInternalServerError
		for range 4 {
			get()
		}
		want("after four failures", "closed", "0")
		get()
		want("after five", "open", "2")

		calls = 0
		pause.For(t.Context(), 4*time.Second-1)
		if r := get(); r != Breaker || calls != 0 {
			t.Fatalf("open: %q after %d calls", r, calls)
		}

		pause.For(t.Context(), 1)
		status = http.StatusServiceUnavailable
		if r := get(); r != Failed || calls != 1 {
			t.Fatalf("probe: %q after %d calls, want one attempt without retries", r, calls)
		}
		want("after a bad probe", "open", "2")

		pause.For(t.Context(), 4*time.Second)
		status, slow, calls = http.StatusOK, 100*time.Millisecond, 0
		probe := make(chan Reason)
		go func() { probe <- get() }()
		synctest.Wait()
		want("during the probe", "half-open", "1")
		if r := get(); r != Breaker {
			t.Fatalf("beside the probe: %q", r)
		}
		if r := <-probe; r != "" || calls != 1 {
			t.Fatalf("probe: %q after %d calls, want one attempt without hedges", r, calls)
		}
		want("after a good probe", "closed", "0")

		if got := strings.Count(logged.String(), "circuit breaker changed"); got != 5 {
			t.Errorf("%d changes logged, want 5:\n%s", got, &logged)
		}
	})
}

// A probe whose caller goes away must not leave the breaker half-open for ever.
func TestBreakerProbeAbandoned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := time.Duration(0)
		status := http.StatusInternalServerError
		c := newClient(t, Config{Breaker: BreakerConfig{Failures: 1}, Transport: far(func(r *http.Request) int {
			pause.For(r.Context(), slow)
			return status
		})})
		_ = c.Get(t.Context(), "/r", "/r", nil, nil)
		pause.For(t.Context(), 4*time.Second)
		slow, status = time.Second, http.StatusOK
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		_ = c.Get(ctx, "/r", "/r", nil, nil)
		if c.State() != "half-open" {
			t.Fatalf("abandoned probe: %s", c.State())
		}
		if err := c.Get(t.Context(), "/r", "/r", nil, nil); err != nil || c.State() != "closed" {
			t.Fatalf("next probe: %v, %s", err, c.State())
		}
	})
}

// Answers to calls from before a change of state are not heard.
func TestBreakerLateVerdicts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newClient(t, Config{Breaker: BreakerConfig{Failures: 2}}).breaker
		var early [4]pass
		for i := range early {
			early[i], _ = b.enter()
		}
		b.leave(early[0], sick)
		b.leave(early[1], sick)
		pause.For(t.Context(), 4*time.Second)
		probe, ok := b.enter()
		if !ok || !probe.probe {
			t.Fatal("no probe")
		}
		b.leave(early[2], healthy)
		if b.state() != "half-open" {
			t.Errorf("a success from before the outage: %s", b.state())
		}
		b.leave(early[3], sick)
		if b.state() != "half-open" {
			t.Errorf("a failure from before the outage: %s", b.state())
		}
		b.leave(probe, healthy)
		if b.state() != "closed" {
			t.Errorf("the probe: %s", b.state())
		}
	})
}

// Callers in a hurry: an upstream that had no fair chance is not blamed, one
// that hangs is.
func TestBreakerAndBudget(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		budget time.Duration
		want   string
	}{
		{"a tenth of the cap", 100 * time.Millisecond, "closed"},
		{"half of the cap", 500 * time.Millisecond, "open"},
		{"no time at all", time.Millisecond, "closed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, Config{Timeout: time.Second, Transport: far(func(r *http.Request) int {
					<-r.Context().Done()
					return 0
				})})
				for range 5 {
					ctx, cancel := context.WithTimeout(t.Context(), tt.budget)
					if r := ReasonOf(c.Get(ctx, "/r", "/r", nil, nil)); r != Budget {
						t.Errorf("got %q", r)
					}
					cancel()
				}
				if c.State() != tt.want {
					t.Errorf("breaker is %s, want %s", c.State(), tt.want)
				}
			})
		})
	}
}
