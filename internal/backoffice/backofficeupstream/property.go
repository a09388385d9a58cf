package backofficeupstream

import (
	"context"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// Property is property-service: whose a property is.
type Property struct{ client *upstream.Client }

var _ backoffice.Properties = (*Property)(nil)

// OwnsProperty implements backoffice.Properties.
func (p *Property) OwnsProperty(ctx context.Context, tenant, property bff.ID) (bool, error) {
	var out struct {
		TenantID string `json:"tenantId" upstream:"required"`
	}
	const route = "/api/v1/properties/{propertyId}"
	err := p.client.Get(ctx, route, upstream.Path(route, property.String()), nil, &out, upstream.Header("X-Tenant-Id", tenant.String()))
	if upstream.NotFound(err) {
		return false, nil
	}
	return err == nil && out.TenantID == tenant.String(), failed(err)
}
