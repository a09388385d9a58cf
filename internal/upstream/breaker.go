package upstream

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// breaker stops calls to an upstream that keeps failing. Closed, it counts
// failures in a row; open, it lets nothing through; after a while it is
// half-open and lets one probe through, whose fate decides.
//
// It is our own because a probe must be able to end without a verdict: when
// its caller goes away, the next caller probes. Library breakers count such a
// call as a success, or wait for its result for ever.
type breaker struct {
	failures int
	after    time.Duration
	changed  func(from, to breakerState)

	mu       sync.Mutex
	current  breakerState
	era      int // counts changes of state
	inARow   int
	openedAt time.Time
	probing  bool
}

// breakerState has the values of the circuit_breaker_state metric.
type breakerState int

const (
	closed breakerState = iota
	halfOpen
	open
)

func (s breakerState) String() string { return [...]string{"closed", "half-open", "open"}[s] }

// pass is the permission to make one call.
type pass struct {
	era   int
	probe bool
}

// verdict is what a call says about the health of its upstream.
type verdict int

const (
	neutral verdict = iota
	healthy
	sick
)

func newBreaker(cfg Config, m *metrics) *breaker {
	b := &breaker{failures: cfg.Breaker.Failures, after: cfg.Breaker.HalfOpenAfter}
	if b.failures == 0 {
		b.failures = 5
	}
	if b.after == 0 {
		b.after = 4 * time.Second
	}
	m.breaker.Set(float64(closed))
	b.changed = func(from, to breakerState) {
		m.breaker.Set(float64(to))
		level := slog.LevelInfo
		if to == open {
			level = slog.LevelWarn
		}
		cfg.Log.Log(context.Background(), level, "circuit breaker changed", "upstream", cfg.Name, "from", from.String(), "to", to.String())
	}
	return b
}

func (b *breaker) state() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.current.String()
}

// enter asks to make a call. Every pass must be handed to leave.
func (b *breaker) enter() (pass, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current == open && time.Since(b.openedAt) >= b.after {
		b.become(halfOpen)
	}
	switch {
	case b.current == closed:
		return pass{era: b.era}, true
	case b.current == halfOpen && !b.probing:
		b.probing = true
		return pass{era: b.era, probe: true}, true
	}
	return pass{}, false
}

// holds reports whether a pass is still good.
func (b *breaker) holds(p pass) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return p.era == b.era || b.current == closed
}

// leave reports how a call went. Calls of an earlier state are not heard: a
// timeout from before the outage must not undo a good probe.
func (b *breaker) leave(p pass, v verdict) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.era != b.era {
		return
	}
	switch {
	case v == healthy && p.probe:
		b.become(closed)
	case v == healthy:
		b.inARow = 0
	case v == sick:
		if b.inARow++; p.probe || b.inARow >= b.failures {
			b.become(open)
		}
	case p.probe:
		b.probing = false
	}
}

// become runs under mu; changed must not call back.
func (b *breaker) become(to breakerState) {
	from := b.current
	b.current, b.inARow, b.probing = to, 0, false
	b.era++
	if to == open {
		b.openedAt = time.Now()
	}
	b.changed(from, to)
}

// judge says what an outcome tells about the upstream.
func judge(err error, took, limit time.Duration) verdict {
	e, ok := errors.AsType[*Error](err)
	switch {
	case err == nil, ok && e.Refused():
		return healthy
	case !ok: // the caller went away
		return neutral
	case e.Reason == Shed && e.Status == 0, e.Reason == Breaker: // our own decision
		return neutral
	case e.Reason == Budget && took < limit/4:
		// It was not given a fair chance. With a quarter of its cap it was: an
		// upstream that hangs must trip the breaker even if all its callers
		// are in a hurry.
		return neutral
	}
	return sick
}
