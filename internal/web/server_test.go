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
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
)

func newServer(t *testing.T, log io.Writer, routes ...Route) (*Server, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	s := NewServer(Config{
		Log: slog.New(slog.NewJSONHandler(log, nil)), Metrics: reg, Namespace: "test",
		Budget: time.Second,
		Codes:  Codes{Budget: bff.CodeUpstreamTimeout, Unsupported: map[string]bff.Code{"color": bff.CodeRoleDenied, "X-Color": bff.CodeRoleDenied}},
	})
	mount(t, s, routes...)
	return s, reg
}

// mount adds routes of which only the pattern and the handler matter.
func mount(tb testing.TB, s *Server, routes ...Route) {
	tb.Helper()
	for _, rt := range routes {
		if rt.Budget == 0 {
			rt.Budget = s.cfg.Budget
		}
		if err := s.mount(&rt); err != nil {
			tb.Fatal(err)
		}
	}
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
	var doc failureBody
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		t.Fatalf("not a problem document: %v: %q", err, w.Body)
	}
	if e := doc.Error; doc.Type != e.Type || doc.Title != e.Title || doc.Status != e.Status || doc.Detail != e.Detail || doc.Instance != e.Instance ||
		e.Type == "" {
		t.Errorf("the members of RFC 9457 are not those of the error: %q", w.Body)
	}
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type = %q", got)
	}
	return doc.Error
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
		{"budget", "GET", "/slow", nil, 504, bff.CodeUpstreamTimeout, 0},
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
			if p.RequestID == "" || "req_"+w.Header().Get("X-Request-Id") != p.RequestID || p.TraceID != strings.Split(w.Header().Get("Traceparent"), "-")[1] {
				t.Errorf("ids do not agree: %+v, headers %v", p, w.Header())
			}
			if tt.name == "coded" && (w.Header().Get("Retry-After") != "2" || *p.RetryAfter != 2) {
				t.Error("want Retry-After rounded up to 2")
			}
			if tt.name == "wrong method" && w.Header().Get("Allow") != "POST" {
				t.Errorf("Allow = %q", w.Header().Get("Allow"))
			}
			if stack := strings.Contains(log.String(), `"stack":"goroutine `); stack != (tt.name == "panic") {
				t.Errorf("a stack in the log: %v: %s", stack, &log)
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
	const id, traceID = "01H8YN7QV4D8KZ4F8Y5CK4MV3D", "4bf92f3577b34da6a3ce929d0e0e4736"
	w := ask(t, s, "GET", "/", func(r *http.Request) {
		r.Header.Set("X-Request-Id", id)
		r.Header.Set("Traceparent", "00-"+traceID+"-00f067aa0ba902b7-01")
	})
	if seen.ID.ULID() != id || w.Header().Get("X-Request-Id") != id {
		t.Errorf("request id not kept: %s, %s", seen.ID, w.Header().Get("X-Request-Id"))
	}
	if !strings.Contains(w.Header().Get("Traceparent"), traceID) {
		t.Errorf("trace not continued: %s", w.Header().Get("Traceparent"))
	}
	w = ask(t, s, "GET", "/", func(r *http.Request) { r.Header.Set("Traceparent", "nonsense") })
	if w.Code != http.StatusOK || len(w.Header().Get("Traceparent")) != 55 {
		t.Errorf("a broken traceparent must start a new trace: %d %q", w.Code, w.Header().Get("Traceparent"))
	}
}

// TestHome: GET / leads to the pages of development where there are some; nothing else
// does.
func TestHome(t *testing.T) {
	t.Parallel()
	const pages = "http://127.0.0.1:8080"
	s := NewServer(Config{Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Namespace: "test", Budget: time.Minute, Home: pages})
	for request, want := range map[string]int{
		"GET /": http.StatusFound, "HEAD /": http.StatusFound, "POST /": http.StatusNotFound, "GET /tea": http.StatusNotFound,
	} {
		method, path, _ := strings.Cut(request, " ")
		w := ask(t, s, method, path, nil)
		if at := w.Header().Get("Location"); w.Code != want || (at == pages) != (want == http.StatusFound) {
			t.Errorf("%s: %d, leads to %q", request, w.Code, at)
		}
	}
}

// TestDispatch: requests reach the routes that a mux alone would choose.
func TestDispatch(t *testing.T) {
	t.Parallel()
	says := func(text string) Handler {
		return func(w http.ResponseWriter, r *http.Request) error {
			_, err := io.WriteString(w, text+" "+PathValue(r, "id")+" "+r.Pattern)
			return err
		}
	}
	var routes []Route
	mux := http.NewServeMux()
	for _, p := range []string{"GET /a", "POST /a", "GET /a/b", "GET /a/{id}", "PUT /a/{id}/b", "/any", "GET /dir/", "GET /dir/plain", "GET /{$}"} {
		routes = append(routes, Route{Pattern: p, Handle: says(p)})
		mux.HandleFunc(p, func(w http.ResponseWriter, r *http.Request) { _ = says(p)(w, r) })
	}
	s, _ := newServer(t, io.Discard, routes...)
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "CONNECT", "BREW"} {
		for _, path := range []string{
			"/", "/a", "/a/", "/a/b", "/a/c", "/a/b/", "//a", "/a//b", "/a/./b", "/a/../a", "/%61", "/a%2Fb", "/a/%62", "/any", "/dir", "/dir/", "/dir/plain", "/dir/x", "/a/x/b", "/A",
		} {
			r := httptest.NewRequestWithContext(t.Context(), method, "http://example.org"+path, nil)
			want := httptest.NewRecorder()
			mux.ServeHTTP(want, r.Clone(t.Context()))
			got := httptest.NewRecorder()
			s.ServeHTTP(got, r)
			if got.Code != want.Code || (want.Code == http.StatusOK && got.Body.String() != want.Body.String()) ||
				got.Header().Get("Location") != want.Header().Get("Location") || got.Header().Get("Allow") != want.Header().Get("Allow") {
				t.Errorf("%s %s: got %d %q, want %d %q", method, path, got.Code, got.Body, want.Code, want.Body)
			}
		}
	}
}

// TestMetricsOfARoute: every status of a route is counted in its own series,
// and a series begins with its first request.
func TestMetricsOfARoute(t *testing.T) {
	t.Parallel()
	s, reg := newServer(t, io.Discard, Route{Pattern: "GET /{status}", Handle: func(w http.ResponseWriter, r *http.Request) error {
		status, err := strconv.Atoi(PathValue(r, "status"))
		w.WriteHeader(status)
		return err
	}}, Route{Pattern: "GET /never/asked", Handle: nil})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				for _, status := range []string{"200", "204", "404", "503"} {
					ask(t, s, "GET", "/"+status, nil)
				}
			}
		})
	}
	wg.Wait()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch f.GetName() {
			case "test_request_total":
				counted[m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()] = m.GetCounter().GetValue()
			case "test_request_duration_seconds":
				counted[m.GetLabel()[0].GetValue()] = float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	want := map[string]float64{"GET /{status} 200": 200, "GET /{status} 204": 200, "GET /{status} 404": 200, "GET /{status} 503": 200, "GET /{status}": 800}
	if diff := cmp.Diff(want, counted); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
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
		{"a port behind it", "10.0.0.1:1", []string{"1.2.3.4:5678"}, "1.2.3.4"},
		{"brackets", "10.0.0.1:1", []string{"[2001:db8::7]"}, "2001:db8::7"},
		{"brackets and a port", "10.0.0.1:1", []string{"[2001:db8::7]:443, 10.0.0.2:80"}, "2001:db8::7"},
		{"half a bracket", "10.0.0.1:1", []string{"[2001:db8::7"}, "10.0.0.1"},
		{"stranger's header is not believed", "203.0.113.9:1", []string{"1.2.3.4"}, "203.0.113.9"},
		{"one proxy", "10.0.0.1:1", []string{"1.2.3.4"}, "1.2.3.4"},
		{"spoofed left part", "10.0.0.1:1", []string{"6.6.6.6, 1.2.3.4"}, "1.2.3.4"},
		{"spoofed first header", "10.0.0.1:1", []string{"6.6.6.6", "1.2.3.4, 10.0.0.2"}, "1.2.3.4"},
		{"garbage", "10.0.0.1:1", []string{"1.2.3.4, garbage"}, "10.0.0.1"},
		{"no header", "10.0.0.1:1", nil, "10.0.0.1"},
		{"mapped", "[::ffff:10.0.0.1]:1", []string{"::ffff:1.2.3.4"}, "1.2.3.4"},
		{"v6", "[fd00::1]:1", []string{"2001:db8::7"}, "2001:db8::7"},
		{"empty header", "10.0.0.1:1", []string{""}, "10.0.0.1"},
		{"empty last header", "10.0.0.1:1", []string{"1.2.3.4", ""}, "10.0.0.1"},
		{"only proxies", "10.0.0.1:1", []string{"10.0.0.3,10.0.0.2"}, "10.0.0.3"},
		{"zone", "[fe80::1%eth0]:1", nil, "fe80::1"},
		{"no peer", "@", nil, "invalid IP"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
			r.RemoteAddr = tt.peer
			for _, f := range tt.forwarded {
				r.Header.Add("X-Forwarded-For", f)
			}
			addr, readable := clientIP(r, trusted)
			if got := addr.String(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			// The proxy's own address, although it named a client.
			if wantReadable := tt.want != "10.0.0.1" || len(tt.forwarded) == 0; readable != wantReadable {
				t.Errorf("readable %v, want %v", readable, wantReadable)
			}
		})
	}
}

// TestHandlersContext: what a handler gets is the request's context, and it is
// over when the answer is.
func TestHandlersContext(t *testing.T) {
	t.Parallel()
	var seen context.Context
	s, _ := newServer(t, t.Output(), Route{Pattern: "GET /x", Budget: time.Hour, Handle: func(w http.ResponseWriter, r *http.Request) error {
		seen = r.Context() //nolint:fatcontext // the test looks at it after the answer
		if seen.Err() != nil || r.Pattern != "GET /x" {
			t.Errorf("err %v, pattern %q", seen.Err(), r.Pattern)
		}
		return WriteJSON(w, http.StatusOK, nil)
	}})
	ask(t, s, "GET", "/x", nil)
	if !errors.Is(seen.Err(), context.Canceled) {
		t.Errorf("err %v after the answer", seen.Err())
	}
}

// A lone unsupported field keeps the code that the service gives it, so that a
// client can tell it from a malformed request.
func TestUnsupportedFields(t *testing.T) {
	t.Parallel()
	codes := Codes{Unsupported: map[string]bff.Code{"color": bff.CodeRoleDenied, "X-Color": bff.CodeRoleDenied}}
	field := func(name, code string) bff.FieldErrors { return bff.FieldErrors{{Field: name, Code: code}} }
	for name, tt := range map[string]struct {
		in   bff.FieldErrors
		want bff.Code
	}{
		"unsupported":               {field("color", bff.FieldUnsupported), bff.CodeRoleDenied},
		"in a part":                 {field("filters.range.color", bff.FieldUnsupported), bff.CodeRoleDenied},
		"in a header":               {field("X-Color", bff.FieldUnsupported), bff.CodeRoleDenied},
		"malformed":                 {field("color", bff.FieldType), bff.CodeValidationFailed},
		"another unsupported field": {field("shape", bff.FieldUnsupported), bff.CodeValidationFailed},
		"two":                       {append(field("color", bff.FieldUnsupported), field("X-Color", bff.FieldUnsupported)...), bff.CodeValidationFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := codes.Classify(t.Context(), tt.in.Err())
			if e.Code != tt.want || len(e.Fields) != len(tt.in) {
				t.Errorf("got %v, want %s with every field", e, tt.want)
			}
		})
	}
}
