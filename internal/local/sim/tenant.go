package sim

import (
	"encoding/json"
	"net/http"

	"melmastoon.ghasi.io/bff"
)

// BrandPeek is what a tenant looks like from outside.
type BrandPeek struct {
	TenantID         string `json:"tenantId"`
	PrimaryColor     string `json:"primaryColor"`
	LogoURL          string `json:"logoUrl"`
	BrandName        Text   `json:"brandName"`
	PublishedVersion string `json:"publishedVersion"`
}

// Tenant is an owner of houses.
type Tenant struct {
	TenantID        string `json:"tenantId"`
	Slug            string `json:"slug"`
	Name            string `json:"name"`
	Status          string `json:"status"`
	Region          string `json:"region"`
	DefaultCurrency string `json:"defaultCurrency"`

	Flags map[string]bool `json:"flags"`
}

// Operator is a member of a tenant's staff.
type Operator struct {
	OperatorID    string   `json:"operatorId"`
	Roles         []string `json:"roles"`
	PropertyScope []string `json:"propertyScope"`
	DisplayName   string   `json:"displayName"`
}

type preferences struct {
	Payload   json.RawMessage `json:"payload"`
	Version   int             `json:"version"`
	UpdatedAt bff.Timestamp   `json:"updatedAt"`
}

const (
	maxBrandPeeks  = 200
	maxPreferences = 32 << 10
)

func (s *Sim) tenantRoutes() {
	s.handle("theme-config", "GET /api/v1/tenants/{tenantId}/brand-peek", func(c *call) (any, error) {
		t, err := s.tenant(c)
		if err != nil {
			return nil, err
		}
		return s.brandPeek(t, c.base), nil
	})
	s.handle("theme-config", "POST /api/v1/brand-peeks/batch", s.brandPeeks)
	s.handle("tenant", "GET /api/v1/tenants/{tenantId}", func(c *call) (any, error) {
		t, err := s.tenant(c)
		if err != nil {
			return nil, err
		}
		return Tenant{t.id, t.slug, t.names.En, s.status(t), t.country.cloud, t.country.currency, s.flags(t.id)}, nil
	})
	s.handle("tenant", "GET /api/v1/tenants/{tenantId}/operators/{operatorId}", func(c *call) (any, error) {
		_, o, err := s.operator(c)
		if err != nil {
			return nil, err
		}
		return Operator{o.id, o.roles, o.propertyScope, o.displayName}, nil
	})
	s.handle("tenant", "GET /api/v1/tenants/{tenantId}/operators", func(c *call) (any, error) {
		t, err := s.tenant(c)
		if err != nil {
			return nil, err
		}
		return ofTenantList(s, c, t, s.staffOf(t))
	})
	s.handle("tenant", "GET /api/v1/operators/{operatorId}/memberships", func(c *call) (any, error) {
		id := c.PathValue("operatorId")
		list := s.memberships(id)
		if len(list) == 0 {
			return nil, notFound("operator")
		}
		return map[string]any{"operatorId": id, "memberships": list}, nil
	})
	s.handle("tenant", "GET /api/v1/tenants/{tenantId}/operators/{operatorId}/preferences", s.preferences)
	s.mutation("tenant", "PUT /api/v1/tenants/{tenantId}/operators/{operatorId}/preferences", s.putPreferences)
}

func (s *Sim) status(t *tenant) string {
	if s.state.suspended(t.id) {
		return "suspended"
	}
	return "active"
}

func (s *Sim) tenant(c *call) (*tenant, error) {
	id, err := bff.ParseID(bff.PrefixTenant, c.PathValue("tenantId"))
	if err != nil {
		return nil, refused(bff.FieldErrors{{Field: "tenantId", Code: bff.FieldFormat}})
	}
	t := s.data.tenantByID[id.String()]
	if t == nil {
		return nil, notFound("tenant")
	}
	return t, nil
}

func (s *Sim) operator(c *call) (*tenant, *operator, error) {
	t, err := s.tenant(c)
	if err != nil {
		return nil, nil, err
	}
	o := s.member(t.id, c.PathValue("operatorId"))
	if o == nil {
		return nil, nil, notFound("operator")
	}
	return t, o, nil
}

func (s *Sim) brandPeek(t *tenant, base string) BrandPeek {
	th := s.themeOf(t)
	return BrandPeek{t.id, th.color, base + "/media/" + t.id + "/logo.svg", t.names.text(), th.version}
}

func (s *Sim) brandPeeks(c *call) (any, error) {
	var req struct {
		TenantIDs []string `json:"tenantIds"`
	}
	if err := c.decode(&req); err != nil {
		return nil, err
	}
	var bad bff.FieldErrors
	bad.Check(len(req.TenantIDs) > 0, "tenantIds", bff.FieldRequired)
	bad.Check(len(req.TenantIDs) <= maxBrandPeeks, "tenantIds", bff.FieldCount)
	if err := refused(bad); err != nil {
		return nil, err
	}
	out := struct {
		BrandPeeks []BrandPeek `json:"brandPeeks"`
		Missing    []string    `json:"missing"`
	}{[]BrandPeek{}, []string{}}
	for _, id := range req.TenantIDs {
		if t := s.data.tenantByID[id]; t != nil {
			out.BrandPeeks = append(out.BrandPeeks, s.brandPeek(t, c.base))
		} else {
			out.Missing = append(out.Missing, id)
		}
	}
	return out, nil
}

func (s *Sim) preferences(c *call) (any, error) {
	t, o, err := s.operator(c)
	if err != nil {
		return nil, err
	}
	key, err := s.preferencesKey(t, o, c.URL.Query().Get("propertyId"))
	if err != nil {
		return nil, err
	}
	s.state.mu.RLock()
	defer s.state.mu.RUnlock()
	if p, ok := s.state.prefs[key]; ok {
		return p, nil
	}
	return preferences{Payload: json.RawMessage(`{}`), Version: 1, UpdatedAt: bff.At(epoch)}, nil
}

// preferencesKey is where an operator's preferences are, for one of the tenant's houses
// or for all.
func (s *Sim) preferencesKey(t *tenant, o *operator, house string) (string, error) {
	if p := s.data.propertyByID[house]; house != "" && (p == nil || p.tenant != t) {
		return "", notFound("property")
	}
	return t.id + o.id + house, nil
}

// putPreferences replaces the payload if the caller saw the newest version.
func (s *Sim) putPreferences(c *call) (any, error) {
	t, o, err := s.operator(c)
	if err != nil {
		return nil, err
	}
	var req struct {
		Payload map[string]json.RawMessage `json:"payload"`
		Version int                        `json:"version"`
		House   string                     `json:"propertyId"`
	}
	if err := c.decode(&req); err != nil {
		return nil, err
	}
	key, err := s.preferencesKey(t, o, req.House)
	if err != nil {
		return nil, err
	}
	var bad bff.FieldErrors
	bad.Check(req.Payload != nil, "payload", bff.FieldRequired)
	bad.Check(len(c.body) <= maxPreferences, "payload", bff.FieldLength)
	bad.Check(req.Version > 0, "version", bff.FieldRequired)
	if err := refused(bad); err != nil {
		return nil, err
	}
	payload, err := json.Marshal(req.Payload)
	if err != nil {
		return nil, err
	}
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	now := 1
	if p, ok := s.state.prefs[key]; ok {
		now = p.Version
	}
	if req.Version != now {
		return nil, &failure{status: http.StatusPreconditionFailed, code: "VERSION_CONFLICT", message: "preferences are at version " + itoa(now)}
	}
	p := preferences{Payload: payload, Version: now + 1, UpdatedAt: bff.At(c.now)}
	s.state.prefs[key] = p // bounded by the operators and houses of the data set
	return p, nil
}
