package pages_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff/internal/local/pages"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

func TestIndexLinksWhatIsMounted(t *testing.T) {
	t.Parallel()
	site := serve(t)
	site.Handle("GET /tea/{kind}", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.PathValue("kind")) }))
	site.Link(pages.Link{URL: "http://127.0.0.1:1/x", Name: "Elsewhere", Rank: 2}, pages.Link{URL: "/tea/green", Name: "Tea", Text: "green & <hot>", Rank: 1})

	status, body := get(t, site.URL+"/tea/green")
	if status != http.StatusOK || body != "green" {
		t.Errorf("mounted page: %d %q", status, body)
	}
	if status, body = get(t, site.URL+"/nothing"); status != http.StatusNotFound {
		t.Errorf("unknown page: %d %q", status, body)
	}
	status, body = get(t, site.URL+pages.Index)
	tea, elsewhere := strings.Index(body, `<a href="/tea/green">Tea</a>`), strings.Index(body, `<a href="http://127.0.0.1:1/x">Elsewhere</a>`)
	if status != http.StatusOK || tea < 0 || elsewhere < tea || !strings.Contains(body, "green &amp; &lt;hot&gt;") {
		t.Errorf("index: %d, tea at %d, elsewhere at %d\n%s", status, tea, elsewhere, body)
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(testkit.Context(t), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := new(http.Client).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}
