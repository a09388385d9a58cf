package http1

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"
)

// maxRequest is the longest request that is served here, body included.
const maxRequest = 8 << 10

// States of a connection.
const (
	stateNew    int32 = iota // before the first byte of the first request
	stateIdle                // between two requests
	stateActive              // within a request
	stateHeld                // idle, and Shutdown is about to wake it
)

// deadlineSlack is how late a deadline may be, but never later than twice its
// limit. It saves setting one per request.
const deadlineSlack = time.Second

// conn is one connection. Its goroutine reads a request, calls the handler and
// writes the answer.
type conn struct {
	s      *Server
	nc     net.Conn
	remote string
	local  net.Addr
	since  time.Time
	state  atomic.Int32

	have            int // bytes of in
	readBy, writeBy time.Time
	began           time.Time    // of the last request; zero if its handler waited or set deadlines
	deadlinesSet    atomic.Bool  // by the handler
	watch           *watch       // reads while a handler waits; nil: none does
	hijacked        bool         // the connection belongs to the handler
	request         http.Request // the one that was read last; handlers get a copy
	in              [maxRequest]byte
}

func newConn(s *Server, nc net.Conn) *conn {
	return &conn{s: s, nc: nc, remote: nc.RemoteAddr().String(), local: nc.LocalAddr(), since: time.Now()}
}

// serve answers requests until one is handed to net/http or the connection ends.
func (c *conn) serve() {
	defer c.s.forget(c)
	for {
		x, then := c.next()
		switch then {
		case accept:
		case delegate:
			read, err := c.readHead()
			switch {
			case err != nil:
				c.s.close(c.nc)
				return
			case ambiguousLength(read):
				c.refuse()
				return
			}
			_ = c.nc.SetDeadline(time.Time{}) // net/http sets its own
			c.s.handOver(c.nc, read)
			return
		default:
			c.s.close(c.nc)
			return
		}
		goesOn := c.answer(x)
		if c.hijacked {
			return
		}
		c.have = copy(c.in[:], c.in[x.size:c.have])
		if !goesOn {
			c.s.close(c.nc)
			return
		}
		c.state.Store(stateIdle)
	}
}

// next reads one request.
func (c *conn) next() (*exchange, decision) {
	waiting, body := forNothing, false
	for need := 1; ; {
		if c.have > 0 {
			c.activate() // a request counts as begun with its first byte
		}
		if c.have >= need {
			x, then := parse(c.in[:c.have], &c.request)
			switch {
			case then != readMore:
				return x, then
			case x != nil:
				need, body = x.size, true
			case c.have == len(c.in):
				return nil, delegate
			default:
				need = c.have + 1
			}
		}
		if now := c.waitsFor(body); now != waiting {
			waiting = now
			c.limitRead(waiting)
		}
		n, err := c.nc.Read(c.in[c.have:])
		if n == 0 && err != nil && c.have == 0 && c.s.closing.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
			n, err = c.lastLook()
			waiting = forNothing
		}
		if c.have += n; n == 0 && err != nil {
			return nil, closeConn
		}
	}
}

// readHead reads on until the head of a request that is delegated is complete, or
// longer than net/http takes: its two lengths may lie far apart.
func (c *conn) readHead() ([]byte, error) {
	read := bytes.Clone(c.in[:c.have])
	longest := cmp.Or(c.s.std.MaxHeaderBytes, http.DefaultMaxHeaderBytes) + 4096 // net/http is as generous
	for !endsHead(read) && len(read) < longest {
		read = slices.Grow(read, maxRequest)
		n, err := c.nc.Read(read[len(read):cap(read)])
		if read = read[:len(read)+n]; n == 0 && err != nil {
			return nil, err
		}
	}
	return read, nil
}

// wake implements connection: it ends the read of an idle connection, which then
// takes a last look.
func (c *conn) wake() {
	if time.Since(c.since) > newGrace {
		c.state.CompareAndSwap(stateNew, stateIdle)
	}
	if c.state.CompareAndSwap(stateIdle, stateHeld) {
		_ = c.nc.SetReadDeadline(time.Unix(1, 0))
		c.state.Store(stateIdle)
	}
}

// lastLook reads a request that arrived just before Shutdown woke the connection: the
// read that was ended may not have seen it.
func (c *conn) lastLook() (int, error) {
	c.activate()
	if err := c.nc.SetReadDeadline(time.Now().Add(lastLook)); err != nil {
		return 0, err
	}
	return c.nc.Read(c.in[:])
}

// abort implements connection.
func (c *conn) abort() { _ = c.nc.Close() }

// What a connection waits for. Each has its own limit, as with net/http.
const (
	forNothing = iota
	forRequest
	forHead
	forBody
)

// waitsFor says what a connection waits for. The first request of a connection has
// no more time to begin than its head has to arrive.
func (c *conn) waitsFor(body bool) int {
	switch {
	case body:
		return forBody
	case c.have == 0 && c.state.Load() != stateNew:
		return forRequest
	default:
		return forHead
	}
}

func (c *conn) limitRead(waiting int) {
	limits := c.s.std
	limit, current, now := limits.ReadTimeout, time.Time{}, time.Time{}
	switch {
	case waiting == forRequest && c.s.crowded():
		limit = c.s.shortIdle()
	case waiting == forRequest:
		limit, current, now = limits.IdleTimeout, c.readBy, c.began // began a moment ago: near enough
	case waiting == forHead && limits.ReadHeaderTimeout > 0:
		limit = limits.ReadHeaderTimeout
	}
	if now.IsZero() {
		now = time.Now()
	}
	c.readBy = extend(limit, now, current, c.nc.SetReadDeadline)
}

// activate marks the connection as active, so that Shutdown leaves its deadlines
// alone.
func (c *conn) activate() {
	for {
		state := c.state.Load()
		switch {
		case state == stateActive:
			return
		case state == stateHeld:
			runtime.Gosched() // for the one call that sets a deadline
		case c.state.CompareAndSwap(state, stateActive):
			return
		}
	}
}

// extend sets a deadline, unless the current one is nearly the same.
func extend(limit time.Duration, now, current time.Time, set func(time.Time) error) time.Time {
	slack := min(limit, deadlineSlack)
	by := now.Add(limit + slack)
	if limit <= 0 || by.Sub(current) <= slack {
		return current
	}
	_ = set(by) // fails only on a closed connection, as the next read or write will
	return by
}

// answer calls the handler and reports whether the connection can be used further.
func (c *conn) answer(x *exchange) (goesOn bool) {
	c.began = time.Now()
	c.writeBy = extend(c.s.std.WriteTimeout, c.began, c.writeBy, c.nc.SetWriteDeadline)
	x.ctx.conn = c
	c.request.RemoteAddr = c.remote
	x.r = *c.request.WithContext(&x.ctx) // the only way to set a request's context
	c.request = http.Request{}           // an idle connection keeps nothing of its last request
	x.w.begin(c, x)
	defer func() {
		if p := recover(); p != nil {
			goesOn = false
			x.w.abandon()
			if p != http.ErrAbortHandler { //nolint:errorlint // net/http compares it the same way
				c.s.logf("http1: panic in a handler: %v\n%s", p, debug.Stack()) // without the client's address
			}
		}
		x.ctx.end()
		_ = x.body.Close() // never fails
		if c.hijacked {
			return
		}
		goesOn = c.unwatch() && goesOn
		if c.deadlinesSet.Load() { // they end with the answer
			c.deadlinesSet.Store(false)
			_ = c.nc.SetDeadline(time.Time{}) // fails only on a closed connection
			c.readBy, c.writeBy, c.began = time.Time{}, time.Time{}, time.Time{}
		}
	}()
	c.s.handler.ServeHTTP(&x.w, &x.r)
	return !c.hijacked && x.w.finish()
}

// refusal answers a request whose length is ambiguous.
const refusal = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" +
	"400 Bad Request: a request must not have both Transfer-Encoding and Content-Length"

// refuse answers 400 and closes the connection, so that the client sees the answer.
func (c *conn) refuse() {
	_ = c.nc.SetDeadline(time.Now().Add(lingerTimeout))
	if _, err := io.WriteString(c.nc, refusal); err == nil {
		linger(c.nc)
	}
	_ = c.nc.Close()
}

// hijack gives the connection to the handler of x.
func (c *conn) hijack(x *exchange) (*bufio.ReadWriter, error) {
	x.ctx.forbidWatch()
	if !c.unwatch() {
		return nil, net.ErrClosed
	}
	if err := c.nc.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	c.hijacked = true
	c.s.forget(c)
	rest := bytes.Clone(c.in[x.size:c.have])
	r := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(rest), c.nc), max(4096, len(rest)))
	_, _ = r.Peek(len(rest)) // so that Buffered reports them
	return bufio.NewReadWriter(r, bufio.NewWriter(c.nc)), nil
}

// watch reads from the connection while a handler waits, to learn that the client
// has left.
type watch struct {
	stopping atomic.Bool
	done     chan struct{}
	n        int
	left     bool
}

// startWatch starts to read. It reads one byte at most, which may be the first of
// the next request. A read deadline that expires counts as a client that left, as
// with net/http.
func (c *conn) startWatch(deadline time.Time, left func()) {
	if c.have == len(c.in) {
		return
	}
	w := &watch{done: make(chan struct{})}
	c.watch = w
	_ = c.nc.SetReadDeadline(deadline) // zero unless the handler set one
	go func() {
		defer close(w.done)
		var err error
		w.n, err = c.nc.Read(c.in[c.have : c.have+1])
		if err != nil && !(w.stopping.Load() && errors.Is(err, os.ErrDeadlineExceeded)) {
			w.left = true
			left()
		}
	}()
}

// unwatch stops the watch and reports whether the client is still there.
func (c *conn) unwatch() bool {
	w := c.watch
	if w == nil {
		return true
	}
	w.stopping.Store(true)
	_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // ends the read
	<-w.done
	c.watch, c.readBy, c.began = nil, time.Time{}, time.Time{}
	c.have += w.n
	_ = c.nc.SetReadDeadline(time.Time{})
	return !w.left
}

// exchange is a request and its answer in one allocation; only the text and the
// header maps are apart.
type exchange struct {
	ctx    requestContext
	size   int // bytes of the connection's buffer
	r      http.Request
	url    url.URL
	w      writer
	body   body
	values [16]string
}
