package doctor

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/service"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// TestUpstreamIsTheService: what answers at an upstream's address is that upstream only
// if it knows its route.
func TestUpstreamIsTheService(t *testing.T) {
	t.Parallel()
	const here = "/api/v1/things/1"
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	at := func(known, other http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == here {
				known(w, r)
			} else {
				other(w, r)
			}
		}
	}
	platform := answer(404, `{"error":{"code":"ROUTE_NOT_FOUND","message":"no route"}}`)
	for name, test := range map[string]struct {
		h    http.HandlerFunc
		want Verdict
	}{
		"knows it":                        {at(answer(200, `{"items":[]}`), platform), OK},
		"has no such thing":               {at(answer(404, `{"error":{"code":"NOT_FOUND","message":"thing not found"}}`), platform), OK},
		"refuses the tenant":              {at(answer(403, `{"error":{"code":"FORBIDDEN"}}`), platform), OK},
		"another service of the platform": {platform, Wrong},
		"a server without routes":         {http.NotFound, Wrong},
		"a page for people":               {answer(200, "<!doctype html>"), Wrong},
		"a page of a proxy":               {answer(403, "<html>"), Wrong},
		"a redirect":                      {answer(302, ""), Wrong},
		"is ill":                          {answer(503, ""), Warning},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(test.h)
			t.Cleanup(server.Close)
			x := NewExamination(service.Identity{}, &service.Settings{}, Settings{Timeout: time.Minute})
			x.Upstream("things", server.URL+"/", upstream.Probe{Route: "/api/v1/things/{id}", Path: here})
			found := x.run(testkit.Context(t), x.checks[0])
			if len(found) != 1 || found[0].Verdict != test.want || strings.Contains(found[0].Found, "but not as things") != (test.want == Wrong) {
				t.Errorf("%+v, want %s", found, test.want)
			}
		})
	}
}
