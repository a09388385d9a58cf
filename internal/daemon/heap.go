package daemon

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// A fixed GOGC either collects a small heap too often or lets a large one grow too
// far: with GOGC=100 a process exceeds 100 MB when a thousand new guests come per
// second. Therefore the heap may grow to smallHeap before it is collected while
// little of it is live, and by minPercent of the live part when that is large.
const (
	smallHeap  = 46 << 20
	minPercent = 50
	maxPercent = 500
)

// gcPercent is the GOGC for a heap with so many live bytes.
func gcPercent(live uint64) int {
	if live == 0 {
		return maxPercent
	}
	percent := 100 * (float64(smallHeap) - float64(live)) / float64(live)
	return int(math.Round(min(max(percent, minPercent), maxPercent)))
}

// tuneHeap adapts GOGC after every collection, unless the environment sets it. It
// runs once per process: all daemons share the heap.
var tuneHeap = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" {
		(&collection{live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}).ended()
	}
})

// collection is unreachable, so that every garbage collection runs its finalizer.
type collection struct {
	live    []metrics.Sample
	percent int
}

func (c *collection) ended() {
	metrics.Read(c.live)
	const tolerance = 5 // percent: setting it stops the world for a moment
	if p := gcPercent(c.live[0].Value.Uint64()); p < c.percent-tolerance || p > c.percent+tolerance {
		c.percent = p
		debug.SetGCPercent(p)
	}
	runtime.SetFinalizer(c, (*collection).ended)
}
