package consumer

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"melmastoon.ghasi.io/bff"
)

// SuspendedTenants is the process's own list of tenants that may not be shown:
// it is asked on every read, cached or not, so that a suspension shows at once.
// The zero value is an empty list.
type SuspendedTenants struct {
	mu  sync.Mutex // of writers
	set atomic.Pointer[map[bff.ID]struct{}]
}

// Has reports whether a tenant is suspended. A nil list suspends no tenant.
func (s *SuspendedTenants) Has(tenant bff.ID) bool {
	if s == nil {
		return false
	}
	m := s.set.Load()
	if m == nil {
		return false
	}
	_, ok := (*m)[tenant]
	return ok
}

// Empty reports whether no tenant is suspended, which is nearly always so.
func (s *SuspendedTenants) Empty() bool {
	if s == nil {
		return true
	}
	m := s.set.Load()
	return m == nil || len(*m) == 0
}

// Suspend adds a tenant.
func (s *SuspendedTenants) Suspend(tenant bff.ID) {
	s.change(func(m map[bff.ID]struct{}) { m[tenant] = struct{}{} })
}

// Reinstate removes a tenant.
func (s *SuspendedTenants) Reinstate(tenant bff.ID) {
	s.change(func(m map[bff.ID]struct{}) { delete(m, tenant) })
}

// Replace swaps the whole list, as the durable record has it.
func (s *SuspendedTenants) Replace(tenants []bff.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := make(map[bff.ID]struct{}, len(tenants))
	for _, t := range tenants {
		m[t] = struct{}{}
	}
	s.set.Store(&m)
}

// List returns the suspended tenants.
func (s *SuspendedTenants) List() []bff.ID {
	m := s.set.Load()
	if m == nil {
		return nil
	}
	return slices.Collect(maps.Keys(*m))
}

func (s *SuspendedTenants) change(edit func(map[bff.ID]struct{})) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := map[bff.ID]struct{}{}
	if old := s.set.Load(); old != nil {
		m = maps.Clone(*old)
	}
	edit(m)
	s.set.Store(&m)
}
