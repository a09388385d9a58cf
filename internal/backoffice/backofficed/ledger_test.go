package backofficed

import (
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// A refused role or scope leaves an entry in the ledger before it is answered, and is
// not answered without one.
func TestDenialsAreRecorded(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{routes: guarded(), limits: "session=100000"})
	f.house.change(func(h *houseFake) { h.foreign[foreign] = true })
	s := f.sender("opt_parwana")
	id := s.session()
	for path, want := range map[string]bff.Code{
		"/for-managers":                   bff.CodeRoleDenied,
		"/activity?propertyId=" + house:   bff.CodeRoleDenied,
		"/activity?propertyId=" + other:   bff.CodeRoleDenied,
		"/activity?propertyId=" + foreign: bff.CodeRoleDenied,
		"/activity?propertyId=ppt_1":      bff.CodeRoleDenied,
		"/of-a-house?propertyId=" + other: bff.CodePropertyScopeDenied,
	} {
		f.outbox.did = nil
		if got := codeOf(s.get(path)); !strings.HasSuffix(string(want), got) {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
		// In the ledger of the property that was asked for, if it is the tenant's.
		route, property, _ := strings.Cut(path, "?propertyId=")
		if property == foreign || property == "ppt_1" {
			property = ""
		}
		if len(f.outbox.did) != 1 {
			t.Fatalf("%s: %d entries", path, len(f.outbox.did))
		}
		a := f.outbox.did[0]
		if a.Action != "GET "+base+route || a.Outcome != backoffice.Denied || a.Code != want || a.Session.String() != id || a.Operator != "opt_parwana" ||
			len(a.Roles) != 1 || a.Context == "" || a.Property.String() != property {
			t.Errorf("%s: %+v", path, a)
		}
		f.outbox.fail(bff.Errorf(bff.CodeServiceUnavailable, "away"))
		if got := codeOf(s.get(path)); got != "SERVICE_UNAVAILABLE" {
			t.Errorf("%s without a ledger: %s", path, got)
		}
		f.outbox.fail(nil)
	}
}
