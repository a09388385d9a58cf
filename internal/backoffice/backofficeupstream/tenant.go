package backofficeupstream

import (
	"context"

	"golang.org/x/sync/errgroup"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// Tenant is tenant-service: whom a tenant employs, and whether it is in good standing.
type Tenant struct{ client *upstream.Client }

var _ backoffice.Members = (*Tenant)(nil)

// FindMember implements backoffice.Members. What is asked for is always the newest.
func (t *Tenant) FindMember(ctx context.Context, tenant bff.ID, operator, _ string) (*backoffice.Member, error) {
	var of struct {
		Status string          `json:"status" upstream:"required"`
		Flags  map[string]bool `json:"flags"`
	}
	var who struct {
		Roles         []string `json:"roles" upstream:"required"`
		PropertyScope []string `json:"propertyScope" upstream:"required"`
		DisplayName   string   `json:"displayName"`
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		const route = "/api/v1/tenants/{tenantId}"
		return t.client.Get(gctx, route, upstream.Path(route, tenant.String()), nil, &of)
	})
	g.Go(func() error {
		const route = "/api/v1/tenants/{tenantId}/operators/{operatorId}"
		return t.client.Get(gctx, route, upstream.Path(route, tenant.String(), operator), nil, &who)
	})
	err := g.Wait()
	if upstream.NotFound(err) {
		return nil, backoffice.ErrNoMember
	}
	if err != nil {
		return nil, failed(err)
	}
	if of.Flags == nil {
		of.Flags = map[string]bool{}
	}
	return &backoffice.Member{
		DisplayName: who.DisplayName, Roles: backoffice.ReadRoles(who.Roles), Scope: backoffice.ReadPropertyScope(who.PropertyScope),
		Flags: of.Flags, Suspended: of.Status == "suspended",
	}, nil
}
