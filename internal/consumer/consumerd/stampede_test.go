package consumerd_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff/internal/testkit"
)

// TestProofStampede has hundreds of guests ask the same at once, of three cold
// instances: each upstream is called once, and all get the same bytes. It is
// not parallel: it wants the machine for itself.
func TestProofStampede(t *testing.T) {
	f := newFleet(t, 3)
	guests := testkit.Proof(300, 1000)
	f.crowd(guests, guestCall{method: http.MethodGet, path: "/facets?country=AF"}) // opens the connections
	hotels := f.hotels()
	for _, tt := range []struct {
		name string
		ask  func(attempt int) guestCall
		want map[string]int64
	}{
		{
			"search", func(i int) guestCall { return searchCall([]string{"Kabul", "Herat", "Kandahar"}[i]) },
			map[string]int64{callListings: 1, callPreview: 1, callBrands: 1},
		},
		{
			"hotel", func(i int) guestCall { return hotelCall(hotels[700*i].PropertyID) },
			// The second price and brand are those of the similar hotels.
			map[string]int64{callResolve: 1, callSimilar: 1, callDescribe: 1, callPreview: 2, callBrands: 2},
		},
	} {
		for attempt := range 3 {
			before, asked := f.extraCalls(), f.reconciled()
			f.calls()
			got := f.crowd(guests, tt.ask(attempt))
			calls, excused := f.calls(), f.extraCalls()-before
			if f.reconciled() != asked { // it asks for all tenants, whatever guests do
				delete(calls, callTenant)
			}
			var odd []string
			for a := range got {
				if !strings.HasPrefix(a, "200 ") {
					odd = append(odd, fmt.Sprintf("%.500s", a))
				}
			}
			if len(got) > 1 {
				odd = append(odd, fmt.Sprintf("%d different bodies, want 1", len(got)))
			}
			for call, n := range calls {
				want := tt.want[call]
				if call == callTenant { // each tenant on the page once, for hours
					want = tenantsOn(got)
				}
				if n > want {
					odd = append(odd, fmt.Sprintf("%d calls of %s, want %d", n, call, want))
				}
				// Instances that cannot reach Redis in time ask for themselves.
				if excused > 0 && n > int64(len(f.nodes))*want+excused {
					t.Errorf("%s: %d calls of %s, want %d", tt.name, n, call, want)
				}
			}
			if len(odd) == 0 {
				break
			}
			if excused == 0 {
				t.Errorf("%s: %s", tt.name, strings.Join(odd, "; "))
				break
			}
			t.Logf("%s: the machine was too busy %d times, once more: %.300s", tt.name, excused, strings.Join(odd, "; "))
		}
	}
}

// reconciled is when the status of all tenants was last asked for.
func (f *fleet) reconciled() int {
	f.t.Helper()
	return rows(f.t, f.PostgresURL, `SELECT coalesce(extract(epoch FROM max(ended_at)) * 1000, 0)::bigint FROM bff_consumer.job_runs WHERE job = 'tenant-status'`)
}

// tenantsOn counts the tenants that answers show.
func tenantsOn(answers map[string]int) int64 {
	tenants := map[string]bool{}
	for a := range answers {
		for _, id := range tenantPattern.FindAllString(a, -1) {
			tenants[id] = true
		}
	}
	return int64(len(tenants))
}

var tenantPattern = regexp.MustCompile(`"tenantId":"tnt_[0-9A-Z]{26}"`)
