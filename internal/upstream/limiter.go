package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
)

// limiter bounds the calls under way. The bound follows the upstream: while
// answers get slower than they used to be it shrinks, so that a slow upstream
// meets less load and not more.
type limiter struct {
	adaptive adaptivelimiter.AdaptiveLimiter[any]
	wait     time.Duration
}

// permit must be given back by Record or Drop.
type permit = adaptivelimiter.Permit

var errSaturated = errors.New("saturated")

func newLimiter(cfg Config, m *metrics) *limiter {
	top := uint(cfg.MaxConcurrent) //nolint:gosec // checked not to be negative
	m.limit.Set(float64(top))
	return &limiter{
		adaptive: adaptivelimiter.NewBuilder[any]().
			WithLimits(max(top/8, min(top, 4)), top, top).
			WithMaxLimitFunc(func(int) float64 { return float64(top) }). // quiet hours do not lower it
			WithQueueing(1, 2).
			OnLimitChanged(func(e adaptivelimiter.LimitChangedEvent) { m.limit.Set(float64(e.NewLimit)) }).
			Build(),
		wait: cfg.Timeout / 4,
	}
}

// acquire waits a short while for a place, in a queue that is about as long as
// the limit: what waits longer than one answer takes is better shed.
func (l *limiter) acquire(ctx context.Context) (permit, error) {
	p, err := l.adaptive.AcquirePermitWithMaxWait(ctx, l.wait)
	switch {
	case errors.Is(err, adaptivelimiter.ErrExceeded):
		return nil, errSaturated
	case err != nil:
		return nil, err
	}
	return p, nil
}

// spare takes a place only if there are plenty: a hedge helps one call and
// must not take the place of another.
func (l *limiter) spare() (permit, bool) {
	if l.adaptive.Inflight()*5 >= l.adaptive.Limit()*4 {
		return nil, false
	}
	return l.adaptive.TryAcquirePermit()
}

// allowance bounds the extra calls to a share of the calls: each call earns a
// share of a token, an extra call costs one.
type allowance struct {
	share, most float64

	mu     sync.Mutex
	tokens float64
}

func newAllowance(share, most, start float64) *allowance {
	return &allowance{share: share, most: most, tokens: start}
}

func (a *allowance) earn() {
	a.mu.Lock()
	a.tokens = min(a.tokens+a.share, a.most)
	a.mu.Unlock()
}

func (a *allowance) spend() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tokens < 1 {
		return false
	}
	a.tokens--
	return true
}
