package web

import (
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
)

func TestParseOrigins(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"https://app.example.org", "https://app.example.org:8443", "http://127.0.0.1:5173", "http://[::1]:5173", "https://xn--mgbai9azgqp6j.example", Loopback, OriginsOfHost("192.168.1.5"), OriginsOfHost("laptop.local"),
	} {
		if o, err := ParseOrigins([]string{good}); err != nil || o.Empty() {
			t.Errorf("%s: %v", good, err)
		}
	}
	bad := []string{
		"", "*", "null", "app.example.org", "https://", "https://*.example.org", "https://app.example.org/", "https://app.example.org/path",
		"https://app.example.org:443", "http://app.example.org:80", "https://app.example.org:", "HTTPS://app.example.org", "https://App.example.org",
		"https://user@app.example.org", "https://app.example.org?q", "ftp://app.example.org", "https://app example.org", "http://[::0001]:1", "https://گل.example", "Loopback", "host:", "host:192.168.1.5:3000", "host:*", "host:http://a", "Host:a",
	}
	_, err := ParseOrigins(bad)
	if err == nil || strings.Count(err.Error(), "\n") != len(bad)-1 {
		t.Errorf("want all %d refused at once, got %v", len(bad), err)
	}
	for _, one := range bad {
		if _, err := ParseOrigins([]string{one}); err == nil {
			t.Errorf("%q is taken for an origin", one)
		}
	}
	if o, err := ParseOrigins(nil); err != nil || !o.Empty() {
		t.Errorf("no origins: %v", err)
	}
}

// originServer has one route of each method, and an internal one.
func originServer(t *testing.T, origins ...string) *Server {
	t.Helper()
	listed, err := ParseOrigins(origins)
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(Config{
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Namespace: "test",
		Budget:  time.Second,
		Origins: listed, Headers: Headers{Read: []string{"X-Own"}, Written: []string{"X-Told"}},
	})
	row := Route{Handle: nothing, Kind: Change, Budget: time.Second, Limit: "a", Gate: "a"}
	routes := []Route{{Pattern: "GET /thing", Handle: nothing, Kind: PublicRead, Budget: time.Second, Limit: "a", Gate: "a"}}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch} {
		rt := row
		rt.Pattern, rt.Body = method+" /thing", 64
		routes = append(routes, rt)
	}
	row.Pattern = "DELETE /thing"
	routes = append(routes, row,
		Route{
			Pattern: "POST /limited", Handle: func(http.ResponseWriter, *http.Request) error { return bff.Errorf(bff.CodeRateLimited, "wait") }, Kind: Change,
			Budget: time.Second, Body: 64, Limit: "a", Gate: "a",
		},
		Route{Pattern: "POST /internal", Handle: nothing, Kind: Internal, Budget: time.Second, Body: 64})
	if err := s.Mount(routes...); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCrossSiteChanges: a page of another site changes nothing in its user's name,
// unless its origin is listed.
func TestCrossSiteChanges(t *testing.T) {
	t.Parallel()
	const refused = http.StatusForbidden
	const listed = "https://app.example.org"
	server := originServer(t, listed)
	for _, tt := range []struct {
		name string
		sent http.Header
		want int // of changes; reads are answered
	}{
		{"no browser", http.Header{}, 204},
		{"own page", http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {"https://www.example.org"}}, 204},
		{"own page, no TLS", http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {"http://www.example.org"}}, 204},
		{"own page, another case", http.Header{"Origin": {"https://WWW.example.org"}}, 204},
		{"own page of an old browser", http.Header{"Origin": {"https://www.example.org"}}, 204},
		{"own page without origin", http.Header{"Sec-Fetch-Site": {"same-origin"}}, 204},
		{"the address bar", http.Header{"Sec-Fetch-Site": {"none"}}, 204},
		{"sibling", http.Header{"Sec-Fetch-Site": {"same-site"}, "Origin": {"https://hotel.example.org"}}, refused},
		{"sibling of an old browser", http.Header{"Origin": {"https://hotel.example.org"}}, refused},
		{"sibling without origin", http.Header{"Sec-Fetch-Site": {"same-site"}}, refused},
		{"foreign", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.example"}}, refused},
		{"foreign without origin", http.Header{"Sec-Fetch-Site": {"cross-site"}}, refused},
		{"another port", http.Header{"Origin": {"https://www.example.org:8443"}}, refused},
		{"a name that begins like ours", http.Header{"Origin": {"https://www.example.org.evil.example"}}, refused},
		{"our name as user", http.Header{"Origin": {"https://www.example.org@evil.example"}}, refused},
		{"own name, another scheme", http.Header{"Origin": {"ftp://www.example.org"}}, refused},
		{"secret origin", http.Header{"Origin": {"null"}}, refused},
		{"secret origin, said to be ours", http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {"null"}}, refused},
		{"foreign, said to be ours", http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {"https://evil.example"}}, refused},
		{"ours, said to be foreign", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://www.example.org"}}, refused},
		{"empty origin", http.Header{"Origin": {""}}, refused},
		{"empty site", http.Header{"Sec-Fetch-Site": {""}}, refused},
		{"unknown site", http.Header{"Sec-Fetch-Site": {"friendly"}}, refused},
		{"two origins", http.Header{"Origin": {"https://www.example.org", "https://evil.example"}}, refused},
		{"two origins, one listed", http.Header{"Origin": {listed, "https://evil.example"}}, refused},
		{"two sites", http.Header{"Sec-Fetch-Site": {"same-origin", "cross-site"}}, refused},
		{"listed", http.Header{"Sec-Fetch-Site": {"same-site"}, "Origin": {listed}}, 204},
		{"listed, from afar", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {listed}}, 204},
		{"listed, another port", http.Header{"Sec-Fetch-Site": {"same-site"}, "Origin": {listed + ":8443"}}, refused},
		{"listed, without TLS", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"http://app.example.org"}}, refused},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for method, want := range map[string]int{"GET": 204, "HEAD": 204, "POST": tt.want, "PUT": tt.want, "PATCH": tt.want, "DELETE": tt.want} {
				w := ask(t, server, method, "https://www.example.org/thing", func(r *http.Request) { r.Header = tt.sent.Clone() })
				if w.Code != want {
					t.Errorf("%s: %d, want %d", method, w.Code, want)
				} else if want == refused {
					if p := problemOf(t, w); p.Code != bff.CodeOriginNotAllowed {
						t.Errorf("%s: %s", method, p.Code)
					}
				}
			}
			if w := ask(t, server, "POST", "https://www.example.org/internal", func(r *http.Request) { r.Header = tt.sent.Clone() }); w.Code != 204 {
				t.Errorf("an internal call: %d", w.Code)
			}
		})
	}
}

// TestBodyNeedsType: every other type can be sent by a page without asking first, or
// by a form.
func TestBodyNeedsType(t *testing.T) {
	t.Parallel()
	server := originServer(t)
	for _, tt := range []struct {
		name, body string
		sent       http.Header
		length     int64
		want       int
	}{
		{"no body", "", nil, 0, 204},
		{"JSON", "{}", http.Header{"Content-Type": {"application/json"}}, 2, 204},
		{"JSON in UTF-8", "{}", http.Header{"Content-Type": {"Application/JSON; charset=utf-8"}}, 2, 204},
		{"a kind of JSON", "{}", http.Header{"Content-Type": {"application/merge-patch+json"}}, 2, 204},
		{"none", "{}", nil, 2, 415},
		{"none, of unknown length", "{}", nil, -1, 415},
		{"empty", "{}", http.Header{"Content-Type": {""}}, 2, 415},
		{"text", "{}", http.Header{"Content-Type": {"text/plain"}}, 2, 415},
		{"text that mentions JSON", "{}", http.Header{"Content-Type": {"text/plain; x=application/json"}}, 2, 415},
		{"form", "{}", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, 2, 415},
		{"unreadable", "{}", http.Header{"Content-Type": {";;;"}}, 2, 415},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
				w := ask(t, server, method, "/thing", func(r *http.Request) {
					r.Header, r.Body, r.ContentLength = tt.sent.Clone(), io.NopCloser(strings.NewReader(tt.body)), tt.length
				})
				if w.Code != tt.want {
					t.Errorf("%s: %d, want %d", method, w.Code, tt.want)
				} else if tt.want == 415 && problemOf(t, w).Code != bff.CodeUnsupportedMediaType {
					t.Errorf("%s: %s", method, w.Body)
				}
			}
		})
	}
}

// sharedHeaders are the headers of an answer that decide what a page may do with it.
func sharedHeaders(w *httptest.ResponseRecorder) map[string]string {
	got := map[string]string{}
	for name, values := range w.Header() {
		if strings.HasPrefix(name, "Access-Control-") || name == "Vary" {
			got[name] = strings.Join(values, " | ")
		}
	}
	return got
}

// TestSharedAnswers: pages of listed origins may read every answer, refusals
// included, and no others may.
func TestSharedAnswers(t *testing.T) {
	t.Parallel()
	const app, old = "https://app.example.org", "https://old.example.org:8443"
	with := func(origin string) map[string]string {
		return map[string]string{
			"Vary": "Origin", "Access-Control-Allow-Origin": origin, "Access-Control-Allow-Credentials": "true",
			"Access-Control-Expose-Headers": "X-Request-Id, Traceparent, Retry-After, Allow, X-Told",
		}
	}
	without := map[string]string{"Vary": "Origin"}
	for _, tt := range []struct {
		name    string
		origins []string
		origin  []string
		want    map[string]string
	}{
		{"none listed", nil, []string{app}, map[string]string{}},
		{"none listed, none sent", nil, nil, map[string]string{}},
		{"none sent", []string{app}, nil, without},
		{"listed", []string{app, old}, []string{app}, with(app)},
		{"listed with a port", []string{app, old}, []string{old}, with(old)},
		{"own page", []string{app}, []string{"https://www.example.org"}, without},
		{"not listed", []string{app}, []string{"https://evil.example"}, without},
		{"a longer name", []string{app}, []string{app + ".evil.example"}, without},
		{"null", []string{app}, []string{"null"}, without},
		{"star", []string{app}, []string{"*"}, without},
		{"two", []string{app, old}, []string{app, old}, without},
		{"loopback", []string{Loopback}, []string{"http://localhost:5173"}, with("http://localhost:5173")},
		{"loopback, a name", []string{Loopback}, []string{"http://shop.localhost:5173"}, with("http://shop.localhost:5173")},
		{"loopback, IPv4", []string{Loopback}, []string{"http://127.0.0.1:3000"}, with("http://127.0.0.1:3000")},
		{"loopback, IPv6", []string{Loopback}, []string{"http://[::1]:3000"}, with("http://[::1]:3000")},
		{"loopback and a foreign one", []string{Loopback}, []string{"https://evil.example"}, without},
		{"loopback and a name that ends like it", []string{Loopback}, []string{"http://notlocalhost"}, without},
		{"loopback and a name that begins like it", []string{Loopback}, []string{"http://127.0.0.1.evil.example"}, without},
		{"loopback and null", []string{Loopback}, []string{"null"}, without},
		{"a host", []string{OriginsOfHost("192.168.1.5")}, []string{"http://192.168.1.5:5173"}, with("http://192.168.1.5:5173")},
		{"a host and another one", []string{OriginsOfHost("192.168.1.5")}, []string{"http://192.168.1.50:5173"}, without},
		{"a host and one that ends like it", []string{OriginsOfHost("laptop.local")}, []string{"http://evil.laptop.local"}, without},
		{"a host and loopback", []string{OriginsOfHost("192.168.1.5")}, []string{"http://localhost:5173"}, without},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := originServer(t, tt.origins...)
			send := func(method, path string, more ...string) *httptest.ResponseRecorder {
				return ask(t, server, method, "https://www.example.org"+path, func(r *http.Request) {
					if tt.origin != nil {
						r.Header["Origin"] = tt.origin
					}
					for i := 0; i+1 < len(more); i += 2 {
						r.Header.Set(more[i], more[i+1])
					}
				})
			}
			for name, w := range map[string]*httptest.ResponseRecorder{
				"read": send("GET", "/thing"), "head": send("HEAD", "/thing"), "limited": send("POST", "/limited"), "nowhere": send("GET", "/nowhere"),
				"wrong method": send("GET", "/limited"), "bad id": send("GET", "/thing", "X-Request-Id", "?"),
				"plain options": send("OPTIONS", "/thing"),
			} {
				if diff := cmp.Diff(tt.want, sharedHeaders(w)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
			if tt.origin == nil {
				return
			}
			w := send("OPTIONS", "/thing", "Access-Control-Request-Method", "PUT", "Access-Control-Request-Headers", "content-type,x-own")
			want, status := maps.Clone(tt.want), 204
			if want["Access-Control-Allow-Origin"] != "" {
				want["Access-Control-Allow-Methods"] = "DELETE, GET, HEAD, PATCH, POST, PUT"
				want["Access-Control-Allow-Headers"] = "Content-Type, X-Request-Id, Traceparent, X-Own"
				want["Access-Control-Max-Age"] = "7200"
			} else {
				status = 403
			}
			if diff := cmp.Diff(want, sharedHeaders(w)); w.Code != status || diff != "" {
				t.Errorf("preflight: %d, want %d (-want +got):\n%s", w.Code, status, diff)
			}
			if w := send("OPTIONS", "/nowhere", "Access-Control-Request-Method", "PUT"); w.Code != 404 {
				t.Errorf("preflight of a path that is not there: %d", w.Code)
			}
		})
	}
}

// TestInternalServerSharesNothing: a server of internal routes knows no browsers.
func TestInternalServerSharesNothing(t *testing.T) {
	t.Parallel()
	listed, err := ParseOrigins([]string{"https://app.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(Config{
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Namespace: "test",
		Budget: time.Second, Origins: listed,
	})
	if err := s.Mount(Route{Pattern: "POST /internal", Handle: nothing, Kind: Internal, Budget: time.Second, Body: 64}); err != nil {
		t.Fatal(err)
	}
	for method, want := range map[string]int{"POST": 204, "OPTIONS": 405} {
		w := ask(t, s, method, "/internal", func(r *http.Request) {
			r.Header.Set("Origin", "https://app.example.org")
			r.Header.Set("Access-Control-Request-Method", "POST")
		})
		if got := sharedHeaders(w); w.Code != want || len(got) != 0 {
			t.Errorf("%s: %d %v, want %d and nothing of origins", method, w.Code, got, want)
		}
	}
}
