package upstream

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
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

// errNotHedged is the result of a hedge that was not sent.
var errNotHedged = errors.New("not hedged")

// send makes the attempts of one call: the first, a hedge if it is slow, a
// retry if it failed. A probe of the breaker is one attempt.
func (c *Client) send(ctx context.Context, call *call, pass pass) (reply, error) {
	c.retry.earn()
	c.hedge.allowance.earn()
	if !call.idempotent || pass.probe {
		return c.first(ctx, call)
	}
	var policies []failsafe.Policy[reply]
	if c.retries > 0 {
		policies = append(policies, c.retrying(ctx, call))
	}
	var live atomic.Int32 // attempts under way
	delay, hedged := c.hedge.delay(call.route)
	if hedged {
		// Three chances: what the allowance refuses at first it may grant to
		// those that are still waiting a while later, the worst stragglers.
		policies = append(policies, hedgepolicy.NewBuilderWithDelay[reply](delay).WithMaxHedges(3).CancelIf(func(_ reply, err error) bool {
			if e, ok := errors.AsType[*Error](err); ok && e.Refused() || err == nil {
				return true
			}
			return live.Load() == 0 && !errors.Is(err, errNotHedged) // else a twin may still succeed
		}).Build())
	}
	if len(policies) == 0 {
		return c.first(ctx, call)
	}
	return failsafe.With(policies...).WithContext(ctx).GetWithExecution(func(exec failsafe.Execution[reply]) (reply, error) {
		if exec.IsHedge() {
			return c.second(exec.Context(), call, &live)
		}
		live.Add(1)
		defer live.Add(-1)
		start := time.Now()
		r, err := c.first(exec.Context(), call)
		if took := time.Since(start); err == nil || took >= delay {
			// An attempt cut off by its twin would have taken longer still: it
			// counts on the right side of the quantile.
			c.hedge.observe(call.route, took)
		}
		return r, err
	})
}

// retrying returns the retry policy of one call.
func (c *Client) retrying(ctx context.Context, call *call) failsafe.Policy[reply] {
	deadline, _ := ctx.Deadline()
	return retrypolicy.NewBuilder[reply]().
		WithMaxRetries(c.retries).
		WithBackoff(firstBackoff, lastBackoff).
		WithJitterFactor(backoffJitter).
		ReturnLastFailure().
		HandleIf(func(_ reply, err error) bool {
			e, ok := errors.AsType[*Error](err)
			return ok && e.transient && time.Until(deadline) > retryRoom
		}).
		AbortIf(func(reply, error) bool { return !c.retry.spend() }).
		OnRetry(func(failsafe.ExecutionEvent[reply]) { c.metrics.retries.WithLabelValues(c.name, call.route).Inc() }).
		Build()
}

// first sends the call when there is a place for it.
func (c *Client) first(ctx context.Context, call *call) (reply, error) {
	permit, err := c.limiter.acquire(ctx, call.route)
	if errors.Is(err, errSaturated) {
		return reply{}, c.fail(call, Shed, "")
	}
	if err != nil {
		return reply{}, err
	}
	return c.attempt(ctx, call, permit)
}

// second sends the call beside a first that is still under way. What it
// declines leaves no trace in live: the first must see that it is alone.
func (c *Client) second(ctx context.Context, call *call, live *atomic.Int32) (reply, error) {
	if live.Load() > 1 { // a twin is on its way already
		return reply{}, errNotHedged
	}
	permit, ok := c.limiter.spare(call.route)
	if !ok {
		return reply{}, errNotHedged
	}
	if !c.hedge.allowance.spend() {
		permit.drop()
		return reply{}, errNotHedged
	}
	live.Add(1)
	defer live.Add(-1)
	c.metrics.hedges.WithLabelValues(c.name, call.route).Inc()
	return c.attempt(ctx, call, permit)
}
