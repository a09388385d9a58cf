package upstream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Hedges may add a twentieth to the load; a quiet minute saves up for a few.
const hedgeShare, hedgeBurst = 0.05, 20

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

// chances is how often a late call asks for a hedge: what the allowance refuses
// at first it may grant to those that are still waiting a while later, the
// worst stragglers.
const chances = 3

// hedged makes an attempt, and another beside it when it is late.
func (c *Client) hedged(ctx context.Context, call *call) (reply, error) {
	delay, ok := c.hedge.delay(call.route)
	if !ok {
		return c.first(ctx, call)
	}
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &race{client: c, call: call, ctx: ctx, delay: delay, live: 1, chances: chances, stopFirst: cancel}
	r.mu.Lock() // the timer must be there before it is used
	r.timer = time.AfterFunc(delay, r.late)
	r.mu.Unlock()

	start := time.Now()
	answer, err := c.first(own, call)
	if took := time.Since(start); err == nil || took >= delay {
		// An attempt cut off by its twin would have taken longer still: it
		// counts on the right side of the quantile.
		c.hedge.observe(call.route, took)
	}
	return r.finish(answer, err)
}

// race is an attempt, in its caller's goroutine, with the hedges beside it. The
// first answer decides it; a failure does once no other attempt is under way.
type race struct {
	client *Client
	call   *call
	ctx    context.Context
	delay  time.Duration
	timer  *time.Timer

	mu        sync.Mutex
	live      int // attempts under way
	chances   int
	stopFirst context.CancelFunc
	stopTwin  context.CancelFunc

	decided bool
	over    chan struct{} // closed with the decision, if the caller waits for it
	answer  reply
	err     error
}

// late runs when the attempt is late.
func (r *race) late() {
	r.mu.Lock()
	if r.decided {
		r.mu.Unlock()
		return
	}
	if r.chances--; r.chances > 0 {
		r.timer.Reset(r.delay)
	}
	permit, ok := r.place()
	if !ok {
		r.mu.Unlock()
		return
	}
	r.live++
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	r.stopTwin = cancel
	r.mu.Unlock()

	r.client.metrics.hedges.WithLabelValues(r.client.name, r.call.route).Inc()
	answer, err := r.client.attempt(ctx, r.call, permit, true)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle(answer, err)
}

// place is a place for a hedge, if there is one to spare and no twin is on its
// way already.
func (r *race) place() (permit, bool) {
	if r.live > 1 {
		return permit{}, false
	}
	p, ok := r.client.limiter.spare(r.call.route)
	if ok && !r.client.hedge.allowance.spend() {
		p.drop()
		return permit{}, false
	}
	return p, ok
}

// settle counts an attempt that has ended; it runs under mu.
func (r *race) settle(answer reply, err error) {
	r.live--
	e, _ := errors.AsType[*Error](err)
	if r.decided || (err != nil && (e == nil || !e.Refused()) && r.live > 0) { // else a twin may still succeed
		return
	}
	r.decided, r.answer, r.err = true, answer, err
	r.timer.Stop()
	r.stopFirst()
	if r.stopTwin != nil {
		r.stopTwin()
	}
	if r.over != nil {
		close(r.over)
	}
}

// finish ends the caller's own attempt and returns the decision.
func (r *race) finish(answer reply, err error) (reply, error) {
	r.mu.Lock()
	if r.settle(answer, err); r.decided {
		defer r.mu.Unlock()
		return r.answer, r.err
	}
	r.over = make(chan struct{})
	r.mu.Unlock()
	select {
	case <-r.over:
		return r.answer, r.err
	case <-r.ctx.Done(): // the twin ends with it, in its own time
		r.mu.Lock()
		defer r.mu.Unlock()
		r.decided = true
		r.timer.Stop()
		return reply{}, r.ctx.Err()
	}
}
