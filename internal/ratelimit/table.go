package ratelimit

import "sync"

// table keeps a fixed number of entries. It is built like a processor's cache: a tag
// picks a set, a set has a few ways, and a full set forgets its idlest bucket.
// Memory is therefore bounded whatever callers make up, and nothing is ever
// rehashed or collected.
type table struct {
	shards []shard
	sets   uint64 // in a shard
}

type shard struct {
	mu      sync.Mutex
	tags    []uint64 // apart from the entries: a set's tags are one cache line
	entries []entry
	_       [64]byte // keeps two locks off one cache line
}

const (
	ways   = 8
	shards = 64
)

func newTable(keys int) *table {
	t := &table{
		shards: make([]shard, shards),
		sets:   uint64(max((keys+shards*ways-1)/(shards*ways), 1)),
	}
	for i := range t.shards {
		t.shards[i].tags = make([]uint64, t.sets*ways)
		t.shards[i].entries = make([]entry, t.sets*ways)
	}
	return t
}

// place returns a tag's shard and the first slot of its set.
func (t *table) place(tag uint64) (s *shard, set int) {
	return &t.shards[tag>>58], int(tag % t.sets * ways) //nolint:gosec // an index of a slice that exists
}

// find returns the slot of a tag, or -1. The caller holds the shard.
func (s *shard) find(tag uint64, set int) int {
	for i, have := range s.tags[set : set+ways] {
		if have == tag {
			return set + i
		}
	}
	return -1
}

// victim returns the slot of the set that is empty or was idle longest. A bucket
// with debts goes last: forgetting it costs a call.
func (s *shard) victim(set int) int {
	best := set
	for i := set; i < set+ways; i++ {
		if s.tags[i] == 0 {
			return i
		}
		e, b := &s.entries[i], &s.entries[best]
		switch {
		case (e.debt == 0) != (b.debt == 0):
			if e.debt == 0 {
				best = i
			}
		case e.clock < b.clock:
			best = i
		}
	}
	return best
}
