package web

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errBudget is the cause of a context that a route's budget ended.
var errBudget = errors.New("the request's time budget is spent")

// requestContext is the context of one request. It knows its Request, and it
// ends when the client leaves, when the route's budget is spent and when the
// request is answered. Most requests are answered from memory and wait for
// nothing: a timer is only set for one whose end somebody waits for.
type requestContext struct {
	parent   context.Context
	req      *Request
	deadline time.Time // zero: none; set before the handler is called

	mu     sync.Mutex
	real   context.Context // what the standard library makes of it; nil until somebody asks
	cancel context.CancelFunc
	ended  bool
}

// Deadline implements context.Context.
func (c *requestContext) Deadline() (time.Time, bool) {
	if at, ok := c.parent.Deadline(); ok && (c.deadline.IsZero() || at.Before(c.deadline)) {
		return at, true
	}
	return c.deadline, !c.deadline.IsZero()
}

// Done implements context.Context.
func (c *requestContext) Done() <-chan struct{} { return c.made().Done() }

// Err implements context.Context.
func (c *requestContext) Err() error {
	c.mu.Lock()
	waits := c.real != nil
	ended := c.ended
	c.mu.Unlock()
	switch {
	case waits:
		return c.made().Err()
	case ended:
		return context.Canceled
	}
	if err := c.parent.Err(); err != nil {
		return err
	}
	if !c.deadline.IsZero() && !time.Now().Before(c.deadline) {
		return c.made().Err()
	}
	return nil
}

// Value implements context.Context. A context made from this one asks for the
// standard library's own key and then needs no goroutine to hear of its end.
func (c *requestContext) Value(key any) any {
	if key == (requestKey{}) {
		return c.req
	}
	return c.made().Value(key)
}

func (c *requestContext) made() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.real == nil {
		if c.deadline.IsZero() {
			c.real, c.cancel = context.WithCancel(c.parent)
		} else {
			c.real, c.cancel = context.WithDeadlineCause(c.parent, c.deadline, errBudget)
		}
		if c.ended {
			c.cancel()
		}
	}
	return c.real
}

// end cancels the context: the request is answered.
func (c *requestContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.cancel != nil {
		c.cancel()
	}
}
