package loadshed

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"melmastoon.ghasi.io/bff/internal/fairqueue"
)

const (
	// A window is what a limit is corrected by.
	windowFor     = 100 * time.Millisecond
	maxWindowFor  = time.Second
	windowSamples = 10
	// deepest is the most that one window may take off a limit.
	deepest = 0.7
	// lateFor is how many slow windows in a row narrow a gate.
	lateFor = 2
	// stuckFor is after how many windows at its minimum a gate believes that slow
	// is the new normal, if it is the only one in trouble.
	stuckFor = 5
	// pressedFor is how long one window's pressure is remembered.
	pressedFor = 500 * time.Millisecond

	// maxWaiting bounds the requests that wait at a gate, and so their memory.
	maxWaiting = 2048
	// defaultWait is the time of a request without a deadline.
	defaultWait = time.Second
)

// Gate admits the requests of one class.
type Gate struct {
	shedder *Shedder
	class   Class

	mu       sync.Mutex
	inflight int
	limit    float64
	waiting  *fairqueue.Queue[netip.Addr]
	typical  time.Duration // median of the last window
	// idle is the median latency without queueing; 0 until known.
	idle              time.Duration
	sprint            bool // growing fast until the first queue is seen
	late, stuck       int  // slow windows in a row, and those at the minimum
	admitted, refused uint64

	opened time.Time // the window
	seen   samples
	filled bool // the limit was reached

	probed *probe // the last one that was evaluated
	probes samples

	// pressed is when the gate was last both full and slow, in Unix nanoseconds; the
	// less important gates look at it.
	pressed atomic.Int64
}

func newGate(s *Shedder, c Class) *Gate {
	return &Gate{shedder: s, class: c, limit: float64(c.Min), sprint: true, waiting: fairqueue.New[netip.Addr](maxWaiting)}
}

// Pass is the right of one request to be under way.
type Pass struct {
	gate *Gate
	at   time.Time
}

// Admit lets a request in, at once or when its turn comes, or refuses it; the caller then
// answers 503. It is refused if it could not be answered before the deadline of ctx, or
// if more requests keep coming than can be. A pass must be left exactly once.
//
// Networks take turns. Nothing is proven of a request yet: what else it says of itself
// is free to invent, and a new name each time would have the first place each time. An
// address is what a flood has few of. Many hotels or guests behind one address share
// its turns, while there is a queue.
func (g *Gate) Admit(ctx context.Context, from netip.Addr) (p Pass, ok bool) {
	now := time.Now()
	g.mu.Lock()
	room, probing := g.room(now)
	if g.opened.IsZero() {
		g.opened = now
	}
	if ok = g.inflight < room && g.waiting.Len() == 0; ok {
		g.waiting.Passed()
		g.take(room, probing)
		g.mu.Unlock()
		g.shedder.brownout.count(true)
		return Pass{g, now}, true
	}
	g.filled = g.filled || !probing
	left := defaultWait
	if deadline, ok := ctx.Deadline(); ok {
		left = deadline.Sub(now)
	}
	patience := fairqueue.Patience(left, g.typical)
	w := g.waiting.Join(network(from), now, patience, room)
	if w == nil {
		g.refused++
		g.mu.Unlock()
		g.shedder.brownout.count(probing)
		return Pass{}, false
	}
	g.mu.Unlock()
	return g.wait(ctx, w, patience)
}

// wait is for a request that found the gate full.
func (g *Gate) wait(ctx context.Context, w *fairqueue.Waiter[netip.Addr], patience time.Duration) (Pass, bool) {
	late := w.Wait(ctx, patience)
	gone := errors.Is(ctx.Err(), context.Canceled)
	g.mu.Lock()
	ok := g.waiting.Leave(w, time.Now(), late)
	refused := !ok && !gone // a client that went away was not refused
	if refused {
		g.refused++
	}
	g.mu.Unlock()
	if ok || refused {
		g.shedder.brownout.count(ok)
	}
	return Pass{g, w.At}, ok
}

// network is whom an address stands for: a host may pick any address of its IPv6 /64.
func network(addr netip.Addr) netip.Addr {
	if !addr.Is6() {
		return addr
	}
	prefix, _ := addr.Prefix(64) // the error is for lengths that do not fit
	return prefix.Addr()
}

// What follows runs under mu.

// room is how many requests may be under way now.
func (g *Gate) room(now time.Time) (places int, probing bool) {
	if p := g.shedder.probe.Load(); p != nil && now.Before(p.end) {
		return max(int(g.limit)/2, g.class.Min), true
	}
	return int(g.limit), false
}

func (g *Gate) take(room int, probing bool) {
	g.inflight++
	g.admitted++
	g.filled = g.filled || !probing && g.inflight >= room
}

// call lets in those whose turn it is.
func (g *Gate) call(now time.Time) {
	if g.waiting.Len() == 0 {
		return
	}
	room, probing := g.room(now)
	for g.inflight < room && g.waiting.Call(now) {
		g.take(room, probing)
	}
}

// Leave ends a request: ok says that it did what requests of its class do. Failures
// count only if they were slow.
func (p Pass) Leave(ok bool) {
	g, admitted, now := p.gate, p.at, time.Now()
	took := now.Sub(admitted)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inflight--
	// A quick failure says nothing about load; a slow one does.
	if ok || g.idle > 0 && g.slow(took) {
		g.learn(admitted, now, took)
	}
	open := now.Sub(g.opened)
	if open >= windowFor && g.seen.n >= windowSamples || open >= maxWindowFor && g.seen.n > 0 {
		g.adapt(now)
	}
	g.call(now)
}

// learn notes a latency, in the window or for the probe.
func (g *Gate) learn(admitted, now time.Time, took time.Duration) {
	p := g.shedder.probe.Load()
	if p == nil || p == g.probed {
		if !admitted.Before(g.opened) { // under this window's limit
			g.seen.add(took)
		}
		return
	}
	if !admitted.Before(p.sample) && admitted.Before(p.end) {
		g.probes.add(took)
	}
	if now.Before(p.end) {
		return // neither like before nor like after
	}
	if g.probes.n >= minProbed {
		g.idle = g.probes.median()
	}
	g.probed, g.probes = p, samples{}
	g.reopen(now)
}

// adapt corrects the limit by the window that ends.
func (g *Gate) adapt(now time.Time) {
	median := g.seen.median()
	g.typical = median
	if g.idle == 0 || median < g.idle {
		g.idle = max(median, 1)
	}
	least, most := float64(g.class.Min), float64(g.class.Max)
	slow := g.slow(median)
	if slow && g.filled {
		g.pressed.Store(now.UnixNano())
	}
	switch {
	case g.shedder.outranked(g, now):
		g.sprint, g.late, g.stuck = false, 0, 0
		g.limit = max(g.limit*deepest, least)
	case slow:
		g.narrow(median, least)
	case g.filled:
		g.late, g.stuck = 0, 0
		if g.sprint {
			g.limit = min(g.limit*1.5+1, most)
			break
		}
		// The nearer to the bound, the smaller the step.
		headroom := float64(g.bound()-median) / float64(g.bound()-g.idle)
		g.limit = min(g.limit+max(1, g.limit/10)*headroom, most)
	default:
		g.late, g.stuck = 0, 0
	}
	if g.filled {
		g.shedder.full(now, g.idle)
	}
	g.reopen(now)
}

// narrow makes the gate smaller after slow windows; a single one may be a neighbour's
// doing.
func (g *Gate) narrow(median time.Duration, least float64) {
	g.sprint = false
	if g.late++; g.late < lateFor {
		return
	}
	g.limit = max(g.limit*max(float64(g.bound())/float64(median), deepest), least)
	if g.stuck++; g.limit > least {
		g.stuck = 0
	}
	if g.stuck >= stuckFor && g.shedder.onlyTrouble(g) {
		g.idle, g.stuck = median, 0
	}
}

// bound is the latency that the class puts up with.
func (g *Gate) bound() time.Duration {
	return max(time.Duration(g.class.tolerance()*float64(g.idle)), g.idle+g.shedder.slack)
}

func (g *Gate) slow(took time.Duration) bool { return took > g.bound() }

func (g *Gate) reopen(now time.Time) {
	g.opened, g.seen, g.filled = now, samples{}, false
}

// outranked reports whether a more important gate has lately been full and slow: then
// this one makes room, however fast it is itself.
func (s *Shedder) outranked(g *Gate, now time.Time) bool {
	for _, other := range s.gates {
		if other.class.Rank < g.class.Rank && now.UnixNano()-other.pressed.Load() < int64(pressedFor) {
			return true
		}
	}
	return false
}

// onlyTrouble reports whether no other gate is full: then it is not the processor that
// is slow, but something this class alone depends on.
func (s *Shedder) onlyTrouble(g *Gate) bool {
	for _, other := range s.gates {
		if other == g {
			continue
		}
		if !other.mu.TryLock() {
			return false // busy; the next window will tell
		}
		full := other.filled
		other.mu.Unlock()
		if full {
			return false
		}
	}
	return true
}

func (g *Gate) stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Stats{Class: g.class.Name, Inflight: g.inflight, Limit: int(g.limit), Admitted: g.admitted, Refused: g.refused}
}

// samples keeps the last few latencies.
type samples struct {
	n    int
	last [64]time.Duration
}

func (s *samples) add(d time.Duration) {
	s.last[s.n%len(s.last)] = d
	s.n++
}

// median forgets the order.
func (s *samples) median() time.Duration {
	kept := s.last[:min(s.n, len(s.last))]
	slices.Sort(kept)
	return kept[len(kept)/2]
}
