package http1

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// Context is the context of one request. It ends when the request is answered,
// when the client leaves and when its time is spent. Most requests are answered
// from memory and nobody waits for their end: only for the others is a timer set
// and the client watched.
//
// What a server knows of its requests it adds in place, with Bear and Limit: a
// context around this one would cost a copy of each request.
type Context struct {
	parent context.Context // nil: conn knows whether the client is there
	conn   *conn
	began  time.Time
	key    any
	value  any
	by     time.Time // zero: no limit
	spent  error     // the cause of an end by that limit

	mu     sync.Mutex
	real   context.Context // what the standard library makes of it; nil until somebody asks
	cancel context.CancelFunc
	ended  bool
	left   bool // the client has
}

// Own returns a request with a Context that bears nothing yet: the same for one
// that is served here, a copy for any other.
func Own(r *http.Request) (*http.Request, *Context) {
	if c, ok := r.Context().(*Context); ok && c.key == nil {
		return r, c
	}
	c := &Context{parent: r.Context(), began: time.Now()}
	return r.WithContext(c), c
}

// Bear has the context return a value. It comes before anybody else sees it.
func (c *Context) Bear(key, value any) { c.key, c.value = key, value }

// Limit ends the context at a time, for a cause. It comes before anybody waits.
func (c *Context) Limit(by time.Time, cause error) { c.by, c.spent = by, cause }

// Began is when the request was read.
func (c *Context) Began() time.Time { return c.began }

// Left reports whether the client left before its answer. Of a client that nobody
// waited with nobody knows.
func (c *Context) Left() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left || c.parent != nil && errors.Is(c.parent.Err(), context.Canceled)
}

// Deadline implements context.Context.
func (c *Context) Deadline() (time.Time, bool) {
	if c.parent != nil {
		if at, ok := c.parent.Deadline(); ok && (c.by.IsZero() || at.Before(c.by)) {
			return at, true
		}
	}
	return c.by, !c.by.IsZero()
}

// Done implements context.Context.
func (c *Context) Done() <-chan struct{} { return c.made().Done() }

// Err implements context.Context.
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.real != nil:
		return c.real.Err()
	case c.ended:
		return context.Canceled
	case c.parent != nil && c.parent.Err() != nil:
		return c.parent.Err()
	case c.by.IsZero() || time.Now().Before(c.by):
		return nil
	}
	c.make()
	return c.real.Err()
}

// Value implements context.Context. A context made from this one asks for the
// standard library's own key, and then needs no goroutine to hear of its end.
func (c *Context) Value(key any) any {
	if c.key != nil && key == c.key {
		return c.value
	}
	if c.conn != nil {
		switch key {
		case http.ServerContextKey:
			return c.conn.s.std
		case http.LocalAddrContextKey:
			return c.conn.local
		}
	}
	return c.made().Value(key)
}

func (c *Context) made() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.real == nil {
		c.make()
	}
	return c.real
}

// make is for who holds the lock.
func (c *Context) make() {
	parent := c.parent
	if parent == nil {
		parent = context.Background()
	}
	if c.by.IsZero() {
		c.real, c.cancel = context.WithCancel(parent)
	} else {
		c.real, c.cancel = context.WithDeadlineCause(parent, c.by, c.spent)
	}
	switch {
	case c.ended:
		c.cancel()
	case c.conn != nil:
		c.conn.startWatch(c.lose)
	}
}

// lose ends the context of a client who left.
func (c *Context) lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = true
	c.cancel()
}

// End cancels the context: the request is answered.
func (c *Context) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.cancel != nil {
		c.cancel()
	}
}
