package pages_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff/internal/local/pages"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

func serve(t *testing.T) *pages.Site {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed with the site
	if err != nil {
		t.Fatal(err)
	}
	site := pages.Serve(ln)
	t.Cleanup(func() { _ = site.Close() })
	return site
}

// TestOnlyThisMachinesPages: neither a name that was rebound to this machine nor a page
// of another origin gets anywhere, save at the services, which decide themselves.
func TestOnlyThisMachinesPages(t *testing.T) {
	t.Parallel()
	site := serve(t)
	site.HandleHere("/_sim/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	part := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, r.Host, " for ", r.Header["X-Forwarded-For"])
	}))
	t.Cleanup(part.Close)
	if err := site.Proxy("/bff/", part.URL); err != nil {
		t.Fatal(err)
	}
	own := strings.TrimPrefix(site.URL, "http://")
	_, port, _ := net.SplitHostPort(own)
	for _, tc := range []struct {
		method, path, host, origin string
		want                       int
		body                       string
	}{
		{"GET", "/index", own, "", 200, ""},
		{"GET", "/index", "localhost:" + port, "", 200, ""},
		{"GET", "/index", "[::1]:" + port, "", 200, ""},
		{"GET", "/", "rebound.example", "", 421, ""},
		{"GET", "/bff/x", "rebound.example:" + port, "", 421, ""},
		{"POST", "/_sim/faults", own, "", 204, ""},
		{"POST", "/_sim/faults", own, "http://" + own, 204, ""},
		{"POST", "/_sim/faults", own, "http://localhost:3000", 403, ""},
		{"GET", "/_sim/faults", own, "http://localhost:3000", 204, ""},
		{"POST", "/bff/x", own, "http://localhost:3000", 200, own + " for [127.0.0.1]"},
	} {
		req, err := http.NewRequestWithContext(testkit.Context(t), tc.method, site.URL+tc.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = tc.host
		req.Header.Set("X-Forwarded-For", "203.0.113.9") // as a client would have itself be another one
		if tc.origin != "" {
			req.Header.Set("Origin", tc.origin)
		}
		res, err := new(http.Client).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != tc.want || tc.body != "" && string(body) != tc.body {
			t.Errorf("%s %s of %s from %q: %d %q %v, want %d %q", tc.method, tc.path, tc.host, tc.origin, res.StatusCode, body, err, tc.want, tc.body)
		}
	}
}

// TestStreamsPassAtOnce: the second line is written after the first was read.
func TestStreamsPassAtOnce(t *testing.T) {
	t.Parallel()
	site, next := serve(t), make(chan struct{})
	part := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "__Host-card", Value: "1", Path: "/", Secure: true})
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = io.WriteString(w, "{}\n")
		_ = http.NewResponseController(w).Flush() // of a recorder there is none
		<-next
		_, _ = io.WriteString(w, "[]\n")
	}))
	t.Cleanup(part.Close)
	if err := site.Proxy("/bff/", part.URL); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(testkit.Context(t), http.MethodGet, site.URL+"/bff/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := new(http.Client).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	lines := bufio.NewScanner(res.Body)
	if !lines.Scan() || lines.Text() != "{}" {
		t.Fatalf("first line %q: %v", lines.Text(), lines.Err())
	}
	close(next)
	if !lines.Scan() || lines.Text() != "[]" || len(res.Cookies()) != 1 {
		t.Errorf("second line %q, cookies %v: %v", lines.Text(), res.Cookies(), lines.Err())
	}
}
