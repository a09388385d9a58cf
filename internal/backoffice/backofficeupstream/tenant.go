package backofficeupstream

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"golang.org/x/sync/errgroup"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/jsonscan"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// Tenant is tenant-service: whom a tenant employs, how they have set up their apps, and
// whether it is in good standing.
type Tenant struct{ client *upstream.Client }

var (
	_ backoffice.Members       = (*Tenant)(nil)
	_ device.PreferencesWriter = (*Tenant)(nil)
)

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

// ListNames returns the names of a tenant's operators, by their ids.
func (t *Tenant) ListNames(ctx context.Context, tenant bff.ID) (map[string]string, error) {
	type operator struct {
		ID   string `json:"operatorId" upstream:"required"`
		Name string `json:"displayName"`
	}
	names := map[string]string{}
	_, err := ofList(ctx, t.client, "/api/v1/tenants/{tenantId}/operators", tenant, func(o *operator) (struct{}, error) {
		names[o.ID] = o.Name
		return struct{}{}, nil
	})
	return names, err
}

const preferencesRoute = "/api/v1/tenants/{tenantId}/operators/{operatorId}/preferences"

// FetchPreferences returns an operator's preferences.
func (t *Tenant) FetchPreferences(ctx context.Context, o device.PreferencesOwner) (device.Preferences, error) {
	var (
		out   device.Preferences
		query url.Values
	)
	if !o.Property.IsZero() {
		query = url.Values{"propertyId": {o.Property.String()}}
	}
	err := t.client.Get(ctx, preferencesRoute, upstream.Path(preferencesRoute, o.Tenant.String(), o.Operator), query, preferencesOf(&out))
	return readPreferences(out, err)
}

// ReplacePreferences implements device.PreferencesWriter.
func (t *Tenant) ReplacePreferences(ctx context.Context, c device.PreferencesChange, key string) (device.Preferences, error) {
	in := struct {
		Payload    json.RawMessage `json:"payload"`
		Version    int             `json:"version"`
		PropertyID string          `json:"propertyId,omitempty"`
	}{c.Payload, c.Seen, c.Owner.Property.String()}
	var out device.Preferences
	err := t.client.Put(ctx, preferencesRoute, upstream.Path(preferencesRoute, c.Owner.Tenant.String(), c.Owner.Operator), in,
		preferencesOf(&out), upstream.Header("Idempotency-Key", key))
	e, ok := errors.AsType[*upstream.Error](err)
	switch {
	case ok && e.Status == http.StatusPreconditionFailed:
		return out, &bff.Error{
			Code: bff.CodePreferencesVersionConflict, Detail: "the preferences were changed meanwhile: read them again and repeat the change", Err: err,
		}
	case ok && e.Refused() && !upstream.NotFound(err):
		return out, &bff.Error{
			Code: bff.CodeValidationFailed, Detail: "tenant-service refuses these preferences", Fields: bff.FieldErrors{
				{Field: "payload", Code: bff.FieldUnsupported},
			}, Err: err,
		}
	}
	return readPreferences(out, err)
}

// preferencesOf reads preferences; what is in the payload is not looked at.
func preferencesOf(out *device.Preferences) upstream.Reading {
	return func(r *jsonscan.Reader) {
		out.Payload = json.RawMessage(`{}`)
		for name := range r.Object() {
			switch name {
			case "payload":
				if r.Kind() == jsonscan.Object {
					out.Payload = r.Raw()
				}
			case "version":
				out.Version = r.Int()
			case "updatedAt":
				r.Text(func(s string) error { return out.UpdatedAt.UnmarshalText([]byte(s)) })
			}
		}
		r.Require(out.Version > 0, "version")
		r.Require(!out.UpdatedAt.IsZero(), "updatedAt")
	}
}

// readPreferences refuses an answer that cannot be told from another version.
func readPreferences(p device.Preferences, err error) (device.Preferences, error) {
	switch {
	case upstream.NotFound(err):
		err = &bff.Error{Code: bff.CodeResourceNotFound, Detail: "there are no such preferences", Err: err}
	case err == nil && p.Version <= 0:
		err = bff.Wrap(bff.CodeUpstreamUnavailable, errors.New("tenant-service sent preferences without a version"))
	default:
		err = failed(err)
	}
	return p, err
}
