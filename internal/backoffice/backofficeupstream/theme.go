package backofficeupstream

import (
	"context"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// Theme is theme-config-service: what a tenant's apps look like.
type Theme struct{ client *upstream.Client }

// FindThemeVersion returns the version of a tenant's theme that is published.
func (t *Theme) FindThemeVersion(ctx context.Context, tenant bff.ID) (bff.ID, error) {
	var out struct {
		PublishedVersion string `json:"publishedVersion" upstream:"required"`
	}
	const route = "/api/v1/tenants/{tenantId}/brand-peek"
	if err := t.client.Get(ctx, route, upstream.Path(route, tenant.String()), nil, &out, ofTenant(tenant)); err != nil {
		return bff.ID{}, failed(err)
	}
	version, err := bff.ParseID(bff.PrefixThemeVersion, out.PublishedVersion)
	if err != nil {
		return bff.ID{}, bff.Wrap(bff.CodeUpstreamUnavailable, err)
	}
	return version, nil
}
