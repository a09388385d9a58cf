package consumerstore

import (
	"context"
	"maps"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/pause"
)

// undropped are wishlists whose mirror shows less than Postgres has, because Redis
// was away when it was to be deleted; by guest, with the version of the deletion.
type undropped struct {
	mu       sync.Mutex
	versions map[bff.ID]int64
	more     chan struct{}
}

// maxUndropped bounds how many are remembered; mirrorTrust bounds the harm of the
// rest.
const maxUndropped = 100_000

func (u *undropped) add(guest bff.ID, version int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.versions) < maxUndropped {
		u.versions[guest] = max(version, u.versions[guest])
	}
	select {
	case u.more <- struct{}{}:
	default:
	}
}

// remove forgets a guest whose mirror is at least of the version.
func (u *undropped) remove(guest bff.ID, version int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if v, ok := u.versions[guest]; ok && v <= version {
		delete(u.versions, guest)
	}
}

func (u *undropped) has(guest bff.ID) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, ok := u.versions[guest]
	return ok
}

func (u *undropped) all() map[bff.ID]int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.versions)
}

// mirrorPause is how long to wait for a Redis that is away.
const mirrorPause = 100 * time.Millisecond

// RepairMirrors deletes the mirrors that Redis could not be told to delete, as soon
// as it is back, until ctx ends.
func (s *Store) RepairMirrors(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.undropped.more:
		}
		for left := s.undropped.all(); len(left) > 0; left = s.undropped.all() {
			for guest, version := range left {
				if s.replaceMirror(ctx, guest, mirrorDropped, version) != nil {
					break // still away
				}
				s.undropped.remove(guest, version)
			}
			if !pause.For(ctx, mirrorPause) {
				return nil
			}
		}
	}
}
