package http1

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

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
func (s *Server) handOver(nc net.Conn, read []byte) {
	c := &stdConn{Conn: nc, s: s, read: append([]byte(nil), read...), since: time.Now()}
	s.remember(c)
	select {
	case s.fallback.conns <- c:
	case <-s.fallback.closed:
		_ = c.Close()
	}
}

// stdConn is a connection that net/http serves. It first returns the bytes that were
// read before, and knows whether a request is under way: net/http itself counts a
// connection as idle until it has read a request's whole head.
type stdConn struct {
	net.Conn
	s     *Server
	since time.Time

	mu       sync.Mutex // net/http also reads from a second goroutine
	read     []byte
	begun    time.Time // when the first byte came that no handler was called for
	handlers int       // that run now; several with HTTP/2
	served   bool      // a handler was called
	waits    bool      // for the next request, by net/http's own word
	woken    bool      // the last look is taken
}

// Read implements net.Conn.
func (c *stdConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	if len(c.read) > 0 {
		n := copy(p, c.read)
		if c.read = c.read[n:]; len(c.read) == 0 {
			c.read = nil
		}
		c.begin()
		c.mu.Unlock()
		return n, nil
	}
	c.mu.Unlock()
	n, err := c.Conn.Read(p)
	if n == 0 && err != nil && c.isWoken() && errors.Is(err, os.ErrDeadlineExceeded) {
		// The read that was ended may not have seen a request that arrived just before.
		if err = c.Conn.SetReadDeadline(time.Now().Add(lastLook)); err == nil {
			n, err = c.Conn.Read(p)
		}
	}
	if n > 0 {
		c.mu.Lock()
		c.begin()
		c.mu.Unlock()
	}
	return n, err
}

func (c *stdConn) isWoken() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.woken
}

// begin notes that a request begins, or goes on.
func (c *stdConn) begin() {
	if c.begun.IsZero() {
		c.begun = time.Now()
	}
	if c.woken {
		c.woken = false
		_ = c.Conn.SetReadDeadline(c.begun.Add(newGrace)) // for the rest of its head
	}
}

// idle reports whether no request is under way. What was read and led to no request
// within the time of a head was none: an HTTP/2 client's ping, for example.
func (c *stdConn) idle() bool {
	switch {
	case c.handlers > 0:
		return false
	case !c.begun.IsZero():
		return time.Since(c.begun) > newGrace
	}
	return c.served || time.Since(c.since) > newGrace
}

// wake implements connection.
func (c *stdConn) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.woken || !c.idle() {
		return
	}
	c.woken = true
	_ = c.Conn.SetReadDeadline(time.Unix(1, 0)) // net/http closes the connection if the last look finds nothing
}

// SetReadDeadline implements net.Conn. net/http sets the limit of an idle connection
// after its answer; it does not outlast the last look.
func (c *stdConn) SetReadDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.woken && c.idle() {
		return nil
	}
	if c.waits && !at.IsZero() && c.s.crowded() {
		if soon := time.Now().Add(c.s.shortIdle()); soon.Before(at) {
			at = soon
		}
	}
	return c.Conn.SetReadDeadline(at)
}

// Close implements net.Conn.
func (c *stdConn) Close() error {
	c.s.close(c.Conn)
	c.s.forget(c)
	return nil
}

// abort implements connection.
func (c *stdConn) abort() { _ = c.Conn.Close() }

// CloseWrite lets net/http end its side of the connection and go on reading.
func (c *stdConn) CloseWrite() error { return closeWrite(c.Conn) }

// connKey is the key of a request's connection in its context.
type connKey struct{}

func connContext(next func(context.Context, net.Conn) context.Context) func(context.Context, net.Conn) context.Context {
	return func(ctx context.Context, nc net.Conn) context.Context {
		if next != nil {
			ctx = next(ctx, nc)
		}
		return context.WithValue(ctx, connKey{}, nc)
	}
}

func (s *Server) connState(next func(net.Conn, http.ConnState)) func(net.Conn, http.ConnState) {
	return func(nc net.Conn, state http.ConnState) {
		if c, ok := nc.(*stdConn); ok {
			if state == http.StateHijacked {
				s.forget(c)
			}
			c.mu.Lock()
			c.waits = state == http.StateIdle
			c.mu.Unlock()
		}
		if next != nil {
			next(nc, state)
		}
	}
}

// serveStd calls the handler for a request that net/http has read.
func (s *Server) serveStd(w http.ResponseWriter, r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(*stdConn); ok {
		c.count(1)
		defer c.count(-1)
	}
	announcing := &stdWriter{ResponseWriter: w, s: s, last: closesAfter(r)}
	s.handler.ServeHTTP(announcing, r)
	announcing.announce()
}

// closesAfter reports whether nothing more may be read after a request, because a proxy
// in front may see it end elsewhere. net/http takes Content-Length out of a request that
// has a Transfer-Encoding as well, and Transfer-Encoding out of one of HTTP/1.0, so that
// nothing tells whether both were there (RFC 9112 §6.1 wants the connection closed then).
func closesAfter(r *http.Request) bool {
	return len(r.TransferEncoding) > 0 && r.ProtoMajor == 1 || !r.ProtoAtLeast(1, 1)
}

// stdWriter is net/http's writer. If the server drains when the answer begins, or the
// request is the last that may be read, net/http closes an HTTP/1.1 connection after it,
// and tells an HTTP/2 client to open another one.
type stdWriter struct {
	http.ResponseWriter
	s     *Server
	begun bool
	last  bool
}

func (w *stdWriter) announce() {
	if !w.begun && (w.last || w.s.draining.Load()) {
		w.Header().Set("Connection", "close")
	}
	w.begun = true
}

// WriteHeader implements http.ResponseWriter.
func (w *stdWriter) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.announce()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *stdWriter) Write(p []byte) (int, error) {
	w.announce()
	return w.ResponseWriter.Write(p)
}

// FlushError implements what http.ResponseController calls to flush.
func (w *stdWriter) FlushError() error {
	w.announce()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush implements http.Flusher.
func (w *stdWriter) Flush() { _ = w.FlushError() }

// Unwrap lets http.ResponseController find the rest.
func (w *stdWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// count counts the handlers that run. What was read until a handler returns belongs
// to its request.
func (c *stdConn) count(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handlers += n
	c.served, c.begun = true, time.Time{}
}
