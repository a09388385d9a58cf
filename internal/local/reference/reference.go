// Package reference shows the contracts to people in a browser: both services' OpenAPI
// documents for the page of the reference, and a page for each error code. Everything
// comes from what is compiled in.
package reference

import (
	_ "embed"
	"html"
	"html/template"
	"net/http"
	"regexp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/contracts"
)

//go:embed reference.html
var referenceHTML string

var quoted = regexp.MustCompile("`([^`]+)`")

// prose shows what stands in backticks as code.
func prose(s string) template.HTML {
	return template.HTML("<p>" + quoted.ReplaceAllString(html.EscapeString(s), "<code>$1</code>") + "</p>") //nolint:gosec // it was escaped
}

var pages = template.Must(template.New("").Funcs(template.FuncMap{"prose": prose}).Parse(referenceHTML))

// API returns a service's OpenAPI document as the page of the reference reads it.
func API(service string) (http.Handler, error) {
	d, err := read(service, contracts.OpenAPI(service))
	if err != nil {
		return nil, err
	}
	body, err := d.shown()
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/yaml")
		h.Set("Cache-Control", "no-cache")
		_, _ = w.Write(body) // the client has left
	}), nil
}

// Errors returns the pages of the error codes, below the path's {code}; without one,
// their list.
func Errors() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		codes := bff.Codes()
		code := r.PathValue("code")
		if code == "" {
			head(w)
			_ = pages.ExecuteTemplate(w, "errors", codes)
			return
		}
		for _, info := range codes {
			if string(info.Code) == code {
				head(w)
				_ = pages.ExecuteTemplate(w, "error", info)
				return
			}
		}
		http.NotFound(w, r)
	})
}

func head(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
}
