package backofficecache

import (
	"context"
	"encoding/json"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/redis"
)

// Properties remembers the properties of tenants, which hardly ever change. It does so
// for all instances: a process that starts while property-service is away still knows
// whose they are and which day they have.
type Properties struct {
	next  board.Properties
	cache *cache.Cache
	keys  redis.Keys
}

var _ board.Properties = (*Properties)(nil)

const (
	propertyBytes = 8 << 20
	// propertyFresh is how long a tenant's property is not asked for; propertyStale how
	// much longer it is believed while property-service is away: half a day in all.
	propertyFresh = 10 * time.Minute
	propertyStale = 12*time.Hour - propertyFresh
	// foreignFor is the same of a property that is not the tenant's: it may be new.
	foreignFor      = 10 * time.Second
	propertyTimeout = time.Second
)

// NewProperties returns a memory in front of next.
func NewProperties(store *cache.Store, keys redis.Keys, next board.Properties) (*Properties, error) {
	c, err := cache.New(store, cache.Config{
		Name: "property", Shared: true, Raw: true, MaxBytes: propertyBytes, FillTimeout: propertyTimeout,
		TTL: func() cache.TTL { return cache.TTL{Fresh: propertyFresh, Stale: propertyStale} },
	})
	return &Properties{next: next, cache: c, keys: keys}, err
}

// FindProperty implements board.Properties.
func (p *Properties) FindProperty(ctx context.Context, tenant, property bff.ID) (board.Property, error) {
	keys, err := p.keys.Tenant(tenant)
	if err != nil {
		return board.Property{}, err
	}
	entry, _, err := p.cache.Get(ctx, propertyKey(keys, property), func(ctx context.Context) (cache.Fill, error) {
		found, err := p.next.FindProperty(ctx, tenant, property)
		if bff.CodeOf(err) == bff.CodeResourceNotFound {
			return cache.Fill{}, cache.Negative(err, foreignFor)
		}
		if err != nil {
			return cache.Fill{}, err
		}
		body, err := json.Marshal(&found)
		return cache.Fill{Body: body, Value: found}, err
	})
	if err != nil {
		return board.Property{}, err
	}
	value, err := entry.Value(func(body []byte) (any, error) {
		var found board.Property
		err := json.Unmarshal(body, &found)
		return found, err
	})
	found, _ := value.(board.Property) // only these two make them
	return found, err
}
