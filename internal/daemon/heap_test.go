package daemon

import "testing"

func TestCollectAfter(t *testing.T) {
	t.Parallel()
	before := 10*tight + 1
	for live := uint64(0); live < 10*roomy; live += 1 << 20 {
		got := collectAfter(live)
		if got > before || got < tight {
			t.Fatalf("%d MiB live: %d after %d", live>>20, got, before)
		}
		before = got
		heap := live + live*uint64(got)/100
		if limit := max(uint64(roomy), live+live*tight/100); heap > limit+limit/100 {
			t.Errorf("%d MiB live make a heap of %d", live>>20, heap>>20)
		}
	}
	if before != tight {
		t.Errorf("a large heap is collected after %d%%, want %d%%", before, tight)
	}
}
