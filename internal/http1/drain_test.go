package http1

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
)

// bothWays runs a test with the fast path and with net/http alone.
func bothWays(t *testing.T, test func(t *testing.T, opts Options)) {
	t.Helper()
	for name, opts := range map[string]Options{"fast path": {}, "net/http": {NoFastPath: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, opts)
		})
	}
}

const (
	plain = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
	large = "POST / HTTP/1.1\r\nHost: h\r\nTE: trailers\r\nContent-Length: 3\r\n\r\nabc" // always net/http's
)

func echo(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = io.WriteString(w, "done")
}

// client is one kept-alive connection.
type client struct {
	net.Conn
	r *bufio.Reader
}

func (s *served) client() client {
	c := s.dial()
	return client{c, bufio.NewReader(c)}
}

func (c client) send(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// ended reports how the connection ends, which must not be a reset.
func (c client) ended(t *testing.T) {
	t.Helper()
	if _, err := c.r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last answer: %v, want EOF", err)
	}
	_ = c.Close()
}

func (s *served) shutdown() <-chan error {
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(context.WithoutCancel(s.t.Context())) }()
	return stopped
}

// While the server drains it takes connections and requests on old and new ones; each
// answer announces that its connection closes.
func TestDrain(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, opts Options) {
		t.Helper()
		for _, text := range []string{plain, large} {
			s := serveWith(t, echo, nil, opts)
			kept := s.client()
			kept.send(t, text)
			if res := s.hear(kept.r, "GET")[0]; res.closed {
				t.Fatal("closed before the drain")
			}
			s.Drain()
			fresh := s.client()
			for _, c := range []client{kept, fresh} {
				c.send(t, text)
				if res := s.hear(c.r, "GET")[0]; res.body != "done" || !res.closed {
					t.Errorf("while draining: %q, close %v", res.body, res.closed)
				}
				c.ended(t)
			}
			if err := <-s.shutdown(); err != nil {
				t.Error(err)
			}
		}
	})
}

// A request that was sent before Shutdown is answered, whether the server has seen
// its first byte or not, and whether it has seen the connection or not.
func TestShutdownAnswersWhatWasSent(t *testing.T) {
	t.Parallel()
	const rounds, clients = 3, 16
	bothWays(t, func(t *testing.T, opts Options) {
		t.Helper()
		for range rounds {
			for _, text := range []string{plain, large} {
				s := serveWith(t, echo, nil, opts)
				var all []client
				for range clients {
					c := s.client()
					c.send(t, text)
					s.hear(c.r, "GET")
					all = append(all, c)
				}
				for range clients {
					all = append(all, s.client())
				}
				for _, c := range all {
					c.send(t, text)
				}
				stopped := s.shutdown()
				for i, c := range all {
					res := s.hear(c.r, "GET")[0]
					if res.body != "done" {
						t.Errorf("client %d: %q", i, res.body)
					}
					c.ended(t)
				}
				if err := <-stopped; err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// A request whose head has begun when Shutdown is called is answered.
func TestShutdownWaitsForTheRest(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, opts Options) {
		t.Helper()
		for _, text := range []string{plain, large} {
			s := serveWith(t, echo, nil, opts)
			c := s.client()
			c.send(t, text)
			s.hear(c.r, "GET")
			c.send(t, text[:9])
			stopped := s.shutdown()
			<-s.stopped
			c.send(t, text[9:])
			if res := s.hear(c.r, "GET")[0]; res.body != "done" || !res.closed {
				t.Errorf("got %q, close %v", res.body, res.closed)
			}
			c.ended(t)
			if err := <-stopped; err != nil {
				t.Error(err)
			}
		}
	})
}

// What a client sends behind its last request does not cut the answer: the
// connection is not reset.
func TestDrainedConnectionIsNotReset(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, opts Options) {
		t.Helper()
		release := make(chan struct{})
		s := serveWith(t, func(w http.ResponseWriter, r *http.Request) {
			<-release
			echo(w, r)
		}, nil, opts)
		s.Drain()
		c := s.client()
		c.send(t, plain+plain+plain)
		close(release)
		if res := s.hear(c.r, "GET")[0]; res.body != "done" || !res.closed {
			t.Errorf("got %q, close %v", res.body, res.closed)
		}
		c.ended(t)
	})
}

// An HTTP/2 client whose connection is drained goes on with another one.
func TestDrainHTTP2(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, opts Options) {
		t.Helper()
		s := serveWith(t, echo, nil, opts)
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		transport := &http.Transport{Protocols: protocols}
		defer transport.CloseIdleConnections()
		for i := range 20 {
			if i == 10 {
				s.Drain()
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.addr, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			res, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatalf("request %d: %v", i, err)
			}
			if got, err := io.ReadAll(res.Body); err != nil || string(got) != "done" {
				t.Errorf("request %d: %q, %v", i, got, err)
			}
			_ = res.Body.Close()
		}
		if err := <-s.shutdown(); err != nil {
			t.Error(err)
		}
	})
}
