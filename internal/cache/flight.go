package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"
)

// followPoll is the longest a follower sleeps between looks at the lease. It is
// woken earlier by the bus; this is for messages that get lost.
const followPoll = 100 * time.Millisecond

// sameAge is the difference below which two readings of an entry's age are of
// the same entry.
const sameAge = 100 * time.Millisecond

var errFillTimeout = fmt.Errorf("cache: fill took too long: %w", context.DeadlineExceeded)

// flight is the one attempt of this process to get a key.
type flight struct {
	done chan struct{}
	out  outcome // after done
}

// outcome is what every reader of a flight gets.
type outcome struct {
	entry  *Entry
	status Status
	err    error
	hold   time.Duration // a failure is kept for so long
}

// load waits for a flight, its own or one under way.
func (c *Cache) load(ctx context.Context, key string, fill FillFunc) (*Entry, Status, error) {
	for again := false; ; again = true {
		f, began, err := c.join(ctx, key, fill, false)
		if err != nil {
			return c.fallback(key, err)
		}
		if !began {
			c.metrics.followersProcess.Inc()
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, Status{}, context.Cause(ctx)
		}
		out := f.out
		if out.err != nil {
			return nil, Status{}, out.err
		}
		// The fill may have begun before an invalidation, and this call after
		// it. The second round is of a flight that began after this call: what
		// that brings is no older than the call.
		if v, _ := c.store.tags.check(out.entry.stamp, out.entry.tags); v == invalid && !again {
			continue
		}
		// A failed flight is kept for a moment; its stand-in may have aged out.
		if out.status.Err != nil && c.store.judge(out.entry, c.store.now()) == gone {
			return nil, Status{}, out.status.Err
		}
		out.status.Collapsed = out.status.Collapsed || !began
		out.status.Age = out.entry.Age()
		return out.entry, c.count(out.entry, out.status), nil
	}
}

// fallback serves what is in memory when there is no flight to be had.
func (c *Cache) fallback(key string, err error) (*Entry, Status, error) {
	e, ok := c.Peek(key)
	if !ok {
		return nil, Status{}, err
	}
	st := Status{Result: Stale, Age: e.Age(), Err: err}
	return e, c.count(e, st), nil
}

// count counts a read and returns its status.
func (c *Cache) count(e *Entry, st Status) Status {
	if e.old && (st.Result == Hit || st.Result == Miss) {
		st.Result, st.OfStale = Stale, true
	}
	switch {
	case st.Result == Miss:
		c.metrics.miss.Inc()
	case st.Result == Hit && st.Shared:
		c.metrics.hitRedis.Inc()
	case st.Result == Hit:
		c.metrics.hitMemory.Inc()
	case st.Err != nil || st.OfStale:
		c.metrics.staleError.Inc()
	default:
		c.metrics.staleRefreshing.Inc()
	}
	return st
}

// refresh starts a background flight, at most one per entry and errorHold; a
// reader pays for one comparison.
func (c *Cache) refresh(ctx context.Context, key string, e *Entry, now int64, fill FillFunc) {
	at := e.retry.Load()
	if len(c.slots) == cap(c.slots) { // fills that readers wait for go first
		return
	}
	if now < at || !e.retry.CompareAndSwap(at, now+int64(c.errorHold)) {
		return
	}
	// Refused when there are too many: the entry is served on, and the next
	// reader after the pause asks again.
	_, _, _ = c.join(ctx, key, fill, true)
}

// join returns the flight of key, starting one if there is none.
func (c *Cache) join(ctx context.Context, key string, fill FillFunc, background bool) (f *flight, began bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := c.flights[key]; ok {
		return f, false, nil
	}
	if len(c.flights) >= c.maxFlights {
		return nil, false, ErrBusy
	}
	f = &flight{done: make(chan struct{})}
	// The flight outlives the request that began it.
	ctx = context.WithoutCancel(ctx)
	if !c.store.spawn(func() { c.fly(ctx, key, f, fill, background) }) {
		return nil, false, ErrClosed
	}
	c.flights[key] = f
	return f, true, nil
}

// fly runs a flight: it answers the waiting readers first and then tells the other
// processes.
func (c *Cache) fly(ctx context.Context, key string, f *flight, fill FillFunc, background bool) {
	ctx, cancel := context.WithTimeout(ctx, c.followTimeout+c.fillTimeout+leaseMost)
	defer cancel()
	defer context.AfterFunc(c.store.ctx, cancel)()
	if background {
		var end func()
		ctx, end = c.refreshing(ctx)
		defer end()
	}

	out, tell := c.resolve(ctx, key, fill, background)
	if out.err != nil {
		out = c.standIn(key, out)
	}
	f.out = out
	c.land(key, f, out.hold)
	tell()
	if out.entry != nil && !background {
		// What another process shared may itself be due.
		if now := c.store.now(); out.status.Shared && c.store.judge(out.entry, now) != settled {
			c.refresh(ctx, key, out.entry, now, fill)
		}
	}
}

// land answers the waiting readers. A failure stays for a moment and is shared by
// the readers that come next.
func (c *Cache) land(key string, f *flight, hold time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(f.done)
	remove := func() {
		if c.flights[key] == f {
			delete(c.flights, key)
		}
	}
	// Failures must not take the room of flights.
	if hold <= 0 || len(c.flights) > c.maxFlights/2 {
		remove()
		return
	}
	time.AfterFunc(hold, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		remove()
	})
}

// standIn replaces a failure by the last good entry, if there is one that may
// still be served.
func (c *Cache) standIn(key string, out outcome) outcome {
	if _, negative := errors.AsType[*negativeError](out.err); negative {
		c.memory.Invalidate(key)
		return out
	}
	e, ok := c.Peek(key)
	if !ok {
		return out
	}
	err := out.err
	e.failed.Store(&err)
	return outcome{entry: e, status: Status{Result: Stale, Err: err}, hold: out.hold}
}

func nothing() {}

// resolve gets the entry from memory, from Redis, or from whichever process fills
// it, this one included. The function that it returns must be called once the
// waiting readers are answered.
func (c *Cache) resolve(ctx context.Context, key string, fill FillFunc, background bool) (outcome, func()) {
	// The flight before this one may have landed between the reader's look into
	// memory and its asking for a flight.
	if e, ok := c.memory.GetIfPresent(key); ok && c.store.judge(e, c.store.now()) == settled {
		return outcome{entry: e, status: Status{Result: Hit}}, nothing
	}
	if !c.shared || !c.store.link.up() {
		return c.direct(ctx, key, fill)
	}
	if out, ok := c.find(ctx, key, background); ok {
		return out, nothing
	}
	return c.leadOrFollow(ctx, key, fill, background)
}

// leadOrFollow bids for the key's lease. The process that wins it fills; the
// others wait until that one has ended, look into Redis and bid again if the entry
// is not there.
func (c *Cache) leadOrFollow(ctx context.Context, key string, fill FillFunc, background bool) (outcome, func()) {
	f := c.newFollower(key)
	defer f.stop()
	for ; ; f.rounds++ {
		if out, tell, done := c.bid(ctx, key, fill, f); done {
			return out, tell
		}
		if f.rounds == 0 {
			c.metrics.followersRedis.Inc()
		}
		switch timedOut, err := f.wait(ctx); {
		case err != nil:
			return outcome{err: err}, nothing
		case timedOut && !c.allow():
			return outcome{err: ErrBusy}, nothing
		case timedOut:
			return c.direct(ctx, key, fill)
		}
		if out, ok := c.find(ctx, key, background); ok {
			out.status.Collapsed = true
			if out.status.Result == Hit {
				out.status.Result = Miss // it waited
			}
			return out, nothing
		}
	}
}

// bid tries to take the lease. It is done unless another process holds it.
func (c *Cache) bid(ctx context.Context, key string, fill FillFunc, f *follower) (out outcome, tell func(), done bool) {
	free, err := c.slot(ctx)
	if err != nil {
		return outcome{err: err}, nothing, true
	}
	defer free()
	b, err := f.lease.acquire(ctx)
	switch {
	case err != nil: // Redis fails: each process fills for itself
		out, tell = c.filled(ctx, key, fill)
	case b.won:
		if f.rounds > 0 && !f.notified {
			c.metrics.takeovers.Inc()
		}
		out, tell = c.lead(ctx, key, f.lease, fill)
	case b.failed:
		out, tell = outcome{err: c.store.failure(b.code, b.left), hold: b.left}, nothing
	default:
		f.expires = b.left
		return outcome{}, nil, false
	}
	return out, tell, true
}

// follower waits for the process that holds a lease.
type follower struct {
	lease    *lease
	ended    <-chan struct{} // receives when the holder has ended
	unwatch  func()
	timeout  *time.Timer // of all rounds together
	rounds   int
	notified bool          // the last wait ended because the holder said so
	expires  time.Duration // when the lease does if its holder is dead
}

// newFollower watches from before the first bid, so that a holder that ends in
// between is not missed.
func (c *Cache) newFollower(key string) *follower {
	f := &follower{lease: c.store.newLease(key), timeout: time.NewTimer(c.followTimeout)}
	f.ended, f.unwatch = c.store.bus.watch(key)
	return f
}

func (f *follower) stop() {
	f.unwatch()
	f.timeout.Stop()
}

// wait returns when the holder has ended, when it is time to look whether it has,
// or when the follower's time is up.
func (f *follower) wait(ctx context.Context) (timedOut bool, err error) {
	// Just after the lease would expire, or soon in case the message gets lost.
	poll := time.NewTimer(min(f.expires+time.Millisecond+rand.N(10*time.Millisecond), followPoll)) //nolint:gosec // jitter
	defer poll.Stop()
	f.notified = false
	select {
	case <-f.ended:
		f.notified = true
	case <-poll.C:
	case <-f.timeout.C:
		return true, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	return false, nil
}

// find looks for the entry in Redis.
func (c *Cache) find(ctx context.Context, key string, background bool) (outcome, bool) {
	e, err := c.readShared(ctx, key)
	if err != nil || e == nil {
		return outcome{}, false
	}
	st := c.store.judge(e, c.store.now())
	if st == gone {
		return outcome{}, false
	}
	// The same entry, read again, must not replace itself: it would forget that
	// its refresh failed. Its age is known up to the time of a call.
	if old, ok := c.memory.GetIfPresent(key); !ok || old.born+int64(sameAge) < e.born || c.store.judge(old, c.store.now()) < st {
		c.memory.Set(key, e)
	}
	switch {
	case st == settled || st == due && !background:
		return outcome{entry: e, status: Status{Result: Hit, Shared: true}}, true
	case st == grace && !background:
		return outcome{entry: e, status: Status{Result: Stale, Shared: true}}, true
	}
	return outcome{}, false
}

// lead fills under the lease.
func (c *Cache) lead(ctx context.Context, key string, l *lease, fill FillFunc) (outcome, func()) {
	stop := l.hold(ctx)
	last := context.WithoutCancel(ctx) // to hand over even when the store is closed
	// The leader before us may have ended between our look and our bid.
	if out, ok := c.find(ctx, key, true); ok {
		return out, func() { stop(); l.release(last, "", 0) }
	}
	out, share := c.filled(ctx, key, fill)
	return out, func() {
		stop()
		_, negative := errors.AsType[*negativeError](out.err)
		switch {
		case out.err != nil && c.store.ctx.Err() != nil: // this process stops, the fill did not fail: the next process takes over
			l.release(last, "", 0)
		case out.err != nil:
			if negative {
				_ = c.deleteShared(last, key) // an error is counted; the entry expires by itself
			}
			l.release(last, c.store.failureCode(out.err), out.hold)
		default:
			if !l.lost.Load() { // a process that took over has newer data
				share()
			}
			l.release(last, "", 0)
		}
	}
}

// direct fills without a lease.
func (c *Cache) direct(ctx context.Context, key string, fill FillFunc) (outcome, func()) {
	free, err := c.slot(ctx)
	if err != nil {
		return outcome{err: err}, nothing
	}
	defer free()
	return c.filled(ctx, key, fill)
}

// filled runs the fill and keeps what it brought. What it returns besides
// shares that with other processes.
func (c *Cache) filled(ctx context.Context, key string, fill FillFunc) (outcome, func()) {
	e, keep, err := c.fill(ctx, key, fill)
	if err != nil {
		hold := c.errorHold
		if n, ok := errors.AsType[*negativeError](err); ok {
			hold = n.hold
		}
		return outcome{err: err, hold: hold}, nothing
	}
	out := outcome{entry: e, status: Status{Result: Miss}}
	if !keep {
		return out, nothing
	}
	c.memory.Set(key, e)
	return out, func() {
		if c.shared {
			c.writeShared(context.WithoutCancel(ctx), key, e)
		}
	}
}

// fill runs the caller's function once, and says whether to keep what it
// brought.
func (c *Cache) fill(ctx context.Context, key string, fill FillFunc) (e *Entry, keep bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.fillTimeout, errFillTimeout)
	defer cancel()
	at, born := c.store.tags.stamp(), c.store.now()
	f, err := protected(ctx, fill)
	took := time.Duration(c.store.now() - born).Seconds()
	if err != nil {
		if _, negative := errors.AsType[*negativeError](err); negative {
			c.metrics.fillNegative.Observe(took)
		} else {
			c.metrics.fillFailed.Observe(took)
		}
		return nil, false, err
	}
	c.metrics.fillOK.Observe(took)
	f.Body = orEmpty(f.Body)
	if keep = !f.NoStore; keep && !c.keepable(&f) {
		keep = false
		c.metrics.unkept.Inc()
	}
	e = c.newEntry(key, &f, at, born)
	return e, keep && e.ttl.life() > 0, nil
}

func (c *Cache) keepable(f *Fill) bool {
	if len(f.Body) > c.store.maxBody || len(f.Tags) > maxTags || len(f.Meta) > maxMeta ||
		len(f.ContentType) > maxText || f.TTL.life() > maxTTL {
		return false
	}
	for _, t := range f.Tags {
		if t == "" || len(t) > maxTagBytes {
			return false
		}
	}
	return true
}

// protected turns a panic into an error: there is no request above it that
// would.
func protected(ctx context.Context, fill FillFunc) (f Fill, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return fill(ctx)
}

// slot waits for the right to fill.
func (c *Cache) slot(ctx context.Context) (free func(), err error) {
	select {
	case c.slots <- struct{}{}:
		return func() { <-c.slots }, nil
	default:
	}
	t := time.NewTimer(c.followTimeout)
	defer t.Stop()
	select {
	case c.slots <- struct{}{}:
		return func() { <-c.slots }, nil
	case <-t.C:
		return nil, ErrBusy
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
