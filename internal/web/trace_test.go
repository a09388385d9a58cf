package web

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"melmastoon.ghasi.io/bff/internal/tracing/tracingtest"
)

// TestTraceparent: where nothing is recorded, a trace is passed on or refused as
// OpenTelemetry does it, and says that it is not recorded.
func TestTraceparent(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01":        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00":        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03":        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-02",
		"42-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff-future": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-02",
		"": "", "nonsense": "",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-04":   "",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1f":   "",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x": "",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01":   "",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01":   "",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01":   "",
		"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01":   "",
		"00-4bf92f3577b34da6a3ce929d0e0e4736x00f067aa0ba902b7-01":   "",
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.Header.Set("Traceparent", given)
		sc := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(t.Context(), propagation.HeaderCarrier(r.Header)))
		if sc.IsValid() != (want != "") {
			t.Errorf("OpenTelemetry takes %q: %v", given, sc.IsValid())
		}
		got := string(new(Request).appendTraceparent(nil, r))
		if want != "" && got != want {
			t.Errorf("%q: got %q, want %q", given, got, want)
		}
		if !isTraceparent(got) || want == "" && got == string(new(Request).appendTraceparent(nil, r)) {
			t.Errorf("%q: got %q, want a trace of its own", given, got)
		}
	}
}

// recordingServer answers as newServer's do and keeps its spans.
func recordingServer(t *testing.T, share float64, change func(*Config)) (*Server, tracingtest.Spans) {
	t.Helper()
	tracer, spans := tracingtest.New(share)
	cfg := Config{
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Namespace: "test", Budget: time.Second,
		Tracer: tracer,
	}
	if change != nil {
		change(&cfg)
	}
	s := NewServer(cfg)
	mount(t, s,
		Route{Pattern: "GET /things/{id}", Handle: func(w http.ResponseWriter, r *http.Request) error {
			return WriteJSON(w, http.StatusOK, From(r.Context()).TraceParent)
		}},
		Route{Pattern: "GET /broken", Handle: func(http.ResponseWriter, *http.Request) error { return errors.New("boom") }},
	)
	return s, spans
}

const (
	callerTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	callerSpan  = "00f067aa0ba902b7"
	caller      = "00-" + callerTrace + "-" + callerSpan + "-"
)

// TestRecordedTraces: a stranger's trace is linked and a trusted peer's continued;
// the answer, the handler and the span agree on the trace.
func TestRecordedTraces(t *testing.T) {
	t.Parallel()
	proxy := func(cfg *Config) { cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} } // httptest's peer
	internal := func(cfg *Config) { cfg.JoinTraces = true }
	for name, tt := range map[string]struct {
		change     func(*Config)
		given      string
		wantJoined bool
		wantLinks  int
	}{
		"no caller":           {},
		"stranger":            {given: caller + "01", wantLinks: 1},
		"stranger, unsampled": {given: caller + "00", wantLinks: 1},
		"nonsense":            {given: "nonsense"},
		"trusted proxy":       {change: proxy, given: caller + "01", wantJoined: true},
		"proxy, unsampled":    {change: proxy, given: caller + "00", wantJoined: true},
		"internal":            {change: internal, given: caller + "01", wantJoined: true},
		"internal, unsampled": {change: internal, given: caller + "00", wantJoined: true},
		"internal, no caller": {change: internal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, spans := recordingServer(t, 1, tt.change)
			w := ask(t, s, "GET", "/things/7?q=secret", func(r *http.Request) {
				r.Header.Set("Traceparent", tt.given)
				r.Header.Set("Tracestate", "vendor=text")
			})
			ended := spans.Ended()
			if len(ended) != 1 {
				t.Fatalf("%d spans, want 1", len(ended))
			}
			span := ended[0]
			sc := span.SpanContext()
			if want := "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-01"; w.Header().Get("Traceparent") != want || w.Body.String() != `"`+want+`"` {
				t.Errorf("Traceparent = %q, handler saw %s, want %q", w.Header().Get("Traceparent"), w.Body, want)
			}
			if joined := sc.TraceID().String() == callerTrace && span.Parent().SpanID().String() == callerSpan; joined != tt.wantJoined {
				t.Errorf("trace %s below %s, want joined %v", sc.TraceID(), span.Parent().SpanID(), tt.wantJoined)
			}
			if len(span.Links()) != tt.wantLinks || tt.wantLinks > 0 && span.Links()[0].SpanContext.TraceID().String() != callerTrace {
				t.Errorf("links: %v, want %d", span.Links(), tt.wantLinks)
			}
			if sc.TraceState().Len() > 0 {
				t.Errorf("a stranger's text is kept: %s", sc.TraceState())
			}
			const want = "GET /things/{id}: http.request.method=GET http.response.status_code=200 http.route=/things/{id}"
			if got := tracingtest.Line(span); got != want || span.SpanKind() != trace.SpanKindServer {
				t.Errorf("%v span %q, want %q", span.SpanKind(), got, want)
			}
		})
	}
}

// TestFailedSpans: a failure of ours is an error, a client's mistake is not.
func TestFailedSpans(t *testing.T) {
	t.Parallel()
	s, spans := recordingServer(t, 1, nil)
	ask(t, s, "GET", "/broken", nil)
	ask(t, s, "GET", "/nowhere", nil)
	ended := spans.Ended()
	if len(ended) != 2 {
		t.Fatalf("%d spans, want 2", len(ended))
	}
	if ended[0].Name() != "GET /broken" || ended[0].Status().Code != codes.Error {
		t.Errorf("%q: %v", ended[0].Name(), ended[0].Status())
	}
	if ended[1].Name() != "unmatched" || ended[1].Status().Code != codes.Unset {
		t.Errorf("%q: %v", ended[1].Name(), ended[1].Status())
	}
}

// TestCallersDoNotDecide: whatever a caller says and whichever trace id it chooses,
// the share is ours; internal callers with ids of their own choice excepted.
func TestCallersDoNotDecide(t *testing.T) {
	t.Parallel()
	const low = "00-00000000000000000000000000000001-00f067aa0ba902b7-01" // below every share
	const least = 1e-15
	proxy := func(cfg *Config) { cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} }
	for name, tt := range map[string]struct {
		share  float64
		change func(*Config)
		want   int
	}{
		"off":                         {share: 0},
		"stranger":                    {share: least},
		"trusted proxy":               {share: least, change: proxy},
		"internal callers with an id": {share: least, change: func(cfg *Config) { cfg.JoinTraces = true }, want: 50},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, spans := recordingServer(t, tt.share, tt.change)
			for range 50 {
				w := ask(t, s, "GET", "/things/7", func(r *http.Request) { r.Header.Set("Traceparent", low) })
				if got, want := w.Header().Get("Traceparent"), low[:len(low)-1]+"0"; tt.want == 0 && got != want {
					t.Fatalf("Traceparent = %q, want %q: upstreams would record it", got, want)
				}
			}
			if n := len(spans.Ended()); n != tt.want {
				t.Errorf("%d spans, want %d", n, tt.want)
			}
		})
	}
}

// TestUnrecordedRequestsCostNothing: a request that is not recorded allocates as
// much as without a tracer.
func TestUnrecordedRequestsCostNothing(t *testing.T) {
	// The average is a fraction: pools lose some of their values under the race detector.
	allocations := func(share float64) float64 {
		s, _ := recordingServer(t, share, nil)
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/things/7", nil)
		r.Header.Set("Traceparent", caller+"01")
		const requests = 1000
		return testing.AllocsPerRun(1, func() {
			for range requests {
				s.ServeHTTP(httptest.NewRecorder(), r)
			}
		}) / requests
	}
	const less = 0.5 // than one more
	off, unrecorded := allocations(0), allocations(1e-15)
	for try := 0; unrecorded > off+less && try < 10; try++ { // other goroutines' count, too
		off, unrecorded = min(off, allocations(0)), min(unrecorded, allocations(1e-15))
	}
	if unrecorded > off+less {
		t.Errorf("%v allocations, %v without a tracer", unrecorded, off)
	}
}
