package consumerhttp_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff/internal/consumer/consumerhttp"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/internal/web"
)

// publicServer mounts the service's route table with handlers that only note that
// they were called.
func publicServer(t *testing.T, origins ...string) (server *web.Server, routes []web.Route, executed map[string]bool) {
	t.Helper()
	listed, err := web.ParseOrigins(origins)
	if err != nil {
		t.Fatal(err)
	}
	server = web.NewServer(web.Config{
		Codes: consumerhttp.Codes(), Headers: consumerhttp.Headers(), Origins: listed,
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Namespace: "test",
		Budget: 25 * time.Second,
	})
	executed = map[string]bool{}
	routes = consumerhttp.New(consumerhttp.Config{Challenge: nothing}).Routes()
	for i := range routes {
		pattern := routes[i].Pattern
		routes[i].Handle = func(w http.ResponseWriter, r *http.Request) error {
			executed[pattern] = true
			return nothing(w, r)
		}
	}
	if err := server.Mount(routes...); err != nil {
		t.Fatal(err)
	}
	return server, routes, executed
}

// TestEveryChangeRefusesOtherSites walks the route table: no page of a sibling host
// or a foreign site gets through to a handler with anything but a read, nor with a
// body that it can send without asking; a page of a listed origin does.
func TestEveryChangeRefusesOtherSites(t *testing.T) {
	t.Parallel()
	const listed = "https://app.melmastoon.ghasi.io"
	server, routes, executed := publicServer(t, listed)
	send := func(rt web.Route, method, body string, header ...string) *httptest.ResponseRecorder {
		_, path, _ := strings.Cut(rt.Pattern, " ")
		r := httptest.NewRequestWithContext(
			t.Context(), method, "https://www.melmastoon.ghasi.io"+strings.ReplaceAll(path, "{propertyId}", "h1"), strings.NewReader(body),
		)
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		executed[rt.Pattern] = false
		server.ServeHTTP(w, r)
		return w
	}
	changes := 0
	for _, rt := range routes {
		method := rt.Method()
		isRead := method == http.MethodGet || method == http.MethodHead
		if !isRead {
			changes++
		}
		for name, tt := range map[string]struct {
			header []string
			want   int // of changes
		}{
			"sibling":          {[]string{"Origin", "https://hotel.melmastoon.ghasi.io", "Sec-Fetch-Site", "same-site"}, 403},
			"foreign":          {[]string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, 403},
			"old browser":      {[]string{"Origin", "https://hotel.melmastoon.ghasi.io"}, 403},
			"secret origin":    {[]string{"Origin", "null"}, 403},
			"own page":         {[]string{"Origin", "https://www.melmastoon.ghasi.io", "Sec-Fetch-Site", "same-origin"}, 204},
			"listed":           {[]string{"Origin", listed, "Sec-Fetch-Site", "same-site"}, 204},
			"no browser":       {nil, 204},
			"text for a body":  {[]string{"Content-Type", "text/plain"}, 415},
			"listed with text": {[]string{"Content-Type", "text/plain", "Origin", listed}, 415},
		} {
			want, body := tt.want, "{}"
			if isRead {
				want, body = 204, ""
			}
			header := tt.header
			if want != 415 {
				header = append(slices.Clone(header), "Content-Type", "application/json")
			}
			if w := send(rt, method, body, header...); w.Code != want || executed[rt.Pattern] != (want == 204) {
				t.Errorf("%s, %s: %d, want %d; executed: %t", rt.Pattern, name, w.Code, want, executed[rt.Pattern])
			}
		}
		w := send(rt, http.MethodOptions, "", "Origin", listed, "Access-Control-Request-Method", method)
		if allowed := strings.Split(
			w.Header().Get("Access-Control-Allow-Methods"), ", ",
		); w.Code != 204 || !slices.Contains(allowed, method) || executed[rt.Pattern] {
			t.Errorf("%s: preflight of a listed origin: %d %v", rt.Pattern, w.Code, w.Header())
		}
		if w := send(rt, http.MethodOptions, "", "Origin", "https://evil.example", "Access-Control-Request-Method", method); w.Code != 403 || executed[rt.Pattern] {
			t.Errorf("%s: preflight of another origin: %d", rt.Pattern, w.Code)
		}
	}
	if changes < 10 {
		t.Errorf("only %d routes change something: is this the whole table?", changes)
	}
}

// TestPagesOfOtherOriginsHaveEveryHeader: what the description says that operations
// read may be sent, and what it says that answers have can be read; TestContract
// holds the answers themselves to the description.
func TestPagesOfOtherOriginsHaveEveryHeader(t *testing.T) {
	t.Parallel()
	// Browsers send these themselves, and let no page do it.
	browsers := []string{"Dnt", "Sec-Gpc"}
	// Browsers keep these to themselves, or show them to every page.
	never := []string{"Set-Cookie", "Vary", "X-Content-Type-Options", "Cache-Control"}
	wantSent, wantRead := map[string]bool{"Content-Type": true}, map[string]bool{"Allow": true}
	for _, op := range testkit.Contract(t).Operations() {
		if strings.Contains(op.Pattern, "/internal/") {
			continue
		}
		for _, name := range op.Headers {
			if name = textproto.CanonicalMIMEHeaderKey(name); !slices.Contains(browsers, name) {
				wantSent[name] = true
			}
		}
		for _, name := range op.Answers {
			if !slices.Contains(never, name) {
				wantRead[name] = true
			}
		}
	}
	const listed = "https://app.melmastoon.ghasi.io"
	server, _, _ := publicServer(t, listed)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodOptions, consumerhttp.Base+"/search", nil)
	r.Header.Set("Origin", listed)
	r.Header.Set("Access-Control-Request-Method", "POST")
	w := httptest.NewRecorder()
	server.ServeHTTP(w, r)
	list := func(name string) map[string]bool {
		got := map[string]bool{}
		for one := range strings.SplitSeq(w.Header().Get(name), ", ") {
			got[textproto.CanonicalMIMEHeaderKey(one)] = true
		}
		return got
	}
	if diff := cmp.Diff(wantSent, list("Access-Control-Allow-Headers")); diff != "" {
		t.Errorf("headers that a page may send (-described +allowed):\n%s", diff)
	}
	if diff := cmp.Diff(wantRead, list("Access-Control-Expose-Headers")); diff != "" {
		t.Errorf("headers that a page may read (-described +exposed):\n%s", diff)
	}
}
