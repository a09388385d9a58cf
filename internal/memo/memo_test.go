package memo

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
)

// However many keys clients send, a memo never mixes two up and never grows.
func TestMemo(t *testing.T) {
	t.Parallel()
	m := New[string, string](64)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 10_000 {
				key := strconv.Itoa((i*7 + w) % 500)
				if got, ok := m.Get(key); ok && got != "v"+key {
					t.Errorf("%s has the value %s", key, got)
				}
				m.Put(key, "v"+key)
			}
		})
	}
	wg.Wait()
	m.Put("last", "vlast")
	m.Put("last", "vlast")
	if got, ok := m.Get("last"); !ok || got != "vlast" {
		t.Errorf("what was put last: %q %v", got, ok)
	}
	kept := 0
	for i := range 500 {
		if _, ok := m.Get(strconv.Itoa(i)); ok {
			kept++
		}
	}
	if kept == 0 || kept > 64 {
		t.Errorf("%d of 500 keys are kept in 64 places", kept)
	}
}

// However many keys clients send, a table is bounded and keeps the busy ones.
func TestTable(t *testing.T) {
	t.Parallel()
	const most = 1 << 12
	table, rng := NewTable[int](most), rand.New(rand.NewPCG(1, 2))
	busy := rng.Uint64()
	for i := range int64(100_000) {
		_, mu := table.Lock(rng.Uint64(), i)
		mu.Unlock()
		n, mu := table.Lock(busy, i)
		*n++
		mu.Unlock()
	}
	if n := table.Len(); n > most {
		t.Errorf("%d keys have state, want at most %d", n, most)
	}
	n, mu := table.Lock(busy, 100_000)
	defer mu.Unlock()
	if *n != 100_000 {
		t.Errorf("a busy key was counted %d times", *n)
	}
}
