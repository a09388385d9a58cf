package upstream

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestNewReportsEveryFault(t *testing.T) {
	t.Parallel()
	_, err := New(Config{BaseURL: "ftp://user:secret@host/", Retries: -1, HedgeQuantile: 1})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"name is required", "base URL", "timeout is required", "negative", "quantile"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the error quotes the URL: %v", err)
	}
}

func TestRequest(t *testing.T) {
	t.Parallel()
	type seen struct {
		Method, URI, Body, ContentType, RequestID, Key string
	}
	var got seen
	var deadline int
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = seen{r.Method, r.URL.RequestURI(), string(body), r.Header.Get("Content-Type"), r.Header.Get("X-Request-Id"), r.Header.Get("X-Idempotency-Key")}
		deadline, _ = strconv.Atoi(r.Header.Get("X-Deadline-Ms"))
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = io.WriteString(w, `{"name":"Serena"}`)
	}))
	t.Cleanup(srv.Close)
	type id struct{}
	c := newClient(t, Config{
		BaseURL: srv.URL + "/pricing/", Timeout: 2 * time.Minute,
		Header: func(ctx context.Context, h http.Header) { h.Set("X-Request-Id", ctx.Value(id{}).(string)) },
	})
	ctx := context.WithValue(t.Context(), id{}, "req-1")
	var out struct {
		Name string `json:"name"`
	}

	tests := []struct {
		name         string
		call         func() error
		want         seen
		wantDeadline int // at most
	}{
		{
			name: "get",
			call: func() error {
				return c.Get(ctx, "/v1/x/{id}", Path("/v1/x/{id}", "a/b c"), url.Values{"q": {"کابل"}}, &out)
			},
			want: seen{Method: "GET", URI: "/pricing/v1/x/a%2Fb%20c?q=%DA%A9%D8%A7%D8%A8%D9%84", RequestID: "req-1"}, wantDeadline: 120_000,
		},
		{
			name: "post",
			call: func() error {
				return c.Post(ctx, "/v1/x", "/v1/x", map[string]int{"n": 1}, &out, Header("X-Idempotency-Key", "k"))
			},
			want: seen{Method: "POST", URI: "/pricing/v1/x", Body: `{"n":1}`, ContentType: "application/json", RequestID: "req-1", Key: "k"}, wantDeadline: 120_000,
		},
		{
			name: "post without a body",
			call: func() error { return c.Post(ctx, "/v1/x", "/v1/x", nil, &out) },
			want: seen{Method: "POST", URI: "/pricing/v1/x", RequestID: "req-1"}, wantDeadline: 120_000,
		},
		{
			name: "put",
			call: func() error { return c.Put(ctx, "/v1/x", "/v1/x", 7, &out) },
			want: seen{Method: "PUT", URI: "/pricing/v1/x", Body: `7`, ContentType: "application/json", RequestID: "req-1"}, wantDeadline: 120_000,
		},
		{
			name: "what is left to the caller",
			call: func() error {
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				return c.Get(ctx, "/v1/x", "/v1/x", nil, &out)
			},
			want: seen{Method: "GET", URI: "/pricing/v1/x", RequestID: "req-1"}, wantDeadline: 60_000,
		},
	}
	for _, tt := range tests { // one after the other: they share the server
		out.Name = ""
		if err := tt.call(); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if deadline < 1 || deadline > tt.wantDeadline {
			t.Errorf("%s: deadline %d ms, want at most %d", tt.name, deadline, tt.wantDeadline)
		}
		if out.Name != "Serena" {
			t.Errorf("%s: decoded %q", tt.name, out.Name)
		}
	}

	var raw []byte
	if err := c.Get(ctx, "/v1/x", "/v1/x", nil, &raw); err != nil || string(raw) != `{"name":"Serena"}` {
		t.Errorf("raw: %q, %v", raw, err)
	}
	var message json.RawMessage
	if err := c.Get(ctx, "/v1/x", "/v1/x", nil, &message); err != nil || string(message) != `{"name":"Serena"}` {
		t.Errorf("raw message: %q, %v", message, err)
	}
	if err := c.Get(ctx, "/v1/x", "/../admin", nil, nil); err == nil {
		t.Error("a path upwards was called")
	}
}

// Connections are reused after every kind of answer, or a failing upstream
// would also have to bear a storm of handshakes.
//
// By virtual time: a request of which the transport does not know within 50 ms that it
// was written costs its connection, and on a starved machine some are.
func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var opened, served, status atomic.Int64
		listener := make(pipes)
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			served.Add(1)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(int(status.Load()))
			_, _ = io.WriteString(w, `{"error":{"code":"NO_SUCH"},"pad":"`+strings.Repeat("x", 9000)+`"}`)
		})}
		go func() { _ = srv.Serve(listener) }()
		t.Cleanup(func() { _ = srv.Close() })
		transport := newTransport(Config{Timeout: time.Minute, MaxConcurrent: 256})
		transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
			opened.Add(1)
			ours, theirs := net.Pipe()
			listener <- theirs
			return ours, nil
		}
		c := newClient(t, Config{Transport: transport, Breaker: BreakerConfig{Failures: 100}})
		for _, s := range []int64{200, 404, 503, 200, 500, 429, 200} {
			status.Store(s)
			for range 3 {
				_ = c.Get(t.Context(), "/r", "/r", nil, new(map[string]any))
			}
		}
		if n, calls := opened.Load(), served.Load(); n != 1 || calls != 21 {
			t.Errorf("%d connections for %d calls in a row, want 1 for 21", n, calls)
		}
	})
}

// pipes is a listener whose connections nothing outside of the process sees.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, open := <-p; open {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.IPAddr{} }

func TestMetricsAreShared(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	ok := far(func(*http.Request) int { return http.StatusOK })
	missing := far(func(*http.Request) int { return http.StatusNotFound })
	search := newClient(t, Config{Name: "search", Transport: ok, Metrics: reg, Namespace: "bff_test"})
	tenant := newClient(t, Config{Name: "tenant", Transport: missing, Metrics: reg, Namespace: "bff_test"})
	if err := search.Get(t.Context(), "/r", "/r", nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := tenant.Get(t.Context(), "/t/{id}", "/t/1", nil, nil); !NotFound(err) {
		t.Fatal(err)
	}
	for _, want := range []string{
		`bff_test_upstream_calls_total{outcome="ok",route="/r",upstream="search"} 1`,
		`bff_test_upstream_calls_total{outcome="refused",route="/t/{id}",upstream="tenant"} 1`,
		`bff_test_upstream_call_duration_seconds_count{route="/r",upstream="search"} 1`,
		`bff_test_circuit_breaker_state{upstream="search"} 0`,
		`bff_test_circuit_breaker_state{upstream="tenant"} 0`,
		`bff_test_upstream_inflight{upstream="search"} 0`,
		`bff_test_upstream_concurrency_limit{upstream="search"} 64`,
	} {
		if !strings.Contains(scrape(t, reg), want+"\n") {
			t.Errorf("missing: %s", want)
		}
	}
}
