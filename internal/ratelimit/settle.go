package ratelimit

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// maxRound bounds a pipeline, and with it how long a round holds up the next.
	maxRound = 512
	// maxProbe is a round while the source is away.
	maxProbe = 16
	// maxQueue bounds what is due, evicted buckets included. Beyond it somebody makes
	// up keys faster than Redis can hear of them, or Redis is away.
	maxQueue = 1 << 16
	// sweepEvery is the pause between two sweeps; each looks at one of sweepParts.
	// The debt of a bucket that nobody comes back to is therefore charged within
	// about a minute; whoever does come back has it charged sooner.
	sweepEvery = 4 * time.Second
	sweepParts = 8
	// gather is how long what nobody waits for may wait for company: a pipeline costs
	// the same for one bucket and for a hundred. A lease is renewed long before it ends.
	gather = 10 * time.Millisecond
	// farewell is what the last debts may cost a shutdown.
	farewell = time.Second
)

// pending is a bucket the source should hear of.
type pending struct {
	tag    uint64
	slot   int
	orphan *Ask // of a bucket that is no longer in the table
}

// Stats counts what is worth watching; all figures only grow.
type Stats struct {
	Asks      uint64 // buckets put to the source
	Rounds    uint64 // pipelines they took
	Failures  uint64 // rounds without an answer
	Waits     uint64 // requests that had to wait for a round
	Impatient uint64 // requests that gave up waiting
	Evicted   uint64 // buckets that made room for others
}

type stats struct{ asks, rounds, failures, waits, impatient, evicted atomic.Uint64 }

// Stats returns the counters.
func (l *Limiter) Stats() Stats {
	s := &l.stats
	return Stats{
		Asks: s.asks.Load(), Rounds: s.rounds.Load(), Failures: s.failures.Load(),
		Waits: s.waits.Load(), Impatient: s.impatient.Load(), Evicted: s.evicted.Load(),
	}
}

// Alone reports whether the source is away and local shares apply.
func (l *Limiter) Alone() bool { return l.alone.Load() }

// Run settles with the source until the context ends, then reports what is still
// owed.
func (l *Limiter) Run(ctx context.Context) error {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	probe := time.NewTicker(l.cfg.Timeout)
	defer probe.Stop()
	var gathered <-chan time.Time // nil: nothing is due
	r := &round{}
	for part := 0; ; {
		select {
		case <-ctx.Done():
			l.leave(context.WithoutCancel(ctx), r)
			return nil
		case <-l.wake:
			if gathered == nil {
				gathered = time.After(gather)
			}
		case <-gathered:
			gathered = nil
			if !l.alone.Load() {
				l.drain(ctx, r)
			}
		case <-l.hurry:
			if !l.alone.Load() {
				l.drain(ctx, r)
			}
		case <-probe.C:
			if l.alone.Load() && l.settle(ctx, r, maxProbe) {
				l.drain(ctx, r)
			}
		case <-sweep.C:
			l.sweep(part, false)
			part = (part + 1) % sweepParts
		}
	}
}

// drain runs rounds until nothing is due or the source fails.
func (l *Limiter) drain(ctx context.Context, r *round) {
	for l.settle(ctx, r, maxRound) {
		if l.idle() {
			return
		}
	}
}

// leave reports every debt, so that a restart does not refill buckets.
func (l *Limiter) leave(ctx context.Context, r *round) {
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	for part := range sweepParts {
		l.sweep(part, true)
	}
	l.drain(ctx, r)
}

// sweep queues debts that no later request has reported.
func (l *Limiter) sweep(part int, all bool) {
	per := len(l.table.shards) / sweepParts
	for i := part * per; i < (part+1)*per; i++ {
		sh := &l.table.shards[i]
		sh.mu.Lock()
		for slot := range sh.entries {
			e := &sh.entries[slot]
			if e.debt == 0 || e.queued {
				continue
			}
			if e.aged || all {
				e.queued = l.enqueue(pending{tag: sh.tags[slot], slot: slot})
			}
			e.aged = true
		}
		sh.mu.Unlock()
	}
}

// enqueue notes a bucket, if there is room. The caller may hold its shard; nobody
// takes a shard while holding the queue.
func (l *Limiter) enqueue(p pending) bool {
	l.mu.Lock()
	full := len(l.queue)-l.head >= maxQueue
	if !full {
		l.queue = append(l.queue, p)
	}
	l.mu.Unlock()
	if !l.alone.Load() { // otherwise the next probe will do
		poke(l.wake)
	}
	return !full
}

func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// orphan keeps the debt of a bucket that is being forgotten.
func (l *Limiter) orphan(e *entry) {
	rule := l.order[e.rule]
	q := rule.now()
	l.enqueue(pending{orphan: &Ask{
		Bucket: bucket(rule.limit.Name, e.id), Now: e.at, Since: e.since,
		Interval: q.interval, Window: q.window, Charge: e.debt, Share: 1,
	}})
}

// dequeue moves what is due into a round.
func (l *Limiter) dequeue(due []pending, limit int) []pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(limit, len(l.queue)-l.head)
	due = append(due[:0], l.queue[l.head:l.head+n]...)
	if l.head += n; l.head > len(l.queue)/2 {
		n = copy(l.queue, l.queue[l.head:])
		clear(l.queue[n:])
		l.queue, l.head = l.queue[:n], 0
	}
	return due
}

func (l *Limiter) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) == l.head
}

// round returns what is closed when the round under way, or else the next, is over.
func (l *Limiter) round() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done
}

// round is the working memory of one settlement after another.
type round struct {
	due     []pending
	asks    []Ask
	answers []Answer
}

// settle runs one round and reports whether the source answered.
func (l *Limiter) settle(ctx context.Context, r *round, limit int) bool {
	l.collect(r, limit)
	var err error
	if len(r.asks) > 0 {
		l.stats.rounds.Add(1)
		l.stats.asks.Add(uint64(len(r.asks)))
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.cfg.Timeout)
		err = l.cfg.Source.Settle(ctx, r.asks, r.answers)
		cancel()
	}
	heard := len(r.asks) == 0 && !l.alone.Load()
	for i := range r.answers {
		heard = heard || r.answers[i].OK
	}
	if len(r.asks) > 0 {
		l.alone.Store(!heard)
	}
	if err != nil && !heard {
		l.stats.failures.Add(1)
	}
	for i := range r.due {
		l.tell(&r.due[i], &r.asks[i], &r.answers[i], heard)
	}
	l.mu.Lock()
	close(l.done)
	l.done = make(chan struct{})
	l.mu.Unlock()
	return heard
}

// collect writes down the asks of a round.
func (l *Limiter) collect(r *round, limit int) {
	r.due = l.dequeue(r.due, limit)
	peers := l.peers.Load()
	kept := r.due[:0]
	r.asks = r.asks[:0]
	for _, p := range r.due {
		var a Ask
		if p.orphan != nil {
			a = *p.orphan
		} else if !l.compose(p, peers, &a) {
			continue
		}
		kept = append(kept, p)
		r.asks = append(r.asks, a)
	}
	r.due = kept
	r.answers = append(r.answers[:0], make([]Answer, len(kept))...)
}

func (l *Limiter) compose(p pending, peers int64, a *Ask) bool {
	sh, _ := l.table.place(p.tag)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.tags[p.slot] != p.tag {
		return false // evicted meanwhile
	}
	e := &sh.entries[p.slot]
	rule := l.order[e.rule]
	if !e.ask(rule.now(), peers, a) {
		return false
	}
	a.Bucket = bucket(rule.limit.Name, e.id)
	return true
}

// tell passes an answer on. What a missing source has not heard stays due: the next
// probe needs something to ask.
func (l *Limiter) tell(p *pending, a *Ask, ans *Answer, heard bool) {
	if p.orphan != nil {
		if !heard {
			l.enqueue(*p)
		}
		return
	}
	sh, _ := l.table.place(p.tag)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.tags[p.slot] != p.tag {
		return // evicted meanwhile
	}
	e := &sh.entries[p.slot]
	e.hear(l.order[e.rule].now(), a, ans)
	if !heard && !e.queued {
		e.queued = l.enqueue(*p)
	}
}
