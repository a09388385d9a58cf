package web

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
)

// allowBody is the context of a request whose route reads so many bytes.
func allowBody(ctx context.Context, most int64) context.Context {
	return context.WithValue(ctx, requestKey{}, &Request{MaxBody: most})
}

func nothing(w http.ResponseWriter, _ *http.Request) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// TestMountRefuses: a table that leaves something out, or contradicts itself,
// does not start.
func TestMountRefuses(t *testing.T) {
	t.Parallel()
	read := Route{Pattern: "GET /gifts", Handle: nothing, Kind: PublicRead, Budget: time.Second, Limit: "search", Gate: "search"}
	change := Route{Pattern: "POST /gift", Handle: nothing, Kind: Change, Budget: time.Second, Body: 1 << 10, Limit: "gift", Gate: "gift"}
	internal := Route{Pattern: "POST /internal/gift", Handle: nothing, Kind: Internal, Budget: time.Second, Body: NoBody}
	with := func(rt Route, change func(*Route)) Route { change(&rt); return rt }
	for _, tt := range []struct {
		name string
		row  Route
		want string // empty = it is mounted
	}{
		{"read", read, ""},
		{"change", change, ""},
		{"internal", internal, ""},
		{"a question in a body", with(change, func(rt *Route) { rt.Kind = PublicRead }), ""},
		{"challenge", with(read, func(rt *Route) { rt.Kind = Challenge }), ""},
		{"no body is read", with(change, func(rt *Route) { rt.Body = NoBody }), ""},
		{"no kind", with(change, func(rt *Route) { rt.Kind = "" }), "kind: \"\""},
		{"a kind there is not", with(change, func(rt *Route) { rt.Kind = "gift" }), "kind: \"gift\""},
		{"no handler", with(read, func(rt *Route) { rt.Handle = nil }), "handle: missing"},
		{"no budget", with(read, func(rt *Route) { rt.Budget = 0 }), "budget: missing"},
		{"too long a budget", with(read, func(rt *Route) { rt.Budget = time.Minute }), "budget: 1m0s is longer than the server's 1s"},
		{"no body limit", with(change, func(rt *Route) { rt.Body = 0 }), "body: missing"},
		{"a body where none is", with(read, func(rt *Route) { rt.Body = 1 }), "body: 1 does not fit GET"},
		{"no limit", with(read, func(rt *Route) { rt.Limit = "" }), "limit: missing"},
		{"no gate", with(read, func(rt *Route) { rt.Gate = "" }), "gate: missing"},
		{"a limit on an internal route", with(internal, func(rt *Route) { rt.Limit = "gift" }), "limit: an internal route has none"},
		{"a change by GET", with(read, func(rt *Route) { rt.Kind = Change }), "kind: GET is no method of a change"},
		{"telemetry by GET", with(read, func(rt *Route) { rt.Kind = Telemetry }), "kind: GET is no method of a telemetry"},
		{"a private read by POST", with(change, func(rt *Route) { rt.Kind = PrivateRead }), "kind: POST is no method of a private read"},
		{
			"a public read by DELETE", with(change, func(rt *Route) { rt.Pattern, rt.Kind, rt.Body = "DELETE /gift", PublicRead, 0 }),
			"kind: DELETE is no method of a public read",
		},
		{"a private page on a CDN", with(read, func(rt *Route) { rt.Kind, rt.CDN = PrivateRead, true }), "only a public read"},
		{"no method", with(read, func(rt *Route) { rt.Pattern = "/gifts" }), "pattern: want a method and a path"},
		{"no path", with(read, func(rt *Route) { rt.Pattern = "GET gifts" }), "pattern: want a method and a path"},
		{"an unreadable pattern", with(read, func(rt *Route) { rt.Pattern = "GET /{" }), "GET /{"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, _ := newServer(t, io.Discard)
			switch err := s.Mount(tt.row); {
			case tt.want == "" && err != nil:
				t.Fatal(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Fatalf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestMountReportsEverything: all wrong rows are named at once, and then none is
// mounted; so is a pattern that is there twice.
func TestMountReportsEverything(t *testing.T) {
	t.Parallel()
	s, _ := newServer(t, io.Discard)
	good := Route{Pattern: "GET /a", Handle: nothing, Kind: PublicRead, Budget: time.Second, Limit: "a", Gate: "a"}
	err := s.Mount(good, Route{Pattern: "POST /b", Handle: nothing}, Route{Pattern: "POST /c", Handle: nothing})
	if err == nil || !strings.Contains(err.Error(), `"POST /b"`) || !strings.Contains(err.Error(), `"POST /c"`) {
		t.Fatalf("got %v", err)
	}
	if w := ask(t, s, "GET", "/a", nil); w.Code != http.StatusNotFound {
		t.Errorf("a row of a refused table answers %d", w.Code)
	}
	if err := s.Mount(good, good); err == nil || !strings.Contains(err.Error(), "GET /a") {
		t.Errorf("twice: %v", err)
	}
}

// TestBodyLimitOfARoute: a body is read as far as its own route says.
func TestBodyLimitOfARoute(t *testing.T) {
	t.Parallel()
	s, _ := newServer(t, io.Discard)
	reads := func(w http.ResponseWriter, r *http.Request) error {
		if _, err := ReadBody(w, r); err != nil {
			return err
		}
		return nothing(w, r)
	}
	row := Route{Handle: reads, Kind: Change, Budget: time.Second, Limit: "a", Gate: "a"}
	short, long, none := row, row, row
	short.Pattern, short.Body = "POST /short", 16
	long.Pattern, long.Body = "POST /long", 64
	none.Pattern, none.Body = "POST /none", NoBody
	if err := s.Mount(short, long, none); err != nil {
		t.Fatal(err)
	}
	body := []byte(`{"a":"` + strings.Repeat("x", 24) + `"}`)
	for path, want := range map[string]bff.Code{"/short": bff.CodePayloadTooLarge, "/long": "", "/none": bff.CodePayloadTooLarge} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if want == "" {
			if w.Code != http.StatusNoContent {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
			continue
		}
		if p := problemOf(t, w); p.Code != want {
			t.Errorf("%s: got %s, want %s", path, p.Code, want)
		}
	}
}
