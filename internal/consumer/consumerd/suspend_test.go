package consumerd_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/consumer/consumerevents"
	"melmastoon.ghasi.io/bff/internal/pubsub"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// TestSuspendedTenantVanishes suspends a tenant by event while two instances
// hold its hotels in every cache: soon none of them shows any, from a cache or
// not, nor does one that starts then, and a reinstatement brings them back.
func TestSuspendedTenantVanishes(t *testing.T) {
	t.Parallel()
	f := newWatch(t, 2, patient())
	f.subscribe()
	tenantOf, hotels := map[string]string{}, map[string][]string{}
	for _, p := range f.Sim.Catalog().Properties {
		tenantOf[p.PropertyID] = p.TenantID
		hotels[p.TenantID] = append(hotels[p.TenantID], p.PropertyID)
	}
	var first struct {
		Results []struct{ PropertyID, TenantID string }
	}
	if err := json.Unmarshal(f.get(searchCall("Kabul")).body, &first); err != nil {
		t.Fatal(err)
	}
	hotel, tenant := first.Results[0].PropertyID, first.Results[0].TenantID
	// A page of another tenant that shows one of its hotels beside its own.
	neighbour := f.neighbourOf(hotels[tenant], tenant)

	s := sight{fleet: f, tenant: tenant, tenantOf: tenantOf}
	shows := map[string]func(node int) bool{
		"list":         func(node int) bool { return s.inList(node, "") },
		"map":          func(node int) bool { return s.onMap(node, "") },
		"hotel":        func(node int) bool { return s.there(node, hotel) },
		"availability": func(node int) bool { return s.there(node, hotel+"/availability?from=2077-03-10&to=2077-03-14") },
	}
	if neighbour != "" {
		shows["similar"] = func(node int) bool { return s.besides(node, neighbour) }
	}
	var odd string // one that was not as wanted
	all := func(want bool) bool {
		for node := range f.nodes {
			for route, is := range shows {
				if is(node) != want {
					odd = fmt.Sprintf("instance %d, %s", node, route)
					return false
				}
			}
		}
		return true
	}
	for range 2 { // the second round reads caches
		if !all(true) {
			t.Fatalf("not shown at first: %s", odd)
		}
	}

	f.emit("melmastoon.tenant.suspended.v1", tenant)
	begin := time.Now()
	until(t, "the tenant to vanish", func() bool { return all(false) })
	t.Logf("gone after %s", time.Since(begin).Round(time.Millisecond))
	f.nodes = append(f.nodes, f.launch(patient())) // one that starts later knows from the table
	f.awaitReady(2)
	for range 3 {
		if !all(false) {
			t.Fatalf("it came back: %s", odd)
		}
	}

	f.emit("melmastoon.tenant.reinstated.v1", tenant)
	begin = time.Now()
	for node := range f.nodes {
		until(t, "the tenant to come back", func() bool { return shows["hotel"](node) && shows["availability"](node) })
		// A list that was composed without it lives out its minute; one that is
		// composed now has it again.
		if !s.inList(node, `"country":"AF",`) || !s.onMap(node, `"country":"AF",`) {
			t.Errorf("instance %d: a new list or map does not show it", node)
		}
	}
	t.Logf("back after %s", time.Since(begin).Round(time.Millisecond))
}

// TestSuspensionWithoutEvent: no event tells of these tenants. Two are suspended
// before the service starts, a third while its hotels are in every cache; the one
// instance that asks tenant-service tells the others.
func TestSuspensionWithoutEvent(t *testing.T) {
	t.Parallel()
	f := newWatch(t, 2, patient())
	hotelOf, suspended := map[string]string{}, []string{}
	for _, p := range f.Sim.Catalog().Properties {
		hotelOf[p.TenantID] = p.PropertyID
	}
	for _, tenant := range f.Sim.Catalog().Tenants {
		if tenant.Status == "suspended" {
			suspended = append(suspended, tenant.TenantID)
		}
	}
	if len(suspended) != 2 {
		t.Fatalf("suspended before the start: %v", suspended)
	}
	var found struct {
		Results []struct{ PropertyID, TenantID string }
	}
	if err := json.Unmarshal(f.get(searchCall("Kabul")).body, &found); err != nil {
		t.Fatal(err)
	}
	hotel, tenant := found.Results[0].PropertyID, found.Results[0].TenantID
	s := sight{fleet: f, tenant: tenant}
	for node := range f.nodes {
		if !s.there(node, hotel) || !s.inList(node, "") {
			t.Fatalf("instance %d does not show the hotel at first", node)
		}
	}
	// gone wants a hotel to be nowhere, at once: the first instance has learnt of its
	// tenant's suspension, and the others as soon as they hear of it.
	gone := func(node int, hotel string) {
		t.Helper()
		if node > 0 {
			s.awaitSuspension(node, hotel)
		}
		for _, path := range []string{hotel, hotel + "/availability?from=2077-03-10&to=2077-03-14"} {
			if s.there(node, path) {
				t.Errorf("instance %d still shows %s", node, path)
			}
		}
		a := f.ask(guestCall{
			node: node, method: http.MethodPost, path: "/wishlist", body: fmt.Sprintf(`{"propertyId":%q,"source":"detail"}`, hotel),
			header: map[string]string{"Idempotency-Key": hotel + fmt.Sprint(node)},
		})
		if a.status != http.StatusNotFound {
			t.Errorf("instance %d: the hotel of a suspended tenant was put on a wishlist: %.300s", node, a)
		}
	}
	for _, before := range suspended {
		// The page asks tenant-service, which a busy machine may not wait for.
		until(t, "the suspension to be learnt", func() bool { return !s.there(0, hotelOf[before]) })
		for node := range f.nodes {
			gone(node, hotelOf[before])
		}
	}

	f.Sim.SuspendTenant(tenant) // nothing is published
	body, err := json.Marshal(handoffTo(hotel, tenant))
	if err != nil {
		t.Fatal(err)
	}
	if a := f.ask(guestCall{
		method: http.MethodPost, path: "/handoff", body: string(body), header: map[string]string{"Idempotency-Key": "learns"},
	}); a.status != http.StatusForbidden {
		t.Fatalf("hand-off to a suspended tenant: %.300s", a)
	}
	for node := range f.nodes {
		gone(node, hotel)
		if s.inList(node, "") {
			t.Errorf("instance %d still has the tenant in a list", node)
		}
	}
	until(t, "the status of all tenants to be reconciled", func() bool {
		return rows(t, f.PostgresURL, `SELECT count(*) FROM bff_consumer.job_runs WHERE job = 'tenant-status' AND error = ''`) == 1
	})
}

// sight looks for a tenant's hotels.
type sight struct {
	*fleet
	tenant   string
	tenantOf map[string]string // by property
}

// see decodes an answer; a hotel that is not there shows nothing.
func (s sight) see(node int, c guestCall, into any) bool {
	s.t.Helper()
	c.node = node
	a := s.ask(c)
	if a.status == http.StatusNotFound {
		return false
	}
	if err := json.Unmarshal(a.body, into); err != nil || a.status != http.StatusOK {
		s.t.Fatalf("%s: %v: %.300s", c.path, err, a)
	}
	return true
}

func (s sight) inList(node int, more string) bool {
	s.t.Helper()
	var got struct{ Results []struct{ TenantID string } }
	s.see(node, guestCall{method: http.MethodPost, path: "/search", body: query(`"geo":{` + more + `"mode":"city","city":"Kabul"}`)}, &got)
	return slices.ContainsFunc(got.Results, func(r struct{ TenantID string }) bool { return r.TenantID == s.tenant })
}

func (s sight) onMap(node int, more string) bool {
	s.t.Helper()
	var got struct{ Pins []struct{ PropertyID string } }
	s.see(node, guestCall{method: http.MethodPost, path: "/search/map", body: query(`"geo":{` + more + `"mode":"city","city":"Kabul"}`)}, &got)
	return slices.ContainsFunc(got.Pins, func(p struct{ PropertyID string }) bool { return s.tenantOf[p.PropertyID] == s.tenant })
}

func (s sight) there(node int, hotel string) bool {
	s.t.Helper()
	return s.see(node, hotelCall(hotel), &struct{}{})
}

func (s sight) besides(node int, hotel string) bool {
	s.t.Helper()
	var got struct{ SimilarProperties []struct{ TenantID string } }
	s.see(node, hotelCall(hotel), &got)
	return slices.ContainsFunc(got.SimilarProperties, func(p struct{ TenantID string }) bool { return p.TenantID == s.tenant })
}

// awaitSuspension waits until an instance has the tenant in its own list. What the
// instances share may hide a hotel earlier, so it asks for nights that none of them
// was asked for before: those the instance composes itself.
func (s sight) awaitSuspension(node int, hotel string) {
	s.t.Helper()
	from := time.Date(2078, 1, 1, 0, 0, 0, 0, time.UTC)
	until(s.t, "the suspension to be announced", func() bool {
		from = from.AddDate(0, 0, 1)
		return !s.there(node, fmt.Sprintf("%s/availability?from=%s&to=%s", hotel, from.Format(time.DateOnly), from.AddDate(0, 0, 2).Format(time.DateOnly)))
	})
}

// neighbourOf finds a hotel of another tenant whose page shows one of this
// tenant's; "" if there is none.
func (f *fleet) neighbourOf(hotels []string, tenant string) string {
	f.t.Helper()
	for _, id := range hotels[:min(len(hotels), 5)] {
		var page struct {
			SimilarProperties []struct{ PropertyID, TenantID string }
		}
		if a := f.ask(hotelCall(id)); a.status != http.StatusOK || json.Unmarshal(a.body, &page) != nil {
			continue
		}
		for _, s := range page.SimilarProperties {
			if s.TenantID == tenant {
				continue
			}
			var back struct{ SimilarProperties []struct{ TenantID string } }
			if json.Unmarshal(f.ask(hotelCall(s.PropertyID)).body, &back) != nil {
				continue
			}
			for _, b := range back.SimilarProperties {
				if b.TenantID == tenant {
					return s.PropertyID
				}
			}
		}
	}
	return ""
}

// subscribe makes sure that the subscriptions stand: an event that is published
// before reaches no guest.
func (f *fleet) subscribe() {
	f.t.Helper()
	ctx := testkit.Context(f.t)
	client, err := pubsub.Open(ctx, pubsub.Config{ProjectID: f.PubSubProject, EmulatorHost: f.PubSubHost})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = client.Close() })
	for _, sub := range consumerevents.Subscriptions() {
		if err := client.EnsureSubscription(ctx, sub); err != nil {
			f.t.Fatal(err)
		}
	}
}

// emit reports a change of a tenant as the platform does.
func (f *fleet) emit(topic, tenant string) {
	f.t.Helper()
	payload := fmt.Sprintf(`{"tenantId":%q,"reason":"test"}`, tenant)
	if _, published, err := f.Sim.Emit(testkit.Context(f.t), topic, json.RawMessage(payload)); err != nil || !published {
		f.t.Fatalf("emit %s: %v", topic, err)
	}
}
