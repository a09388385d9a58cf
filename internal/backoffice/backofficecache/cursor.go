package backofficecache

import (
	"context"
	"errors"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/redis"
)

const (
	cursorFresh = 30 * time.Second
	// keptCursorFresh is how long our copy is shown before sync-service is asked again.
	keptCursorFresh = 2 * time.Second
	keptCursorWait  = time.Second
	cursorBytes     = 8 << 20
)

// CursorSource is sync-service.
type CursorSource interface {
	FetchCursor(ctx context.Context, tenant, device bff.ID) (device.SyncCursor, error)
}

// CursorCopies are our copies of cursors, which outlive the cache.
type CursorCopies interface {
	// FindKeptCursor returns a copy, or CodeResourceNotFound.
	FindKeptCursor(ctx context.Context, tenant, device bff.ID) (device.SyncCursor, error)
}

// Cursors reads cursors through the cache, and from our copy while sync-service is
// away.
type Cursors struct {
	keys   redis.Keys
	source CursorSource
	copies CursorCopies
	cache  *cache.Cache
}

var _ device.Cursors = (*Cursors)(nil)

// NewCursors returns a reader.
func NewCursors(store *cache.Store, keys redis.Keys, source CursorSource, copies CursorCopies) (*Cursors, error) {
	opened, err := cache.New(store, cache.Config{
		Name: "cursors", Shared: true, Raw: true, MaxBytes: cursorBytes,
		TTL: func() cache.TTL { return cache.TTL{Fresh: cursorFresh} },
	})
	return &Cursors{keys: keys, source: source, copies: copies, cache: opened}, err
}

// FindCursor implements device.Cursors.
func (c *Cursors) FindCursor(ctx context.Context, tenant, dev bff.ID) (device.SyncCursor, error) {
	keys, err := c.keys.Tenant(tenant)
	if err != nil {
		return device.SyncCursor{}, err
	}
	return read(ctx, c.cache, cursorKey(keys, dev), func(ctx context.Context) (found[device.SyncCursor], error) {
		cursor, err := c.fetch(ctx, tenant, dev)
		return found[device.SyncCursor]{cursor, backoffice.PartSyncCursor.Tags(tenant, bff.ID{}), cursor.Stale, keptCursorFresh}, err
	})
}

// fetch asks sync-service; without it, it returns our copy.
func (c *Cursors) fetch(ctx context.Context, tenant, device bff.ID) (device.SyncCursor, error) {
	found, err := c.source.FetchCursor(ctx, tenant, device)
	if err == nil {
		return found, nil
	}
	aside, cancel := context.WithTimeout(ctx, keptCursorWait)
	defer cancel()
	kept, lost := c.copies.FindKeptCursor(aside, tenant, device)
	if lost != nil {
		return kept, errors.Join(err, lost) // the first decides what the client is told
	}
	return kept, nil
}

// ForgetCursor implements device.Cursors.
func (c *Cursors) ForgetCursor(ctx context.Context, tenant, device bff.ID) error {
	keys, err := c.keys.Tenant(tenant)
	if err != nil {
		return err
	}
	return c.cache.Delete(ctx, cursorKey(keys, device))
}
