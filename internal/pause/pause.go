// Package pause waits for a time, and no longer than its caller.
package pause

import (
	"context"
	"math/rand/v2"
	"time"
)

// For reports whether the time has passed before the context ended.
func For(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// Jitter spreads a time over its upper half, so that processes which have met the same
// failure do not come back together.
func Jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1) //nolint:gosec // spread, not secrecy
}

// Reconnect waits before a lost subscription is made again.
func Reconnect(ctx context.Context) {
	For(ctx, 100*time.Millisecond+rand.N(400*time.Millisecond)) //nolint:gosec // spread, not secrecy
}
