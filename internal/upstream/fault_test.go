package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"melmastoon.ghasi.io/bff/internal/pause"
)

func answer(w http.ResponseWriter, status int, contentType, body string) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func good(w http.ResponseWriter) { answer(w, http.StatusOK, "application/json", `{"name":"x"}`) }

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// reset breaks the connection with a TCP reset.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

// Everything an upstream can do wrong, on a real connection.
func TestFaults(t *testing.T) {
	t.Parallel()
	json := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { answer(w, status, "application/json", body) }
	}
	tests := []struct {
		name      string
		fault     http.HandlerFunc
		timeout   time.Duration
		want      Error // of the call; zero: it succeeds
		wantCalls int64 // attempts, with two retries allowed
		wantSick  bool  // the breaker counts it
	}{
		{name: "slow", fault: func(w http.ResponseWriter, r *http.Request) { pause.For(r.Context(), 50*time.Millisecond); good(w) }, wantCalls: 1},
		{name: "nobody listens", want: Error{Reason: Failed, Detail: "connection refused"}, wantSick: true},
		{
			name: "reset", fault: func(w http.ResponseWriter, _ *http.Request) { reset(w) }, want: Error{Reason: Failed, Detail: "connection reset"},
			wantCalls: 3, wantSick: true,
		},
		{
			name: "closed without an answer", fault: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			want: Error{Reason: Failed, Detail: "answer cut short"}, wantCalls: 3, wantSick: true,
		},
		{
			name: "hang before the answer", timeout: 100 * time.Millisecond, fault: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			want: Error{Reason: Timeout}, wantCalls: 1, wantSick: true,
		},
		{name: "hang within the answer", timeout: 100 * time.Millisecond, fault: func(w http.ResponseWriter, r *http.Request) {
			good(w)
			flush(w)
			<-r.Context().Done()
		}, want: Error{Reason: Timeout}, wantCalls: 1, wantSick: true},
		{name: "body shorter than declared", fault: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			good(w)
		}, want: Error{Reason: Failed, Detail: "answer cut short"}, wantCalls: 3, wantSick: true},
		{name: "chunked body broken off", fault: func(w http.ResponseWriter, _ *http.Request) {
			good(w)
			flush(w)
			panic(http.ErrAbortHandler)
		}, want: Error{Reason: Failed, Detail: "answer cut short"}, wantCalls: 3, wantSick: true},
		{name: "JSON broken off", fault: json(200, `{"name":"x`), want: Error{Reason: Garbage, Detail: "unexpected JSON"}, wantCalls: 1, wantSick: true},
		{name: "JSON of another shape", fault: json(200, `{"name":[1]}`), want: Error{Reason: Garbage, Detail: "unexpected JSON"}, wantCalls: 1, wantSick: true},
		{
			name: "empty", fault: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
			want: Error{Reason: Garbage, Detail: "not JSON by its content type"}, wantCalls: 1, wantSick: true,
		},
		{
			name: "a login page", fault: func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, "text/html", "<html>") },
			want: Error{Reason: Garbage, Detail: "not JSON by its content type"}, wantCalls: 1, wantSick: true,
		},
		{
			name: "huge, declared", fault: json(200, `"`+strings.Repeat("x", 2000)+`"`), want: Error{Reason: Garbage, Detail: "answer too large"}, wantCalls: 1,
			wantSick: true,
		},
		{name: "huge, not declared", fault: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for r.Context().Err() == nil { // without end
				if _, err := io.WriteString(w, strings.Repeat("x", 1000)); err != nil {
					return
				}
				flush(w)
			}
		}, want: Error{Reason: Garbage, Detail: "answer too large"}, wantCalls: 1, wantSick: true},
		{name: "redirect", fault: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		}, want: Error{Reason: Garbage, Status: 302, Detail: "redirect"}, wantCalls: 1, wantSick: true},
		{
			name: "not found", fault: json(404, `{"error":{"code":"MELMASTOON.X.NOT_FOUND","message":"secret"}}`),
			want: Error{Reason: Failed, Status: 404, Code: "MELMASTOON.X.NOT_FOUND"}, wantCalls: 1,
		},
		{
			name: "refused with a code that is none", fault: json(409, `{"error":{"code":"guest ali@example.com"}}`), want: Error{Reason: Failed, Status: 409},
			wantCalls: 1,
		},
		{name: "too many requests", fault: json(429, `{}`), want: Error{Reason: Shed, Status: 429}, wantCalls: 1, wantSick: true},
		{name: "internal error", fault: json(500, `{}`), want: Error{Reason: Failed, Status: 500}, wantCalls: 1, wantSick: true},
		{name: "unavailable", fault: json(503, `{}`), want: Error{Reason: Failed, Status: 503}, wantCalls: 3, wantSick: true},
		{name: "unavailable for a while", fault: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "30")
			answer(w, 503, "application/json", `{}`)
		}, want: Error{Reason: Failed, Status: 503}, wantCalls: 1, wantSick: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				tt.fault(w, r)
			}))
			if tt.fault == nil {
				srv.Close()
			}
			t.Cleanup(srv.Close)
			if tt.timeout == 0 {
				tt.timeout = time.Minute
			}
			c := newClient(t, Config{BaseURL: srv.URL, Timeout: tt.timeout, Retries: 2, MaxBody: 1000, Breaker: BreakerConfig{Failures: 1}})
			var out struct {
				Name string `json:"name"`
			}
			err := c.Get(t.Context(), "/v1/x/{id}", "/v1/x/guest-4711", nil, &out)

			if tt.want.Reason == "" {
				if err != nil || out.Name != "x" {
					t.Fatalf("got %q, %v", out.Name, err)
				}
			} else {
				got, ok := errors.AsType[*Error](err)
				if !ok {
					t.Fatalf("got %v", err)
				}
				tt.want.Upstream, tt.want.Route = "far", "/v1/x/{id}"
				if diff := cmp.Diff(&tt.want, got, cmpopts.IgnoreUnexported(Error{})); diff != "" {
					t.Errorf("error (-want +got):\n%s", diff)
				}
				for _, secret := range []string{srv.URL, "guest-4711", "secret", "ali@", "127.0.0.1"} {
					if strings.Contains(err.Error(), secret) {
						t.Errorf("%q is in %q", secret, err)
					}
				}
				if NotFound(err) != (tt.want.Status == 404) {
					t.Errorf("NotFound is %v", NotFound(err))
				}
			}
			if n := calls.Load(); n != tt.wantCalls {
				t.Errorf("%d attempts, want %d", n, tt.wantCalls)
			}
			if sick := c.State() == "open"; sick != tt.wantSick {
				t.Errorf("breaker is %s", c.State())
			}
		})
	}
}

// What is not idempotent is sent once, even where net/http itself would repeat
// it: on a kept-alive connection that breaks, with an idempotency key.
func TestPostIsSentOnce(t *testing.T) {
	t.Parallel()
	for _, body := range []any{nil, map[string]int{"n": 1}} {
		t.Run(fmt.Sprint(body), func(t *testing.T) {
			t.Parallel()
			var posts atomic.Int64
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					good(w)
					return
				}
				posts.Add(1)
				_, _ = io.Copy(io.Discard, r.Body)
				panic(http.ErrAbortHandler)
			}))
			t.Cleanup(srv.Close)
			c := newClient(t, Config{BaseURL: srv.URL, Retries: 2})
			if err := c.Get(t.Context(), "/r", "/r", nil, nil); err != nil { // the connection to keep
				t.Fatal(err)
			}
			if err := c.Post(t.Context(), "/r", "/r", body, nil, Header("X-Idempotency-Key", "k")); ReasonOf(err) != Failed {
				t.Errorf("got %v", err)
			}
			if n := posts.Load(); n != 1 {
				t.Errorf("sent %d times", n)
			}
			// The connection is gone by now, so net/http does not meet it again.
			if err := c.Post(t.Context(), "/r", "/r", body, nil, Idempotent()); ReasonOf(err) != Failed {
				t.Errorf("got %v", err)
			}
			if n := posts.Load(); n != 1+3 {
				t.Errorf("an idempotent POST was sent %d times, want 3", n-1)
			}
		})
	}
}

// A caller that goes away is no failure: not counted, not retried.
func TestCancellation(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	var calls atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		arrived <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(srv.Close)
	c := newClient(t, Config{BaseURL: srv.URL, Retries: 3, HedgeAfter: time.Hour, Breaker: BreakerConfig{Failures: 1}})
	const n = 8
	for range n {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-arrived
			cancel()
		}()
		err := c.Get(ctx, "/r", "/r", nil, nil)
		if _, typed := errors.AsType[*Error](err); !errors.Is(err, context.Canceled) || typed {
			t.Errorf("got %v", err)
		}
	}
	if calls.Load() != n || c.State() != "closed" {
		t.Errorf("%d attempts for %d calls, breaker %s", calls.Load(), n, c.State())
	}
	if c.limiter.inflight != 0 {
		t.Errorf("%d places are still taken", c.limiter.inflight)
	}
}
