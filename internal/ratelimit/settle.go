package ratelimit

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// maxRound bounds a pipeline, and with it how long a round holds up the next.
	maxRound = 512
	// maxQueue bounds the queue, evicted buckets included. It is reached when clients
	// make up keys faster than Redis can settle them, or when Redis is away.
	maxQueue = 1 << 16
	// sweepEvery is the pause between two sweeps; each looks at one of sweepParts.
	// The debt of a bucket without further requests is therefore charged within about
	// a minute; a further request has it charged sooner.
	sweepEvery = 4 * time.Second
	sweepParts = 8
	// batchDelay is how long a background settlement may wait to share a pipeline,
	// which costs the same for one bucket and for a hundred. A lease is renewed long
	// before it ends.
	batchDelay = 10 * time.Millisecond
	// shutdownTimeout bounds the settlement of the last debts.
	shutdownTimeout = time.Second
)

// pending is a bucket to settle with the source.
type pending struct {
	tag    uint64
	slot   int
	orphan *Ask // of a bucket that is no longer in the table
}

// Stats counts what is worth watching; all figures only grow.
type Stats struct {
	Asks     uint64 // buckets put to the source
	Rounds   uint64 // pipelines they took
	Failures uint64 // rounds without an answer
	Waits    uint64 // requests that had to wait for a round
	Local    uint64 // requests that were decided by the local share
	Evicted  uint64 // buckets that made room for others
}

type stats struct{ asks, rounds, failures, waits, local, evicted atomic.Uint64 }

// Register shows how often an instance had to decide by its own share.
func (l *Limiter) Register(reg prometheus.Registerer, namespace string) {
	reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Namespace: namespace, Name: "limits_local_total",
		Help: "Requests that were decided by this instance's share of a limit, because Redis did not answer in time.",
	}, func() float64 { return float64(l.stats.local.Load()) }))
}

// Stats returns the counters.
func (l *Limiter) Stats() Stats {
	s := &l.stats
	return Stats{
		Asks: s.asks.Load(), Rounds: s.rounds.Load(), Failures: s.failures.Load(),
		Waits: s.waits.Load(), Local: s.local.Load(), Evicted: s.evicted.Load(),
	}
}

// Run settles with the source until the context ends, then reports what is still
// owed.
func (l *Limiter) Run(ctx context.Context) error {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	probe := time.NewTicker(l.cfg.Timeout)
	defer probe.Stop()
	var batch <-chan time.Time // nil: nothing is queued
	r := &round{}
	for part := 0; ; {
		select {
		case <-ctx.Done():
			l.settleAll(context.WithoutCancel(ctx), r)
			return nil
		case <-l.wake:
			if batch == nil {
				batch = time.After(batchDelay)
			}
		case <-batch:
			batch = nil
			if !l.offline.Load() {
				l.drain(ctx, r)
			}
		case <-l.urgent:
			if !l.offline.Load() {
				l.drain(ctx, r)
			}
		case <-probe.C:
			if l.offline.Load() && l.probe(ctx) {
				l.drain(ctx, r)
			}
		case <-sweep.C:
			l.sweep(part, false)
			part = (part + 1) % sweepParts
		}
	}
}

// probe asks whether the source is back, with an ask that charges and leases nothing: a
// Redis that hangs executes everything it was sent once it goes on, and with each
// probe a guest would lose a lease and be charged again.
func (l *Limiter) probe(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
	defer cancel()
	var answer [1]Answer
	now := time.Now().UnixMicro()
	if err := l.cfg.Source.Settle(ctx, []Ask{{Bucket: "probe", Now: now, Since: now, Interval: 1, Window: 1, Share: 1}}, answer[:]); err != nil || !answer[0].OK {
		l.stats.failures.Add(1)
		return false
	}
	l.offline.Store(false)
	return true
}

// drain runs rounds until the queue is empty or the source fails.
func (l *Limiter) drain(ctx context.Context, r *round) {
	for l.settle(ctx, r, maxRound) {
		if l.idle() {
			return
		}
	}
}

// settleAll settles every debt, so that a restart does not refill buckets.
func (l *Limiter) settleAll(ctx context.Context, r *round) {
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	for part := range sweepParts {
		l.sweep(part, true)
	}
	l.drain(ctx, r)
}

// sweep queues debts that no later request has had settled.
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

// enqueue queues a bucket if there is room. The caller may hold a shard's lock; the
// queue's lock is never held while a shard's is taken.
func (l *Limiter) enqueue(p pending) bool {
	l.mu.Lock()
	full := len(l.queue)-l.head >= maxQueue
	if !full {
		l.queue = append(l.queue, p)
	}
	l.mu.Unlock()
	if !l.offline.Load() { // otherwise the next probe will do
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

// orphan queues the debt of a bucket that is evicted.
func (l *Limiter) orphan(e *entry) {
	rule := l.order[e.rule]
	q := rule.now()
	l.enqueue(pending{orphan: &Ask{
		Bucket: bucket(rule.limit.Name, e.id), Now: e.clock, Since: e.debtSince,
		Interval: q.interval, Window: q.window, Charge: e.debt, Share: 1,
	}})
}

// dequeue moves buckets from the queue into a round.
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

// round returns a channel that is closed when the round under way, or else the
// next, is over.
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
	heard := len(r.asks) == 0 && !l.offline.Load()
	for i := range r.answers {
		heard = heard || r.answers[i].OK
	}
	if len(r.asks) > 0 {
		l.offline.Store(!heard)
	}
	if err != nil && !heard {
		l.stats.failures.Add(1)
	}
	for i := range r.due {
		l.deliver(&r.due[i], &r.asks[i], &r.answers[i], heard)
	}
	l.mu.Lock()
	close(l.done)
	l.done = make(chan struct{})
	l.mu.Unlock()
	return heard
}

// collect composes the asks of a round.
func (l *Limiter) collect(r *round, limit int) {
	r.due = l.dequeue(r.due, limit)
	peers := l.peers
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

// deliver applies an answer to its bucket. What the source has not answered is
// queued again: the next probe needs something to ask.
func (l *Limiter) deliver(p *pending, a *Ask, ans *Answer, heard bool) {
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
	e.apply(l.order[e.rule].now(), a, ans)
	if !heard && !e.queued {
		e.queued = l.enqueue(*p)
	}
}
