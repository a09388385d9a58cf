package platform_test

import (
	"strconv"
	"testing"

	"melmastoon.ghasi.io/bff/internal/local/platform"
)

// TestTraced: who looks at the console sees a request within a second of its end, and the
// receiver and the page need some of it.
func TestTraced(t *testing.T) {
	t.Parallel()
	delay := platform.Traced("http://127.0.0.1:1")["OTEL_BSP_SCHEDULE_DELAY"]
	if ms, err := strconv.Atoi(delay); err != nil || ms < 1 || ms > 500 {
		t.Errorf("spans wait for %q ms, want at most 500", delay)
	}
}
