package sim

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"melmastoon.ghasi.io/bff"
)

// calls counts what reached a route. Routes are fixed once the Sim is built.
type calls struct {
	routes map[string]map[string]*atomic.Int64
}

func (c *calls) counter(upstream, route string) *atomic.Int64 {
	if c.routes == nil {
		c.routes = map[string]map[string]*atomic.Int64{}
	}
	if c.routes[upstream] == nil {
		c.routes[upstream] = map[string]*atomic.Int64{}
	}
	n := new(atomic.Int64)
	c.routes[upstream][route] = n
	return n
}

// Calls returns how often each route was called since the last reset: upstream
// name, then "METHOD /path/{param}". Routes that were not called are absent.
func (s *Sim) Calls() map[string]map[string]int64 {
	out := map[string]map[string]int64{}
	for upstream, routes := range s.calls.routes {
		for route, n := range routes {
			if v := n.Load(); v > 0 {
				if out[upstream] == nil {
					out[upstream] = map[string]int64{}
				}
				out[upstream][route] = v
			}
		}
	}
	return out
}

// ResetCalls sets every counter to zero.
func (s *Sim) ResetCalls() {
	for _, routes := range s.calls.routes {
		for _, n := range routes {
			n.Store(0)
		}
	}
}

// Fault is one way in which an upstream misbehaves.
type Fault struct {
	// Upstream is a name of Upstreams, or "*" for all.
	Upstream string `json:"upstream"`
	// Route narrows the fault: "POST /v1/pricing/quotes/preview", or the path
	// alone. Empty means every route of the upstream.
	Route string `json:"route,omitempty"`
	// LatencyMs and up to JitterMs more are added to the upstream's own latency.
	LatencyMs int `json:"latencyMs,omitempty"`
	JitterMs  int `json:"jitterMs,omitempty"`
	// ErrorRate is the share of calls that fail with Status (default 503). A
	// Status without an ErrorRate fails every call.
	ErrorRate *float64 `json:"errorRate,omitempty"`
	Status    int      `json:"status,omitempty"`
	// Hang never answers until the client goes, the fault is cleared or
	// replaced, or the simulator is closed.
	Hang bool `json:"hang,omitempty"`
	// Garbage answers 200 with bytes that are not JSON.
	Garbage bool `json:"garbage,omitempty"`
	// Done lets the route do its work first: what fails is the answer.
	Done bool `json:"done,omitempty"`
}

const maxFaultMs = 600_000

type activeFault struct {
	Fault
	rate    float64
	code    int // the status to fail with
	number  uint64
	since   time.Time
	cleared chan struct{}
	seen    atomic.Uint64
	hits    atomic.Int64
}

type faults struct {
	seed   uint64
	known  map[string][]string // upstream → routes
	mu     sync.RWMutex
	active []*activeFault
	number uint64
	any    atomic.Bool // spares calls the lock while all is well
	met    met
}

func (f *faults) know(upstream, route string) {
	if f.known == nil {
		f.known = map[string][]string{}
	}
	f.known[upstream] = append(f.known[upstream], route)
}

func (f *faults) validate(fault Fault) bff.FieldErrors {
	var bad bff.FieldErrors
	switch {
	case fault.Upstream == "":
		bad.Add("upstream", bff.FieldRequired)
	case fault.Upstream != "*" && f.known[fault.Upstream] == nil:
		bad.Add("upstream", bff.FieldUnsupported)
	case fault.Route != "":
		ok := false
		for upstream, routes := range f.known {
			if fault.Upstream == "*" || fault.Upstream == upstream {
				ok = ok || slices.ContainsFunc(routes, func(r string) bool { return matchesRoute(fault.Route, r) })
			}
		}
		bad.Check(ok, "route", bff.FieldUnsupported)
	}
	bad.Check(fault.LatencyMs >= 0 && fault.LatencyMs <= maxFaultMs, "latencyMs", bff.FieldRange)
	bad.Check(fault.JitterMs >= 0 && fault.JitterMs <= maxFaultMs, "jitterMs", bff.FieldRange)
	bad.Check(fault.ErrorRate == nil || *fault.ErrorRate >= 0 && *fault.ErrorRate <= 1, "errorRate", bff.FieldRange)
	bad.Check(fault.Status == 0 || fault.Status >= 400 && fault.Status <= 599, "status", bff.FieldRange)
	return bad
}

func matchesRoute(want, route string) bool {
	return want == route || strings.HasSuffix(route, " "+want)
}

// SetFault makes an upstream misbehave from now on. It replaces an earlier
// fault of the same upstream and route.
func (s *Sim) SetFault(fault Fault) error {
	f := &s.faults
	if err := refused(f.validate(fault)); err != nil {
		return err
	}
	a := &activeFault{Fault: fault, code: cmp.Or(fault.Status, http.StatusServiceUnavailable), since: s.cfg.Now(), cleared: make(chan struct{})}
	if fault.ErrorRate != nil {
		a.rate = *fault.ErrorRate
	} else if fault.Status != 0 {
		a.rate = 1
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.number++
	a.number = f.number
	f.active = slices.DeleteFunc(f.active, func(old *activeFault) bool {
		same := old.Upstream == fault.Upstream && old.Route == fault.Route
		if same {
			close(old.cleared)
		}
		return same
	})
	f.active = append(f.active, a)
	f.any.Store(true)
	return nil
}

// hit are the faults of a call, those that strike before the work and those after.
func (f *faults) hit(upstream, route string) (before, after []*activeFault) {
	if !f.any.Load() {
		return nil, nil
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, a := range f.active {
		switch {
		case a.Upstream != "*" && a.Upstream != upstream, a.Route != "" && !matchesRoute(a.Route, route):
		case a.Done:
			after = append(after, a)
		default:
			before = append(before, a)
		}
	}
	return before, after
}

// suffer applies every fault that matches: their latencies add up, then the
// first that hangs, fails or garbles decides. It reports whether the route may
// still answer.
func (f *faults) suffer(w http.ResponseWriter, r *http.Request, hit []*activeFault, closed <-chan struct{}) bool {
	var base, jitter time.Duration
	for _, a := range hit {
		if a.LatencyMs > 0 || a.JitterMs > 0 {
			f.strike(r, a)
		}
		base += time.Duration(a.LatencyMs) * time.Millisecond
		jitter += time.Duration(a.JitterMs) * time.Millisecond
	}
	if !wait(r.Context(), base, jitter) {
		return false
	}
	for _, a := range hit {
		if a.Hang {
			f.strike(r, a)
			select {
			case <-a.cleared:
				continue
			case <-r.Context().Done():
				return false
			case <-closed:
				writeFailure(w, &failure{status: http.StatusServiceUnavailable, code: "UNAVAILABLE", message: "shutting down"})
				return false
			}
		}
		if a.fails(f.seed) {
			f.strike(r, a)
			writeFailure(w, &failure{status: a.code, code: "SIMULATED_FAULT", message: "simulated fault"})
			return false
		}
		if a.Garbage {
			f.strike(r, a)
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte("{\"items\":[{\"\x00\xff<html>this is not the answer"))
			return false
		}
	}
	return true
}

// down reports whether a fault keeps a service from what it listens to. Latency does
// not: events wait.
func (f *faults) down(upstream, route string) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, a := range f.active {
		if (a.Upstream == "*" || a.Upstream == upstream) && (a.Route == "" || matchesRoute(a.Route, route)) &&
			(a.Hang || a.Garbage || a.fails(f.seed)) {
			return true
		}
	}
	return false
}

// fails draws from a sequence of the fault's own, so that one run of a
// scenario fails the same calls as the next.
func (a *activeFault) fails(seed uint64) bool {
	if a.rate <= 0 {
		return false
	}
	const unit = 1 << 53
	return float64(mix(seed, a.number, a.seen.Add(1))>>11)/unit < a.rate
}
