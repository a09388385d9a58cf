package daemon

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Of what a process allocates, most is garbage a moment later. One that remembers
// little may let it pile up to roomy bytes before it collects, which costs no more
// memory than it is given anyway; with one that remembers much, garbage is at
// most tight percent of what lives.
const (
	roomy = 44 << 20
	tight = 50
)

// collectAfter is the GOGC for a heap of which so many bytes live.
func collectAfter(live uint64) int {
	if live == 0 {
		return 10 * tight
	}
	percent := 100 * (float64(roomy) - float64(live)) / float64(live)
	return int(math.Round(min(max(percent, tight), 10*tight)))
}

// tuneHeap follows what lives from one collection to the next, unless somebody
// has said how to collect. There is one heap, however many daemons.
var tuneHeap = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" {
		(&collection{live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}).ended()
	}
})

// collection is garbage whenever there is one, and so hears of each.
type collection struct {
	live    []metrics.Sample
	percent int
}

func (c *collection) ended() {
	metrics.Read(c.live)
	const worthIt = 5 // percent: setting it stops the world for a moment
	if p := collectAfter(c.live[0].Value.Uint64()); p < c.percent-worthIt || p > c.percent+worthIt {
		c.percent = p
		debug.SetGCPercent(p)
	}
	runtime.SetFinalizer(c, (*collection).ended)
}
