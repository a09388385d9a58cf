// Package http1 is a fast path for common HTTP/1.1 requests: complete within a
// few kilobytes, with nothing to negotiate. Every other connection (HTTP/2, chunked
// or large bodies, upgrades, old or malformed requests) is handed to net/http
// together with the bytes that were read of it, and stays there.
//
// net/http supports every request there can be, and spends more CPU time on one
// than it takes to answer it from memory: a goroutine that watches the client, a
// sorted header map, a buffer that splits an answer of five kilobytes into two
// packets. Here a request is one read and an answer one write, and the client is
// watched only while a handler waits.
//
// The parser accepts a subset of what net/http accepts, with the same meaning; a
// fuzz test compares the two. A request with both Transfer-Encoding and
// Content-Length, on which two parsers might disagree, is refused.
//
// Handlers see the http.ResponseWriter that they know: http.ResponseController
// flushes, sets deadlines and hijacks. The package knows nothing of its users and
// is imported by internal/daemon alone.
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

// Server serves the handler of an http.Server within that server's limits. The
// hooks of the http.Server (ConnState, ConnContext, BaseContext) are called only
// for connections that were handed to net/http.
type Server struct {
	std      *http.Server
	fallback *fallback
	closing  atomic.Bool
	stopped  chan struct{} // closed when closing is set

	mu    sync.Mutex
	ln    net.Listener
	conns map[*conn]struct{}
}

// New returns a Server in front of std, which it starts and stops. std must have a
// handler.
func New(std *http.Server) *Server {
	return &Server{
		std: std, conns: map[*conn]struct{}{}, stopped: make(chan struct{}),
		fallback: &fallback{conns: make(chan net.Conn), closed: make(chan struct{})},
	}
}

// logf writes to the server's error log.
func (s *Server) logf(format string, args ...any) {
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
	s.fallback.addr = ln.Addr()
	fallback := make(chan error, 1)
	go func() { fallback <- s.std.Serve(s.fallback) }()
	err := s.accept(ln)
	if s.closing.Load() {
		return http.ErrServerClosed
	}
	return errors.Join(err, s.Close(), <-fallback)
}

func (s *Server) accept(ln net.Listener) error {
	pause := time.Duration(0)
	for {
		nc, err := ln.Accept()
		if err != nil {
			// Too many open files, or a connection that was closed before it was accepted.
			if ne, ok := errors.AsType[net.Error](err); ok && ne.Temporary() && !s.closing.Load() { //nolint:staticcheck // net/http asks the same
				pause = min(max(2*pause, 5*time.Millisecond), time.Second)
				s.logf("http1: accept: %v; retrying in %v", err, pause)
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

// Shutdown accepts no more connections, closes the idle ones and waits for the
// others to finish their request. As with net/http, it does not wait for hijacked
// connections.
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
	return errors.Join(err, s.std.Shutdown(ctx)) // last: until here connections may be handed over
}

// Close closes all connections.
func (s *Server) Close() error {
	err := s.stop()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.nc.Close() // its goroutine notices and ends
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

// newGrace is how long Shutdown waits for the first request of a new connection:
// the request may be on its way, and closing the connection would lose it.
const newGrace = 5 * time.Second

// busy closes the idle connections and reports whether any other is left.
func (s *Server) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if time.Since(c.since) > newGrace {
			c.state.CompareAndSwap(stateNew, stateIdle)
		}
		if c.state.CompareAndSwap(stateIdle, stateClosed) {
			_ = c.nc.Close() // no request is under way
			delete(s.conns, c)
		}
	}
	return len(s.conns) > 0
}

// fallback is the listener through which connections reach net/http.
type fallback struct {
	addr   net.Addr
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// Accept implements net.Listener.
func (f *fallback) Accept() (net.Conn, error) {
	select {
	case c := <-f.conns:
		return c, nil
	case <-f.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (f *fallback) Close() error {
	f.once.Do(func() { close(f.closed) })
	return nil
}

// Addr implements net.Listener.
func (f *fallback) Addr() net.Addr { return f.addr }

// handOver gives a connection to net/http, together with the bytes read of it.
func (f *fallback) handOver(nc net.Conn, read []byte) {
	c := &replayConn{Conn: nc, read: append([]byte(nil), read...)}
	select {
	case f.conns <- c:
	case <-f.closed:
		_ = nc.Close()
	}
}

// replayConn is a connection that first returns bytes that were read before.
type replayConn struct {
	net.Conn

	mu   sync.Mutex // net/http also reads from a second goroutine
	read []byte
}

// Read implements net.Conn.
func (c *replayConn) Read(p []byte) (int, error) {
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

// CloseWrite lets net/http end its side of the connection and go on reading.
func (c *replayConn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(nc net.Conn) error {
	if half, ok := nc.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
