package consumerd_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerhttp"
	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/internal/web"
)

// report is a good request of a telemetry route and the event that it becomes.
type report struct {
	path    string
	subject consumer.Subject
	body    members
}

// reports has a request of every telemetry route. All tests of telemetry range
// over it, so that a new route is held to consent, outages, privacy and loss with
// one row here.
func reports(hotel sim.CatalogProperty) []report {
	return []report{
		{"/telemetry/click", consumer.SubjectClickRecorded, members{
			"kind": "listing-card", "tenantId": hotel.TenantID, "propertyId": hotel.PropertyID, "position": 1, "page": 1, "sortKey": "price-asc",
		}},
		{"/telemetry/page-view", consumer.SubjectPageViewed, members{"path": "/search?q=secret#top", "referer": "https://example.org/a?b=c"}},
		{"/telemetry/funnel", consumer.SubjectFunnelStep, members{"step": "map.opened", "metadata": members{"device": "phone", "cards": 20.5, "dark": true}}},
	}
}

// TestEveryTelemetryRouteIsReported: reports has one request per route.
func TestEveryTelemetryRouteIsReported(t *testing.T) {
	t.Parallel()
	missing := map[string]bool{}
	for pattern, rt := range routes() {
		if rt.Kind == web.Telemetry {
			missing[pattern] = true
		}
	}
	for _, r := range reports(sim.CatalogProperty{}) {
		if !missing["POST "+r.path] {
			t.Errorf("%s is no telemetry route, or stands here twice", r.path)
		}
		delete(missing, "POST "+r.path)
	}
	for pattern := range missing {
		t.Errorf("%s has no row in reports: consent, outages, privacy and loss are not tested", pattern)
	}
}

// promised waits for the event that a telemetry route has accepted.
func (e *subscriber) promised(r report, a answer) received {
	e.t.Helper()
	id := a.field("id")
	got := e.await("event of "+r.path, func(got received) bool { return got.Envelope.EventID == id || got.Payload["id"] == id })
	if got.Envelope.Subject != string(r.subject) {
		e.t.Errorf("%s became %s, want %s", r.path, got.Envelope.Subject, r.subject)
	}
	return got
}

// plant sends every telemetry route an e-mail address in each member that it
// takes, and in one that it does not.
func (v *visitor) plant(t *testing.T, hotel sim.CatalogProperty, planted string) {
	t.Helper()
	described := map[string][]string{}
	for _, op := range testkit.Contract(t).Operations() {
		described[strings.Replace(op.Pattern, consumerhttp.Base, "", 1)] = slices.Sorted(maps.Keys(op.Members))
	}
	for _, r := range reports(hotel) {
		for _, member := range append(described["POST "+r.path], "planted") {
			a, err := v.try(testkit.Context(t), "POST", r.path, nil, planting(r.body, strings.Split(member, "."), planted))
			if err != nil {
				t.Fatal(err)
			}
			if a.status != http.StatusBadRequest && a.status != http.StatusAccepted {
				t.Errorf("%s with %s: %d %s", r.path, member, a.status, a.body)
			}
		}
	}
}

// planting returns the body with another value for a member; "*" is any name.
func planting(body members, path []string, value string) members {
	out := maps.Clone(body)
	if len(path) == 1 {
		out[strings.ReplaceAll(path[0], "*", "any")] = value
		return out
	}
	below, _ := out[path[0]].(members)
	if below == nil {
		below = members{}
	}
	out[path[0]] = planting(below, path[1:], value)
	return out
}
