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

// maxStruck bounds the memory of calls that suffered.
const maxStruck = 8 << 10

// struck remembers which calls suffered from which faults, by the span that their
// traceparent names.
type struck struct {
	mu    sync.Mutex
	by    map[string][]ActiveFault
	order []string // a ring, oldest at next
	next  int
}

// strike notes that a call suffers from a fault.
func (f *faults) strike(r *http.Request, a *activeFault) {
	a.hits.Add(1)
	parts := strings.Split(r.Header.Get("Traceparent"), "-")
	if len(parts) != 4 || len(parts[2]) != 16 {
		return
	}
	s, span := &f.struck, parts[2]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by, s.order = map[string][]ActiveFault{}, make([]string, maxStruck)
	}
	if s.by[span] == nil {
		delete(s.by, s.order[s.next])
		s.order[s.next], s.next = span, (s.next+1)%maxStruck
	}
	s.by[span] = append(s.by[span], a.active())
}

// Struck are the faults that the call of a span suffered from, of the latest thousands.
func (s *Sim) Struck(span string) []ActiveFault {
	s.faults.struck.mu.Lock()
	defer s.faults.struck.mu.Unlock()
	return s.faults.struck.by[span]
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
