package upstream

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"melmastoon.ghasi.io/bff/internal/pause"
)

// script is an upstream that answers its attempts one after the other; the
// last one stands for all that follow.
type script []struct {
	after  time.Duration
	status int
}

func (s script) transport(calls *atomic.Int64) far {
	return func(r *http.Request) int {
		step := s[min(int(calls.Add(1)), len(s))-1]
		pause.For(r.Context(), step.after)
		return step.status
	}
}

func TestRetriesAndHedges(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	tests := []struct {
		name       string
		cfg        Config // Timeout is one second
		budget     time.Duration
		opts       []Option
		post       bool
		script     script
		want       Reason
		wantStatus int
		wantCalls  int64
		wantTook   time.Duration // at most
	}{
		{name: "retried", cfg: Config{Retries: 1}, script: script{{0, 503}, {0, 200}}, wantCalls: 2, wantTook: 30 * ms},
		{name: "retried in vain", cfg: Config{Retries: 2}, script: script{{0, 502}}, want: Failed, wantStatus: 502, wantCalls: 3, wantTook: 90 * ms},
		{name: "no retries", script: script{{0, 503}}, want: Failed, wantStatus: 503, wantCalls: 1},
		{name: "not transient", cfg: Config{Retries: 1}, script: script{{0, 500}}, want: Failed, wantStatus: 500, wantCalls: 1},
		{
			name: "not idempotent", cfg: Config{Retries: 1, HedgeAfter: ms}, post: true, script: script{{50 * ms, 503}}, want: Failed, wantStatus: 503,
			wantCalls: 1, wantTook: 50 * ms,
		},
		{
			name: "declared idempotent", cfg: Config{Retries: 1}, post: true, opts: []Option{Idempotent()}, script: script{{0, 503}, {0, 200}}, wantCalls: 2,
			wantTook: 30 * ms,
		},
		{name: "no time for a retry", cfg: Config{Retries: 1}, script: script{{900 * ms, 503}}, want: Failed, wantStatus: 503, wantCalls: 1, wantTook: 900 * ms},
		{
			name: "no time for a retry left by the caller", cfg: Config{Retries: 1}, budget: 100 * ms, script: script{{0, 503}}, want: Failed, wantStatus: 503,
			wantCalls: 1,
		},
		{name: "retry ends at the cap", cfg: Config{Retries: 1}, script: script{{0, 503}, {time.Hour, 200}}, want: Timeout, wantCalls: 2, wantTook: 1000 * ms},
		{name: "ends at the cap", script: script{{time.Hour, 200}}, want: Timeout, wantCalls: 1, wantTook: 1000 * ms},
		{name: "caller's deadline", budget: 300 * ms, script: script{{time.Hour, 200}}, want: Budget, wantCalls: 1, wantTook: 300 * ms},

		{name: "hedge wins", cfg: Config{HedgeAfter: 100 * ms}, script: script{{900 * ms, 200}, {10 * ms, 200}}, wantCalls: 2, wantTook: 110 * ms},
		{name: "hedge loses", cfg: Config{HedgeAfter: 100 * ms}, script: script{{150 * ms, 200}, {900 * ms, 200}}, wantCalls: 2, wantTook: 150 * ms},
		{name: "fast enough", cfg: Config{HedgeAfter: 100 * ms}, script: script{{90 * ms, 200}}, wantCalls: 1, wantTook: 90 * ms},
		{
			name: "a failure is not waited on", cfg: Config{HedgeAfter: 100 * ms}, script: script{{10 * ms, 500}}, want: Failed, wantStatus: 500, wantCalls: 1,
			wantTook: 10 * ms,
		},
		{name: "first fails beside its hedge", cfg: Config{HedgeAfter: 100 * ms}, script: script{{150 * ms, 500}, {90 * ms, 200}}, wantCalls: 2, wantTook: 190 * ms},
		{name: "hedge fails beside the first", cfg: Config{HedgeAfter: 100 * ms}, script: script{{150 * ms, 200}, {10 * ms, 500}}, wantCalls: 2, wantTook: 150 * ms},
		{
			name: "refused by the hedge", cfg: Config{HedgeAfter: 100 * ms}, script: script{{900 * ms, 200}, {10 * ms, 404}}, want: Failed, wantStatus: 404,
			wantCalls: 2, wantTook: 110 * ms,
		},
		{
			name: "both fail", cfg: Config{HedgeAfter: 100 * ms}, script: script{{150 * ms, 500}, {90 * ms, 500}}, want: Failed, wantStatus: 500, wantCalls: 2,
			wantTook: 190 * ms,
		},
		{name: "both hang", cfg: Config{HedgeAfter: 100 * ms}, script: script{{time.Hour, 200}}, want: Timeout, wantCalls: 2, wantTook: 1000 * ms},
		{
			name: "hedged, then retried", cfg: Config{HedgeAfter: 100 * ms, Retries: 1}, script: script{{150 * ms, 503}, {90 * ms, 503}, {0, 200}}, wantCalls: 3,
			wantTook: 220 * ms,
		},
		{name: "no place to spare", cfg: Config{HedgeAfter: 100 * ms, MaxConcurrent: 1}, script: script{{500 * ms, 200}}, wantCalls: 1, wantTook: 500 * ms},
		{
			name: "no place to spare, and fails", cfg: Config{HedgeAfter: 100 * ms, MaxConcurrent: 1}, script: script{{500 * ms, 500}}, want: Failed,
			wantStatus: 500, wantCalls: 1, wantTook: 500 * ms,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int64
				tt.cfg.Timeout, tt.cfg.Transport = time.Second, tt.script.transport(&calls)
				c := newClient(t, tt.cfg)
				ctx := t.Context()
				if tt.budget > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.budget)
					defer cancel()
				}
				start := time.Now()
				var err error
				if tt.post {
					err = c.Post(ctx, "/r", "/r", 1, nil, tt.opts...)
				} else {
					err = c.Get(ctx, "/r", "/r", nil, nil, tt.opts...)
				}
				took := time.Since(start)
				status := 0
				if e, ok := err.(*Error); ok { //nolint:errorlint // never wrapped by the client itself
					status = e.Status
				}
				if ReasonOf(err) != tt.want || status != tt.wantStatus {
					t.Errorf("got %v, want %q, status %d", err, tt.want, tt.wantStatus)
				}
				if calls.Load() != tt.wantCalls {
					t.Errorf("%d attempts, want %d", calls.Load(), tt.wantCalls)
				}
				if took > tt.wantTook {
					t.Errorf("took %v, want at most %v", took, tt.wantTook)
				}
				synctest.Wait()
				if c.limiter.inflight != 0 {
					t.Errorf("%d places are still taken", c.limiter.inflight)
				}
			})
		})
	}
}

// Extra calls stay within their share however bad the upstream is.
func TestExtraCallsAreBounded(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		script script
		cfg    Config
		most   int64 // attempts for a thousand calls
	}{
		{"retries", script{{0, 503}}, Config{Retries: 3}, 1000 + 1000*retryShare + retryBurst},
		{"hedges", script{{time.Second, 200}}, Config{HedgeAfter: 100 * time.Millisecond}, 1000 + 1000*hedgeShare + 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int64
				tt.cfg.Transport = tt.script.transport(&calls)
				tt.cfg.Breaker.Failures = 10_000
				c := newClient(t, tt.cfg)
				var all sync.WaitGroup
				for range 1000 {
					pause.For(t.Context(), 50*time.Millisecond)
					all.Go(func() { _ = c.Get(t.Context(), "/r", "/r", nil, nil) })
				}
				all.Wait()
				if n := calls.Load(); n <= 1000 || n > tt.most {
					t.Errorf("%d attempts for 1000 calls, want some more but at most %d", n, tt.most)
				}
			})
		})
	}
}

// With a quantile the hedge follows each route's own latency.
func TestHedgeFollowsTheRoute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, Config{HedgeAfter: 800 * time.Millisecond, HedgeQuantile: 0.9, Transport: far(func(r *http.Request) int {
			d := 10 * time.Millisecond
			if r.URL.Path == "/slow" {
				d = 200 * time.Millisecond
			}
			pause.For(r.Context(), d)
			return http.StatusOK
		})})
		for route, want := range map[string]time.Duration{"/fast": 10 * time.Millisecond, "/slow": 200 * time.Millisecond, "/new": 800 * time.Millisecond} {
			if route != "/new" {
				for range 100 {
					if err := c.Get(t.Context(), route, route, nil, nil); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got, _ := c.hedge.delay(route); got != want {
				t.Errorf("%s is late after %v, want %v", route, got, want)
			}
		}
	})
}
