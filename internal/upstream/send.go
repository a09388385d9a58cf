package upstream

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"melmastoon.ghasi.io/bff/internal/pause"
)

const (
	// Retries may add a fifth to the load, after a burst: retrying everything
	// doubles the load of an upstream that is failing from load.
	retryShare, retryBurst = 0.2, 10
	firstBackoff           = 20 * time.Millisecond
	lastBackoff            = 80 * time.Millisecond
	backoffJitter          = 0.5
	// A retry with less time left than this would end at the deadline anyway.
	retryRoom = 150 * time.Millisecond
)

// send makes the attempts of one call: the first, a hedge if it is slow, a
// retry if it failed. A probe of the breaker is one attempt.
//
// It is our own because nearly every call succeeds at once, and must then not
// pay for policies: built per call, those of a library cost more than the rest
// of the call and its decoding.
func (c *Client) send(ctx context.Context, call *call, pass pass) (reply, error) {
	c.retry.earn()
	c.hedge.allowance.earn()
	if !call.idempotent || pass.probe {
		return c.first(ctx, call)
	}
	backoff := firstBackoff
	for left := c.retries; ; left-- {
		r, err := c.hedged(ctx, call)
		if err == nil || left == 0 || !c.mayRetry(ctx, err) {
			return r, err
		}
		c.metrics.retries.WithLabelValues(c.name, call.route).Inc()
		if !pause.For(ctx, jittered(backoff)) {
			return reply{}, ctx.Err()
		}
		backoff = min(2*backoff, lastBackoff)
	}
}

// mayRetry decides about another try, and pays for it.
func (c *Client) mayRetry(ctx context.Context, err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok || !e.transient {
		return false
	}
	if deadline, _ := ctx.Deadline(); time.Until(deadline) <= retryRoom {
		return false
	}
	return c.retry.spend()
}

func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 + backoffJitter*(2*rand.Float64()-1))) //nolint:gosec // jitter
}

// first sends the call when there is a place for it.
func (c *Client) first(ctx context.Context, call *call) (reply, error) {
	if p := call.place; p != nil {
		call.place = nil
		return c.attempt(ctx, call, *p, false)
	}
	permit, err := c.limiter.acquire(ctx, call)
	if err != nil {
		return reply{}, c.unplaced(ctx, call, err)
	}
	return c.attempt(ctx, call, permit, false)
}
