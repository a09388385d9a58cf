package sim

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// ActiveFault is a fault with what became of it.
type ActiveFault struct {
	Fault
	Number uint64    `json:"number"`
	Since  time.Time `json:"since"`
	Hits   int64     `json:"hits"` // calls that suffered from it
	Text   string    `json:"text"`
}

// String says what the fault does.
func (f Fault) String() string {
	var does []string
	if f.LatencyMs > 0 || f.JitterMs > 0 {
		does = append(does, fmt.Sprintf("%d to %d ms slower", f.LatencyMs, f.LatencyMs+f.JitterMs))
	}
	if f.ErrorRate != nil || f.Status != 0 {
		share := 1.0
		if f.ErrorRate != nil {
			share = *f.ErrorRate
		}
		does = append(does, fmt.Sprintf("%g%% fail with %d", 100*share, cmp.Or(f.Status, http.StatusServiceUnavailable)))
	}
	if f.Hang {
		does = append(does, "never answers")
	}
	if f.Garbage {
		does = append(does, "answers with garbage")
	}
	if f.Done {
		does = append(does, "after the work is done")
	}
	if len(does) == 0 {
		return "nothing"
	}
	return strings.Join(does, ", ")
}

// maxMet bounds the memory of calls.
const maxMet = 32 << 10

// met remembers the calls that came, by the span that their traceparent names, and which
// faults they suffered from.
type met struct {
	mu    sync.Mutex
	by    map[string]meeting
	order []string // a ring, oldest at next
	next  int
}

type meeting struct {
	trace  string
	times  int
	faults []ActiveFault
}

// note adds to what is known of a call; it came, if no fault is given.
func (m *met) note(r *http.Request, a *activeFault) {
	parts := strings.Split(r.Header.Get("Traceparent"), "-")
	if len(parts) != 4 || len(parts[2]) != 16 {
		return
	}
	span := parts[2]
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.by == nil {
		m.by, m.order = map[string]meeting{}, make([]string, maxMet)
	}
	one, known := m.by[span]
	if !known {
		delete(m.by, m.order[m.next])
		m.order[m.next], m.next = span, (m.next+1)%maxMet
	}
	if one.trace = parts[1]; a == nil {
		one.times++
	} else {
		one.faults = append(one.faults, a.active())
	}
	m.by[span] = one
}

// Met says how often the call of a span came, and which faults it suffered from, of the
// latest thousands.
func (s *Sim) Met(span string) (times int, faults []ActiveFault) {
	m := &s.faults.met
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.by[span].times, m.by[span].faults
}

// Came is how many calls of a trace came, of the latest thousands.
func (s *Sim) Came(trace string) (n int) {
	m := &s.faults.met
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range m.by {
		if one.trace == trace {
			n += one.times
		}
	}
	return n
}

// strike notes that a call suffers from a fault.
func (f *faults) strike(r *http.Request, a *activeFault) {
	a.hits.Add(1)
	f.met.note(r, a)
}

func (a *activeFault) active() ActiveFault {
	return ActiveFault{Fault: a.Fault, Number: a.number, Since: a.since, Hits: a.hits.Load(), Text: a.String()}
}

// Faults lists the active faults, oldest first.
func (s *Sim) Faults() []ActiveFault {
	s.faults.mu.RLock()
	defer s.faults.mu.RUnlock()
	out := make([]ActiveFault, 0, len(s.faults.active))
	for _, a := range s.faults.active {
		out = append(out, a.active())
	}
	return out
}

// ClearFaults heals upstreams, or all if none is named; calls that hang are answered.
func (s *Sim) ClearFaults(upstreams ...string) {
	f := &s.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	left := f.active[:0:0]
	for _, a := range f.active {
		if len(upstreams) > 0 && !slices.Contains(upstreams, a.Upstream) {
			left = append(left, a)
			continue
		}
		close(a.cleared)
	}
	f.active = left
	f.any.Store(len(left) > 0)
}
