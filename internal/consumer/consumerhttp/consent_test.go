package consumerhttp_test

import (
	"maps"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"melmastoon.ghasi.io/bff/internal/consumer/consumertest"
	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/web"
)

// TestNoConsentNoEvent: nothing that a guest reports or looks at leaves once the guest has
// refused, also when the session was lost since; each report does while they agree.
func TestNoConsentNoEvent(t *testing.T) {
	t.Parallel()
	calls := stagedCalls()
	requests := goodRequests(sim.CatalogProperty{PropertyID: consumertest.PropertyID(10).String(), TenantID: consumertest.TenantID(1).String()})
	reports := 0
	for pattern, rt := range routes() {
		if rt.Kind == web.Telemetry {
			calls[pattern], reports = requests[pattern], reports+1
		}
	}
	for name, tc := range map[string]struct {
		agrees bool
		refuse func(b *jar)
	}{
		"agrees":        {agrees: true},
		"refuses":       {refuse: func(b *jar) { b.change("/session/consent", `{"telemetry":false}`) }},
		"lost, refused": {refuse: func(b *jar) { b.change("/session/consent", `{"telemetry":false}`); b.s.sessions.Lose() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				b := newJar(t, s)
				b.session()
				if tc.refuse != nil {
					tc.refuse(b)
				}
				<-time.After(time.Minute) // what is after the response
				s.journal.mu.Lock()
				before := maps.Clone(s.journal.events)
				s.journal.mu.Unlock()
				for pattern, c := range calls {
					want := http.StatusOK
					if routes()[pattern].Kind == web.Telemetry {
						want = http.StatusAccepted
					}
					if a := b.ask(c); a.status != want {
						t.Errorf("%s: %s", pattern, a)
					}
				}
				<-time.After(time.Minute)
				s.journal.mu.Lock()
				defer s.journal.mu.Unlock()
				left := 0
				for subject, n := range s.journal.events {
					left += n - before[subject]
				}
				if tc.agrees && left < reports || !tc.agrees && left != 0 {
					t.Errorf("%d events left, of %d reports and what was looked at: %v", left, reports, s.journal.events)
				}
			})
		})
	}
}
