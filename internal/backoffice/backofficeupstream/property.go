package backofficeupstream

import (
	"context"
	"slices"
	"strings"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// Property is property-service: whose a property is, and where it stands.
type Property struct{ client *upstream.Client }

var _ board.Properties = (*Property)(nil)

// property is one as its service writes it.
type property struct {
	PropertyID string `json:"propertyId"`
	TenantID   string `json:"tenantId" upstream:"required"`
	Name       text   `json:"name"`
	TimeZone   string `json:"timeZone"`
	Address    struct {
		City    string `json:"city"`
		Country string `json:"country"`
	} `json:"address"`
}

// read returns it in our words. Of a zone that is not known nothing is said: it is refused
// where a day is asked for.
func (p *property) read() (board.Property, error) {
	zone, _ := board.ReadZone(p.TimeZone, p.Address.Country)
	id, _ := bff.ParseID(bff.PrefixProperty, p.PropertyID)
	return board.Property{ID: id, Name: p.Name.localized(), City: p.Address.City, Zone: zone}, nil
}

// FindProperty implements board.Properties.
func (p *Property) FindProperty(ctx context.Context, tenant, id bff.ID) (board.Property, error) {
	var out property
	const route = "/api/v1/properties/{propertyId}"
	err := p.client.Get(ctx, route, upstream.Path(route, id.String()), nil, &out, ofTenant(tenant))
	if upstream.NotFound(err) || err == nil && out.TenantID != tenant.String() {
		return board.Property{}, bff.Errorf(bff.CodeResourceNotFound, "there is no such property")
	}
	if err != nil {
		return board.Property{}, failed(err)
	}
	return out.read()
}

// ListProperties returns a tenant's properties, by their ids. What is not its own, or has
// no id, is not shown.
func (p *Property) ListProperties(ctx context.Context, tenant bff.ID) ([]board.Property, error) {
	const route = "/api/v1/tenants/{tenantId}/properties"
	all, err := ofList(ctx, p.client, route, tenant, func(in *property) (board.Property, error) {
		if in.TenantID != tenant.String() {
			in.PropertyID = ""
		}
		return in.read()
	})
	own := slices.DeleteFunc(all, func(h board.Property) bool { return h.ID.IsZero() })
	if len(own) < len(all) {
		p.client.Drift(route, "tenantId")
	}
	slices.SortFunc(own, func(a, b board.Property) int { return strings.Compare(a.ID.String(), b.ID.String()) })
	return own, err
}
