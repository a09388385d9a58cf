package loadshed

import (
	"sync"
	"sync/atomic"
	"time"
)

// MaxLevel is the deepest brownout.
const MaxLevel = 5

// The rungs are climbed fast and left slowly: what a rung saves is what would be refused
// again without it.
const (
	tick    = time.Second
	climb   = 2  // ticks under pressure, a rung up
	descend = 10 // ticks of calm, a rung down
	// A tick is under pressure if at least one request in 50 was refused, and calm
	// if fewer than one in 500.
	pressure = 50
	calm     = 500
)

type brownout struct {
	offered, refused atomic.Int64

	mu        sync.Mutex
	ticked    time.Time
	level     int
	hot, cool int
}

func (b *brownout) count(admitted bool) {
	b.offered.Add(1)
	if !admitted {
		b.refused.Add(1)
	}
}

// Level is the brownout rung, 0 to [MaxLevel], by which handlers leave out parts of an
// answer.
func (s *Shedder) Level() int { return s.brownout.now(time.Now()) }

// now catches up with the ticks that have passed.
func (b *brownout) now(now time.Time) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ticked.IsZero() {
		b.ticked = now
	}
	passed := int(now.Sub(b.ticked) / tick)
	if passed <= 0 {
		return b.level
	}
	b.ticked = b.ticked.Add(time.Duration(passed) * tick)
	// The counts may be of any of the ticks that passed since the last call; they are
	// taken for the first one's, and the others for quiet.
	b.step(b.offered.Swap(0), b.refused.Swap(0))
	for range min(passed-1, descend*MaxLevel) {
		b.step(0, 0)
	}
	return b.level
}

// step judges one tick.
func (b *brownout) step(offered, refused int64) {
	switch {
	case refused*pressure >= offered && refused > 0:
		b.cool = 0
		if b.hot++; b.hot >= climb {
			b.hot, b.level = 0, min(b.level+1, MaxLevel)
		}
	case refused*calm <= offered:
		b.hot = 0
		if b.cool++; b.cool >= descend {
			b.cool, b.level = 0, max(b.level-1, 0)
		}
	default: // in between: stay
		b.hot, b.cool = 0, 0
	}
}
