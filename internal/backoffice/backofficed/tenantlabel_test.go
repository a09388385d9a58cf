package backofficed

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/web"
)

// Only so many tenants have series of their own.
func TestTenantLabel(t *testing.T) {
	t.Parallel()
	if (&MetricSettings{}).label() != nil {
		t.Error("there is a label although none was asked for")
	}
	l := (&MetricSettings{MetricTenants: 2}).label()
	var tenants []bff.ID
	for range 3 {
		tenants = append(tenants, bff.NewID(bff.PrefixTenant, time.Now()))
	}
	got := []string{l.Name(), l.Of(&web.Request{}), l.Of(&web.Request{Local: (*backoffice.Visit)(nil)})}
	for _, i := range []int{0, 1, 2, 0, 2} {
		got = append(got, l.Of(&web.Request{Local: &backoffice.Visit{Caller: backoffice.Caller{Tenant: tenants[i]}}}))
	}
	want := []string{"tenant_id", "none", "none", tenants[0].String(), tenants[1].String(), "other", tenants[0].String(), "other"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
