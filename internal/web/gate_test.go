package web

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/loadshed"
)

// TestGated: a route waits behind its own gate, and gives its place back however
// it ends.
func TestGated(t *testing.T) {
	t.Parallel()
	gates, err := loadshed.New(loadshed.Config{Classes: []loadshed.Class{{Name: "one", Min: 1, Max: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	var s *Server
	inside := Route{Pattern: "GET /inside", Gate: "one", Handle: nothing}
	outside := Route{Pattern: "GET /outside", Gate: "one", Handle: func(w http.ResponseWriter, r *http.Request) error {
		if p := problemOf(t, ask(t, s, "GET", "/inside", nil)); p.Code != bff.CodeServiceUnavailable || p.RetryAfter == nil {
			t.Errorf("a full gate: %+v", p)
		}
		return nothing(w, r)
	}}
	panics := Route{Pattern: "GET /panics", Gate: "one", Handle: func(http.ResponseWriter, *http.Request) error { panic("handler") }}
	free := Route{Pattern: "GET /free", Handle: nothing}
	routes, err := Gated(gates, []Route{inside, outside, panics, free})
	if err != nil {
		t.Fatal(err)
	}
	s, _ = newServer(t, io.Discard, routes...)
	for _, tt := range []struct {
		path string
		want int
	}{{"/outside", 204}, {"/inside", 204}, {"/panics", 500}, {"/inside", 204}, {"/free", 204}} {
		if w := ask(t, s, "GET", tt.path, nil); w.Code != tt.want {
			t.Errorf("%s: %d, want %d", tt.path, w.Code, tt.want)
		}
	}
	if got := gates.Stats()[0]; got.Inflight != 0 || got.Admitted != 4 || got.Refused != 1 {
		t.Errorf("got %+v", got)
	}
	if _, err := Gated(gates, []Route{{Pattern: "GET /x", Gate: "two"}}); err == nil || !strings.Contains(err.Error(), `"GET /x"`) {
		t.Errorf("an unknown gate: %v", err)
	}
}
