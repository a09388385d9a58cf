package backofficehttp_test

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficecache"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficehttp"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/web"
)

// BenchmarkDashboard is the first half of the goal for dashboards: a cached one
// reaches at least 0.8 of a bare handler that writes the same bytes behind the same
// identity checks. The request is what an app sends when its operator looks at the
// dashboard again: the lines of a general manager, the same token, a fresh proof.
// Slices of both take turns in one run; ratio is how many of ours a second holds for
// one of the bare handler's.
func BenchmarkDashboard(b *testing.B) {
	const slice = 200
	var body []byte
	f := newFront(b, frontConfig{limits: manyReads, routes: []web.Route{{
		Pattern: "GET " + base + "/bare", Kind: web.PrivateRead, Budget: time.Second, Limit: backofficehttp.LimitRead, Gate: "read",
		Needs: identity.Needs{Property: true},
		Handle: func(w http.ResponseWriter, _ *http.Request) error {
			h := w.Header()
			h["Content-Type"] = []string{"application/x-ndjson"}
			h["Cache-Control"] = []string{"private, no-store"}
			_, err := w.Write(body)
			return err
		},
	}}})
	f.employ("opt_mirwais", backoffice.GeneralManager)
	s := f.sender("opt_mirwais")
	s.dashboard(0, house, "application/x-ndjson")
	token := s.token()
	requests := func(path string) []*http.Request {
		all := make([]*http.Request, slice)
		for i := range all {
			proof, err := s.device.Prove(desk.Proof{
				Method: http.MethodGet, URL: publicURL + base + path, AccessToken: token, ID: rand.Text(), At: f.clock(),
			})
			if err != nil {
				b.Fatal(err)
			}
			all[i] = httptest.NewRequestWithContext(b.Context(), http.MethodGet, "http://127.0.0.1"+base+path+"?propertyId="+house, nil)
			all[i].Header = http.Header{
				"Authorization": {"DPoP " + token}, "Dpop": {proof}, "X-Device-Id": {s.device.ID()}, "X-App-Version": {"2.4.0"}, "X-App-Platform": {"linux"},
				"Accept": {"application/x-ndjson"},
			}
		}
		return all
	}
	timed := func(all []*http.Request) float64 {
		began := time.Now()
		for _, r := range all {
			w := httptest.NewRecorder()
			if f.instances[0].ServeHTTP(w, r); w.Code != http.StatusOK {
				b.Fatalf("%d %s", w.Code, w.Body)
			}
			if body == nil {
				body = w.Body.Bytes()
			}
		}
		return float64(time.Since(began)) / slice
	}
	timed(requests("/dashboard"))
	timed(requests("/bare"))
	var ours, theirs []float64
	for b.Loop() {
		ours, theirs = append(ours, timed(requests("/dashboard"))), append(theirs, timed(requests("/bare")))
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	b.ReportMetric(theirs[len(theirs)/2]/ours[len(ours)/2], "ratio")
	b.ReportMetric(ours[len(ours)/2], "ns/request")
	b.ReportMetric(float64(len(body)), "bytes")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkComposedDashboard is the second half: the p99 of a dashboard that is
// composed anew stays within 1.15 of the p99 of its slowest upstream, asked alone. All
// twelve upstreams are real servers; notification takes 200 ms, the others 20.
func BenchmarkComposedDashboard(b *testing.B) {
	latency := map[string]sim.Latency{}
	for _, name := range sim.Upstreams() {
		latency[name] = sim.Latency{Base: 20 * time.Millisecond}
	}
	latency["notification"] = sim.Latency{Base: 200 * time.Millisecond}
	s, up := overSimulator(b, sim.Config{Latency: latency})
	hotel := s.Catalog().Properties[0]
	tenant, property := bff.MustParseID(bff.PrefixTenant, hotel.TenantID), bff.MustParseID(bff.PrefixProperty, hotel.PropertyID)
	f := newFront(b, frontConfig{limits: manyReads, upstreams: up.House, tenant: tenant})
	f.employAt("*", "opt_mirwais", backoffice.GeneralManager)
	m := f.sender("opt_mirwais")
	at := board.Place{Tenant: tenant, Property: property, Day: board.Day{Date: bff.DateOf(time.Now())}}
	void := backofficecache.NewInvalidator(f.stores[0])
	var composed, alone []time.Duration
	partial := 0
	for b.Loop() {
		if err := void.Invalidate(b.Context(), tenant, property, backoffice.PartDashboard); err != nil {
			b.Fatal(err)
		}
		r := m.request(http.MethodGet, base+"/dashboard?propertyId="+property.String(), "")
		r.header["Dpop"] = []string{f.prove(r)}
		began := time.Now()
		w := f.send(0, r)
		composed = append(composed, time.Since(began))
		var doc struct{ Partial bool }
		if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || w.Code != http.StatusOK {
			b.Fatalf("%d %s", w.Code, w.Body)
		}
		if doc.Partial {
			partial++
		}
		began = time.Now()
		if _, err := up.House.Read(b.Context(), board.SourceAlerts, at); err != nil {
			b.Fatal(err)
		}
		alone = append(alone, time.Since(began))
	}
	part := func(all []time.Duration, percent int) float64 {
		slices.Sort(all)
		return float64(all[min(len(all)*percent/100, len(all)-1)])
	}
	b.ReportMetric(part(composed, 99)/part(alone, 99), "ratio")
	b.ReportMetric(part(composed, 99)/1e6, "p99-ms")
	b.ReportMetric(part(composed, 50)/part(alone, 50), "p50-ratio")
	b.ReportMetric(float64(partial), "partial")
	b.ReportMetric(0, "ns/op")
}
