package reference

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/contracts"
)

func get(t *testing.T, h http.Handler, path string) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("GET %s: %d", path, w.Code)
	}
	return w.Body.String()
}

// The page has every operation of both services, every link on it leads somewhere, and
// nothing is loaded from elsewhere.
func TestReference(t *testing.T) {
	t.Parallel()
	api, err := API()
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /reference", api)
	mux.Handle("GET /errors/{$}", Errors())
	mux.Handle("GET /errors/{code}", Errors())
	page := get(t, mux, "/reference")
	for _, want := range []string{
		`<code>/bff/consumer/v1/search</code>`, `<code>/bff/backoffice/v1/session</code>`, `id="consumer-schema-SearchRequest"`, `href="/errors/MELMASTOON.BFF.CONSUMER.SUSPECTED_BOT"`,
		`point | bounding-box | city | region`, `<pre>{`,
		`await api.call(&#39;removeFromWishlist&#39;, { path: { propertyId } })`, `await api.call(&#39;suggest&#39;, { query: { q } })`, `await desk.call(&#39;arrivals&#39;)`,
		`{ headers: { &#39;If-Match&#39;: &#39;…&#39; }, body })`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%s is not on the page", want)
		}
	}
	ids := map[string]bool{}
	for _, m := range regexp.MustCompile(` id="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		if ids[m[1]] {
			t.Errorf("#%s is there twice", m[1])
		}
		ids[m[1]] = true
	}
	links := map[string]bool{}
	for _, m := range regexp.MustCompile(`href="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		links[m[1]] = true
	}
	for link := range links {
		switch anchor, here := strings.CutPrefix(link, "#"); {
		case here && !ids[anchor]:
			t.Errorf("%s leads nowhere", link)
		case strings.HasPrefix(link, "/errors/"):
			get(t, mux, link)
		}
	}
	if strings.Contains(page, " src=") || strings.Contains(page, "@import") {
		t.Error("something is loaded from elsewhere")
	}
	list := get(t, mux, "/errors/")
	for _, info := range bff.Codes() {
		if !strings.Contains(list, string(info.Code)) || !strings.Contains(get(t, mux, "/errors/"+string(info.Code)), "What to do") {
			t.Errorf("%s: no page", info.Code)
		}
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/errors/NONSENSE", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("an unknown code: %d", w.Code)
	}
}

// An operation has one name, in the contract, in the client and on the page.
func TestOperationsAreCalledByTheirNames(t *testing.T) {
	t.Parallel()
	routes := regexp.MustCompile(`(?m)^  (\w+): \['([A-Z]+)', '([^']+)'\],$`)
	for name, client := range map[string]string{"consumer": "consumer/client.ts", "backoffice": "backoffice/routes.ts"} {
		source, err := os.ReadFile("../../../clients/typescript/" + client)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		for _, m := range routes.FindAllStringSubmatch(string(source), -1) {
			want[m[1]] = m[2] + " " + m[3]
		}
		s, err := read(name, contracts.OpenAPI(name))
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, tag := range s.Tags {
			for _, o := range tag.Operations {
				if strings.Contains(o.Call, ".call('"+o.Name+"'") {
					got[o.Name] = o.Method + " " + o.Path
				}
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: the reference calls %v, the client has %v", name, got, want)
		}
	}
}
