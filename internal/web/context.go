package web

import (
	"context"
	"errors"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff/internal/tracing"
)

// requestContext is the context of one request. It carries the Request and ends
// when the request is answered, when its budget is spent and when its parent ends,
// which is how a server reports a client that has left.
//
// Most requests are answered from memory without waiting for anything. The budget's
// timer and the server's watch over the client are therefore started by the first
// call of Done, as every wait and every derived context makes one.
type requestContext struct {
	parent   context.Context
	req      *Request
	deadline time.Time // zero until the route is known; set before the handler runs

	mu      sync.Mutex
	started context.Context // the standard library's, made by the first call of Done
	cancel  context.CancelFunc
	ended   bool
}

// left reports whether the client is known to have left. A client that no call
// waited for is not watched, and counts as present.
func (c *requestContext) left() bool { return errors.Is(c.parent.Err(), context.Canceled) }

// Deadline implements context.Context.
func (c *requestContext) Deadline() (time.Time, bool) {
	if at, ok := c.parent.Deadline(); ok && (c.deadline.IsZero() || at.Before(c.deadline)) {
		return at, true
	}
	return c.deadline, !c.deadline.IsZero()
}

// Done implements context.Context.
func (c *requestContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.start().Done()
}

// Err implements context.Context.
func (c *requestContext) Err() error {
	if started := c.current(); started != nil {
		return started.Err()
	}
	return c.parent.Err()
}

// Value implements context.Context. A context derived from this one calls Done and
// then asks for the standard library's own key: it is given the started context, and
// needs no goroutine to hear of the end.
func (c *requestContext) Value(key any) any {
	switch key.(type) {
	case requestKey:
		return c.req
	case tracing.Key:
		return c.req.Span
	}
	if started := c.current(); started != nil {
		return started.Value(key)
	}
	return c.parent.Value(key)
}

// current returns the started context. While none was started and the request has
// neither been answered nor spent its budget, it returns nil and the parent's state
// is this context's.
func (c *requestContext) current() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started == nil && (c.ended || !c.deadline.IsZero() && !time.Now().Before(c.deadline)) {
		c.start()
	}
	return c.started
}

// start is called with the lock held.
func (c *requestContext) start() context.Context {
	if c.started != nil {
		return c.started
	}
	switch {
	case c.ended: // the parent is left alone: its server has forgotten the client
		c.started, c.cancel = context.WithCancel(context.WithoutCancel(c.parent))
		c.cancel()
	case c.deadline.IsZero():
		c.started, c.cancel = context.WithCancel(c.parent)
	default:
		c.started, c.cancel = context.WithDeadlineCause(c.parent, c.deadline, errBudget)
	}
	return c.started
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
