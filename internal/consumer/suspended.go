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
	mu      sync.Mutex // of writers
	set     atomic.Pointer[map[bff.ID]struct{}]
	pending map[bff.ID]int // tenants whose suspension is being recorded → by how many
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
	s.mu.Lock()
	defer s.mu.Unlock()
	s.edit(func(m map[bff.ID]struct{}) { m[tenant] = struct{}{} })
}

// Reinstate removes a tenant.
func (s *SuspendedTenants) Reinstate(tenant bff.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.edit(func(m map[bff.ID]struct{}) { delete(m, tenant) })
}

// SuspendPending adds a tenant whose suspension is about to be recorded. A record
// that was read before must not show the tenant again, so Replace keeps it until
// recorded is called.
func (s *SuspendedTenants) SuspendPending(tenant bff.ID) (recorded func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending == nil {
		s.pending = map[bff.ID]int{}
	}
	s.pending[tenant]++
	s.edit(func(m map[bff.ID]struct{}) { m[tenant] = struct{}{} })
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.pending[tenant]--; s.pending[tenant] == 0 {
			delete(s.pending, tenant)
		}
	})
}

// Replace swaps the whole list for what the durable record has. Tenants whose
// suspension is still being recorded stay.
func (s *SuspendedTenants) Replace(tenants []bff.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := make(map[bff.ID]struct{}, len(tenants)+len(s.pending))
	for _, t := range tenants {
		m[t] = struct{}{}
	}
	for t := range s.pending {
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

// edit changes a copy of the list, which readers hold without a lock.
func (s *SuspendedTenants) edit(change func(map[bff.ID]struct{})) {
	m := map[bff.ID]struct{}{}
	if old := s.set.Load(); old != nil {
		m = maps.Clone(*old)
	}
	change(m)
	s.set.Store(&m)
}
