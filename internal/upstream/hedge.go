package upstream

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Hedges may add a twentieth to the load; a quiet minute saves up for a few.
const hedgeShare, hedgeBurst = 0.05, 20

// hedging decides when a call is late enough to be sent again.
type hedging struct {
	after     time.Duration
	quantile  float64
	allowance *allowance

	routes sync.Map // route → *latencies
}

func newHedging(cfg Config) *hedging {
	return &hedging{
		after:     cfg.HedgeAfter,
		quantile:  cfg.HedgeQuantile,
		allowance: newAllowance(hedgeShare, hedgeBurst, 1),
	}
}

func (h *hedging) delay(route string) (time.Duration, bool) {
	if h.after == 0 {
		return 0, false
	}
	if l, ok := h.routes.Load(route); ok {
		if d := time.Duration(l.(*latencies).late.Load()); d > 0 {
			return min(d, h.after), true
		}
	}
	return h.after, true
}

func (h *hedging) observe(route string, took time.Duration) {
	if h.after == 0 || h.quantile == 0 {
		return
	}
	l, ok := h.routes.Load(route)
	if !ok {
		l, _ = h.routes.LoadOrStore(route, &latencies{})
	}
	l.(*latencies).add(took, h.quantile)
}

// latencies keeps the last few hundred latencies of a route and the quantile
// after which a call is late.
type latencies struct {
	late atomic.Int64 // 0: not known yet

	mu   sync.Mutex
	ring [512]time.Duration
	n    int
}

func (l *latencies) add(took time.Duration, quantile float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ring[l.n%len(l.ring)] = took
	l.n++
	if l.n%64 != 0 {
		return
	}
	sorted := slices.Clone(l.ring[:min(l.n, len(l.ring))])
	slices.Sort(sorted)
	l.late.Store(int64(sorted[int(quantile*float64(len(sorted)))]))
}
