package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"melmastoon.ghasi.io/bff/internal/tracing"
)

// Scopes of a class's limits.
const (
	ScopeSession     = "session"
	ScopeIP          = "ip"
	ScopeFingerprint = "fingerprint"
)

// Classes are the requests per minute of one session, by class. All clients
// behind one address, and all with one fingerprint, together may do a multiple.
type Classes struct {
	PerMinute       map[string]int
	IP, Fingerprint float64 // factors
	Off             bool
}

// MaxPerMinute is far above what a process serves.
const MaxPerMinute = 60_000_000

// Override reads "search=60,handoff=10,ip=5,…" and returns the classes with those
// values replaced; "off" lifts all limits, for load tests.
func (c Classes) Override(text string) (Classes, error) {
	c.PerMinute = maps.Clone(c.PerMinute)
	if text = strings.TrimSpace(text); text == "off" {
		c.Off = true
		return c, nil
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
		errs = append(errs, c.set(name, value))
	}
	return c, errors.Join(errs...)
}

// What a deployment may set. Beyond it a limit bounds nothing: a page loads a few dozen
// answers, and no house has a thousand desks behind one address.
const (
	maxDeployed = 6_000 // requests per minute of one session
	maxFactor   = 1_000 // sessions' limits together
)

// Unbounded reports, under a setting's name, limits that are off or too high to be any.
func (c Classes) Unbounded(setting string) []error {
	if c.Off {
		return []error{fmt.Errorf("%s: are off", setting)}
	}
	var errs []error
	for _, class := range slices.Sorted(maps.Keys(c.PerMinute)) {
		if c.PerMinute[class] > maxDeployed {
			errs = append(errs, fmt.Errorf("%s: %s is above %d a minute, which limits nothing", setting, class, maxDeployed))
		}
	}
	for _, scope := range []struct {
		name   string
		factor float64
	}{{ScopeIP, c.IP}, {ScopeFingerprint, c.Fingerprint}} {
		if scope.factor > maxFactor {
			errs = append(errs, fmt.Errorf("%s: %s is above %d, which limits nothing", setting, scope.name, maxFactor))
		}
	}
	return errs
}

func (c *Classes) set(name, value string) error {
	switch name {
	case ScopeIP, ScopeFingerprint:
		f, err := strconv.ParseFloat(value, 64)
		if err != nil || math.IsNaN(f) || f < 1 || f > 1e6 {
			return fmt.Errorf("%s: want a factor from 1 to 1000000", name)
		}
		if name == ScopeIP {
			c.IP = f
		} else {
			c.Fingerprint = f
		}
		return nil
	}
	if _, known := c.PerMinute[name]; !known {
		return fmt.Errorf("there is no limit %q: want one of %s, %s, %s", name,
			strings.Join(slices.Sorted(maps.Keys(c.PerMinute)), ", "), ScopeIP, ScopeFingerprint)
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > MaxPerMinute {
		return fmt.Errorf("%s: want requests per minute, from 1 to %d", name, MaxPerMinute)
	}
	c.PerMinute[name] = n
	return nil
}

// Limits returns what a limiter must keep for the classes.
func (c Classes) Limits() []Limit {
	var limits []Limit
	for _, class := range slices.Sorted(maps.Keys(c.PerMinute)) {
		n := c.PerMinute[class]
		shared := func(factor float64) int { return int(min(math.Round(float64(n)*factor), MaxPerMinute)) }
		limits = append(limits,
			Limit{Name: class, Count: n, Period: time.Minute},
			Limit{Name: class + "-" + ScopeIP, Count: shared(c.IP), Period: time.Minute},
			Limit{Name: class + "-" + ScopeFingerprint, Count: shared(c.Fingerprint), Period: time.Minute})
	}
	return limits
}

// Class is the limits of one class at work.
type Class struct {
	limiter                  *Limiter
	session, ip, fingerprint *Rule
	scale                    func() float64 // nil = 1
	scaled                   atomic.Uint64  // bits of the scale that the rules have
}

// NewClass returns a class whose limits the limiter keeps. Scale, if given, is
// asked before each change and multiplies the limits.
func NewClass(limiter *Limiter, name string, scale func() float64) (*Class, error) {
	c := &Class{limiter: limiter, scale: scale}
	c.scaled.Store(math.Float64bits(1))
	var errs [3]error
	c.session, errs[0] = limiter.Rule(name)
	c.ip, errs[1] = limiter.Rule(name + "-" + ScopeIP)
	c.fingerprint, errs[2] = limiter.Rule(name + "-" + ScopeFingerprint)
	return c, errors.Join(errs[:]...)
}

// Client is whom the limits of a class count.
type Client struct {
	Session     string     // empty = none
	Fingerprint string     // empty = none
	Network     netip.Addr // see [Network]
}

// allow charges keys one request. Where the request takes detail, it notes which limit
// decided.
func (c *Class) allow(ctx context.Context, keys []Key, now time.Time) Decision {
	d := c.limiter.Allow(ctx, keys, 1, now)
	if span := tracing.Detail(ctx); span != nil && d.Rule != nil {
		span.Note("limit",
			attribute.String("limit.name", d.Rule.Name()), attribute.Int("limit.count", d.Limit), attribute.Int("limit.left", d.Remaining),
			attribute.Bool("limit.refused", !d.Allowed), attribute.Bool("limit.local", d.Local))
	}
	return d
}

// shared are the keys that a client has together with others.
func (c *Class) shared(who Client, keys []Key) []Key {
	if who.Network.IsValid() {
		keys = append(keys, c.ip.IP(who.Network))
	}
	if who.Fingerprint != "" {
		keys = append(keys, c.fingerprint.Key(who.Fingerprint))
	}
	return keys
}

// Refund takes back what Write has charged to the client itself. Its address keeps the
// charge: from there the request came.
func (c *Class) Refund(who Client) {
	if who.Fingerprint != "" {
		c.limiter.Refund(c.fingerprint.Key(who.Fingerprint), 1)
	}
	if who.Session != "" {
		c.limiter.Refund(c.session.Key(who.Session), 1)
	}
}

// Read charges a request that a cache may answer. A session's own limit is
// strict. Those that it shares are not: behind a carrier's address people still
// get what is there, and over says that they may not cause more.
func (c *Class) Read(ctx context.Context, who Client, now time.Time) (d Decision, over bool) {
	var room [2]Key
	if who.Session != "" {
		d = c.allow(ctx, append(room[:0], c.session.Key(who.Session)), now)
		if !d.Allowed {
			// While Redis is away an instance knows its own share only, and no
			// read may fail for that.
			return d, d.Local
		}
	}
	shared := c.allow(ctx, c.shared(who, room[:0]), now)
	if !shared.Allowed {
		return shared, true
	}
	if who.Session == "" || shared.Remaining < d.Remaining {
		d = shared
	}
	return d, false
}

// Write charges a request that a cache cannot answer; a retry only to the address.
func (c *Class) Write(ctx context.Context, who Client, attempt *Attempt, now time.Time) Decision {
	c.rescale()
	return attempt.Decide(func() Decision {
		var room [3]Key
		keys := c.shared(who, room[:0]) // first: a flood exhausts those
		if who.Session != "" {
			keys = append(keys, c.session.Key(who.Session))
		}
		return c.allow(ctx, keys, now)
	}, func() Decision { return c.Address(ctx, who, now) })
}

// Address charges a request to the client's address alone.
func (c *Class) Address(ctx context.Context, who Client, now time.Time) Decision {
	if !who.Network.IsValid() {
		return Decision{Allowed: true}
	}
	var room [1]Key
	return c.allow(ctx, append(room[:0], c.ip.IP(who.Network)), now)
}

func (c *Class) rescale() {
	if c.scale == nil {
		return
	}
	scale := c.scale()
	if bits := math.Float64bits(scale); c.scaled.Swap(bits) != bits {
		c.session.Scale(scale)
		c.ip.Scale(scale)
		c.fingerprint.Scale(scale)
	}
}

// Scope names whose limit decided.
func (c *Class) Scope(d Decision) string {
	switch d.Rule {
	case c.ip:
		return ScopeIP
	case c.fingerprint:
		return ScopeFingerprint
	}
	return ScopeSession
}

// Announce writes the limit that decided into the headers of an answer: how much
// it is, what is left of it and in how many seconds it is whole again.
func Announce(h http.Header, d Decision) {
	if d.Rule == nil {
		return
	}
	values := []string{numeral(d.Limit), numeral(d.Remaining), numeral(int((d.Reset + time.Second - 1) / time.Second))}
	h["Ratelimit-Limit"], h["Ratelimit-Remaining"], h["Ratelimit-Reset"] = values[0:1:1], values[1:2:2], values[2:3:3]
}

// numerals are the numbers that headers have most often.
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
