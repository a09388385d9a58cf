package backofficeupstream

import (
	"context"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// Property is property-service: whose a property is, and where it stands.
type Property struct{ client *upstream.Client }

var _ backoffice.Properties = (*Property)(nil)

// FindProperty implements backoffice.Properties.
func (p *Property) FindProperty(ctx context.Context, tenant, property bff.ID) (backoffice.Property, error) {
	var out struct {
		TenantID string `json:"tenantId" upstream:"required"`
		TimeZone string `json:"timeZone"`
		Address  struct {
			Country string `json:"country"`
		} `json:"address"`
	}
	const route = "/api/v1/properties/{propertyId}"
	err := p.client.Get(ctx, route, upstream.Path(route, property.String()), nil, &out, upstream.Header("X-Tenant-Id", tenant.String()))
	if upstream.NotFound(err) || err == nil && out.TenantID != tenant.String() {
		return backoffice.Property{}, bff.Errorf(bff.CodeResourceNotFound, "there is no such property")
	}
	if err != nil {
		return backoffice.Property{}, failed(err)
	}
	zone, _ := backoffice.ReadZone(out.TimeZone, out.Address.Country) // the zero zone is refused where a day is asked for
	return backoffice.Property{Zone: zone}, nil
}
