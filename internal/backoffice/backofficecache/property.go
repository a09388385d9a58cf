package backofficecache

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/memo"
)

// Properties remembers whose properties are, which hardly ever changes.
type Properties struct {
	next  backoffice.Properties
	now   func() time.Time
	known *memo.Memo[propertyKey, ownership]
	asked singleflight.Group
}

type propertyKey struct{ tenant, property bff.ID }

type ownership struct {
	owns bool
	at   time.Time
}

const (
	maxProperties = 8 << 10
	// ownedFresh is how long a tenant's property is not asked for; ownedStale how long
	// that is believed while property-service is away.
	ownedFresh = 10 * time.Minute
	ownedStale = 12 * time.Hour
	// foreignFresh is the same of a property that is not the tenant's: it may be new.
	foreignFresh    = 10 * time.Second
	propertyTimeout = time.Second
)

// NewProperties returns a memory in front of next.
func NewProperties(next backoffice.Properties, now func() time.Time) *Properties {
	return &Properties{next: next, now: now, known: memo.New[propertyKey, ownership](maxProperties)}
}

// OwnsProperty implements backoffice.Properties.
func (p *Properties) OwnsProperty(ctx context.Context, tenant, property bff.ID) (bool, error) {
	key := propertyKey{tenant, property}
	o, known := p.known.Get(key)
	age := p.now().Sub(o.at)
	if known && (o.owns && age < ownedFresh || !o.owns && age < foreignFresh) {
		return o.owns, nil
	}
	select {
	case r := <-p.ask(ctx, key):
		if r.Err != nil && known && o.owns && age < ownedStale {
			return true, nil
		}
		owns, _ := r.Val.(bool)
		return owns, r.Err
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// ask has one call serve all that wait for the same.
func (p *Properties) ask(ctx context.Context, key propertyKey) <-chan singleflight.Result {
	return p.asked.DoChan(key.tenant.String()+key.property.String(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), propertyTimeout)
		defer cancel()
		owns, err := p.next.OwnsProperty(ctx, key.tenant, key.property)
		if err == nil {
			p.known.Put(key, ownership{owns, p.now()})
		}
		return owns, err
	})
}
