// Package loadshed keeps an overloaded process useful: it refuses what it could not serve in
// time, the least important first, and says how much of the rest to leave out. It knows
// classes of requests and no hotels.
//
// Every class has a [Gate] with a limit on the requests under way. The limit follows the
// latency: it grows while requests that fill it are about as fast as in an idle
// process, and shrinks as soon as they queue. What finds a gate full waits for its turn, as
// long as it can still be answered in time ([fairqueue]). The more important a class, the more
// queueing its gate puts up with, so that classes that share a processor give way to each
// other in order.
//
// What has to be refused for lack of room raises the [Shedder.Level], the brownout rung
// by which handlers leave out the dearest parts of an answer.
package loadshed

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Class describes requests that are alike in cost and importance.
type Class struct {
	Name string
	// Rank orders the classes: 0 is served first and refused last.
	Rank int
	// Min and Max bound the limit. Min should be what the process certainly can do: a
	// slow dependency looks like overload, and must not close the gate. Defaults:
	// one for each processor, 1024.
	Min, Max int
}

// maxRank is the least important rank.
const maxRank = 3

// tolerance is how much slower than idle the median of a class may get.
func (c Class) tolerance() float64 { return [...]float64{1.5, 1.35, 1.2, 1.1}[c.Rank] }

// Config lists the classes.
type Config struct {
	Classes []Class
	// Slack is how much slower, in time, requests must get before a gate narrows: an
	// answer of 50 microseconds may well take 100. Default 1 ms.
	Slack time.Duration
}

// Shedder is the gates of a process and its brownout level.
type Shedder struct {
	gates map[string]*Gate
	slack time.Duration
	probe atomic.Pointer[probe]

	mu        sync.Mutex
	nextProbe time.Time
	brownout  brownout
}

// New checks the configuration.
func New(cfg Config) (*Shedder, error) {
	s := &Shedder{gates: map[string]*Gate{}, slack: cfg.Slack}
	if s.slack == 0 {
		s.slack = time.Millisecond
	}
	var errs []error
	if s.slack < 0 {
		errs = append(errs, errors.New("slack: must not be negative"))
	}
	if len(cfg.Classes) == 0 {
		errs = append(errs, errors.New("classes: at least one"))
	}
	for _, c := range cfg.Classes {
		if c.Min == 0 {
			c.Min = runtime.GOMAXPROCS(0)
		}
		if c.Max == 0 {
			c.Max = max(1024, c.Min)
		}
		if c.Name == "" || s.gates[c.Name] != nil {
			errs = append(errs, fmt.Errorf("class %q: name missing, or given twice", c.Name))
		}
		if c.Rank < 0 || c.Rank > maxRank {
			errs = append(errs, fmt.Errorf("class %q: rank must be 0 to %d", c.Name, maxRank))
			c.Rank = 0
		}
		if c.Min < 1 || c.Max < c.Min {
			errs = append(errs, fmt.Errorf("class %q: want 1 ≤ min ≤ max", c.Name))
		}
		s.gates[c.Name] = newGate(s, c)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("shedder: %w", err)
	}
	return s, nil
}

// Gate returns the gate of a class.
func (s *Shedder) Gate(class string) (*Gate, error) {
	if g, ok := s.gates[class]; ok {
		return g, nil
	}
	return nil, fmt.Errorf("shedder: no class %q among %v", class, slices.Sorted(maps.Keys(s.gates)))
}

// RetryAfter is what to tell a refused caller: longer the deeper the brownout, and
// spread, so that callers do not come back together. It is whole seconds, as the header
// has them: a fraction would be rounded up, to the same second for all.
func (s *Shedder) RetryAfter() time.Duration {
	least := 1 + s.Level()
	return time.Duration(least+rand.IntN(3*least)) * time.Second //nolint:gosec // spreads callers; there is nothing to guess
}

// Probing: the idle latency of a class cannot be seen under load, and without it slow
// requests would become the new normal, and the limits grow for ever. While gates are
// full, all of them are therefore narrowed to a half from time to time, just long enough to
// see how fast the process could be. A half will do: a gate lets in less than twice what
// can be served without queueing, or shrinks until it does.
const (
	probeEvery  = 30 * time.Second
	probeFor    = 100 * time.Millisecond
	maxProbeFor = time.Second
	minProbed   = 5
)

// probe is one such look: requests admitted from sample to end tell. Before, those
// admitted earlier are still in the way.
type probe struct{ sample, end time.Time }

// full is told by a gate that has been full for a window: time to probe?
func (s *Shedder) full(now time.Time, idle time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nextProbe.IsZero() {
		s.nextProbe = now.Add(probeEvery)
	}
	if now.Before(s.nextProbe) {
		return
	}
	drain := min(2*idle, maxProbeFor)
	p := &probe{sample: now.Add(drain)}
	p.end = p.sample.Add(min(max(probeFor, 4*idle), maxProbeFor))
	s.probe.Store(p)
	// Instances that were started together must not probe together.
	s.nextProbe = p.end.Add(probeEvery + rand.N(probeEvery/4)) //nolint:gosec // as above
}

// Stats is what a gate shows to metrics.
type Stats struct {
	Class    string
	Inflight int
	Limit    int
	// Admitted and Refused only grow.
	Admitted, Refused uint64
}

// Stats returns all gates, by name.
func (s *Shedder) Stats() []Stats {
	var all []Stats
	for _, name := range slices.Sorted(maps.Keys(s.gates)) {
		all = append(all, s.gates[name].stats())
	}
	return all
}
