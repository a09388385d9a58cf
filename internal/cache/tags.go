package cache

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Invalidations have an order and no time. Each is numbered by the log in Redis
// (log.go), and a process knows the log up to some position. An entry is
// stamped with the position that its filler knew when the fill began; it is
// outlived by every mark on one of its tags above that position.
//
// This is right without any clock: a number is given after the change that it
// announces, and a filler that has read number n starts after n was given.
// A filler that has not read it yet may stamp fresh data too low; that costs one
// more fill. Clocks of several machines, or a Redis whose clock steps back after
// a failover, could err the other way and keep old data alive.

// A stamp is what a process knew of invalidations at one moment.
type stamp struct {
	epoch uint64 // which log; 0 is none yet
	seq   uint64 // position in it
	tick  uint64 // invalidations of this process itself, logged or not
}

// A mark is the latest invalidation of one tag.
type mark struct{ seq, tick uint64 }

func (m mark) after(s stamp) bool { return m.seq > s.seq || m.tick > s.tick }

type verdict uint8

const (
	valid    verdict = iota
	outdated         // may be served as stale
	invalid          // may not be served
)

// tagTable is this process's memory of the log.
type tagTable struct {
	// version changes with every change below: an entry that was found valid
	// at this version needs no second look, so that a hit is one comparison.
	version atomic.Uint64
	most    int

	mu  sync.RWMutex
	now stamp
	// floor is the latest mark that may have been forgotten. What was stamped
	// before it can no longer be judged.
	floor   mark
	invalid map[string]mark
	expired map[string]mark
}

func newTagTable(most int) *tagTable {
	t := &tagTable{most: most, invalid: map[string]mark{}, expired: map[string]mark{}}
	t.version.Store(1) // entries begin at 0: unseen
	return t
}

// stamp is taken before a fill begins.
func (t *tagTable) stamp() stamp {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.now
}

// check judges a stamp and its tags, and says at which version.
func (t *tagTable) check(s stamp, tags []string) (verdict, uint64) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	version := t.version.Load()
	v := valid
	if s.epoch != t.now.epoch || t.floor.after(s) {
		// The log was lost, or has been cut. Whatever was invalidated
		// meanwhile, each key may show it once more, marked stale, until its
		// refresh is through; emptying all memories at once instead would send
		// every key upstream in the very moment when Redis is cold too.
		v = outdated
	}
	for _, tag := range tags {
		if m, ok := t.invalid[tag]; ok && t.hits(m, s) {
			return invalid, version
		}
		if m, ok := t.expired[tag]; ok && t.hits(m, s) {
			v = outdated
		}
	}
	return v, version
}

// hits compares positions only within one log; ticks are our own.
func (t *tagTable) hits(m mark, s stamp) bool {
	if s.epoch != t.now.epoch {
		return m.tick > s.tick
	}
	return m.after(s)
}

// markLocal has an invalidation take effect in this process at once, whether or
// not the log can be reached.
func (t *tagTable) markLocal(kind kind, tags []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now.tick++
	table := t.table(kind)
	for _, tag := range tags {
		m := table[tag]
		m.tick = t.now.tick
		table[tag] = m
	}
	t.trim()
	t.version.Add(1)
}

// apply takes over what the log holds above the known position.
func (t *tagTable) apply(n news) {
	t.mu.Lock()
	defer t.mu.Unlock()
	changed := false
	if n.epoch != t.now.epoch {
		t.now.epoch, t.now.seq, t.floor.seq = n.epoch, 0, 0
		for _, table := range []map[string]mark{t.invalid, t.expired} {
			for tag, m := range table { // numbers of another log
				m.seq = 0
				table[tag] = m
			}
		}
		changed = true
	}
	if n.floor > t.now.seq && n.floor > t.floor.seq {
		t.floor.seq, changed = n.floor, true // cut before we came to read it
	}
	for _, i := range n.items {
		table := t.table(i.kind)
		if m := table[i.tag]; i.seq > m.seq {
			m.seq = i.seq
			table[i.tag] = m
			changed = true
		}
		t.now.seq = max(t.now.seq, i.seq)
	}
	t.trim()
	if changed {
		t.version.Add(1)
	}
}

func (t *tagTable) table(k kind) map[string]mark {
	if k == kindExpire {
		return t.expired
	}
	return t.invalid
}

// trim bounds the tables: past the limit all but the newest are forgotten, and
// what was stamped before those is outdated as a whole.
func (t *tagTable) trim() {
	if len(t.invalid)+len(t.expired) <= t.most {
		return
	}
	all := slices.AppendSeq(slices.Collect(maps.Values(t.invalid)), maps.Values(t.expired))
	slices.SortFunc(all, func(a, b mark) int {
		return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.tick, b.tick))
	})
	for _, m := range all[:len(all)-t.most/2] {
		t.floor.seq, t.floor.tick = max(t.floor.seq, m.seq), max(t.floor.tick, m.tick)
	}
	forget := func(_ string, m mark) bool { return m.seq <= t.floor.seq && m.tick <= t.floor.tick }
	maps.DeleteFunc(t.invalid, forget)
	maps.DeleteFunc(t.expired, forget)
}
