package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Config says what to limit and how long to wait for the source.
type Config struct {
	Limits []Limit
	// Source is shared by all processes: [NewRedis], or [NewMemory] for a single one.
	Source Source
	// Pepper keys the names of the buckets; at least 16 bytes, the same in every
	// process of an environment.
	Pepper []byte
	// Instances is about how many processes share the limits. Too few admits too
	// much while Redis is away, too many strands slots. Default 3.
	Instances int
	// MaxKeys bounds memory: about 150 bytes each. Default 32,768.
	MaxKeys int
	// MaxWait is how long a request waits for an answer that only Redis has, before
	// it is judged by the local share. Default 25 ms.
	MaxWait time.Duration
	// Timeout caps a call to the source. Default 250 ms, which is also the pause
	// between two tries while it is away.
	Timeout time.Duration
}

func (c *Config) complete() error {
	var errs []error
	if len(c.Limits) == 0 || len(c.Limits) > math.MaxUint16 {
		errs = append(errs, errors.New("limits: at least one"))
	}
	names := map[string]bool{}
	for _, limit := range c.Limits {
		errs = append(errs, limit.validate(BucketTTL))
		if names[limit.Name] {
			errs = append(errs, fmt.Errorf("limit %q: twice", limit.Name))
		}
		names[limit.Name] = true
	}
	if c.Source == nil {
		errs = append(errs, errors.New("source: missing"))
	}
	if len(c.Pepper) < 16 {
		errs = append(errs, errors.New("pepper: at least 16 bytes"))
	}
	if c.Instances < 0 || c.MaxKeys < 0 || c.MaxWait < 0 || c.Timeout < 0 {
		errs = append(errs, errors.New("instances, max keys, max wait and timeout must not be negative"))
	}
	if c.Instances == 0 {
		c.Instances = 3
	}
	if c.MaxKeys == 0 {
		c.MaxKeys = 1 << 15
	}
	if c.MaxWait == 0 {
		c.MaxWait = 25 * time.Millisecond
	}
	if c.Timeout == 0 {
		c.Timeout = 250 * time.Millisecond
	}
	return errors.Join(errs...)
}

// Limiter decides. [Limiter.Run] must run beside it.
type Limiter struct {
	cfg   Config
	rules map[string]*Rule
	order []*Rule // by index
	table *table
	macs  *sync.Pool

	peers   int64       // processes that share the limits
	offline atomic.Bool // the source is away, local shares apply

	mu     sync.Mutex
	queue  []pending // from head on
	head   int
	done   chan struct{} // closed when the round under way, or the next, is over
	wake   chan struct{} // something is queued
	urgent chan struct{} // a request waits for it

	stats stats
}

// New checks the configuration and returns a limiter with empty memory.
func New(cfg Config) (*Limiter, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("rate limiter: %w", err)
	}
	cfg.Pepper = slices.Clone(cfg.Pepper)
	l := &Limiter{
		cfg: cfg, rules: map[string]*Rule{}, table: newTable(cfg.MaxKeys), macs: newMACs(cfg.Pepper),
		done: make(chan struct{}), wake: make(chan struct{}, 1), urgent: make(chan struct{}, 1),
		peers: int64(cfg.Instances),
	}
	for i, limit := range cfg.Limits {
		r := &Rule{limit: limit, quota: limit.quota(), seed: maphash.MakeSeed(), index: uint16(i)}
		r.interval.Store(r.quota.interval)
		l.rules[limit.Name] = r
		l.order = append(l.order, r)
	}
	return l, nil
}

// Rule returns a configured limit.
func (l *Limiter) Rule(name string) (*Rule, error) {
	if r, ok := l.rules[name]; ok {
		return r, nil
	}
	return nil, fmt.Errorf("rate limiter: no limit %q among %v", name, slices.Sorted(maps.Keys(l.rules)))
}

// Decision is the outcome for a request, with the figures of the limit that is
// nearest to its end: they become RateLimit-Limit, -Remaining and -Reset.
type Decision struct {
	Allowed   bool
	Rule      *Rule // nil if there was nothing to check
	Limit     int
	Remaining int
	// Reset is the time until the bucket is full again.
	Reset time.Duration
	// RetryAfter is set on refusal.
	RetryAfter time.Duration
	// Local says that the source could not be asked: this is the local share's
	// answer, which may be stricter than the limit.
	Local bool
}

// state is one key of a request that is being decided.
type state struct {
	tag                uint64
	outcome            outcome
	left, reset, retry int64
}

// Allow admits a request of a cost, usually 1, if every key's bucket does, and then
// charges them all; a refused request costs nothing. Put the key that a flood would
// exhaust first: those behind a refusal are not touched. The context matters only
// where a request has to wait.
func (l *Limiter) Allow(ctx context.Context, keys []Key, cost int, now time.Time) Decision {
	var room [4]state // beyond that, the heap
	states := room[:0]
	for i := range keys {
		states = append(states, state{tag: keys[i].tag()})
	}
	r := request{keys: keys, states: states, cost: int64(min(max(cost, 1), 1<<20)), now: now.UnixMicro()}
	offline := l.offline.Load()
	if d, ok := l.pass(&r, offline); ok {
		return l.mark(d, offline)
	}
	return l.await(ctx, r)
}

type request struct {
	keys      []Key
	states    []state
	cost, now int64
}

// pass puts the request to every bucket that has not yet admitted it. ok is false
// if one of them cannot say.
func (l *Limiter) pass(r *request, offline bool) (d Decision, ok bool) {
	peers := l.peers
	open := false
	for i := range r.keys {
		s := &r.states[i]
		if s.outcome != undecided {
			continue
		}
		if l.put(r, i, peers, offline); s.outcome == refused {
			l.undo(r, peers)
			d = r.decision(i)
			d.RetryAfter = micros(max(s.retry, 1))
			return d, true
		}
		open = open || s.outcome == undecided
	}
	if open {
		return Decision{}, false
	}
	d = r.decision(r.strictest())
	d.Allowed = true
	return d, true
}

// put decides one key.
func (l *Limiter) put(r *request, i int, peers int64, offline bool) {
	key, s := &r.keys[i], &r.states[i]
	q := key.rule.now()
	sh, set := l.table.place(s.tag)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	slot := sh.find(s.tag, set)
	if slot < 0 {
		slot = l.admit(sh, set, key, s.tag)
	}
	e := &sh.entries[slot]
	var ask bool
	s.outcome, ask = e.decide(q, r.now, r.cost, peers, offline)
	if ask && !e.queued {
		e.queued = l.enqueue(pending{tag: s.tag, slot: slot})
	}
	if s.outcome == undecided {
		poke(l.urgent)
	}
	s.left, s.reset = e.shown(q, peers, offline)
	if s.outcome == refused {
		s.retry = e.retry(q, r.cost, peers, offline)
	}
}

// admit makes room for a bucket. The caller holds the shard.
func (l *Limiter) admit(sh *shard, set int, key *Key, tag uint64) (slot int) {
	slot = sh.victim(set)
	if e := &sh.entries[slot]; sh.tags[slot] != 0 {
		l.stats.evicted.Add(1)
		if e.debt > 0 {
			l.orphan(e)
		}
	}
	sh.tags[slot] = tag
	sh.entries[slot] = entry{id: key.id(l.macs), rule: key.rule.index}
	return slot
}

// Refund gives back what an allowed request was charged: it turned out to be none of the
// subject's. It is worth at most what the bucket would have kept of it.
func (l *Limiter) Refund(key Key, cost int) {
	tag := key.tag()
	sh, set := l.table.place(tag)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	slot := sh.find(tag, set)
	if slot < 0 {
		return
	}
	paid := trusted // a debt that is not charged goes, or else a slot becomes a lease
	if l.offline.Load() {
		paid = shared
	}
	sh.entries[slot].undo(key.rule.now(), int64(min(max(cost, 1), 1<<20)), l.peers, paid)
}

// undo gives back what the buckets before a refusal took.
func (l *Limiter) undo(r *request, peers int64) {
	for i := range r.states {
		s := &r.states[i]
		if s.outcome == undecided || s.outcome == refused {
			continue
		}
		sh, set := l.table.place(s.tag)
		sh.mu.Lock()
		if slot := sh.find(s.tag, set); slot >= 0 {
			sh.entries[slot].undo(r.keys[i].rule.now(), r.cost, peers, s.outcome)
		}
		sh.mu.Unlock()
	}
}

// await waits for the answers under way, and falls back to the local share.
func (l *Limiter) await(ctx context.Context, r request) Decision {
	l.stats.waits.Add(1)
	timer := time.NewTimer(l.cfg.MaxWait)
	defer timer.Stop()
	for {
		done := l.round() // before looking: an answer after the look closes it
		offline := l.offline.Load()
		if d, ok := l.pass(&r, offline); ok {
			return l.mark(d, offline)
		}
		select {
		case <-done:
			continue
		case <-timer.C:
		case <-ctx.Done(): // the client is gone; any decision will do
		}
		d, _ := l.pass(&r, true) // offline, no bucket is undecided
		return l.mark(d, true)
	}
}

// mark says, and counts, whether a decision is the local share's.
func (l *Limiter) mark(d Decision, local bool) Decision {
	if d.Local = local; local {
		l.stats.local.Add(1)
	}
	return d
}

// strictest is the index of the bucket with the least left.
func (r *request) strictest() (least int) {
	for i := range r.states {
		if r.states[i].left < r.states[least].left {
			least = i
		}
	}
	return least
}

// decision has the figures of one bucket.
func (r *request) decision(i int) Decision {
	if len(r.keys) == 0 {
		return Decision{}
	}
	rule, s := r.keys[i].rule, &r.states[i]
	return Decision{Rule: rule, Limit: int(rule.now().limit()), Remaining: int(s.left), Reset: micros(s.reset)}
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
