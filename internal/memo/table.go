package memo

import "sync"

// Table keeps state per key. When it is full, a key that was not used for a while
// makes room. Keys must be spread over all 64 bits.
type Table[V any] struct {
	shards [tableShards]shard[V]
	most   int // in a shard
}

type shard[V any] struct {
	mu      sync.Mutex
	entries map[uint64]*entry[V]
	_       [40]byte // to fill a cache line
}

type entry[V any] struct {
	last  int64
	value V
}

const (
	tableShards = 64
	// evictSample is how many entries are compared when room is needed.
	evictSample = 8
)

// NewTable returns a table with room for that many keys.
func NewTable[V any](most int) *Table[V] {
	t := &Table[V]{most: max(most/tableShards, 1)}
	for i := range t.shards {
		t.shards[i].entries = map[uint64]*entry[V]{}
	}
	return t
}

// Lock returns the state of a key and the lock that it is under; the caller
// unlocks it. Now is any clock that only grows.
func (t *Table[V]) Lock(key uint64, now int64) (*V, *sync.Mutex) {
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
	e.last = now
	return &e.value, &s.mu
}

func (s *shard[V]) evict() {
	var (
		oldest uint64
		since  int64
		n      int
	)
	for key, e := range s.entries { // in no order
		if n == 0 || e.last < since {
			oldest, since = key, e.last
		}
		if n++; n == evictSample {
			break
		}
	}
	delete(s.entries, oldest)
}

// Len is how many keys have state.
func (t *Table[V]) Len() int {
	n := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.entries)
		s.mu.Unlock()
	}
	return n
}
