package upstream

import (
	"context"
	"errors"
	"slices"
	"sync"
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
	lastBackoff            = 200 * time.Millisecond
	backoffJitter          = 0.5
	// Hedges may add a twentieth.
	hedgeShare, hedgeBurst = 0.05, 5
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
	var out atomic.Bool // a hedge is under way
	if delay, ok := c.hedge.delay(call.route); ok {
		policies = append(policies, hedgepolicy.NewBuilderWithDelay[reply](delay).CancelIf(func(_ reply, err error) bool {
			if e, ok := errors.AsType[*Error](err); ok && e.Refused() || err == nil {
				return true
			}
			return !out.Load() && !errors.Is(err, errNotHedged) // else the twin may still succeed
		}).Build())
	}
	if len(policies) == 0 {
		return c.first(ctx, call)
	}
	return failsafe.With(policies...).WithContext(ctx).GetWithExecution(func(exec failsafe.Execution[reply]) (reply, error) {
		if !exec.IsHedge() {
			out.Store(false)
			return c.first(exec.Context(), call)
		}
		return c.second(exec.Context(), call, &out)
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
			return ok && e.transient && time.Until(deadline) > 2*lastBackoff
		}).
		AbortIf(func(reply, error) bool { return !c.retry.spend() }).
		OnRetry(func(failsafe.ExecutionEvent[reply]) { c.metrics.retries.WithLabelValues(c.name, call.route).Inc() }).
		Build()
}

func (c *Client) first(ctx context.Context, call *call) (reply, error) {
	permit, err := c.limiter.acquire(ctx)
	if errors.Is(err, errSaturated) {
		return reply{}, c.fail(call, Shed, "")
	}
	if err != nil {
		return reply{}, err
	}
	return c.attempt(ctx, call, permit)
}

func (c *Client) second(ctx context.Context, call *call, out *atomic.Bool) (reply, error) {
	permit, ok := c.limiter.spare()
	if !ok {
		return reply{}, errNotHedged
	}
	if !c.hedge.allowance.spend() {
		permit.Drop()
		return reply{}, errNotHedged
	}
	out.Store(true)
	c.metrics.hedges.WithLabelValues(c.name, call.route).Inc()
	return c.attempt(ctx, call, permit)
}

// hedging decides when a call is late enough to be sent again.
type hedging struct {
	after     time.Duration
	quantile  float64
	allowance *allowance

	routes sync.Map // route → *latencies
}

func newHedging(cfg Config) *hedging {
	return &hedging{
		after:     cfg.HedgeAfter,
		quantile:  cfg.HedgeQuantile,
		allowance: newAllowance(hedgeShare, hedgeBurst, 1),
	}
}

func (h *hedging) delay(route string) (time.Duration, bool) {
	if h.after == 0 {
		return 0, false
	}
	if l, ok := h.routes.Load(route); ok {
		if d := time.Duration(l.(*latencies).late.Load()); d > 0 {
			return min(d, h.after), true
		}
	}
	return h.after, true
}

func (h *hedging) observe(route string, took time.Duration) {
	if h.after == 0 || h.quantile == 0 {
		return
	}
	l, ok := h.routes.Load(route)
	if !ok {
		l, _ = h.routes.LoadOrStore(route, &latencies{})
	}
	l.(*latencies).add(took, h.quantile)
}

// latencies keeps the last few hundred latencies of a route and the quantile
// after which a call is late.
type latencies struct {
	late atomic.Int64 // 0: not known yet

	mu   sync.Mutex
	ring [512]time.Duration
	n    int
}

func (l *latencies) add(took time.Duration, quantile float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ring[l.n%len(l.ring)] = took
	l.n++
	if l.n%64 != 0 {
		return
	}
	sorted := slices.Clone(l.ring[:min(l.n, len(l.ring))])
	slices.Sort(sorted)
	l.late.Store(int64(sorted[int(quantile*float64(len(sorted)))]))
}
