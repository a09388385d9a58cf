package http1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"
)

// TestAnswers compares with what net/http would have sent.
func TestAnswers(t *testing.T) {
	t.Parallel()
	big := bytes.Repeat([]byte("0123456789"), 10_000)
	for _, tt := range []struct {
		name, method string
		handle       http.HandlerFunc
	}{
		{"nothing", "GET", func(http.ResponseWriter, *http.Request) {}},
		{"a little", "GET", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }},
		{"in pieces", "GET", func(w http.ResponseWriter, _ *http.Request) {
			for range 3 {
				_, _ = io.WriteString(w, "piece")
			}
		}},
		{"with a length", "GET", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "4")
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, "abcd")
		}},
		{"a lot, with a length", "GET", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100000")
			_, _ = w.Write(big)
		}},
		{"a lot, without", "GET", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(big) }},
		{"flushed", "GET", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "a")
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, "b")
		}},
		{"head", "HEAD", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "abc") }},
		{"head with a length", "HEAD", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "77") }},
		{"no content", "GET", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			if _, err := io.WriteString(w, "x"); !errors.Is(err, http.ErrBodyNotAllowed) {
				t.Errorf("wrote: %v", err)
			}
		}},
		{"not modified", "GET", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Etag", `"x"`)
			w.WriteHeader(http.StatusNotModified)
		}},
		{"status", "POST", func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["X-Many"] = []string{"a", "b"}
			w.Header()["X-Evil"] = []string{"a\r\nSet-Cookie: b"}
			w.Header()["Bad Name"] = []string{"a"}
			w.WriteHeader(http.StatusTeapot)
			w.Header().Set("X-Late", "x")
			w.WriteHeader(http.StatusOK)
		}},
		{"too much", "GET", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "2")
			_, _ = io.WriteString(w, "ab")
			if _, err := io.WriteString(w, "c"); !errors.Is(err, http.ErrContentLength) {
				t.Errorf("wrote: %v", err)
			}
		}},
		{"encoded", "GET", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, "\x1f\x8b")
		}},
		{"last", "GET", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, tt.handle, nil)
			here := s.say(tt.method+" / HTTP/1.1\r\nHost: h\r\n\r\n", tt.method)[0]
			there := s.say(tt.method+" http://h/ HTTP/1.1\r\nHost: h\r\n\r\n", tt.method)[0] // net/http's
			for _, r := range []reply{here, there} {
				if _, err := http.ParseTime(r.header.Get("Date")); err != nil {
					t.Error(err)
				}
				r.header.Del("Date")
			}
			if !reflect.DeepEqual(here, there) {
				t.Errorf("got      %.500v\nnet/http %.500v", here, there)
			}
		})
	}
}

// TestWriteDeadline: a handler replaces the write timeout for its answer alone.
func TestWriteDeadline(t *testing.T) {
	t.Parallel()
	results := make(chan error, 1)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		if r.URL.Path == "/extended" {
			if err := errors.Join(rc.SetWriteDeadline(time.Now().Add(time.Minute)), rc.SetReadDeadline(time.Time{}), rc.EnableFullDuplex()); err != nil {
				t.Error(err)
			}
		}
		_, _ = io.WriteString(w, r.URL.Path)
		results <- rc.Flush()
	}, func(std *http.Server) { std.WriteTimeout = time.Nanosecond })
	c := s.dial()
	r := bufio.NewReader(c)
	for range 2 {
		if _, err := io.WriteString(c, "GET /extended HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if err := <-results; err != nil {
			t.Errorf("with a deadline of its own: %v", err)
		}
		if got := s.hear(r, "GET")[0]; got.body != "/extended" || !slices.Equal(got.encoding, []string{"chunked"}) {
			t.Errorf("got %+v", got)
		}
	}
	if _, err := io.WriteString(c, "GET /usual HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-results; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("with the server's timeout: %v", err)
	}
	if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("after a failed write: %v", err)
	}
}

// TestReadDeadline: one that expires while the handler waits ends its context, as
// with net/http, also if it was set before the wait began.
func TestReadDeadline(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"/", "/?waiting", "http://h/", "http://h/?waiting"} { // served here; by net/http
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			done := (<-chan struct{})(nil)
			if r.URL.RawQuery == "waiting" {
				done = r.Context().Done()
			}
			if err := http.NewResponseController(w).SetReadDeadline(time.Now()); err != nil {
				t.Error(err)
			}
			if done == nil {
				done = r.Context().Done()
			}
			<-done // or the test waits for ever
		}, nil)
		if res := s.say("GET "+target+" HTTP/1.1\r\nHost: h\r\n\r\n", "GET")[0]; res.status != http.StatusOK {
			t.Errorf("%s: %+v", target, res)
		}
	}
}

// TestHijack: the handler gets the connection with all that was not yet read, and
// Shutdown does not wait for it.
func TestHijack(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"/", "/?waiting", "http://h/"} { // the last is served by net/http
		conns := make(chan net.Conn, 1)
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.RawQuery == "waiting" {
				_ = r.Context().Done() // the client is being watched
			}
			nc, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrHijacked) {
				t.Errorf("write: %v", err)
			}
			line, err := rw.ReadString('\n')
			if err == nil {
				_, _ = fmt.Fprintf(rw, "heard %s", line)
				err = rw.Flush()
			}
			if err != nil {
				t.Error(err)
			}
			conns <- nc
		}, nil)
		c := s.dial()
		if _, err := io.WriteString(c, "GET "+target+" HTTP/1.1\r\nHost: h\r\n\r\nhello\nmore"); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "heard hello\n" {
			t.Errorf("%s: %q, %v", target, line, err)
		}
		nc := <-conns
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := io.WriteString(nc, "x"); err != nil {
			t.Errorf("%s: the hijacked connection was closed: %v", target, err)
		}
		_ = nc.Close()
	}
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		if _, _, err := http.NewResponseController(w).Hijack(); err == nil {
			t.Error("hijacked after the answer had begun")
		}
	}, nil)
	if res := s.say("GET / HTTP/1.1\r\nHost: h\r\n\r\n", "GET")[0]; res.status != http.StatusAccepted {
		t.Errorf("got %+v", res)
	}
}
