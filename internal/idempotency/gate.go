package idempotency

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Gate lets one request per key through at a time. The zero Gate is open.
type Gate struct {
	mu   sync.Mutex
	busy map[string]*turn
}

// turn is held by the request that is in; others of the same key wait for it.
type turn struct {
	free    chan struct{} // holds one token while the turn is free
	waiting int           // requests that wait, and the holder
}

// ErrBusy says that a turn did not come in time.
var ErrBusy = errors.New("a request with this key is still running")

// Enter waits for its turn, at most as long as wait, and reports whether it had
// to. The caller must leave.
func (g *Gate) Enter(ctx context.Context, key string, wait time.Duration) (leave func(), waited bool, err error) {
	g.mu.Lock()
	if g.busy == nil {
		g.busy = map[string]*turn{}
	}
	t, waited := g.busy[key]
	if !waited {
		t = &turn{free: make(chan struct{}, 1)}
		t.free <- struct{}{}
		g.busy[key] = t
	}
	t.waiting++
	g.mu.Unlock()

	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-t.free:
		return func() {
			t.free <- struct{}{}
			g.drop(key, t)
		}, waited, nil
	case <-timer.C:
		err = ErrBusy
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	g.drop(key, t)
	return nil, waited, err
}

// Crowded reports whether others wait behind the request that is in.
func (g *Gate) Crowded(key string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.busy[key]
	return t != nil && t.waiting > 1
}

func (g *Gate) drop(key string, t *turn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.waiting--; t.waiting == 0 {
		delete(g.busy, key)
	}
}
