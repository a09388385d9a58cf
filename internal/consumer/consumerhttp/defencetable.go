package consumerhttp

import "sync"

// table keeps something of each visitor, in bounded memory: when it is full,
// somebody who has not come for a while makes room.
type table[V any] struct {
	shards [tableShards]shard[V]
	most   int // in a shard
}

type shard[V any] struct {
	mu      sync.Mutex
	entries map[uint64]*entry[V]
	_       [40]byte // of its own cache line
}

type entry[V any] struct {
	last  int64
	value V
}

const (
	tableShards = 64
	// evictSample is how many are compared when room is needed.
	evictSample = 8
)

func newTable[V any](most int) *table[V] {
	t := &table[V]{most: max(most/tableShards, 1)}
	for i := range t.shards {
		t.shards[i].entries = map[uint64]*entry[V]{}
	}
	return t
}

// lock returns what is kept of a visitor; the caller unlocks the shard.
func (t *table[V]) lock(key uint64, nowMS int64) (*V, *sync.Mutex) {
	s := &t.shards[key>>58]
	s.mu.Lock()
	e, ok := s.entries[key]
	if !ok {
		if len(s.entries) >= t.most {
			s.evict()
		}
		e = &entry[V]{}
		s.entries[key] = e
	}
	e.last = nowMS
	return &e.value, &s.mu
}

func (s *shard[V]) evict() {
	var (
		oldest uint64
		since  int64
		n      int
	)
	for key, e := range s.entries { // begins anywhere
		if n == 0 || e.last < since {
			oldest, since = key, e.last
		}
		if n++; n == evictSample {
			break
		}
	}
	delete(s.entries, oldest)
}

func (t *table[V]) len() int {
	n := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.entries)
		s.mu.Unlock()
	}
	return n
}
