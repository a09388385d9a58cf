package ratelimit

import (
	"hash/maphash"
	"sync"
	"time"
)

// Charges remembers which requests with an idempotency key were charged lately, so
// that a retry does not cost a session its limit again: a client on a bad line must
// not run into it by asking for the same thing again. The zero Charges is not
// usable; see [NewCharges].
type Charges struct {
	seed maphash.Seed

	mu        sync.Mutex
	cur, prev map[uint64]*charge
	turned    time.Time
}

type charge struct {
	done     chan struct{} // closed when decided
	decision Decision
	retries  int // under the lock of Charges
}

const (
	chargeMemory = 10 * time.Minute
	maxCharges   = 1 << 15
	// maxRetries is how many retries are free: as many as an honest client on a bad
	// line needs.
	maxRetries = 20
)

// NewCharges returns an empty memory.
func NewCharges() *Charges {
	return &Charges{seed: maphash.MakeSeed(), cur: map[uint64]*charge{}, prev: map[uint64]*charge{}}
}

// Attempt is one request for something that may be asked for again. The zero
// Attempt repeats nothing.
type Attempt struct {
	of      *Charges
	id      uint64
	charge  *charge
	retry   bool
	decided bool
}

// Retry reports whether the request repeats one that came before.
func (t *Attempt) Retry() bool { return t.retry }

// Begin finds out whether a request repeats another: the same key of the same
// owner with the same request, which is all that tells two apart: method, path and
// body. Without a key or an owner it repeats nothing.
func (c *Charges) Begin(now time.Time, owner, key string, request ...string) Attempt {
	if key == "" || owner == "" {
		return Attempt{}
	}
	var h maphash.Hash
	h.SetSeed(c.seed)
	for _, s := range append([]string{owner, key}, request...) {
		maphash.WriteComparable(&h, len(s)) // keeps the parts apart
		_, _ = h.WriteString(s)
	}
	t := Attempt{of: c, id: h.Sum64()}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.cur) >= maxCharges || now.Sub(c.turned) >= chargeMemory {
		c.prev, c.cur, c.turned = c.cur, map[uint64]*charge{}, now
	}
	known := c.cur[t.id]
	if known == nil {
		known = c.prev[t.id]
	}
	if known == nil {
		t.charge = &charge{done: make(chan struct{})}
		c.cur[t.id] = t.charge
		return t
	}
	if known.retries++; known.retries > maxRetries {
		return Attempt{}
	}
	t.charge, t.retry = known, true
	return t
}

// Decide charges the first attempt in full. Those that repeat it, even at the same
// moment, pay what a repetition costs if the first was allowed.
func (t *Attempt) Decide(full, repeated func() Decision) Decision {
	switch {
	case t.charge == nil:
		return full()
	case !t.retry:
		t.settle(full())
		return t.charge.decision
	}
	<-t.charge.done // within the limiter's MaxWait
	if t.charge.decision.Allowed {
		return repeated()
	}
	t.retry = false // there is nothing that it repeats
	t.charge = nil
	return full()
}

func (t *Attempt) settle(d Decision) {
	t.decided = true
	t.charge.decision = d
	close(t.charge.done)
	if !d.Allowed {
		t.forget()
	}
}

// End ends an attempt that was decided, or that never will be: kept says that its
// answer is stored, so that the next attempt gets it again. Without one the next
// attempt is the first again, and End reports whether this one still owes the full
// charge.
func (t *Attempt) End(kept bool) (owes bool) {
	if t.charge == nil {
		return false
	}
	if !t.retry && !t.decided {
		t.settle(Decision{})
	}
	if kept {
		return false
	}
	t.forget()
	return t.retry
}

func (t *Attempt) forget() {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	for _, m := range []map[uint64]*charge{t.of.cur, t.of.prev} {
		if m[t.id] == t.charge {
			delete(m, t.id)
		}
	}
}
