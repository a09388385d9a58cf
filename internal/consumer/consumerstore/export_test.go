package consumerstore

import (
	"context"
	"time"

	"melmastoon.ghasi.io/bff"
)

// ReplaceMirror writes a mirror of a version, as a command that arrives late would.
func (s *Store) ReplaceMirror(ctx context.Context, guest bff.ID, what string, version int64, items ...string) error {
	return s.replaceMirror(ctx, guest, what, version, items...)
}

// MirrorMissed has the store believe that Redis missed a change of just now.
func (s *Store) MirrorMissed(guest bff.ID) { s.undropped.add(guest, time.Now().UnixMicro()) }
