// Package http1 serves the requests that nearly all requests are: HTTP/1.1,
// complete within a few kilobytes, with nothing to negotiate. Whatever else
// arrives on a connection (HTTP/2, chunked bodies, upgrades, large bodies, old
// or broken clients) goes to net/http with all that was read of it, and that
// connection stays there.
//
// net/http is written for every request there could be, and spends more on one
// than it costs to answer it from memory: a goroutine that watches the client, a
// map that is sorted, a buffer that splits five kilobytes into two packets. Here
// a request is one read and an answer one write, and the client is only watched
// while somebody waits.
//
// What is taken here net/http would have taken too, with the same meaning: the
// parser refuses to be lenient, and tests hold it against net/http's own.
package http1

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Server serves the handler of an http.Server within that server's limits. Its
// hooks (ConnState, ConnContext, BaseContext) are called for connections of
// net/http only.
type Server struct {
	std     *http.Server
	aside   *aside
	closing atomic.Bool
	stopped chan struct{} // closed with it

	mu    sync.Mutex
	ln    net.Listener
	conns map[*conn]struct{}
}

// New returns a Server beside std, which it starts and stops. std has a handler.
func New(std *http.Server) *Server {
	return &Server{
		std: std, conns: map[*conn]struct{}{}, stopped: make(chan struct{}),
		aside: &aside{conns: make(chan net.Conn), closed: make(chan struct{})},
	}
}

// complain tells whoever reads the server's errors.
func (s *Server) complain(format string, args ...any) {
	if s.std.ErrorLog != nil {
		s.std.ErrorLog.Printf(format, args...)
	}
}

// Serve accepts connections until Shutdown or Close, and then returns
// http.ErrServerClosed.
func (s *Server) Serve(ln net.Listener) error {
	s.mu.Lock()
	s.ln = ln
	s.mu.Unlock()
	if s.closing.Load() {
		_ = ln.Close() // it was never used
		return http.ErrServerClosed
	}
	s.aside.addr = ln.Addr()
	rest := make(chan error, 1)
	go func() { rest <- s.std.Serve(s.aside) }()
	err := s.accept(ln)
	if s.closing.Load() {
		return http.ErrServerClosed
	}
	return errors.Join(err, s.Close(), <-rest)
}

func (s *Server) accept(ln net.Listener) error {
	pause := time.Duration(0)
	for {
		nc, err := ln.Accept()
		if err != nil {
			// Too many open files, or a connection that was gone again.
			if ne, ok := errors.AsType[net.Error](err); ok && ne.Temporary() && !s.closing.Load() { //nolint:staticcheck // net/http asks the same
				pause = min(max(2*pause, 5*time.Millisecond), time.Second)
				s.complain("accept: %v; again in %v", err, pause)
				select {
				case <-time.After(pause):
				case <-s.stopped:
				}
				continue
			}
			return err
		}
		pause = 0
		c := newConn(s, nc)
		s.mu.Lock()
		s.conns[c] = struct{}{}
		s.mu.Unlock()
		go c.serve()
	}
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// Shutdown takes no more connections, closes those that are idle and waits for
// the others to finish their request.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.stop()
	for tick := time.NewTicker(5 * time.Millisecond); s.busy(); {
		select {
		case <-ctx.Done():
			tick.Stop()
			return errors.Join(err, ctx.Err())
		case <-tick.C:
		}
	}
	return errors.Join(err, s.std.Shutdown(ctx)) // last: until then somebody may be sent there
}

// Close ends all connections.
func (s *Server) Close() error {
	err := s.stop()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.nc.Close() // its own goroutine tidies up
	}
	s.mu.Unlock()
	return errors.Join(err, s.std.Close())
}

func (s *Server) stop() error {
	if !s.closing.Swap(true) {
		close(s.stopped)
	}
	s.std.SetKeepAlivesEnabled(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ln == nil {
		return nil
	}
	if err := s.ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// freshFor is how long a connection that has not asked anything yet may still be
// about to: whoever closes it loses a request.
const freshFor = 5 * time.Second

// busy closes the connections that are idle and reports whether any is left.
func (s *Server) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if time.Since(c.since) > freshFor {
			c.state.CompareAndSwap(fresh, idle)
		}
		if c.state.CompareAndSwap(idle, closed) {
			_ = c.nc.Close() // nobody asked anything
			delete(s.conns, c)
		}
	}
	return len(s.conns) > 0
}

// aside is the listener through which connections reach net/http.
type aside struct {
	addr   net.Addr
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (a *aside) Accept() (net.Conn, error) {
	select {
	case c := <-a.conns:
		return c, nil
	case <-a.closed:
		return nil, net.ErrClosed
	}
}

func (a *aside) Close() error {
	a.once.Do(func() { close(a.closed) })
	return nil
}

func (a *aside) Addr() net.Addr { return a.addr }

// take hands a connection over, with what was read of it.
func (a *aside) take(nc net.Conn, read []byte) {
	c := &resumed{Conn: nc, read: append([]byte(nil), read...)}
	select {
	case a.conns <- c:
	case <-a.closed:
		_ = nc.Close()
	}
}

// resumed begins with what somebody has read already.
type resumed struct {
	net.Conn

	mu   sync.Mutex // net/http reads behind a handler's back
	read []byte
}

func (c *resumed) Read(p []byte) (int, error) {
	c.mu.Lock()
	if len(c.read) > 0 {
		n := copy(p, c.read)
		if c.read = c.read[n:]; len(c.read) == 0 {
			c.read = nil
		}
		c.mu.Unlock()
		return n, nil
	}
	c.mu.Unlock()
	return c.Conn.Read(p)
}

// CloseWrite lets net/http say that nothing follows, and still read.
func (c *resumed) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
