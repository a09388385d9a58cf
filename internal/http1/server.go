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
// Content-Length, on which two parsers might disagree, is refused where its head is
// seen here, and the last of its connection where net/http reads it.
//
// A stop loses no request that a client has sent: Drain announces it with every
// answer, Shutdown takes a last look at each connection before it closes it, and a
// connection is closed so that the client can still read its answer. net/http drops
// a request that arrives during its own Shutdown, so the connections that it serves
// are watched here as well, and it is shut down when they are gone.
//
// Handlers see the http.ResponseWriter that they know: http.ResponseController
// flushes, sets deadlines and hijacks. The package knows nothing of its users and
// is imported by internal/daemon alone.
package http1

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Server serves the handler of an http.Server within that server's limits. The
// hooks of the http.Server (ConnState, ConnContext, BaseContext) are called only
// for connections that were handed to net/http.
type Server struct {
	std      *http.Server
	handler  http.Handler
	opts     Options
	fast     bool
	fallback *fallback
	draining atomic.Bool   // answers say Connection: close
	closing  atomic.Bool   // idle connections are closed
	forced   atomic.Bool   // Close was called: connections are closed at once
	stopped  chan struct{} // closed when closing is set

	mu        sync.Mutex
	ln        net.Listener
	accepting bool
	conns     map[connection]struct{}
}

// connection is one that this package or net/http serves.
type connection interface {
	wake()  // if it is idle, it takes a last look for a request and closes
	abort() // closes it at once
}

// Options are what servers differ in.
type Options struct {
	// NoFastPath has net/http serve every request.
	NoFastPath bool
	// Crowded reports that connections are scarce: one that is idle is then kept no
	// longer than CrowdedIdle. Nil = never.
	Crowded     func() bool
	CrowdedIdle time.Duration
}

// New returns a Server in front of std, which it starts and stops. std must have a
// handler.
func New(std *http.Server, opts Options) *Server {
	s := &Server{
		std: std, handler: std.Handler, opts: opts, fast: !opts.NoFastPath, conns: map[connection]struct{}{}, stopped: make(chan struct{}),
		fallback: &fallback{conns: make(chan net.Conn), closed: make(chan struct{})},
	}
	std.Handler = http.HandlerFunc(s.serveStd)
	std.ConnContext = connContext(std.ConnContext)
	std.ConnState = s.connState(std.ConnState)
	return s
}

// FastPath reports whether common requests are served without net/http.
func (s *Server) FastPath() bool { return s.fast }

func (s *Server) crowded() bool { return s.opts.Crowded != nil && s.opts.Crowded() }

// shortIdle is how long an idle connection is kept while connections are scarce.
func (s *Server) shortIdle() time.Duration {
	if s.std.IdleTimeout > 0 {
		return min(s.opts.CrowdedIdle, s.std.IdleTimeout)
	}
	return s.opts.CrowdedIdle
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
	s.ln, s.accepting = ln, true
	s.mu.Unlock()
	if s.closing.Load() {
		s.stopAccepting()
		return http.ErrServerClosed
	}
	s.fallback.addr = ln.Addr()
	fallback := make(chan error, 1)
	go func() { fallback <- s.std.Serve(s.fallback) }()
	err := s.accept(ln)
	s.stopAccepting()
	if s.closing.Load() {
		return http.ErrServerClosed
	}
	return errors.Join(err, s.Close(), <-fallback)
}

func (s *Server) stopAccepting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepting = false
	_ = s.ln.Close() // it is no longer used
}

func (s *Server) accept(ln net.Listener) error {
	pause, looked := time.Duration(0), false
	for {
		nc, err := ln.Accept()
		if err != nil && s.closing.Load() && !looked && errors.Is(err, os.ErrDeadlineExceeded) {
			looked = true
			s.lookAgain()
			continue
		}
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
		if !s.fast {
			s.handOver(nc, nil)
			continue
		}
		c := newConn(s, nc)
		s.remember(c)
		go c.serve()
	}
}

func (s *Server) remember(c connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = struct{}{}
}

func (s *Server) forget(c connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// Drain has every answer from now on say Connection: close. Connections are still
// accepted and read, so that clients lose nothing while they go elsewhere.
func (s *Server) Drain() { s.draining.Store(true) }

// lastLook is how long Shutdown waits for a connection, or for a request on an idle
// one, that may have arrived just now.
const lastLook = 100 * time.Millisecond

// Shutdown accepts no more connections, closes the idle ones and waits for the
// others to finish their request. As with net/http, it does not wait for hijacked
// connections.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for s.busy() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return s.std.Shutdown(ctx)
}

// Close closes all connections.
func (s *Server) Close() error {
	s.forced.Store(true)
	s.stop()
	s.mu.Lock()
	if s.ln != nil {
		_ = s.ln.Close() // it is no longer used
	}
	for c := range s.conns {
		c.abort() // its goroutine notices and ends
	}
	s.mu.Unlock()
	return s.std.Close()
}

// stop has the listener give out the connections that wait there, and no more.
func (s *Server) stop() {
	s.draining.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Swap(true) {
		return
	}
	close(s.stopped)
	if s.ln != nil {
		s.limitAccept(time.Unix(1, 0))
	}
}

// lookAgain has Accept return the connections that wait in the listener's queue: a
// listener that is closed resets them.
func (s *Server) lookAgain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.forced.Load() {
		s.limitAccept(time.Now().Add(lastLook))
	}
}

func (s *Server) limitAccept(by time.Time) {
	if ln, ok := s.ln.(interface{ SetDeadline(at time.Time) error }); !ok || ln.SetDeadline(by) != nil {
		_ = s.ln.Close() // Accept returns the error
	}
}

// newGrace is how long Shutdown waits for the first request of a new connection:
// the request may be on its way, and closing the connection would lose it.
const newGrace = 5 * time.Second

// busy has the idle connections closed and reports whether any is left.
func (s *Server) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.wake()
	}
	return s.accepting || len(s.conns) > 0
}

// close ends a connection. While the server drains it first ends its own side and
// reads some of what the client still sends: a connection that is closed with unread
// bytes is reset, and the client might not see its last answer.
func (s *Server) close(nc net.Conn) {
	if s.draining.Load() && !s.forced.Load() {
		linger(nc)
	}
	_ = nc.Close() // nothing can be done about it
}

const (
	lingerTimeout = 500 * time.Millisecond
	maxLinger     = 64 << 10
)

func linger(nc net.Conn) {
	_ = nc.SetDeadline(time.Now().Add(lingerTimeout))
	if closeWrite(nc) == nil {
		_, _ = io.CopyN(io.Discard, nc, maxLinger)
	}
}

func closeWrite(nc net.Conn) error {
	if half, ok := nc.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
