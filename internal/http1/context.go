package http1

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// requestContext is the context of one request. It ends when the request is
// answered and when the client leaves. Most requests are answered from memory
// without waiting for anything, so the client is watched only from the first call
// of Done, as every wait and every derived context makes one.
type requestContext struct {
	conn *conn

	mu      sync.Mutex
	watched context.Context // the standard library's, made by the first call of Done
	cancel  context.CancelFunc
	ended   bool
	noWatch bool      // the handler has hijacked the connection
	readBy  time.Time // the handler's read deadline
}

// Deadline implements context.Context.
func (*requestContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements context.Context.
func (c *requestContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watched == nil {
		c.watched, c.cancel = context.WithCancel(context.Background())
		switch {
		case c.ended:
			c.cancel()
		case !c.noWatch:
			c.conn.startWatch(c.readBy, c.cancel)
		}
	}
	return c.watched.Done()
}

// Err implements context.Context.
func (c *requestContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.watched != nil:
		return c.watched.Err()
	case c.ended:
		return context.Canceled
	}
	return nil
}

// Value implements context.Context. A context derived from this one calls Done and
// then asks for the standard library's own key: it is given the watched context, and
// needs no goroutine to hear of the end.
func (c *requestContext) Value(key any) any {
	switch key {
	case http.ServerContextKey:
		return c.conn.s.std
	case http.LocalAddrContextKey:
		return c.conn.local
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watched == nil {
		return nil
	}
	return c.watched.Value(key)
}

// forbidWatch keeps the client from being watched from now on.
func (c *requestContext) forbidWatch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noWatch = true
}

// setReadDeadline limits the watch that runs or is started later.
func (c *requestContext) setReadDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readBy = at
	return c.conn.nc.SetReadDeadline(at)
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
