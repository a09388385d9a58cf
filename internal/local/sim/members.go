package sim

import (
	"maps"
	"slices"
	"strings"
)

// member returns what an operator is at a tenant, or nil.
func (s *Sim) member(tenantID, operatorID string) *operator {
	t := s.data.tenantByID[tenantID]
	if t == nil {
		return nil
	}
	s.state.mu.RLock()
	defer s.state.mu.RUnlock()
	if o, changed := s.state.members[tenantID+operatorID]; changed {
		return o
	}
	return t.operator[operatorID]
}

// staffOf lists the operators of a tenant by their ids, those that joined since as well.
func (s *Sim) staffOf(t *tenant) []Operator {
	ids := map[string]bool{}
	for id := range t.operator {
		ids[id] = true
	}
	s.state.mu.RLock()
	for key := range s.state.members {
		if id, ok := strings.CutPrefix(key, t.id); ok {
			ids[id] = true
		}
	}
	s.state.mu.RUnlock()
	out := []Operator{}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		if o := s.member(t.id, id); o != nil {
			out = append(out, Operator{o.id, o.roles, o.propertyScope, o.displayName})
		}
	}
	return out
}

// memberships lists the tenants that an operator works for.
func (s *Sim) memberships(operatorID string) []Membership {
	out := []Membership{}
	for _, t := range s.data.tenants {
		if o := s.member(t.id, operatorID); o != nil {
			out = append(out, Membership{t.id, t.slug, t.names.En, s.status(t), o.roles, o.propertyScope})
		}
	}
	return out
}

// employed reports whether the operator works for any tenant.
func (s *Sim) employed(operatorID string) bool {
	return slices.ContainsFunc(s.data.tenants, func(t *tenant) bool { return s.member(t.id, operatorID) != nil })
}

// setMember gives an operator another membership; nil roles leave the roles as
// they are, nil scope the scope.
func (s *Sim) setMember(tenantID, operatorID, name string, roles, scope []string) {
	if s.data.tenantByID[tenantID] == nil || operatorID == "" {
		return
	}
	o := operator{id: operatorID, displayName: "New Colleague", roles: []string{}, propertyScope: []string{}}
	if was := s.member(tenantID, operatorID); was != nil {
		o = *was
	}
	if name != "" {
		o.displayName = name
	}
	if roles != nil {
		o.roles = roles
	}
	if scope != nil {
		o.propertyScope = scope
	}
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	bound(s.state.members)
	s.state.members[tenantID+operatorID] = &o
}

// removeMember ends a membership.
func (s *Sim) removeMember(tenantID, operatorID string) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	bound(s.state.members)
	s.state.members[tenantID+operatorID] = nil
}

// defaultFlags are a tenant's feature flags until an event toggles one.
func defaultFlags() map[string]bool {
	return map[string]bool{"ai_suggestions": true, "digital_keys": true, "cash_drawer": true, "blackout_desk": true, "beta_dashboard": false}
}

// flags returns the feature flags of a tenant.
func (s *Sim) flags(tenantID string) map[string]bool {
	out := defaultFlags()
	s.state.mu.RLock()
	defer s.state.mu.RUnlock()
	for name := range out {
		if on, toggled := s.state.flags[tenantID+name]; toggled {
			out[name] = on
		}
	}
	return out
}

// setFlag toggles a feature flag that tenants have.
func (s *Sim) setFlag(tenantID, name string, on bool) {
	if _, known := defaultFlags()[name]; !known || s.data.tenantByID[tenantID] == nil {
		return
	}
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	s.state.flags[tenantID+name] = on // bounded by the tenants of the data set
}
