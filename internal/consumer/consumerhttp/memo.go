package consumerhttp

import (
	"hash/maphash"
	"sync/atomic"
)

// memo remembers the values of a pure function. It has two places for each hash
// and no more: whatever strangers send, it neither grows nor locks, and a value
// that was pushed out is only computed again.
type memo[K comparable, V any] struct {
	seed  maphash.Seed
	pairs [][2]atomic.Pointer[memoEntry[K, V]]
}

type memoEntry[K comparable, V any] struct {
	key   K
	value V
}

// newMemo returns a memo with that many places.
func newMemo[K comparable, V any](places int) *memo[K, V] {
	return &memo[K, V]{seed: maphash.MakeSeed(), pairs: make([][2]atomic.Pointer[memoEntry[K, V]], places/2)}
}

// get returns the value of a key, if it is remembered. The whole key is
// compared: two that share a place never share a value.
func (m *memo[K, V]) get(key K) (value V, ok bool) {
	pair := m.pair(key)
	for i := range pair {
		if e := pair[i].Load(); e != nil && e.key == key {
			return e.value, true
		}
	}
	return value, false
}

// put remembers a value: in the first place, whose holder moves to the second.
func (m *memo[K, V]) put(key K, value V) {
	pair := m.pair(key)
	if old := pair[0].Load(); old != nil && old.key != key {
		pair[1].Store(old)
	}
	pair[0].Store(&memoEntry[K, V]{key, value})
}

func (m *memo[K, V]) pair(key K) *[2]atomic.Pointer[memoEntry[K, V]] {
	return &m.pairs[maphash.Comparable(m.seed, key)%uint64(len(m.pairs))]
}
