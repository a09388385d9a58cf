package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/loadshed"
)

// counting is a guard that charges every request that reaches it.
type counting struct{ charged atomic.Int64 }

func (c *counting) Protect(routes []Route) ([]Route, error) {
	protected := make([]Route, 0, len(routes))
	for _, rt := range routes {
		if rt.Kind == Internal {
			return nil, fmt.Errorf("route %q is internal", rt.Pattern)
		}
		next := rt.Handle
		rt.Handle = func(w http.ResponseWriter, r *http.Request) error {
			c.charged.Add(1)
			return next(w, r)
		}
		protected = append(protected, rt)
	}
	return protected, nil
}

func oneAtATime(t *testing.T) *loadshed.Shedder {
	t.Helper()
	gates, err := loadshed.New(loadshed.Config{Classes: []loadshed.Class{{Name: "one", Min: 1, Max: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	return gates
}

// TestRefusalIsFree: a request that a load gate refuses costs its client nothing, and a place
// is given back however a request ends.
func TestRefusalIsFree(t *testing.T) {
	t.Parallel()
	gates, guard := oneAtATime(t), &counting{}
	var s *Server
	late, cancel := context.WithTimeout(t.Context(), 0) // a client without time: it does not wait
	defer cancel()
	inside := Route{Pattern: "GET /inside", Gate: "one", Handle: nothing}
	outside := Route{Pattern: "GET /outside", Gate: "one", Handle: func(w http.ResponseWriter, r *http.Request) error {
		for range 11 {
			refused := httptest.NewRecorder()
			s.ServeHTTP(refused, httptest.NewRequestWithContext(late, http.MethodGet, "/inside", nil))
			if p := problemOf(t, refused); p.Code != bff.CodeServiceUnavailable || p.RetryAfter == nil {
				t.Errorf("a full gate: %+v", p)
			}
		}
		return nothing(w, r)
	}}
	panics := Route{Pattern: "GET /panics", Gate: "one", Handle: func(http.ResponseWriter, *http.Request) error { panic("handler") }}
	routes, err := Assemble([]Route{inside, outside, panics}, gates, guard)
	if err != nil {
		t.Fatal(err)
	}
	s, _ = newServer(t, io.Discard, routes...)
	for _, tt := range []struct {
		path string
		want int
	}{{"/outside", 204}, {"/inside", 204}, {"/panics", 500}, {"/inside", 204}} {
		if w := ask(t, s, "GET", tt.path, nil); w.Code != tt.want {
			t.Errorf("%s: %d, want %d", tt.path, w.Code, tt.want)
		}
	}
	if got := gates.Stats()[0]; got.Inflight != 0 || got.Admitted != 4 || got.Refused != 11 {
		t.Errorf("got %+v", got)
	}
	if got := guard.charged.Load(); got != 4 {
		t.Errorf("%d requests were charged, want the 4 that were let in", got)
	}
}

func TestAssembleReportsEverythingWrong(t *testing.T) {
	t.Parallel()
	gates := oneAtATime(t)
	_, err := Assemble([]Route{{Pattern: "GET /x", Gate: "two"}, {Pattern: "GET /y"}}, gates, &counting{})
	if err == nil || !strings.Contains(err.Error(), `"GET /x"`) || !strings.Contains(err.Error(), `"GET /y"`) {
		t.Errorf("unknown gates: %v", err)
	}
	if _, err := Assemble([]Route{{Pattern: "GET /z", Gate: "one", Kind: Internal}}, gates, &counting{}); err == nil {
		t.Error("a route that the guard refuses")
	}
}

// TestWaiting: requests wait at a full gate for their turn; a client that goes away, as with the
// end of the server, waits no longer.
func TestWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gates := oneAtATime(t)
		routes, err := Assemble([]Route{{Pattern: "GET /slow", Gate: "one", Handle: func(w http.ResponseWriter, r *http.Request) error {
			<-time.After(100 * time.Millisecond)
			return nothing(w, r)
		}}}, gates, &counting{})
		if err != nil {
			t.Fatal(err)
		}
		s, _ := newServer(t, io.Discard, routes...)
		var wg sync.WaitGroup
		send := func(ctx context.Context, status *int) {
			wg.Go(func() {
				w := httptest.NewRecorder()
				s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/slow", nil))
				*status = w.Code
			})
			synctest.Wait()
		}
		var served [5]int
		for i := range served {
			send(t.Context(), &served[i])
		}
		ctx, stop := context.WithCancelCause(t.Context())
		gone := 0
		send(ctx, &gone)
		stop(errors.New("the client left"))
		synctest.Wait()
		if gone == 0 {
			t.Error("a client that left still waits")
		}
		wg.Wait()
		for i, status := range served {
			if status != http.StatusNoContent {
				t.Errorf("request %d: %d", i, status)
			}
		}
		if got := gates.Stats()[0]; got.Inflight != 0 || got.Admitted != 5 || got.Refused != 0 {
			t.Errorf("got %+v", got)
		}
	})
}
