package upstream

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"melmastoon.ghasi.io/bff/internal/pause"
	"melmastoon.ghasi.io/bff/internal/tracing"
	"melmastoon.ghasi.io/bff/internal/tracing/tracingtest"
)

// TestCallsAreSpans: one for each call with one below it for each attempt, named by
// the route, with nothing of the path and the query.
func TestCallsAreSpans(t *testing.T) {
	t.Parallel()
	const (
		ms      = time.Millisecond
		attempt = "GET /r/{id}: http.request.method=GET "
		called  = " upstream.name=far upstream.outcome="
		route   = " upstream.route=/r/{id}"
	)
	call := func(errorType, attempts, breaker, outcome string) string {
		if errorType != "" {
			errorType = " error.type=" + errorType
		}
		return "upstream far GET /r/{id}:" + errorType + " upstream.attempts=" + attempts + " upstream.breaker=" + breaker + called + outcome + route
	}
	tests := []struct {
		name   string
		cfg    Config // Timeout is one second
		calls  int
		script script
		want   []string // of the last call, in the order of their beginnings
	}{
		{
			name: "at once", script: script{{0, 200}},
			want: []string{
				call("", "1", "closed", "ok"),
				attempt + "http.response.status_code=200 upstream.attempt=1 upstream.hedge=false upstream.outcome=ok",
			},
		},
		{
			name: "retried", cfg: Config{Retries: 1}, script: script{{0, 503}, {0, 200}},
			want: []string{
				call("", "2", "closed", "ok"),
				"GET /r/{id}: error.type=error http.request.method=GET http.response.status_code=503 upstream.attempt=1 upstream.hedge=false upstream.outcome=error",
				attempt + "http.response.status_code=200 upstream.attempt=2 upstream.hedge=false upstream.outcome=ok",
			},
		},
		{
			name: "hedge wins", cfg: Config{HedgeAfter: 100 * ms}, script: script{{900 * ms, 200}, {10 * ms, 200}},
			want: []string{
				call("", "2", "closed", "ok"),
				attempt + "upstream.attempt=1 upstream.hedge=false upstream.outcome=cancelled",
				attempt + "http.response.status_code=200 upstream.attempt=2 upstream.hedge=true upstream.outcome=ok",
			},
		},
		{
			name: "declined", script: script{{0, 404}},
			want: []string{
				call("", "1", "closed", "refused"),
				attempt + "http.response.status_code=404 upstream.attempt=1 upstream.hedge=false upstream.outcome=refused",
			},
		},
		{
			name: "timeout", script: script{{time.Hour, 200}},
			want: []string{
				call("timeout", "1", "closed", "timeout"),
				"GET /r/{id}: error.type=timeout http.request.method=GET upstream.attempt=1 upstream.hedge=false upstream.outcome=timeout",
			},
		},
		{
			name: "breaker open", cfg: Config{Breaker: BreakerConfig{Failures: 1, HalfOpenAfter: time.Hour}}, calls: 2, script: script{{0, 500}},
			want: []string{call("breaker", "0", "open", "breaker")},
		},
		{
			name: "probe", cfg: Config{Breaker: BreakerConfig{Failures: 1, HalfOpenAfter: 1}}, calls: 2, script: script{{ms, 500}, {ms, 200}},
			want: []string{
				call("", "1", "half-open", "ok"),
				attempt + "http.response.status_code=200 upstream.attempt=1 upstream.hedge=false upstream.outcome=ok",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int64
				tt.cfg.Timeout, tt.cfg.Transport = time.Second, tt.script.transport(&calls)
				c := newClient(t, tt.cfg)
				for range tt.calls - 1 {
					_ = c.Get(t.Context(), "/r/{id}", "/r/secret", nil, nil)
					pause.For(t.Context(), 1)
				}
				tracer, spans := tracingtest.New(1)
				ctx, _ := tracer.Begin(t.Context(), "request", trace.SpanKindServer)
				_ = c.Get(ctx, "/r/{id}", "/r/secret", map[string][]string{"q": {"secret"}}, nil)
				synctest.Wait()
				ended := spans.Ended()
				slices.SortFunc(ended, func(a, b sdktrace.ReadOnlySpan) int { return a.StartTime().Compare(b.StartTime()) })
				var got []string
				for _, span := range ended {
					if span.SpanKind() == trace.SpanKindInternal { // the call began before its attempts, at the same instant
						got = slices.Insert(got, 0, tracingtest.Line(span))
						continue
					}
					got = append(got, tracingtest.Line(span))
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// TestUpstreamsSeeTheAttempt: each attempt's traceparent names its own span, and
// where nothing is recorded it is the caller's.
func TestUpstreamsSeeTheAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		c := newClient(t, Config{
			Timeout: time.Second, Retries: 1,
			Transport: far(func(r *http.Request) int {
				seen = append(seen, r.Header.Get("Traceparent"))
				return http.StatusServiceUnavailable
			}),
			Header: func(_ context.Context, h http.Header) { h.Set("Traceparent", "given") },
		})
		tracer, spans := tracingtest.New(1)
		ctx, _ := tracer.Begin(t.Context(), "request", trace.SpanKindServer)
		_ = c.Get(ctx, "/r", "/r", nil, nil)
		_ = c.Get(t.Context(), "/r", "/r", nil, nil)
		var want []string
		for _, span := range spans.Ended() {
			if span.SpanKind() == trace.SpanKindClient {
				want = append(want, string(tracing.AppendTraceparent(nil, span.SpanContext())))
			}
		}
		if diff := cmp.Diff(append(want, "given", "given"), seen); diff != "" {
			t.Error(diff)
		}
	})
}
