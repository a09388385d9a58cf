package cache

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"melmastoon.ghasi.io/bff/internal/tracing"
)

// Config describes the cache of one kind of body.
type Config struct {
	// Name is the label in metrics and in Cache-Status.
	Name string
	// TTL is asked at every fill: it may change at run time.
	TTL func() TTL
	// MaxBytes bounds the memory of the first tier.
	MaxBytes int64
	// Shared also keeps entries in Redis and elects one filler for all
	// processes.
	Shared bool
	// Raw keeps bodies without encodings: for values that are not served.
	Raw bool

	// FillTimeout bounds one fill; default and most 5 s, the life of the lock.
	FillTimeout time.Duration
	// FollowTimeout bounds the wait for another process's fill; default 4 s.
	FollowTimeout time.Duration
	// MaxFills bounds fills at the same time; default 64. Up to sixteen times
	// as many keys may wait for their turn, the next is refused.
	MaxFills int
	// ErrorHold is how long a failure is shared with later readers,
	// and the pace at which a failed refresh is tried again; default 500 ms.
	ErrorHold time.Duration
	// Allow is asked before the last resort, a fill without the lease after
	// FollowTimeout; nil allows it.
	Allow func() bool

	// ContentType of bodies whose fill names none; default "application/json".
	ContentType string
	// CacheControl is the header of answers, if any.
	CacheControl string
	// Vary names request headers besides Accept-Encoding.
	Vary string
	// Weak has ETags stand for what bodies say (Fill.Says), and not for their bytes.
	Weak bool
}

// Fill is what a fill brings.
type Fill struct {
	// Body must not be changed afterwards, nor must Tags and Meta.
	Body []byte
	// Says is what the ETag stands for in a cache whose ETags are weak: the body without
	// what changes each time it is made.
	Says        []byte
	ContentType string // "" is the cache's
	Tags        []string
	Meta        []byte // for the caller, at most 64 KiB
	// Value is the body decoded, for Entry.Value. It stays in this process.
	Value any
	// TTL replaces the cache's, such as a shorter one for a partial body.
	TTL TTL
	// NoStore answers the waiting readers and keeps nothing.
	NoStore bool
	// Stale says that the body was made of something old, because a dependency
	// failed: reads of it are reported and counted as stale.
	Stale bool
}

// FillFunc fetches a body. Its context has a deadline of its own and does not
// end with the request that happened to be first: others wait for the same
// body. It carries that request's values, for tracing.
type FillFunc func(ctx context.Context) (Fill, error)

// Result says how a read was answered.
type Result uint8

// The values of X-Cache.
const (
	Miss Result = iota
	Hit
	Stale
	Bypass
)

func (r Result) String() string { return [...]string{"MISS", "HIT", "STALE", "BYPASS"}[r] }

// Status says how a read was answered, and why.
type Status struct {
	Result Result
	// Shared says that the body came from another process, by way of Redis.
	Shared bool
	// Collapsed says that this read waited for a fill that another began.
	Collapsed bool
	// Age is the time since the fill began.
	Age time.Duration
	// OfStale says that the body is as fresh as it should be, and was made of
	// something old.
	OfStale bool
	// Err is why the body is stale: the failure of the latest fill. A stale
	// body without Err is being refreshed.
	Err error
}

// Cache is a read-through cache of one kind of body.
type Cache struct {
	store       *Store
	metrics     cacheMetrics
	name        string
	ttl         func() TTL
	shared, raw bool
	etagMark    string // before the quotes

	fillTimeout, followTimeout, errorHold time.Duration

	allow func() bool
	head  heading

	memory *otter.Cache[string, *Entry]
	slots  chan struct{}

	mu         sync.Mutex
	flights    map[string]*flight
	maxFlights int
}

// New adds a cache to a store.
func New(store *Store, cfg Config) (*Cache, error) {
	if cfg.FillTimeout == 0 {
		cfg.FillTimeout = leaseMost
	}
	if cfg.FollowTimeout == 0 {
		cfg.FollowTimeout = 4 * time.Second
	}
	if cfg.MaxFills == 0 {
		cfg.MaxFills = 64
	}
	if cfg.ErrorHold == 0 {
		cfg.ErrorHold = 500 * time.Millisecond
	}
	if cfg.Allow == nil {
		cfg.Allow = func() bool { return true }
	}
	if cfg.ContentType == "" {
		cfg.ContentType = "application/json"
	}
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("cache %q: %w", cfg.Name, err)
	}
	memory, err := otter.New(&otter.Options[string, *Entry]{
		MaximumWeight: uint64(cfg.MaxBytes), //nolint:gosec // positive
		Weigher: func(key string, e *Entry) uint32 {
			return uint32(min(len(key)+e.weight(), math.MaxUint32)) //nolint:gosec // limited
		},
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[string, *Entry]) time.Duration {
			return max(e.Value.ttl.life()-e.Value.Age(), 1)
		}),
	})
	if err != nil {
		return nil, fmt.Errorf("cache %q: %w", cfg.Name, err)
	}
	c := &Cache{
		store: store, metrics: store.metrics.of(cfg.Name), name: cfg.Name,
		ttl: cfg.TTL, shared: cfg.Shared, raw: cfg.Raw, etagMark: map[bool]string{true: "W/"}[cfg.Weak],
		fillTimeout: cfg.FillTimeout, followTimeout: cfg.FollowTimeout, errorHold: cfg.ErrorHold,
		allow: cfg.Allow, head: newHeading(store.namespace, &cfg),
		memory: memory, slots: make(chan struct{}, cfg.MaxFills),
		flights: map[string]*flight{}, maxFlights: 16 * cfg.MaxFills,
	}
	if err := store.adopt(c); err != nil {
		memory.StopAllGoroutines()
		return nil, fmt.Errorf("cache %q: %w", cfg.Name, err)
	}
	return c, nil
}

func (cfg *Config) check() error {
	var errs []error
	if !isName(cfg.Name) {
		errs = append(errs, errors.New("name must consist of lower-case letters, digits, _ and -"))
	}
	if cfg.TTL == nil {
		errs = append(errs, errors.New("TTL is required"))
	}
	if cfg.MaxBytes <= 0 {
		errs = append(errs, errors.New("MaxBytes must be positive"))
	}
	if cfg.FillTimeout < 0 || cfg.FillTimeout > leaseMost {
		errs = append(errs, fmt.Errorf("FillTimeout is %v, must be 0 to %v", cfg.FillTimeout, leaseMost))
	}
	if cfg.FollowTimeout < 0 || cfg.MaxFills < 0 || cfg.ErrorHold < 0 {
		errs = append(errs, errors.New("FollowTimeout, MaxFills and ErrorHold must not be negative"))
	}
	return errors.Join(errs...)
}

// isName keeps to what metric labels and Cache-Status both can hold.
func isName(s string) bool {
	return s != "" && s[0] >= 'a' && s[0] <= 'z' &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}

// Get returns the body of key, filling it if need be. The key is complete, with
// the store's prefix, and hashed by the caller to a bounded size.
func (c *Cache) Get(ctx context.Context, key string, fill FillFunc) (*Entry, Status, error) {
	if e, st, ok := c.Ready(ctx, key, fill); ok {
		return e, st, nil
	}
	if tracing.Of(ctx) != nil {
		return c.recorded(ctx, key, fill)
	}
	return c.load(ctx, key, fill)
}

// Ready returns what memory can serve at once, as Get would: a caller that has
// something to say before a fill ends can say it. An entry that is due is refreshed
// in the background.
func (c *Cache) Ready(ctx context.Context, key string, fill FillFunc) (*Entry, Status, bool) {
	e, st, ok := c.ready(ctx, key, fill)
	if ok {
		e.noteReady(ctx, st)
	}
	return e, st, ok
}

func (c *Cache) ready(ctx context.Context, key string, fill FillFunc) (*Entry, Status, bool) {
	if e, ok := c.memory.GetIfPresent(key); ok {
		now := c.store.now()
		age := time.Duration(now - e.born)
		switch c.store.judge(e, now) {
		case settled:
			return e, c.hit(e, age), true
		case due:
			c.refresh(ctx, key, e, now, fill)
			return e, c.hit(e, age), true
		case grace:
			c.refresh(ctx, key, e, now, fill)
			return e, c.staleStatus(e, age), true
		case stale:
			// Readers wait for the first fill; once that has failed, the
			// others are served at once until one succeeds.
			if e.failed.Load() != nil {
				c.refresh(ctx, key, e, now, fill)
				return e, c.staleStatus(e, age), true
			}
		case gone:
		}
	}
	return nil, Status{}, false
}

// hit is the status of a read that memory answers.
func (c *Cache) hit(e *Entry, age time.Duration) Status {
	if e.old {
		return c.count(e, Status{Result: Hit, Age: age})
	}
	c.metrics.hitMemory.Inc()
	return Status{Result: Hit, Age: age}
}

func (c *Cache) staleStatus(e *Entry, age time.Duration) Status {
	st := Status{Result: Stale, Age: age, Err: e.failure()}
	return c.count(e, st)
}

// Peek returns what is in memory without filling, whether fresh or stale.
func (c *Cache) Peek(key string) (*Entry, bool) {
	e, ok := c.memory.GetIfPresent(key)
	if !ok || c.store.judge(e, c.store.now()) == gone {
		return nil, false
	}
	return e, true
}

// Kept returns the entry of key, or the result of a fill under way, and never begins
// a fill or a refresh: for requests that may not cause upstream calls. Without either
// it returns [ErrNotKept].
func (c *Cache) Kept(ctx context.Context, key string) (*Entry, Status, error) {
	if e, ok := c.Peek(key); ok {
		return c.asKept(e, Status{})
	}
	c.mu.Lock()
	f, flying := c.flights[key]
	c.mu.Unlock()
	if flying {
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, Status{}, context.Cause(ctx)
		}
		if f.out.err != nil {
			return nil, Status{}, f.out.err
		}
		if v, _ := c.store.tags.check(f.out.entry.stamp, f.out.entry.tags); v == invalid {
			return nil, Status{}, ErrNotKept
		}
		st := f.out.status
		st.Collapsed, st.Age = true, f.out.entry.Age()
		return f.out.entry, c.count(f.out.entry, st), nil
	}
	if c.shared && c.store.link.up() {
		if e, err := c.readShared(ctx, key); err == nil && e != nil && c.store.judge(e, c.store.now()) != gone {
			c.memory.Set(key, e)
			return c.asKept(e, Status{Shared: true})
		}
	}
	return nil, Status{}, ErrNotKept
}

// asKept says how old a kept entry is.
func (c *Cache) asKept(e *Entry, st Status) (*Entry, Status, error) {
	now := c.store.now()
	st.Age = time.Duration(now - e.born)
	switch c.store.judge(e, now) {
	case settled, due:
		st.Result = Hit
	default:
		st.Result, st.Err = Stale, e.failure()
	}
	return e, c.count(e, st), nil
}

// Fetch fills without looking at the cache and without keeping the result, but
// under the same limits.
func (c *Cache) Fetch(ctx context.Context, fill FillFunc) (*Entry, Status, error) {
	free, err := c.slot(ctx)
	if err != nil {
		return nil, Status{}, err
	}
	defer free()
	e, _, err := c.fill(ctx, "", fill)
	if err != nil {
		return nil, Status{}, err
	}
	return e, Status{Result: Bypass, Age: e.Age()}, nil
}

// Delete has the key's entry served no more, in any process. Its error is that
// of [Store.Invalidate].
func (c *Cache) Delete(ctx context.Context, key string) error {
	err := c.store.Invalidate(ctx, keyTag(key))
	c.memory.Invalidate(key)
	if c.shared && c.store.link.up() {
		err = errors.Join(err, c.deleteShared(ctx, key))
	}
	return err
}

// adopt registers a cache, whose name must be its own.
func (s *Store) adopt(c *Cache) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if s.names[c.name] {
		return errors.New("another cache of this store has this name")
	}
	s.names[c.name] = true
	s.stops = append(s.stops, func() { c.memory.StopAllGoroutines() })
	return nil
}
