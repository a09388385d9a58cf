package backofficeupstream

import (
	"context"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// Property is property-service: whose a property is, and where it stands.
type Property struct{ client *upstream.Client }

var _ board.Properties = (*Property)(nil)

// FindProperty implements board.Properties.
func (p *Property) FindProperty(ctx context.Context, tenant, property bff.ID) (board.Property, error) {
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
		return board.Property{}, bff.Errorf(bff.CodeResourceNotFound, "there is no such property")
	}
	if err != nil {
		return board.Property{}, failed(err)
	}
	zone, _ := board.ReadZone(out.TimeZone, out.Address.Country) // the zero zone is refused where a day is asked for
	return board.Property{Zone: zone}, nil
}
