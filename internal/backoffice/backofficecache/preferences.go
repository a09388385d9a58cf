package backofficecache

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/redis"
)

const (
	preferencesFresh = 5 * time.Minute
	// copyFresh is how long our copy is shown before tenant-service is asked again.
	copyFresh        = 5 * time.Second
	preferencesBytes = 16 << 20
	// copyTimeout caps the look into, and the repair of, our copy.
	copyTimeout = time.Second
)

// PreferencesSource is tenant-service.
type PreferencesSource interface {
	FetchPreferences(ctx context.Context, o device.PreferencesOwner) (device.Preferences, error)
}

// PreferencesCopies keeps copies of preferences that outlive the cache.
type PreferencesCopies interface {
	// KeepPreferences keeps a copy unless there is a newer one.
	KeepPreferences(ctx context.Context, c device.PreferencesCopy) error
	// FindKeptPreferences returns a copy, or CodeResourceNotFound.
	FindKeptPreferences(ctx context.Context, o device.PreferencesOwner) (device.Preferences, error)
}

// Preferences reads preferences through the cache, and from our copy while
// tenant-service is away.
type Preferences struct {
	cfg   PreferencesConfig
	cache *cache.Cache
}

// PreferencesConfig is what Preferences stand on.
type PreferencesConfig struct {
	Store  *cache.Store
	Keys   redis.Keys
	Source PreferencesSource
	Copies PreferencesCopies
	Log    *slog.Logger
}

var _ device.PreferencesReader = (*Preferences)(nil)

// NewPreferences returns a reader.
func NewPreferences(cfg PreferencesConfig) (*Preferences, error) {
	opened, err := cache.New(cfg.Store, cache.Config{
		Name: "preferences", Shared: true, Raw: true, MaxBytes: preferencesBytes,
		TTL: func() cache.TTL { return cache.TTL{Fresh: preferencesFresh} },
	})
	return &Preferences{cfg: cfg, cache: opened}, err
}

// FindPreferences implements device.PreferencesReader.
func (p *Preferences) FindPreferences(ctx context.Context, o device.PreferencesOwner) (device.Preferences, error) {
	keys, err := p.cfg.Keys.Tenant(o.Tenant)
	if err != nil {
		return device.Preferences{}, err
	}
	return read(ctx, p.cache, preferencesKey(keys, o), func(ctx context.Context) (found[device.Preferences], error) {
		preferences, err := p.fetch(ctx, o)
		return found[device.Preferences]{preferences, backoffice.PartPreferences.Tags(o.Tenant, o.Property), preferences.Stale, copyFresh}, err
	})
}

// fetch asks tenant-service and brings our copy up to date: a process may have been
// killed after a change was accepted and before it was copied. Without tenant-service
// it returns our copy.
func (p *Preferences) fetch(ctx context.Context, o device.PreferencesOwner) (device.Preferences, error) {
	found, err := p.cfg.Source.FetchPreferences(ctx, o)
	if bff.CodeOf(err) == bff.CodeResourceNotFound {
		return found, cache.Negative(err, notFoundFor)
	}
	aside, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	if err == nil {
		if err := p.cfg.Copies.KeepPreferences(aside, device.PreferencesCopy{Owner: o, Preferences: found}); err != nil {
			p.cfg.Log.WarnContext(ctx, "copy of preferences not brought up to date: an older one may be shown while tenant-service is away", "error", err.Error())
		}
		return found, nil
	}
	kept, lost := p.cfg.Copies.FindKeptPreferences(aside, o)
	if lost != nil {
		return kept, errors.Join(err, lost)
	}
	return kept, nil
}

// ForgetPreferences implements device.PreferencesReader.
func (p *Preferences) ForgetPreferences(ctx context.Context, o device.PreferencesOwner) error {
	keys, err := p.cfg.Keys.Tenant(o.Tenant)
	if err != nil {
		return err
	}
	return p.cache.Delete(ctx, preferencesKey(keys, o))
}
