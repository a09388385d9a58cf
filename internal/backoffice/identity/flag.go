package identity

import (
	"maps"

	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// Switches are the flags that the platform's own operators have set, for all tenants.
type Switches interface {
	// Bools returns them; the caller does not change the map.
	Bools() map[string]bool
}

// Flags decide which features operators have. A flag of the platform decides before one
// of the tenant: it is how a feature that does harm is switched off everywhere. A
// feature that has neither is on, so that losing a place where flags are kept takes
// nothing away.
type Flags struct{ switches Switches }

// NewFlags returns Flags.
func NewFlags(s Switches) *Flags { return &Flags{s} }

// On reports whether a member has a feature. One that a tenant has to want is off where
// the tenant has not said so; the platform can only take it away.
func (f *Flags) On(feature backoffice.Feature, m *backoffice.Member) bool {
	if feature.OptIn() {
		return m.Flags[string(feature)] && !f.OffForAll(feature)
	}
	if on, set := f.switches.Bools()[string(feature)]; set {
		return on
	}
	on, set := m.Flags[string(feature)]
	return on || !set
}

// OffForAll reports whether the platform has switched a feature off.
func (f *Flags) OffForAll(feature backoffice.Feature) bool {
	on, set := f.switches.Bools()[string(feature)]
	return set && !on
}

// Of lists the flags of a member: the tenant's, the platform's, and every feature.
func (f *Flags) Of(m *backoffice.Member) map[string]bool {
	switched := f.switches.Bools()
	all := make(map[string]bool, len(m.Flags)+len(switched)+2)
	maps.Copy(all, m.Flags)
	maps.Copy(all, switched)
	for _, feature := range backoffice.Features() {
		all[string(feature)] = f.On(feature, m)
	}
	return all
}
