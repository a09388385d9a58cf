package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

var testNow = time.Date(2026, time.May, 4, 9, 30, 0, 0, time.UTC)

// clock is a clock that tests can move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// fixture is a simulator behind a real server.
type fixture struct {
	*Sim
	t   *testing.T
	url string
	web *http.Client
	clk *clock
}

func newFixture(t *testing.T, edit ...func(*Config)) *fixture {
	t.Helper()
	clk := &clock{now: testNow}
	cfg := Config{Now: clk.Now, Latency: map[string]Latency{}}
	for _, e := range edit {
		e(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		s.Close()
		srv.Close()
	})
	client := srv.Client()
	client.Timeout = time.Minute
	return &fixture{Sim: s, t: t, url: srv.URL, web: client, clk: clk}
}

// do calls a route and decodes the answer into out, if there is one.
func (w *fixture) do(ctx context.Context, method, path string, in, out any) (int, error) {
	var body io.Reader
	switch v := in.(type) {
	case nil:
	case string:
		body = bytes.NewReader([]byte(v))
	default:
		b, err := json.Marshal(v)
		if err != nil {
			return 0, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, w.url+path, body)
	if err != nil {
		return 0, err
	}
	res, err := w.web.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	if out != nil {
		if err := json.Unmarshal(b, out); err != nil {
			return res.StatusCode, err
		}
	}
	return res.StatusCode, nil
}

func (w *fixture) want(status int, method, path string, in, out any) {
	w.t.Helper()
	got, err := w.do(w.t.Context(), method, path, in, out)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	if got != status {
		w.t.Fatalf("%s %s: status %d, want %d", method, path, got, status)
	}
}

type problem struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Fields  []struct {
			Field string `json:"field"`
			Code  string `json:"code"`
		} `json:"fields"`
	} `json:"error"`
}

func (p problem) fields() []string {
	var out []string
	for _, f := range p.Error.Fields {
		out = append(out, f.Field)
	}
	return out
}
