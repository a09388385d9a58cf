package backofficehttp_test

import (
	"maps"
	"net/http"
	"sync"
	"testing"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// TestProofPowerComesBack: a thousand desks, each of another hotel, ask for everything in the
// same moment. None is refused, and the upstreams are asked what they are asked when the desks
// come one after the other. The short form has fewer: all of them must fit into the budget of
// a request on a machine that is starved.
func TestProofPowerComesBack(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	arrive := func(n int, path string) {
		requests := make([]*request, n)
		for i := range requests {
			desk := f.sender("opt_parwana")
			desk.claims["tid"] = bff.NewID(bff.PrefixTenant, f.clock()).String()
			requests[i] = desk.request(http.MethodGet, base+path, "")
			requests[i].header["Dpop"] = []string{f.prove(requests[i])}
		}
		var all sync.WaitGroup
		for i, r := range requests {
			all.Go(func() {
				if w := f.send(0, r); w.Code != http.StatusOK {
					t.Errorf("GET %s: desk %d of %d: %s", path, i, n, codeOf(w))
				}
			})
		}
		all.Wait()
	}
	for _, path := range []string{"/session", "/dashboard?propertyId=" + house, "/arrivals?propertyId=" + house} {
		desks := testkit.Proof(50, 1000)
		arrive(1, path)
		want := f.house.asked()
		for source := range want {
			want[source] *= desks
		}
		arrive(desks, path)
		if got := f.house.asked(); !maps.Equal(got, want) {
			t.Errorf("GET %s: upstreams were asked %v, want %v", path, got, want)
		}
	}
}
