package backoffice

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"melmastoon.ghasi.io/bff"
)

// Role is what an operator does at a hotel.
type Role string

// The roles there are.
const (
	FrontDesk        Role = "front_desk"
	Housekeeper      Role = "housekeeper"
	HousekeepingLead Role = "housekeeping_lead"
	Maintenance      Role = "maintenance"
	FnBManager       Role = "fnb_manager"
	Finance          Role = "finance"
	GeneralManager   Role = "general_manager"
	Owner            Role = "owner"
)

// Roles lists every role.
func Roles() []Role {
	return []Role{FrontDesk, Housekeeper, HousekeepingLead, Maintenance, FnBManager, Finance, GeneralManager, Owner}
}

// ReadRoles keeps the roles that we know, each once: a role of a newer
// tenant-service gives no rights here.
func ReadRoles(names []string) []Role {
	roles := []Role{}
	for _, r := range Roles() {
		if slices.Contains(names, string(r)) {
			roles = append(roles, r)
		}
	}
	return roles
}

// allProperties is the scope of an operator who works for all of a tenant's houses.
const allProperties = "*"

// PropertyScope says for which properties of its tenant an operator works.
type PropertyScope struct {
	all        bool
	properties []bff.ID
}

// ReadPropertyScope reads "*" or the ids of properties. What is neither gives no
// rights.
func ReadPropertyScope(names []string) PropertyScope {
	var s PropertyScope
	for _, name := range names {
		if name == allProperties {
			s.all = true
			continue
		}
		if id, err := bff.ParseID(bff.PrefixProperty, name); err == nil && !slices.Contains(s.properties, id) {
			s.properties = append(s.properties, id)
		}
	}
	return s
}

// Covers reports whether a property is in the scope. Whether it is one of the
// tenant's is for its own service to say, which answers 404.
func (s PropertyScope) Covers(property bff.ID) bool {
	return s.all || slices.Contains(s.properties, property)
}

// MarshalJSON writes the wire form.
func (s PropertyScope) MarshalJSON() ([]byte, error) {
	names := []string{}
	if s.all {
		names = append(names, allProperties)
	} else {
		for _, id := range s.properties {
			names = append(names, id.String())
		}
	}
	return json.Marshal(names)
}

// Member is an operator of a tenant, as tenant-service has it. The name is personal:
// it is never stored, logged or put into an event (DATA_MODEL §11).
type Member struct {
	DisplayName string
	Roles       []Role
	Scope       PropertyScope
	Flags       map[string]bool // the tenant's feature flags
	// Suspended: the tenant is.
	Suspended bool
}

// HasAny reports whether the member has one of the roles.
func (m *Member) HasAny(roles []Role) bool {
	return slices.ContainsFunc(roles, func(r Role) bool { return slices.Contains(m.Roles, r) })
}

// ErrNoMember says that an operator does not work for the tenant.
var ErrNoMember = errors.New("the operator is no member of the tenant")

// Members finds operators.
type Members interface {
	// FindMember returns an operator of a tenant. Version names a state of the
	// tenant's memberships: a copy that was made at another one is not used.
	FindMember(ctx context.Context, tenant bff.ID, operator, version string) (*Member, error)
}

// Only returns the property of a scope that has one alone.
func (s PropertyScope) Only() (bff.ID, bool) {
	if s.all || len(s.properties) != 1 {
		return bff.ID{}, false
	}
	return s.properties[0], true
}

// Lists reports whether the scope names the property: it is then one of the
// tenant's, because tenant-service says so.
func (s PropertyScope) Lists(property bff.ID) bool { return slices.Contains(s.properties, property) }

// LockRoles are those that may act on keys.
func LockRoles() []Role { return []Role{FrontDesk, GeneralManager, Owner} }
