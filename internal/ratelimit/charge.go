package ratelimit

import (
	"hash/maphash"
	"sync"
	"time"
)

// Charges remembers which idempotency keys were charged lately, so that retries
// cost nothing: a client on a bad line must not run into a limit by asking for
// the same thing again. The zero Charges is not usable; see [NewCharges].
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
	// maxRetries is how many retries are free: above any honest client, and no
	// way to send requests for ever.
	maxRetries = 1000
)

// NewCharges returns an empty memory.
func NewCharges() *Charges {
	return &Charges{seed: maphash.MakeSeed(), cur: map[uint64]*charge{}, prev: map[uint64]*charge{}}
}

// Attempt is one request for something that may be asked for again. The zero
// Attempt repeats nothing.
type Attempt struct {
	of     *Charges
	id     uint64
	charge *charge
	first  bool
}

// Retry reports whether the request repeats one that came before.
func (t *Attempt) Retry() bool { return t.charge != nil && !t.first }

// Begin finds out whether a request repeats another: the same key of the same
// owner on the same route. Without a key or an owner it repeats nothing.
func (c *Charges) Begin(route, owner, key string, now time.Time) Attempt {
	if key == "" || owner == "" {
		return Attempt{}
	}
	var h maphash.Hash
	h.SetSeed(c.seed)
	for _, s := range [...]string{route, owner, key} {
		_, _ = h.WriteString(s)
		_ = h.WriteByte(0)
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
		t.charge, t.first = &charge{done: make(chan struct{})}, true
		c.cur[t.id] = t.charge
		return t
	}
	if known.retries++; known.retries > maxRetries {
		return Attempt{}
	}
	t.charge = known
	return t
}

// Decide charges the first attempt; those that repeat it, even at the same
// moment, get its decision.
func (t *Attempt) Decide(charge func() Decision) Decision {
	switch {
	case t.charge == nil:
		return charge()
	case t.first:
		t.Settle(charge())
		return t.charge.decision
	}
	<-t.charge.done // within the limiter's MaxWait
	if t.charge.decision.Allowed {
		return t.charge.decision
	}
	return charge()
}

// Settle ends a first attempt; one that was not admitted leaves nothing behind.
// It does nothing for any other attempt, or the second time.
func (t *Attempt) Settle(d Decision) {
	if !t.first {
		return
	}
	t.first = false
	t.charge.decision = d
	close(t.charge.done)
	if !d.Allowed {
		t.of.mu.Lock()
		delete(t.of.cur, t.id)
		t.of.mu.Unlock()
	}
}
