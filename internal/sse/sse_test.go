package sse_test

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/sse"
)

func TestAppend(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		event sse.Event
		want  string
	}{
		{sse.Event{ID: "1-2", Name: "ai", Data: "{}"}, "id: 1-2\nevent: ai\ndata: {}\n\n"},
		{sse.Event{Name: "drain", Data: "a\nb", Retry: 1500 * time.Millisecond}, "retry: 1500\nevent: drain\ndata: a\ndata: b\n\n"},
		{sse.Event{}, "data: \n\n"},
	} {
		if got := string(test.event.Append(nil)); got != test.want {
			t.Errorf("%+v: %q, want %q", test.event, got, test.want)
		}
	}
}

// Events arrive in their order and the end is a clean one, both where the connection
// is taken over and where the handler waits.
func TestConn(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(http.ResponseWriter) http.ResponseWriter{
		"taken over": func(w http.ResponseWriter) http.ResponseWriter { return w },
		"held":       func(w http.ResponseWriter) http.ResponseWriter { return onlyFlushes{w, http.NewResponseController(w)} },
	} {
		gone := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Own", "yes")
			c, err := sse.Accept(wrap(w), r, func(bool) { close(gone) })
			if err != nil {
				t.Error(err)
				return
			}
			for _, data := range []string{"1", "2", "3"} {
				c.Send(sse.Event{Data: data})
			}
			c.End(sse.Event{Data: "end"})
			c.Send(sse.Event{Data: "too late"})
			c.Wait()
		}))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(bufio.NewReader(res.Body))
		_ = res.Body.Close()
		if got := strings.ReplaceAll(string(body), "\n\n", " "); err != nil || got != "data: 1 data: 2 data: 3 data: end " {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if res.Header.Get("X-Own") != "yes" || res.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%s: headers %v", name, res.Header)
		}
		<-gone
		server.Close()
	}
}

// onlyFlushes has no connection to take over, as over HTTP/2.
type onlyFlushes struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (w onlyFlushes) Unwrap() http.ResponseWriter { return nil }

func (w onlyFlushes) FlushError() error { return w.control.Flush() }
