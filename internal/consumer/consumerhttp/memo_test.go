package consumerhttp

import (
	"strconv"
	"sync"
	"testing"
)

// However many keys strangers send, a memo never mixes two up and never grows.
func TestMemo(t *testing.T) {
	t.Parallel()
	m := newMemo[string, string](64)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 10_000 {
				key := strconv.Itoa((i*7 + w) % 500)
				if got, ok := m.get(key); ok && got != "v"+key {
					t.Errorf("%s has the value %s", key, got)
				}
				m.put(key, "v"+key)
			}
		})
	}
	wg.Wait()
	m.put("last", "vlast")
	m.put("last", "vlast")
	if got, ok := m.get("last"); !ok || got != "vlast" {
		t.Errorf("what was put last: %q %v", got, ok)
	}
	kept := 0
	for i := range 500 {
		if _, ok := m.get(strconv.Itoa(i)); ok {
			kept++
		}
	}
	if kept == 0 || kept > 64 {
		t.Errorf("%d of 500 keys are kept in 64 places", kept)
	}
}
