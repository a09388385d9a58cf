package sim

import (
	"sync"
	"sync/atomic"
	"time"
)

// state is what events change: which tenant is suspended, which theme is published,
// which listing was indexed again.
type state struct {
	mu       sync.RWMutex
	suspects map[string]time.Time // tenant → since when it is suspended
	themes   map[string]theme     // tenant → what replaced the theme of the data set
	prefs    map[string]preferences
	members  map[string]*operator // tenant and operator → membership that an event changed; nil: removed
	flags    map[string]bool      // tenant and name → feature flag that an event toggled
	listings []listingState       // by property.index
}

// suspendedHouses is the size of the tenants that start out suspended.
const suspendedHouses = 2

type theme struct{ version, color string }

// listingState caches a listing's JSON; indexing the listing drops it.
type listingState struct {
	indexed atomic.Int64
	json    atomic.Pointer[listingJSON]
}

func (st *state) init(ds *dataset, now time.Time) {
	st.suspects = map[string]time.Time{}
	st.themes = map[string]theme{}
	st.prefs = map[string]preferences{}
	st.members = map[string]*operator{}
	st.flags = map[string]bool{}
	st.listings = make([]listingState, len(ds.properties))
	// Two small tenants start out suspended, so long ago that every projection
	// knows it.
	for _, t := range ds.tenants {
		if len(t.properties) == suspendedHouses && len(st.suspects) < 2 {
			st.suspects[t.id] = now.Add(-240 * time.Hour)
		}
	}
}

func (st *state) suspended(tenantID string) bool {
	st.mu.RLock()
	defer st.mu.RUnlock()
	_, yes := st.suspects[tenantID]
	return yes
}

// SuspendTenant does at the tenant service what tenant.suspended.v1 reports.
// Search-aggregation follows after the projection lag.
func (s *Sim) SuspendTenant(tenantID string) bool {
	if s.data.tenantByID[tenantID] == nil {
		return false
	}
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	if _, already := s.state.suspects[tenantID]; !already {
		s.state.suspects[tenantID] = s.cfg.Now()
	}
	return true
}

// ReinstateTenant undoes a suspension, everywhere at once.
func (s *Sim) ReinstateTenant(tenantID string) bool {
	if s.data.tenantByID[tenantID] == nil {
		return false
	}
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	delete(s.state.suspects, tenantID)
	return true
}

// PublishTheme gives a tenant another published version, and with it another
// colour, so that a reader can see whether it still holds the old one.
func (s *Sim) PublishTheme(tenantID, version string) bool {
	t := s.data.tenantByID[tenantID]
	if t == nil {
		return false
	}
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	color := brandColors[hashString(version)%uint64(len(brandColors))]
	if color == s.state.theme(t).color {
		color = "#222222"
	}
	s.state.themes[tenantID] = theme{version: version, color: color}
	return true
}

// theme needs the lock.
func (st *state) theme(t *tenant) theme {
	if th, ok := st.themes[t.id]; ok {
		return th
	}
	return theme{version: t.version, color: t.color}
}

func (s *Sim) themeOf(t *tenant) theme {
	s.state.mu.RLock()
	defer s.state.mu.RUnlock()
	return s.state.theme(t)
}

// IndexListing adds one review to a listing, so that a reader can see whether
// it still holds the old one.
func (s *Sim) IndexListing(propertyID string) bool {
	p := s.data.propertyByID[propertyID]
	if p == nil {
		return false
	}
	l := &s.state.listings[p.index]
	l.indexed.Add(1)
	l.json.Store(nil)
	return true
}

// hidden returns the tenants that search-aggregation no longer lists.
func (s *Sim) hidden(now time.Time) []*tenant {
	s.state.mu.RLock()
	defer s.state.mu.RUnlock()
	var out []*tenant
	for id, since := range s.state.suspects {
		if now.Sub(since) >= s.cfg.ProjectionLag {
			out = append(out, s.data.tenantByID[id])
		}
	}
	return out
}
