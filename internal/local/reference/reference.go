// Package reference shows the contracts to people in a browser: both services' OpenAPI
// documents as one page, and a page for each error code. Everything comes from what is
// compiled in.
package reference

import (
	_ "embed"
	"html/template"
	"net/http"
	"strings"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/contracts"
)

//go:embed reference.html
var referenceHTML string

var pages = template.Must(template.New("").Funcs(template.FuncMap{"prose": prose, "lower": strings.ToLower}).Parse(referenceHTML))

// API returns the page of both services' operations and schemas.
func API() (http.Handler, error) {
	var services []service
	for _, name := range []string{"consumer", "backoffice"} {
		s, err := read(name, contracts.OpenAPI(name))
		if err != nil {
			return nil, err
		}
		services = append(services, s)
	}
	var page strings.Builder
	if err := pages.ExecuteTemplate(&page, "reference", services); err != nil {
		return nil, err
	}
	body := page.String()
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		head(w)
		_, _ = w.Write([]byte(body)) // the client has left
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
