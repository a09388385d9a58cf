package upstream

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff/internal/fairqueue"
)

const (
	// Answers that take twice their usual time are suspected of waiting in the
	// upstream's own queue. Below the lower mark there is room for more.
	slowMark, roomyMark = 2, 1.5
	// A window takes this many answers: fewer are noise.
	windowSamples = 64
	// What counts as usual follows slow changes of the upstream itself.
	usualOver = 30 * time.Second
	// With a queue that has stood this long a trial is due: what counts as
	// usual may have been learnt under load.
	longestQueue = 5 * time.Second
)

var errSaturated = errors.New("saturated")

// limiter bounds the attempts under way, so that an overloaded upstream meets
// less load, not more, and what is admitted still comes back in time.
//
// The bound follows the upstream by experiment. When answers become slow under
// load, the load is cut. If that makes them faster, the load was the cause and
// the cut stands; if not, the upstream has become slower by itself, the old
// bound returns and slow is the new usual.
//
// It is our own because the limiter of failsafe-go moves its bound by a few
// per second: from an idle start at five times the upstream's capacity its
// calls timed out and goodput fell to a half.
type limiter struct {
	floor, initial, top float64
	gauge               prometheus.Gauge

	mu       sync.Mutex
	bound    float64
	inflight int
	waiters  *fairqueue.Queue[string]
	usual    map[string]float64 // by route, ln of the latency
	typical  time.Duration      // of the last window
	window   window
	trial    trial
}

// window gathers the answers to attempts that began in it.
type window struct {
	begin  time.Time
	n      int
	sum    time.Duration   // of latency
	excess float64         // of ln latency ÷ the route's usual latency
	routes map[string]mean // of ln latency
	peak   int             // most under way
	queued bool
}

type mean struct {
	sum float64
	n   int
}

// trial is an experiment with less load.
type trial struct {
	on       bool
	bound    float64 // before it
	slowness float64 // before it
	ended    time.Time
	proved   bool // the load was the cause
}

func newLimiter(cfg Config, m *metrics) *limiter {
	top := float64(cfg.MaxConcurrent)
	l := &limiter{
		floor: min(top, 4), initial: max(min(top, 16), top/4), top: top,
		gauge: m.limit, usual: map[string]float64{}, waiters: fairqueue.New[string](8 * cfg.MaxConcurrent),
	}
	l.trial.ended = time.Now()
	l.set(l.initial)
	l.next(time.Now())
	return l
}

// permit is a place among the attempts under way; it must be given back.
type permit struct {
	limiter *limiter
	route   string
	start   time.Time
}

// acquire takes a place, or waits for one while the call still has time for its
// answer, but not longer than for the answer itself. Those for whom calls are made
// take turns: a tenant with a hundred desks does not keep the others waiting.
func (l *limiter) acquire(ctx context.Context, call *call) (permit, error) {
	l.mu.Lock()
	now := time.Now()
	if l.waiters.Len() == 0 && l.inflight < int(l.bound) {
		defer l.mu.Unlock()
		l.waiters.Passed()
		return l.take(call.route, now), nil
	}
	l.window.queued = true
	patience := call.cap
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, fairqueue.Patience(deadline.Sub(now), l.typical))
	}
	w := l.waiters.Join(call.whose, now, patience, int(l.bound))
	l.mu.Unlock()
	if w == nil {
		return permit{}, errSaturated
	}

	late := w.Wait(ctx, patience)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.waiters.Leave(w, time.Now(), late):
		return permit{l, call.route, w.At}, nil
	case ctx.Err() != nil:
		return permit{}, ctx.Err()
	}
	return permit{}, errSaturated
}

// spare takes a place only if there are plenty: a hedge helps one call and
// must not take the place of another.
func (l *limiter) spare(route string) (permit, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiters.Len() > 0 || float64(l.inflight) >= 0.8*l.bound {
		return permit{}, false
	}
	return l.take(route, time.Now()), true
}

// record gives the place back after an answer, or after none within the cap.
func (p permit) record() {
	l, now := p.limiter, time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inflight--
	l.sample(p, now)
	l.admit(now)
}

// drop gives the place back after something that says nothing about load: a
// cancelled attempt, a refused connection.
func (p permit) drop() {
	p.limiter.mu.Lock()
	defer p.limiter.mu.Unlock()
	p.limiter.inflight--
	p.limiter.admit(time.Now())
}

// What follows runs under mu.

func (l *limiter) take(route string, now time.Time) permit {
	l.inflight++
	l.window.peak = max(l.window.peak, l.inflight)
	return permit{l, route, now}
}

// admit hands free places to waiters.
func (l *limiter) admit(now time.Time) {
	for l.inflight < int(l.bound) && l.waiters.Call(now) {
		l.inflight++
		l.window.peak = max(l.window.peak, l.inflight)
	}
}

func (l *limiter) set(bound float64) {
	l.bound = min(max(bound, l.floor), l.top)
	l.gauge.Set(math.Floor(l.bound))
}

func (l *limiter) next(now time.Time) {
	routes := l.window.routes
	if routes == nil {
		routes = map[string]mean{}
	}
	clear(routes)
	l.window = window{begin: now, routes: routes, peak: l.inflight, queued: l.waiters.Len() > 0}
}

// sample adds one latency, and decides when there are enough.
func (l *limiter) sample(p permit, now time.Time) {
	w := &l.window
	if p.start.Before(w.begin) { // it met the load of another window
		return
	}
	took := now.Sub(p.start)
	lat := math.Log(max(float64(took), 1))
	w.n++
	w.sum += took
	if usual, known := l.usual[p.route]; known {
		w.excess += lat - usual
	}
	m := w.routes[p.route]
	w.routes[p.route] = mean{m.sum + lat, m.n + 1}

	// Quick answers come in first: a window must be open for much longer than
	// an answer takes, or it would see only those.
	typical := w.sum / time.Duration(w.n)
	if enough := min(windowSamples, max(windowSamples/2, 4*int(l.bound))); w.n < enough || now.Sub(w.begin) < 3*typical {
		return
	}
	l.typical = typical
	l.decide(math.Exp(w.excess/float64(w.n)), now)
	l.next(now)
}

// decide moves the bound, given how many times their usual time answers took.
func (l *limiter) decide(slowness float64, now time.Time) {
	w := &l.window
	used := w.queued || float64(w.peak) > 0.7*l.bound
	slow := used && slowness > slowMark
	fresh := now.Sub(l.trial.ended) < longestQueue
	queued := l.waiters.QueuedFor(now) > longestQueue
	switch {
	case l.trial.on:
		l.trial.on, l.trial.ended, l.trial.proved = false, now, false
		// If the load is the cause, answers get faster as it is cut, down to
		// their usual time. Half of that, by ratio, is where both guesses are
		// equally wrong.
		if hoped := max(l.bound/l.trial.bound, 1/l.trial.slowness); slowness < l.trial.slowness*math.Sqrt(hoped) {
			l.trial.proved = true
			if slowness < 1 {
				l.learn(1)
			}
			break
		}
		// Half of the way: one unlucky trial must not make overload usual.
		l.learn(0.5)
		l.set(l.trial.bound)
	case slow && fresh && l.trial.proved: // no need to prove it again
		l.set(l.bound * roomyMark / slowness)
	case slow, queued && !fresh:
		l.trial.on, l.trial.bound, l.trial.slowness = true, l.bound, slowness
		l.set(l.bound * min(0.5, roomyMark/slowness))
	default:
		l.learn(1 - math.Exp(-float64(now.Sub(w.begin))/float64(usualOver)))
		if slowness < roomyMark && (used || l.bound < l.initial) {
			l.set(l.bound + math.Sqrt(l.bound))
		}
	}
}

// learn moves what is usual towards what the window has seen.
func (l *limiter) learn(share float64) {
	for route, m := range l.window.routes {
		seen := m.sum / float64(m.n)
		if usual, known := l.usual[route]; known {
			seen = usual + share*(seen-usual)
		}
		l.usual[route] = seen
	}
}
