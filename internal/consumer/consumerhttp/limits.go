package consumerhttp

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/ratelimit"
	"melmastoon.ghasi.io/bff/internal/web"
)

// Scopes of limits.
const (
	scopeSession     = "session"
	scopeIP          = "ip"
	scopeFingerprint = "fingerprint"
)

// Limits are the requests per minute of one session by class. Everybody behind
// one address, and everybody with one fingerprint, together may do a multiple.
type Limits struct {
	PerMinute       map[web.Limit]int
	IP, Fingerprint float64 // factors
	Off             bool
}

// DefaultLimits returns the limits of the specification. Those of the session's
// own routes are generous: a page asks for them by itself.
func DefaultLimits() Limits {
	return Limits{PerMinute: map[web.Limit]int{
		LimitSearch: 60, LimitDetail: 120, LimitHandoff: 10, LimitWishlist: 30, LimitSession: 60, LimitTelemetry: 240,
	}, IP: 5, Fingerprint: 5}
}

// maxPerMinute is far above what a process serves.
const maxPerMinute = 60_000_000

// ParseLimits reads "search=60,handoff=10,ip=5,…": classes that are not named
// have their default; "off" lifts all limits, for load tests.
func ParseLimits(text string) (Limits, error) {
	l := DefaultLimits()
	if text = strings.TrimSpace(text); text == "off" {
		l.Off = true
		return l, nil
	}
	var errs []error
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			errs = append(errs, fmt.Errorf("%q: want name=number", part))
			continue
		}
		errs = append(errs, l.set(name, value))
	}
	return l, errors.Join(errs...)
}

func (l *Limits) set(name, value string) error {
	switch name {
	case scopeIP, scopeFingerprint:
		f, err := strconv.ParseFloat(value, 64)
		if err != nil || math.IsNaN(f) || f < 1 || f > 1e6 {
			return fmt.Errorf("%s: want a factor from 1 to 1000000", name)
		}
		if name == scopeIP {
			l.IP = f
		} else {
			l.Fingerprint = f
		}
		return nil
	}
	if _, known := l.PerMinute[web.Limit(name)]; !known {
		return fmt.Errorf("there is no limit %q: want one of %s, %s, %s", name,
			strings.Join(l.classes(), ", "), scopeIP, scopeFingerprint)
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > maxPerMinute {
		return fmt.Errorf("%s: want requests per minute, from 1 to %d", name, maxPerMinute)
	}
	l.PerMinute[web.Limit(name)] = n
	return nil
}

// classes returns the names in order.
func (l Limits) classes() []string {
	var names []string
	for class := range l.PerMinute {
		names = append(names, string(class))
	}
	slices.Sort(names)
	return names
}

// Rules returns the buckets that a limiter must keep.
func (l Limits) Rules() []ratelimit.Limit {
	var rules []ratelimit.Limit
	for _, class := range l.classes() {
		n := l.PerMinute[web.Limit(class)]
		shared := func(factor float64) int { return int(min(math.Round(float64(n)*factor), maxPerMinute)) }
		rules = append(rules,
			ratelimit.Limit{Name: class, Count: n, Period: time.Minute},
			ratelimit.Limit{Name: class + "-ip", Count: shared(l.IP), Period: time.Minute},
			ratelimit.Limit{Name: class + "-fingerprint", Count: shared(l.Fingerprint), Period: time.Minute})
	}
	return rules
}

// limits are the rules of one class at work.
type limits struct {
	class               web.Limit
	limiter             *ratelimit.Limiter
	session, ip, prints *ratelimit.Rule
	scaled              atomic.Bool
	once                *charges
	campaign            func() bool
}

// campaignScale is what campaign mode leaves of the hand-off's limit.
const campaignScale = 0.8

func newLimits(class web.Limit, limiter *ratelimit.Limiter, campaign func() bool, once *charges) (*limits, error) {
	l := &limits{class: class, limiter: limiter, once: once}
	if class == LimitHandoff {
		l.campaign = campaign
	}
	var errs []error
	for rule, name := range map[**ratelimit.Rule]string{&l.session: string(class), &l.ip: string(class) + "-ip", &l.prints: string(class) + "-fingerprint"} {
		var err error
		*rule, err = limiter.Rule(name)
		errs = append(errs, err)
	}
	return l, errors.Join(errs...)
}

// tune follows campaign mode.
func (l *limits) tune() {
	if l.campaign == nil {
		return
	}
	if on := l.campaign(); l.scaled.CompareAndSwap(!on, on) {
		scale := 1.0
		if on {
			scale = campaignScale
		}
		l.session.Scale(scale)
		l.ip.Scale(scale)
		l.prints.Scale(scale)
	}
}

// shared are the keys that a caller has together with others.
func (l *limits) shared(c *caller, keys []ratelimit.Key) []ratelimit.Key {
	if c.network.IsValid() {
		keys = append(keys, l.ip.IP(c.network))
	}
	return append(keys, l.prints.Key(c.looks.subject))
}

// read charges a request that a cache may answer. A session's own limit is
// strict. Those that it shares are not: behind a carrier's address people still
// get what is there, and over says that they may not cause more.
func (l *limits) read(ctx context.Context, c *caller) (d ratelimit.Decision, over bool) {
	var room [2]ratelimit.Key
	if c.hasSession {
		d = l.limiter.Allow(ctx, append(room[:0], l.session.Key(c.session)), 1, c.now)
		if !d.Allowed {
			// While Redis is away an instance knows its own share only, and no
			// reader may fail for that.
			return d, d.Local
		}
	}
	shared := l.limiter.Allow(ctx, l.shared(c, room[:0]), 1, c.now)
	if !shared.Allowed {
		return shared, true
	}
	if !c.hasSession || shared.Remaining < d.Remaining {
		d = shared
	}
	return d, false
}

// write charges a request that a cache cannot answer; a retry is free.
func (l *limits) write(ctx context.Context, c *caller) ratelimit.Decision {
	l.tune()
	return c.attempt.decide(func() ratelimit.Decision {
		var room [3]ratelimit.Key
		keys := l.shared(c, room[:0]) // first: a flood exhausts those
		if c.hasSession {
			keys = append(keys, l.session.Key(c.session))
		}
		return l.limiter.Allow(ctx, keys, 1, c.now)
	})
}

// idempotencyKey reads the key without judging it; the handler does.
func idempotencyKey(h http.Header) string {
	if k := header(h, "Idempotency-Key"); k != "" {
		return k
	}
	return header(h, "X-Idempotency-Key")
}

// scope names whose limit decided.
func (l *limits) scope(d ratelimit.Decision) string {
	switch d.Rule {
	case l.ip:
		return scopeIP
	case l.prints:
		return scopeFingerprint
	}
	return scopeSession
}

// announce tells of the limit that is nearest to its end: how much it is, what is
// left of it and in how many seconds it is whole again.
func (l *limits) announce(h http.Header, d ratelimit.Decision) {
	if d.Rule == nil {
		return
	}
	values := []string{numeral(d.Limit), numeral(d.Remaining), numeral(int((d.Reset + time.Second - 1) / time.Second))}
	h["Ratelimit-Limit"], h["Ratelimit-Remaining"], h["Ratelimit-Reset"] = values[0:1:1], values[1:2:2], values[2:3:3]
}

// numerals are the numbers that headers say most.
var numerals = func() (table [2048]string) {
	for i := range table {
		table[i] = strconv.Itoa(i)
	}
	return table
}()

func numeral(n int) string {
	if n >= 0 && n < len(numerals) {
		return numerals[n]
	}
	return strconv.Itoa(n)
}

// limited is the refusal of a request beyond a limit.
func limited(d ratelimit.Decision) error {
	return &bff.Error{Code: bff.CodeRateLimited, Detail: "too many requests: wait and try again", RetryAfter: max(d.RetryAfter, time.Second)}
}

// charges remembers which idempotency keys were charged lately, so that retries
// cost nothing: a client on a bad line must not run into a limit by asking for
// the same thing again.
type charges struct {
	seed maphash.Seed

	mu        sync.Mutex
	cur, prev map[uint64]*charge
	turned    time.Time
}

type charge struct {
	done     chan struct{} // closed when decided
	decision ratelimit.Decision
	retries  int // under the lock of charges
}

const (
	chargeMemory = 10 * time.Minute
	maxCharges   = 1 << 15
	// maxRetries is how many retries are free: above any honest client, and no
	// way to knock for ever.
	maxRetries = 1000
)

func newCharges() *charges {
	return &charges{seed: maphash.MakeSeed(), cur: map[uint64]*charge{}, prev: map[uint64]*charge{}}
}

// attempt is one request at something that may be asked for again. The zero
// attempt stands for itself.
type attempt struct {
	of     *charges
	id     uint64
	charge *charge
	first  bool
}

// retry reports whether the request repeats one that came before.
func (t *attempt) retry() bool { return t.charge != nil && !t.first }

// begin finds out whether a request repeats another.
func (c *charges) begin(route, session, key string, now time.Time) attempt {
	if key == "" || session == "" {
		return attempt{}
	}
	var h maphash.Hash
	h.SetSeed(c.seed)
	for _, s := range [...]string{route, session, key} {
		_, _ = h.WriteString(s)
		_ = h.WriteByte(0)
	}
	t := attempt{of: c, id: h.Sum64()}
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
		return attempt{}
	}
	t.charge = known
	return t
}

// decide charges the first request of its kind; those that repeat it, even at the
// same moment, get its decision.
func (t *attempt) decide(charge func() ratelimit.Decision) ratelimit.Decision {
	switch {
	case t.charge == nil:
		return charge()
	case t.first:
		t.settle(charge())
		return t.charge.decision
	}
	<-t.charge.done // within the limiter's patience
	if t.charge.decision.Allowed {
		return t.charge.decision
	}
	return charge()
}

// settle ends a first attempt; one that was not admitted leaves nothing behind.
func (t *attempt) settle(d ratelimit.Decision) {
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
