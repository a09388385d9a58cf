package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"

	"melmastoon.ghasi.io/bff"
)

func newServer(t *testing.T, log io.Writer, routes ...Route) (*Server, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	s := NewServer(Config{
		Log: slog.New(slog.NewJSONHandler(log, nil)), Metrics: reg, Namespace: "test",
		Tracer: noop.NewTracerProvider().Tracer("test"), Budget: time.Second, Now: time.Now,
	})
	for _, rt := range routes {
		s.Handle(rt)
	}
	return s, reg
}

func ask(t *testing.T, s http.Handler, method, target string, change func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, nil)
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func problemOf(t *testing.T, w *httptest.ResponseRecorder) problem {
	t.Helper()
	var doc map[string]problem
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		t.Fatalf("not a problem document: %v: %q", err, w.Body)
	}
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type = %q", got)
	}
	return doc["error"]
}

func TestFailures(t *testing.T) {
	t.Parallel()
	fails := func(err error) Handler { return func(http.ResponseWriter, *http.Request) error { return err } }
	routes := []Route{
		{Pattern: "GET /coded", Handle: fails(&bff.Error{Code: bff.CodeRateLimited, RetryAfter: 1500 * time.Millisecond})},
		{Pattern: "GET /uncoded", Handle: fails(errors.New("secret internals"))},
		{Pattern: "GET /panics", Handle: func(http.ResponseWriter, *http.Request) error { panic("secret internals") }},
		{Pattern: "GET /fields", Handle: fails(bff.FieldErrors{{Field: "a", Code: "range"}, {Field: "b", Code: "type"}}.Err())},
		{Pattern: "GET /slow", Budget: time.Millisecond, Handle: func(_ http.ResponseWriter, r *http.Request) error {
			<-r.Context().Done()
			return r.Context().Err()
		}},
		{Pattern: "POST /only-post", Handle: fails(nil)},
	}
	for _, tt := range []struct {
		name, method, path string
		change             func(*http.Request)
		wantStatus         int
		wantCode           bff.Code
		wantFields         int
	}{
		{"coded", "GET", "/coded", nil, 429, bff.CodeRateLimited, 0},
		{"uncoded", "GET", "/uncoded", nil, 500, bff.CodeInternal, 0},
		{"panic", "GET", "/panics", nil, 500, bff.CodeInternal, 0},
		{"every field", "GET", "/fields", nil, 400, bff.CodeValidationFailed, 2},
		{"budget", "GET", "/slow", nil, 504, bff.CodeUpstreamBudgetExceeded, 0},
		{"unknown path", "GET", "/nowhere", nil, 404, bff.CodeResourceNotFound, 0},
		{"wrong method", "GET", "/only-post", nil, 405, bff.CodeMethodNotAllowed, 0},
		{"bad request id", "GET", "/coded", func(r *http.Request) { r.Header.Set("X-Request-Id", "x y") }, 400, bff.CodeValidationFailed, 1},
		{"bad request id on no path", "GET", "/nowhere", func(r *http.Request) { r.Header.Set("X-Request-Id", "x") }, 400, bff.CodeValidationFailed, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			s, reg := newServer(t, &log, routes...)
			w := ask(t, s, tt.method, tt.path, tt.change)
			p := problemOf(t, w)
			if w.Code != tt.wantStatus || p.Status != tt.wantStatus || p.Code != tt.wantCode || len(p.Errors) != tt.wantFields {
				t.Errorf("got status %d, problem %+v; want %d %s with %d fields", w.Code, p, tt.wantStatus, tt.wantCode, tt.wantFields)
			}
			if strings.Contains(w.Body.String(), "secret") {
				t.Error("the answer shows internals")
			}
			if p.RequestID == "" || "req_"+w.Header().Get("X-Request-Id") != p.RequestID || p.TraceID != w.Header().Get("Traceparent") {
				t.Errorf("ids do not agree: %+v, headers %v", p, w.Header())
			}
			if tt.name == "coded" && (w.Header().Get("Retry-After") != "2" || *p.RetryAfter != 2) {
				t.Error("want Retry-After rounded up to 2")
			}
			if tt.name == "wrong method" && w.Header().Get("Allow") != "POST" {
				t.Errorf("Allow = %q", w.Header().Get("Allow"))
			}
			if n := strings.Count(log.String(), `"msg":"request"`); n != 1 {
				t.Errorf("%d request events in the log, want 1", n)
			}
			families, err := reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			counted := 0.0
			for _, f := range families {
				if f.GetName() == "test_errors_total" {
					for _, m := range f.GetMetric() {
						counted += m.GetCounter().GetValue()
					}
				}
			}
			if counted != 1 {
				t.Errorf("%v errors counted, want 1", counted)
			}
		})
	}
}

func TestCancelledClientIsNoError(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s, _ := newServer(t, &log, Route{Pattern: "GET /", Handle: func(_ http.ResponseWriter, r *http.Request) error {
		<-r.Context().Done()
		return r.Context().Err()
	}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := ask(t, s, "GET", "/", func(r *http.Request) { *r = *r.WithContext(ctx) })
	if w.Body.Len() != 0 {
		t.Errorf("wrote %q to a client that left", w.Body)
	}
	if !strings.Contains(log.String(), `"status":499`) || strings.Contains(log.String(), `"level":"ERROR"`) {
		t.Errorf("log: %s", &log)
	}
}

func TestRequestIDAndTrace(t *testing.T) {
	t.Parallel()
	var seen *Request
	s, _ := newServer(t, io.Discard, Route{Pattern: "GET /", Handle: func(w http.ResponseWriter, r *http.Request) error {
		seen = From(r.Context())
		return WriteJSON(w, http.StatusOK, nil)
	}})
	const id, trace = "01H8YN7QV4D8KZ4F8Y5CK4MV3D", "4bf92f3577b34da6a3ce929d0e0e4736"
	w := ask(t, s, "GET", "/", func(r *http.Request) {
		r.Header.Set("X-Request-Id", id)
		r.Header.Set("Traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
	})
	if seen.ID.ULID() != id || w.Header().Get("X-Request-Id") != id {
		t.Errorf("request id not kept: %s, %s", seen.ID, w.Header().Get("X-Request-Id"))
	}
	if !strings.Contains(w.Header().Get("Traceparent"), trace) {
		t.Errorf("trace not continued: %s", w.Header().Get("Traceparent"))
	}
	w = ask(t, s, "GET", "/", func(r *http.Request) { r.Header.Set("Traceparent", "nonsense") })
	if w.Code != http.StatusOK || len(w.Header().Get("Traceparent")) != 55 {
		t.Errorf("a broken traceparent must start a new trace: %d %q", w.Code, w.Header().Get("Traceparent"))
	}
}

func TestClientIP(t *testing.T) {
	t.Parallel()
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, tt := range []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"stranger's header is not believed", "203.0.113.9:1", []string{"1.2.3.4"}, "203.0.113.9"},
		{"one proxy", "10.0.0.1:1", []string{"1.2.3.4"}, "1.2.3.4"},
		{"spoofed left part", "10.0.0.1:1", []string{"6.6.6.6, 1.2.3.4"}, "1.2.3.4"},
		{"spoofed first header", "10.0.0.1:1", []string{"6.6.6.6", "1.2.3.4, 10.0.0.2"}, "1.2.3.4"},
		{"garbage", "10.0.0.1:1", []string{"1.2.3.4, garbage"}, "10.0.0.1"},
		{"no header", "10.0.0.1:1", nil, "10.0.0.1"},
		{"mapped", "[::ffff:10.0.0.1]:1", []string{"::ffff:1.2.3.4"}, "1.2.3.4"},
		{"v6", "[fd00::1]:1", []string{"2001:db8::7"}, "2001:db8::7"},
		{"no peer", "@", nil, "invalid IP"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
			r.RemoteAddr = tt.peer
			for _, f := range tt.forwarded {
				r.Header.Add("X-Forwarded-For", f)
			}
			if got := clientIP(r, trusted).String(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
