package consumerhttp

import (
	"hash/maphash"
	"sync/atomic"
)

// memo remembers the values of a pure function. It has a place for each hash
// and no more: whatever strangers send, it neither grows nor locks, and a value
// that was pushed out is only computed again.
type memo[K comparable, V any] struct {
	seed  maphash.Seed
	slots []atomic.Pointer[memoEntry[K, V]]
}

type memoEntry[K comparable, V any] struct {
	key   K
	value V
}

// newMemo returns a memo with that many places.
func newMemo[K comparable, V any](places int) *memo[K, V] {
	return &memo[K, V]{seed: maphash.MakeSeed(), slots: make([]atomic.Pointer[memoEntry[K, V]], places)}
}

// get returns the value of a key, if it is remembered. The whole key is
// compared: two that share a place never share a value.
func (m *memo[K, V]) get(key K) (value V, ok bool) {
	if e := m.slot(key).Load(); e != nil && e.key == key {
		return e.value, true
	}
	return value, false
}

func (m *memo[K, V]) put(key K, value V) { m.slot(key).Store(&memoEntry[K, V]{key, value}) }

func (m *memo[K, V]) slot(key K) *atomic.Pointer[memoEntry[K, V]] {
	return &m.slots[maphash.Comparable(m.seed, key)%uint64(len(m.slots))]
}
