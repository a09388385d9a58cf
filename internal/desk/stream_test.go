package desk_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff/internal/desk"
)

// streams answers each connection with the next text.
func (f *front) streams(texts ...string) {
	f.set(func() {
		f.stream = func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/sse/reauth") {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			text := texts[0]
			if len(texts) > 1 {
				texts = texts[1:]
			}
			if text == "unavailable" {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, text)
		}
	})
}

func TestFollow(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	c := f.desk()
	f.streams(
		"retry: 1\n: hello\n\nid: 1-1\nevent: alerts\ndata: {\"a\":1}\ndata: more\n\nid: 1-2\ndata: x\n\nevent: half",
		"unavailable",
		"event: reauth\ndata: {}\n\nid: 1-3\nevent: locks\ndata: y\n\n",
		"event: superseded\ndata: {}\n\n",
	)
	var got []desk.Event
	err := c.Follow(t.Context(), "/sse/stream", func(e desk.Event) error {
		got = append(got, e)
		return nil
	})
	if !errors.Is(err, desk.ErrSuperseded) {
		t.Fatalf("ended with %v", err)
	}
	want := []desk.Event{
		{"1-1", "alerts", "{\"a\":1}\nmore"}, {"1-2", "message", "x"}, {"1-2", "reauth", "{}"}, {"1-3", "locks", "y"}, {"1-3", "superseded", "{}"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	var resumed []string
	for _, r := range f.seen {
		if strings.HasSuffix(r.URL.Path, "/sse/stream") {
			resumed = append(resumed, r.Header.Get("Last-Event-ID"))
		}
	}
	if want := []string{"", "1-2", "1-2", "1-3"}; !slices.Equal(resumed, want) {
		t.Errorf("Last-Event-ID %q, want %q", resumed, want)
	}
	if got := f.paths(); !slices.Contains(got, "/sse/reauth") || !slices.Contains(got, "/auth/refresh") {
		t.Errorf("no fresh proof: %v", got)
	}
}

func TestFollowEnds(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	c := f.desk()
	mine := errors.New("enough")
	f.streams("id: 7-7\ndata: x\n\n")
	if err := c.Follow(t.Context(), "/sse/stream", func(desk.Event) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("the caller's error: %v", err)
	}
	err := c.Follow(t.Context(), "/session", func(desk.Event) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "not a stream") {
		t.Errorf("no stream: %v", err)
	}
	f.set(func() {
		f.stream = func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Last-Event-ID") != "7-7" {
				t.Error("another run starts anew")
			}
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprint(w, `{"error":{"code":"X","detail":"no"}}`)
		}
	})
	err = c.Follow(t.Context(), "/sse/stream", func(desk.Event) error { return nil })
	if r, ok := errors.AsType[*desk.Refusal](err); !ok || r.Status != 403 {
		t.Errorf("a refusal: %v", err)
	}
}
