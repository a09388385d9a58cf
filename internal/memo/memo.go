// Package memo is the memory of one process: values of pure functions that need
// not be computed again, and state that is kept per key. Both are bounded,
// whatever clients send, and may lose anything at any time.
package memo

import (
	"hash/maphash"
	"sync/atomic"
)

// Memo keeps the latest value of a key. It has two places for each hash and no
// more: it neither grows nor locks, and a value that was pushed out is missing.
type Memo[K comparable, V any] struct {
	seed  maphash.Seed
	pairs [][2]atomic.Pointer[pair[K, V]]
}

type pair[K comparable, V any] struct {
	key   K
	value V
}

// New returns a memo with that many places.
func New[K comparable, V any](places int) *Memo[K, V] {
	return &Memo[K, V]{seed: maphash.MakeSeed(), pairs: make([][2]atomic.Pointer[pair[K, V]], max(places/2, 1))}
}

// Get returns the value of a key, if it is there. The whole key is compared: two
// keys that share a place never share a value.
func (m *Memo[K, V]) Get(key K) (value V, ok bool) {
	places := m.places(key)
	for i := range places {
		if p := places[i].Load(); p != nil && p.key == key {
			return p.value, true
		}
	}
	return value, false
}

// Put keeps a value: in the first place, whose holder moves to the second.
func (m *Memo[K, V]) Put(key K, value V) {
	places := m.places(key)
	if old := places[0].Load(); old != nil && old.key != key {
		places[1].Store(old)
	}
	places[0].Store(&pair[K, V]{key, value})
}

func (m *Memo[K, V]) places(key K) *[2]atomic.Pointer[pair[K, V]] {
	return &m.pairs[maphash.Comparable(m.seed, key)%uint64(len(m.pairs))]
}
