package daemon

import (
	"context"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/pause"
)

func TestGCPercent(t *testing.T) {
	t.Parallel()
	before := maxPercent + 1
	for live := uint64(0); live < 10*smallHeap; live += 1 << 20 {
		got := gcPercent(live)
		if got > before || got < minPercent {
			t.Fatalf("%d MiB live: %d after %d", live>>20, got, before)
		}
		before = got
		heap := live + live*uint64(got)/100
		if limit := max(uint64(smallHeap), live+live*minPercent/100); heap > limit+limit/100 {
			t.Errorf("%d MiB live make a heap of %d", live>>20, heap>>20)
		}
	}
	if before != minPercent {
		t.Errorf("a large heap is collected after %d%%, want %d%%", before, minPercent)
	}
}

// TestHeapIsTuned: GOGC follows the live heap, in both directions.
func TestHeapIsTuned(t *testing.T) { // not parallel: there is one heap
	t.Setenv("GOGC", "")
	tuneHeap()
	await := func(what string, ok func(percent uint64) bool) {
		t.Helper()
		percent := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		for runtime.GC(); ; runtime.GC() {
			if metrics.Read(percent); ok(percent[0].Value.Uint64()) {
				return
			}
			if !pause.For(ctx, time.Millisecond) { // finalizers run in their own time
				t.Fatalf("%s is collected after %d%%", what, percent[0].Value.Uint64())
			}
		}
	}
	await("a small heap", func(percent uint64) bool { return percent > minPercent })
	large := make([]byte, 4*smallHeap)
	await("a large heap", func(percent uint64) bool { return percent == minPercent })
	runtime.KeepAlive(large)
	await("a heap that was large", func(percent uint64) bool { return percent > minPercent })
}
