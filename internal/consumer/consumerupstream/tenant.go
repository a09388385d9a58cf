package consumerupstream

import (
	"context"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// Tenant is tenant-service: slugs, regions, and whether a tenant is in good standing.
type Tenant struct{ client *upstream.Client }

// FindTenant returns a tenant.
func (t *Tenant) FindTenant(ctx context.Context, id bff.ID) (consumer.Tenant, error) {
	var out struct {
		Slug   string `json:"slug" upstream:"required"`
		Status string `json:"status" upstream:"required"`
		Region string `json:"region"`
	}
	const route = "/api/v1/tenants/{tenantId}"
	if err := t.client.Get(ctx, route, upstream.Path(route, id.String()), nil, &out); err != nil {
		return consumer.Tenant{}, failed(err)
	}
	return consumer.Tenant{ID: id, Slug: out.Slug, Suspended: out.Status == "suspended", Region: out.Region}, nil
}
