package backofficecache

import (
	"context"
	"errors"
	"slices"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/cache"
)

// Invalidator makes copies void in every instance, by the tags of their parts
// ([backoffice.Part.Tags]). They are expired, not removed: a reader waits for the
// new one, and gets the old one marked as stale if there is none to be had.
type Invalidator struct{ store *cache.Store }

var _ backoffice.Invalidator = (*Invalidator)(nil)

// NewInvalidator returns an Invalidator of a store's caches.
func NewInvalidator(store *cache.Store) *Invalidator { return &Invalidator{store} }

// Invalidate implements backoffice.Invalidator. Its error says that other instances
// could not be told: the caller should repeat it.
func (i *Invalidator) Invalidate(ctx context.Context, tenant, property bff.ID, parts ...backoffice.Part) error {
	if tenant.IsZero() {
		return errors.New("invalidate: without a tenant")
	}
	var tags []string
	composed := false
	for _, p := range parts {
		tags = append(tags, p.Tag(tenant, property))
		if p == backoffice.PartAIInbox || p == backoffice.PartAlertInbox || p == backoffice.PartProperties {
			tags = append(tags, wholeTag(p, tenant))
		}
		composed = composed || p == backoffice.PartDashboard || slices.Contains(backoffice.WorkbenchViews(), p)
	}
	if composed { // what they are made of is as old
		tags = append(tags, readingTag(tenant, property))
	}
	return i.store.Expire(ctx, tags...)
}
