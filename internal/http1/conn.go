package http1

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// maxRequest is the longest request that is served here, body included.
const maxRequest = 8 << 10

// What a connection is doing.
const (
	fresh  int32 = iota // has not asked anything yet
	idle                // between two requests
	active              //
	closed              // by Shutdown
)

// slack is how late a deadline may be: it spares setting one for each request.
const slack = time.Second

// conn is one connection. Its goroutine reads a request, calls the handler and
// writes the answer.
type conn struct {
	s      *Server
	nc     net.Conn
	remote string
	local  net.Addr
	since  time.Time
	state  atomic.Int32

	have              int // bytes of in
	readBy, writtenBy time.Time
	began             time.Time    // the last request, if nobody waited in it
	watch             *watch       // who looks whether the client is still there; nil = nobody
	request           http.Request // the one that was read last; handlers get a copy
	in                [maxRequest]byte
}

func newConn(s *Server, nc net.Conn) *conn {
	return &conn{s: s, nc: nc, remote: nc.RemoteAddr().String(), local: nc.LocalAddr(), since: time.Now()}
}

// serve answers requests until one goes elsewhere or the connection ends.
func (c *conn) serve() {
	defer c.s.forget(c)
	for {
		x, verdict := c.next()
		switch verdict {
		case usual:
		case unusual:
			_ = c.nc.SetDeadline(time.Time{}) // net/http sets its own
			c.s.aside.take(c.nc, c.in[:c.have])
			return
		default:
			_ = c.nc.Close()
			return
		}
		if !c.answer(x) {
			_ = c.nc.Close()
			return
		}
		c.have = copy(c.in[:], c.in[x.size:c.have])
		if c.s.closing.Load() || !c.state.CompareAndSwap(active, idle) {
			_ = c.nc.Close()
			return
		}
	}
}

// next reads one request.
func (c *conn) next() (*exchange, verdict) {
	waits, body := forNothing, false
	for need := 1; ; {
		if c.have > 0 && !c.activate() { // its first byte is a promise
			return nil, gone
		}
		if c.have >= need {
			x, v := parse(c.in[:c.have], &c.request)
			switch {
			case v != incomplete:
				return x, v
			case x != nil:
				need, body = x.size, true
			case c.have == len(c.in):
				return nil, unusual
			default:
				need = c.have + 1
			}
		}
		if now := c.waitsFor(body); now != waits {
			waits = now
			c.allow(waits)
		}
		n, err := c.nc.Read(c.in[c.have:])
		if c.have += n; n == 0 && err != nil {
			return nil, gone
		}
	}
}

// What is waited for; each has a limit of its own, as with net/http.
const (
	forNothing = iota
	forRequest
	forHead
	forBody
)

// waitsFor says what a connection waits for. Who has just come is given no more
// time for a first request than for its head.
func (c *conn) waitsFor(body bool) int {
	switch {
	case body:
		return forBody
	case c.have == 0 && c.state.Load() != fresh:
		return forRequest
	default:
		return forHead
	}
}

func (c *conn) allow(waits int) {
	limits := c.s.std
	limit, stands, now := limits.ReadTimeout, time.Time{}, time.Time{}
	switch {
	case waits == forRequest:
		limit, stands, now = limits.IdleTimeout, c.readBy, c.began // a moment ago: near enough
	case waits == forHead && limits.ReadHeaderTimeout > 0:
		limit = limits.ReadHeaderTimeout
	}
	if now.IsZero() {
		now = time.Now()
	}
	c.readBy = within(limit, now, stands, c.nc.SetReadDeadline)
}

// activate takes the connection from Shutdown, which closes idle ones, and
// reports whether it was in time.
func (c *conn) activate() bool {
	for {
		state := c.state.Load()
		if state == closed || state == active || c.state.CompareAndSwap(state, active) {
			return state != closed
		}
	}
}

// within sets a deadline, unless the one that stands is nearly the same.
func within(d time.Duration, now, stands time.Time, set func(time.Time) error) time.Time {
	by := now.Add(d + slack)
	if d <= 0 || by.Sub(stands) <= slack {
		return stands
	}
	_ = set(by) // fails on a closed connection, as what follows will
	return by
}

// answer calls the handler and reports whether the connection can go on.
func (c *conn) answer(x *exchange) (goesOn bool) {
	c.began = time.Now()
	c.writtenBy = within(c.s.std.WriteTimeout, c.began, c.writtenBy, c.nc.SetWriteDeadline)
	x.ctx.conn = c
	c.request.RemoteAddr = c.remote
	x.r = *c.request.WithContext(&x.ctx) // the only way to give it one
	c.request = http.Request{}           // a connection that waits keeps nothing of its last guest
	x.w.begin(c, &x.r)
	defer func() {
		if p := recover(); p != nil {
			goesOn = false
			x.w.abandon()
			if p != http.ErrAbortHandler { //nolint:errorlint // net/http compares it the same way
				c.s.complain("http1: panic: %v\n%s", p, debug.Stack()) // and not whose request it was
			}
		}
		x.ctx.end()
		_ = x.body.Close() // never fails
		goesOn = c.unwatch() && goesOn
	}()
	c.s.std.Handler.ServeHTTP(&x.w, &x.r)
	return x.w.finish()
}

// watch reads behind a handler's back, to hear of a client that leaves.
type watch struct {
	done chan struct{}
	n    int
	err  error
}

// startWatch reads one byte at most: what follows may be the next request.
func (c *conn) startWatch(gone func()) {
	if c.have == len(c.in) {
		return
	}
	w := &watch{done: make(chan struct{})}
	c.watch = w
	_ = c.nc.SetReadDeadline(time.Time{}) // a handler takes as long as it takes
	go func() {
		defer close(w.done)
		w.n, w.err = c.nc.Read(c.in[c.have : c.have+1])
		if w.err != nil && !errors.Is(w.err, os.ErrDeadlineExceeded) {
			gone()
		}
	}()
}

// unwatch ends the watch and reports whether the client is still there.
func (c *conn) unwatch() bool {
	w := c.watch
	if w == nil {
		return true
	}
	_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // ends the read
	<-w.done
	c.watch, c.readBy, c.began = nil, time.Time{}, time.Time{}
	c.have += w.n
	_ = c.nc.SetReadDeadline(time.Time{})
	return w.err == nil || errors.Is(w.err, os.ErrDeadlineExceeded)
}

// exchange is a request and its answer: all that one costs in memory, but for
// the text and the maps of headers.
type exchange struct {
	ctx    requestContext
	size   int // bytes of the connection's buffer
	r      http.Request
	url    url.URL
	w      writer
	body   body
	values [16]string
}
