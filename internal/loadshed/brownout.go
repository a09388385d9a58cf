package loadshed

import (
	"fmt"
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

// free says that nobody holds the level.
const free = -1

type brownout struct {
	offered, refused atomic.Int64

	mu        sync.Mutex
	ticked    time.Time
	level     int
	hot, cool int
	held      int // a level plus one, so that the zero value is free
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

// Hold keeps the level where an operator wants it, until [Shedder.Release].
func (s *Shedder) Hold(level int) error {
	if level < 0 || level > MaxLevel {
		return fmt.Errorf("brownout level %d: must be 0 to %d", level, MaxLevel)
	}
	s.brownout.hold(level)
	return nil
}

// Release gives the level back to the load.
func (s *Shedder) Release() { s.brownout.hold(free) }

// Held reports whether an operator holds the level.
func (s *Shedder) Held() bool {
	s.brownout.mu.Lock()
	defer s.brownout.mu.Unlock()
	return s.brownout.held > 0
}

func (b *brownout) hold(level int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = level + 1
	if level != free {
		b.level, b.hot, b.cool = level, 0, 0 // from there on, when released
	}
}

// now catches up with the ticks that have passed.
func (b *brownout) now(now time.Time) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held > 0 {
		return b.held - 1
	}
	if b.ticked.IsZero() {
		b.ticked = now
	}
	passed := int(now.Sub(b.ticked) / tick)
	if passed <= 0 {
		return b.level
	}
	b.ticked = b.ticked.Add(time.Duration(passed) * tick)
	// What was counted may have come in any of the ticks; nobody asked in between, so
	// it is the first one's, and the others were quiet.
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
