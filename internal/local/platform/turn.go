package platform

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"melmastoon.ghasi.io/bff/internal/pause"
)

const (
	turnFile  = "melmastoon-ports.lock"
	turnPoll  = 50 * time.Millisecond
	turnLimit = 2 * time.Minute
)

// AwaitTurn keeps platforms that start at the same moment from finding the same ports
// free: each picks its ports and binds them before the next one looks. It is best
// effort, and given up after a while. The returned function ends the turn.
func AwaitTurn(ctx context.Context) (done func()) {
	path := filepath.Join(os.TempDir(), turnFile)
	f, err := os.Open(path) //nolint:gosec // an empty file; perhaps another user's
	if err != nil {
		f, err = os.OpenFile(path, os.O_RDONLY|os.O_CREATE|syscall.O_NOFOLLOW, 0o644) //nolint:gosec // empty
	}
	if err != nil {
		return func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, turnLimit)
	defer cancel()
	for syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		if !pause.For(ctx, turnPoll) {
			return func() { _ = f.Close() }
		}
	}
	return func() { _ = f.Close() } // and with it the lock
}
