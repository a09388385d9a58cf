package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// FuzzFind: what the table finds, the mux finds too, with the same value of the
// wildcard.
func FuzzFind(f *testing.F) {
	patterns := []string{
		"POST /v1/search", "GET /v1/search", "GET /v1/hotels/{id}", "GET /v1/hotels/compare", "POST /v1/hotels/compare", "GET /v1/hotels/{id}/rates",
		"DELETE /v1/lists/{list}/{item}", "GET /v1/files/{path...}", "GET /v1/{$}", "GET /v1/tree/", "PUT /v1/hotels/{id}",
	}
	mux, table := http.NewServeMux(), newTable()
	var got *http.Request
	for _, p := range patterns {
		mux.HandleFunc(p, func(_ http.ResponseWriter, r *http.Request) { got = r })
		table.add(p, &route{name: p})
	}
	for _, path := range []string{
		"/v1/search", "/v1/search/", "/v1/hotels/prp_1", "/v1/hotels/compare", "/v1/hotels/", "/v1/hotels/a%2Fb", "/v1/hotels/..", "/v1/hotels/.",
		"/v1//hotels/x", "/v1/hotels/x/rates", "/v1/lists/a/b", "/v1/files/a/b", "/v1/", "/v1/tree/x", "/v1/hotels/%41", "/v1/hotels/{id}", "/", "",
	} {
		f.Add("GET", path)
		f.Add("POST", path)
		f.Add("HEAD", path)
	}
	f.Fuzz(func(t *testing.T, method, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		request := func() *http.Request { return &http.Request{Method: method, URL: u, Host: "h"} }
		r := request()
		rt, tail := table.find(r)
		if rt == nil {
			return
		}
		got = nil
		mux.ServeHTTP(httptest.NewRecorder(), request())
		if got == nil || got.Pattern != rt.name || r.Pattern != rt.name || got.PathValue(rt.tail) != tail {
			t.Errorf("%s %s: the table finds %s, the mux %+v", method, path, rt.name, got)
		}
	})
}

// TestFind: the usual requests need no mux.
func TestFind(t *testing.T) {
	t.Parallel()
	table := newTable()
	for _, p := range []string{"POST /v1/search", "GET /v1/hotels/{id}", "GET /v1/hotels/{id}/rates", "GET /v1/tree/"} {
		table.add(p, &route{name: p})
	}
	for _, tt := range []struct{ method, path, want string }{
		{"POST", "/v1/search", "POST /v1/search"},
		{"GET", "/v1/search", ""},
		{"GET", "/v1/hotels/prp_1", "GET /v1/hotels/{id}"},
		{"GET", "/v1/hotels/", ""},
		{"GET", "/v1/hotels/..", ""},
		{"GET", "/v1/hotels/%70rp_1", ""},
		{"GET", "/v1/hotels/prp_1/rates", ""},
		{"GET", "/v1/tree/", ""},
	} {
		r := httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, http.NoBody)
		got := ""
		if rt, _ := table.find(r); rt != nil {
			got = rt.name
		}
		if got != tt.want {
			t.Errorf("%s %s: found %q, want %q", tt.method, tt.path, got, tt.want)
		}
	}
}
