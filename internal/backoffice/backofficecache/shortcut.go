package backofficecache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/redis"
)

const (
	shortcutsFresh = time.Hour
	shortcutsBytes = 4 << 20
	// The version of the theme is asked for more often than the map that goes with it:
	// a new one is to be seen soon.
	themeFresh = time.Minute
	themeStale = 24 * time.Hour
	themeBytes = 1 << 20
)

// ThemeSource is theme-config-service.
type ThemeSource interface {
	FindThemeVersion(ctx context.Context, tenant bff.ID) (bff.ID, error)
}

// Shortcuts keeps the maps of keyboard shortcuts by the version of a tenant's theme.
type Shortcuts struct {
	keys   redis.Keys
	source ThemeSource
	maps   *cache.Cache
	themes *cache.Cache
}

var _ device.ShortcutMaps = (*Shortcuts)(nil)

// NewShortcuts returns the maps.
func NewShortcuts(store *cache.Store, keys redis.Keys, source ThemeSource) (*Shortcuts, error) {
	maps, err1 := cache.New(store, cache.Config{
		Name: "shortcuts", Shared: true, Raw: true, MaxBytes: shortcutsBytes,
		TTL: func() cache.TTL { return cache.TTL{Fresh: shortcutsFresh} },
	})
	themes, err2 := cache.New(store, cache.Config{
		Name: "theme", Shared: true, Raw: true, MaxBytes: themeBytes,
		TTL: func() cache.TTL { return cache.TTL{Fresh: themeFresh, Stale: themeStale} },
	})
	return &Shortcuts{keys: keys, source: source, maps: maps, themes: themes}, errors.Join(err1, err2)
}

// unthemed stands in the key where the version of a theme is not known.
const unthemed = "none"

// FindShortcuts implements device.ShortcutMaps. Shortcuts do not wait for a theme:
// while theme-config-service is away they are those without one.
func (s *Shortcuts) FindShortcuts(ctx context.Context, tenant bff.ID) (device.ShortcutMap, error) {
	keys, err := s.keys.Tenant(tenant)
	if err != nil {
		return device.ShortcutMap{}, err
	}
	tags := backoffice.PartShortcuts.Tags(tenant, bff.ID{})
	theme := ""
	if known, _, err := s.themes.Get(ctx, themeKey(keys), func(ctx context.Context) (cache.Fill, error) {
		version, err := s.source.FindThemeVersion(ctx, tenant)
		return cache.Fill{Body: []byte(version.String()), Tags: tags}, err
	}); err == nil {
		theme = string(known.Body())
	}
	version := theme
	if version == "" {
		version = unthemed
	}
	entry, _, err := s.maps.Get(ctx, shortcutsKey(keys, version), func(context.Context) (cache.Fill, error) {
		body, err := json.Marshal(device.ShortcutMap{Theme: theme, Shortcuts: device.DefaultShortcuts()})
		return cache.Fill{Body: body, Tags: tags}, err
	})
	if err != nil {
		return device.ShortcutMap{}, err
	}
	kept, err := entry.Value(func(body []byte) (any, error) {
		var m device.ShortcutMap
		if err := json.Unmarshal(body, &m); err != nil {
			return nil, fmt.Errorf("decode shortcuts from cache: %w", err)
		}
		return m, nil
	})
	m, _ := kept.(device.ShortcutMap)
	return m, err
}
