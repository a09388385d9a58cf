package pages_test

import (
	"compress/gzip"
	"errors"
	"html/template"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	bff "melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/local/pages"
)

func ask(t *testing.T, h http.Handler, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestShellSpeaksTheReadersLanguage(t *testing.T) {
	t.Parallel()
	page := pages.Page{Name: "console", Title: "A page", Localised: true}
	for _, tt := range []struct {
		name, path string
		header     []string
		want       string
	}{
		{"nothing", "/", nil, `<html lang="en" dir="ltr" data-page`},
		{"the browser's", "/", []string{"Accept-Language", "de, ps;q=0.9"}, `<html lang="ps-AF" dir="rtl"`},
		{"kept", "/", []string{"Accept-Language", "ps", "Cookie", "locale=tg-TJ"}, `<html lang="tg-TJ" dir="ltr"`},
		{"in the address", "/?lang=ur", []string{"Cookie", "locale=tg-TJ"}, `<html lang="ur" dir="rtl"`},
		{"nonsense", "/?lang=%22%3E", []string{"Cookie", "locale=klingon; theme=blink"}, `<html lang="en" dir="ltr" data-page`},
		{"dark", "/", []string{"Cookie", "theme=dark"}, `<html lang="en" dir="ltr" data-theme="dark"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if w := ask(t, page, tt.path, tt.header...); !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("want %s in\n%s", tt.want, w.Body)
			}
		})
	}
	if w := ask(t, pages.Page{Name: "console"}, "/?lang=ur"); !strings.Contains(w.Body.String(), `lang="en"`) {
		t.Error("a page in English alone followed its reader")
	}
}

func TestShellHoldsWhatThePageRenders(t *testing.T) {
	t.Parallel()
	page := pages.Page{Name: "console", Title: "usual", Render: func(r *http.Request, _ bff.Locale) (pages.View, error) {
		if r.URL.Path == "/broken" {
			return pages.View{}, errors.New("no hotels")
		}
		return pages.View{Status: http.StatusNotFound, Title: "<Tea>", Body: template.HTML("<h1>Tea</h1>"), Data: map[string]string{"a": "</script>"}}, nil
	}}
	w := ask(t, page, "/")
	for _, want := range []string{"<title>&lt;Tea&gt;</title>", `<div id="page"><h1>Tea</h1></div>`, `id="data">{"a":"\u003c/script\u003e"}</script>`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("want %s in\n%s", want, w.Body)
		}
	}
	if w.Code != http.StatusNotFound {
		t.Errorf("status %d", w.Code)
	}
	if w := ask(t, page, "/broken"); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "no hotels") {
		t.Errorf("broken: %d %s", w.Code, w.Body)
	}
}

// What runs on a page comes from its server: an injected script or style does not.
func TestShellAllowsNothingInline(t *testing.T) {
	t.Parallel()
	w := ask(t, pages.Page{Name: "console", Title: "A page"}, "/")
	if policy := w.Header().Get("Content-Security-Policy"); strings.Contains(policy, "unsafe") || !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "http") {
		t.Errorf("policy %q", policy)
	}
	if inline := regexp.MustCompile(`(?s)<style|<script(?: type="(?:module|text/javascript)")?>| style=| on\w+=`).FindString(w.Body.String()); inline != "" {
		t.Errorf("%q stands in the page", inline)
	}
	again := ask(t, pages.Page{Name: "console", Title: "A page"}, "/", "If-None-Match", w.Header().Get("Etag"))
	if again.Code != http.StatusNotModified || again.Body.Len() > 0 {
		t.Errorf("asked again: %d, %d bytes", again.Code, again.Body.Len())
	}
}

func TestFilesOfAPageAreServed(t *testing.T) {
	t.Parallel()
	site := serve(t)
	site.Handle("GET /console", pages.Page{Name: "console", Title: "A page"})
	_, body := get(t, site.URL+"/console")
	files := regexp.MustCompile(`/assets/[^"]+`).FindAllString(body, -1)
	if len(files) < 3 {
		t.Fatalf("the shell names %v", files)
	}
	for _, file := range files {
		res, packed := fetch(t, site.URL+file, "gzip") //nolint:bodyclose // fetch has read and closed it
		if h := res.Header; res.StatusCode != http.StatusOK || !strings.Contains(h.Get("Cache-Control"), "immutable") || h.Get("Content-Type") == "" || h.Get("Etag") == "" {
			t.Errorf("%s: %d %v", file, res.StatusCode, h)
		}
		if _, plain := fetch(t, site.URL+file, "identity"); plain != packed { //nolint:bodyclose // as above
			t.Errorf("%s: %d bytes are packed, %d plain", file, len(packed), len(plain))
		}
	}
	for _, path := range []string{"/assets/nothing.js", "/assets/console.json", "/assets/README", "/assets/..%2fpages.go"} {
		if status, _ := get(t, site.URL+path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status, body := get(t, site.URL+"/favicon.ico"); status != http.StatusOK || !strings.HasPrefix(body, "<svg") {
		t.Errorf("favicon: %d %q", status, body)
	}
}

func fetch(t *testing.T, url, encoding string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", encoding)
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var in io.Reader = res.Body
	if res.Header.Get("Content-Encoding") == "gzip" {
		if in, err = gzip.NewReader(res.Body); err != nil {
			t.Fatal(err)
		}
	}
	b, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(b)
}
