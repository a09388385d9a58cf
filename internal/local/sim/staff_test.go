package sim

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"melmastoon.ghasi.io/bff"
)

// busy is a house with a fast lock vendor. All houses have guests.
func busy(t *testing.T, w *fixture) *property {
	t.Helper()
	for _, p := range w.data.byCity["kabul"] {
		if p.rooms > 20 && p.seed%3 != 2 {
			return p
		}
	}
	t.Fatal("no such house")
	return nil
}

// asking are the headers with which a tenant's staff ask a service.
func asking(upstream string, t *tenant) map[string]string {
	d := dialectOf(upstream)
	return map[string]string{d.tenant: d.id(t.id)}
}

// staffGet reads a route of a staff service as the house's tenant.
func (w *fixture) staffGet(p *property, upstream, path string, out any) {
	w.t.Helper()
	d := dialectOf(upstream)
	path = "/" + upstream + strings.NewReplacer("{p}", d.id(p.id), "{t}", d.id(p.tenant.id)).Replace(path)
	if status := w.send(http.MethodGet, path, nil, asking(upstream, p.tenant), out); status != 200 {
		w.t.Fatalf("GET %s: status %d", path, status)
	}
}

func TestStaffReadsAnswer(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	p := busy(t, w)
	for _, read := range [][2]string{
		{"reservation", "/api/v1/properties/{p}/arrivals"},
		{"reservation", "/api/v1/properties/{p}/departures?date=2026-05-05"},
		{"reservation", "/api/v1/properties/{p}/in-house"},
		{"inventory", "/api/v1/properties/{p}/rooms"},
		{"inventory", "/api/v1/properties/{p}/occupancy?from=2026-05-04&to=2026-05-11"},
		{"housekeeping", "/api/v1/properties/{p}/tasks"},
		{"maintenance", "/api/v1/properties/{p}/work-orders"},
		{"maintenance", "/api/v1/properties/{p}/blocked-rooms"},
		{"billing", "/api/v1/properties/{p}/folios"},
		{"lock", "/api/v1/properties/{p}/failures"},
		{"ai-orchestrator", "/api/v1/tenants/{t}/suggestions"},
		{"notification", "/api/v1/tenants/{t}/alerts?status=open"},
		{"staff", "/api/v1/properties/{p}/shifts"},
		{"sync", "/api/v1/properties/{p}/devices"},
		{"pricing", "/v1/pricing/properties/{p}/rates"},
		{"property", "/api/v1/properties/{p}/notes"},
	} {
		var first, second struct {
			Items []json.RawMessage
			Total *int
		}
		w.staffGet(p, read[0], read[1], &first)
		w.staffGet(p, read[0], read[1], &second)
		if first.Items == nil || first.Total == nil || *first.Total != len(first.Items) {
			t.Errorf("%v: %+v", read, first)
		}
		if !slices.EqualFunc(first.Items, second.Items, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			t.Errorf("%v: differs from one call to the next", read)
		}
	}
	for _, read := range [][2]string{
		{"reservation", "/api/v1/properties/{p}/summary"},
		{"housekeeping", "/api/v1/properties/{p}/progress"},
		{"housekeeping", "/api/v1/properties/{p}/linen"},
		{"billing", "/api/v1/properties/{p}/cash-drawer"},
		{"analytics", "/api/v1/properties/{p}/kpis"},
		{"ai-orchestrator", "/api/v1/properties/{p}/acceptance"},
	} {
		var out map[string]any
		w.staffGet(p, read[0], read[1], &out)
		if out["propertyId"] != dialectOf(read[0]).id(p.id) {
			t.Errorf("%v: %v", read, out)
		}
	}
	own := asking("reservation", p.tenant)
	for _, date := range []string{"1970-01-01", "2149-01-01", "soon"} {
		if status := w.send("GET", "/reservation/api/v1/properties/"+p.id+"/arrivals?date="+date, nil, own, nil); status != 400 {
			t.Errorf("%s: %d", date, status)
		}
	}
	if status := w.send("GET", "/inventory/api/v1/properties/"+p.id+"/occupancy?from=1970-01-01&to=1970-01-02", nil, own, nil); status != 400 {
		t.Errorf("occupancy of 1970: %d", status)
	}
	for _, name := range Upstreams() { // every name can be counted and failed
		if err := w.SetFault(Fault{Upstream: name, LatencyMs: 1}); err != nil {
			t.Error(err)
		}
	}
}

// A service tells a tenant nothing of another, and nothing to a caller that does
// not say who asks, in the service's own words.
func TestStaffServicesKnowTheirCaller(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	p := busy(t, w)
	other := slices.IndexFunc(w.data.tenants, func(t *tenant) bool { return t != p.tenant })
	for _, upstream := range []string{"reservation", "billing", "maintenance", "lock", "analytics", "sync", "housekeeping", "inventory", "staff", "property"} {
		d := dialectOf(upstream)
		path := map[string]string{
			"reservation": "arrivals", "billing": "folios", "maintenance": "work-orders", "lock": "failures", "analytics": "kpis",
			"sync": "devices", "housekeeping": "tasks", "inventory": "rooms", "staff": "shifts", "property": "notes",
		}[upstream]
		path = "/" + upstream + "/api/v1/properties/" + d.id(p.id) + "/" + path
		for name, test := range map[string]struct {
			header map[string]string
			want   int
		}{
			"its tenant":     {asking(upstream, p.tenant), 200},
			"another tenant": {asking(upstream, w.data.tenants[other]), 404},
			"no tenant":      {nil, 400},
		} {
			if got := w.send("GET", path, nil, test.header, nil); got != test.want {
				t.Errorf("%s, %s: %d, want %d", upstream, name, got, test.want)
			}
		}
	}
}

// send calls a route with headers and decodes its answer into out, if there is
// one.
func (w *fixture) send(method, path string, body any, header map[string]string, out any) int {
	w.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, bytes.NewReader(b))
	if err != nil {
		w.t.Fatal(err)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	res, err := w.web.Do(req)
	if err != nil {
		w.t.Error(err)
		return 0
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Error(err)
	}
	switch out := out.(type) {
	case nil:
	case *string:
		*out = string(answer)
	case *http.Header:
		*out = res.Header
	default:
		if err := json.Unmarshal(answer, out); err != nil {
			w.t.Errorf("%s %s: %v in %s", method, path, err, answer)
		}
	}
	return res.StatusCode
}

// post calls a mutation with headers.
func (w *fixture) post(path string, body any, header map[string]string) (int, string) {
	w.t.Helper()
	var out string
	status := w.send(http.MethodPost, path, body, header, &out)
	return status, out
}

func TestStayFromArrivalToDeparture(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	p := busy(t, w)
	var list struct{ Items []Reservation }
	w.staffGet(p, "reservation", "/api/v1/properties/{p}/arrivals", &list)
	res := list.Items[0]
	base := "/reservation/api/v1/reservations/" + res.ReservationID
	var got Reservation
	w.staffGet(p, "reservation", "/api/v1/reservations/"+res.ReservationID, &got)
	if diff := cmp.Diff(res, got, cmpopts.IgnoreUnexported(Reservation{})); diff != "" {
		t.Errorf("listed as (-) but is (+)\n%s", diff)
	}
	own := asking("reservation", p.tenant)
	if status, _ := w.post(base+"/check-out", nil, own); status != 409 {
		t.Errorf("check-out before check-in: %d", status)
	}
	other := map[string]string{"X-Tenant-Id": w.data.tenants[0].id}
	if status, _ := w.post(base+"/check-in", nil, other); status != 404 {
		t.Errorf("another tenant's check-in: %d", status)
	}
	keyed := map[string]string{"X-Tenant-Id": p.tenant.id, "Idempotency-Key": "01H8YN7QV4D8KZ4F8Y5CK4MV3A"}
	status, first := w.post(base+"/check-in", nil, keyed)
	again, second := w.post(base+"/check-in", nil, keyed)
	if status != 200 || again != 200 || first != second {
		t.Errorf("check-in: %d %s, again %d %s", status, first, again, second)
	}
	keys, locksmith := "/lock/api/v1/reservations/"+dialectOf("lock").id(res.ReservationID)+"/keys/", asking("lock", p.tenant)
	for _, step := range []struct {
		action string
		want   int
	}{{"revoke", 409}, {"issue", 200}, {"issue", 409}, {"extend", 200}, {"rebind", 200}, {"revoke", 200}, {"extend", 409}, {"issue", 200}} {
		if status, body := w.post(keys+step.action, nil, locksmith); status != step.want {
			t.Errorf("%s: %d %s", step.action, status, body)
		}
	}
	if status, _ := w.post(base+"/check-out", nil, own); status != 200 {
		t.Errorf("check-out: %d", status)
	}
	if status := w.send("GET", "/reservation/api/v1/reservations/"+bff.NewID(bff.PrefixReservation, testNow).String(), nil, own, nil); status != 404 {
		t.Errorf("a reservation that is none: %d", status)
	}
}

func TestChargeOncePerKey(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	p := busy(t, w)
	var list struct{ Items []Folio }
	w.staffGet(p, "billing", "/api/v1/properties/{p}/folios", &list)
	before := list.Items[0]
	path := "/billing/api/v1/folios/" + before.FolioID
	charge := map[string]any{"amount": Minor{15000, p.country.currency}, "description": "dinner"}
	own, keyed := asking("billing", p.tenant), asking("billing", p.tenant)
	keyed["X-Idempotency-Key"] = "01H8YN7QV4D8KZ4F8Y5CK4MV3A"
	if status, _ := w.post(path+"/charges", charge, keyed); status != 400 {
		t.Errorf("a ULID where billing wants a UUID: %d", status)
	}
	keyed["X-Idempotency-Key"] = "018a3d53-5f64-6a27-f23d-0564c84a6c6a"
	var wg sync.WaitGroup
	answers := make([]string, 20)
	for i := range answers {
		wg.Go(func() {
			status, body := w.post(path+"/charges", charge, keyed)
			if status != 201 {
				t.Errorf("%d %s", status, body)
			}
			answers[i] = body
		})
	}
	wg.Wait()
	if len(slices.Compact(answers)) != 1 {
		t.Error("one key, several answers")
	}
	var after Folio
	w.staffGet(p, "billing", "/api/v1/folios/"+before.FolioID, &after)
	if after.Balance.AmountMinor != before.Balance.AmountMinor+15000 {
		t.Errorf("balance %v, then %v", before.Balance, after.Balance)
	}
	if status, _ := w.post(path+"/refunds", charge, own); status != 201 {
		t.Errorf("refund: %d", status)
	}
	for _, amount := range []any{Minor{0, "AFN"}, Minor{-1, "AFN"}, Minor{100, "USD"}, "100000000:AFN"} {
		if status, _ := w.post(path+"/charges", map[string]any{"amount": amount}, own); status != 400 {
			t.Errorf("%v: %d", amount, status)
		}
	}
}

func TestTasksAndInboxes(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	p := busy(t, w)
	own := asking("housekeeping", p.tenant)
	var tasks struct{ Items []Task }
	w.staffGet(p, "housekeeping", "/api/v1/properties/{p}/tasks", &tasks)
	i := slices.IndexFunc(tasks.Items, func(t Task) bool { return t.Status == "pending" })
	base := "/housekeeping/api/v1/tasks/" + tasks.Items[i].TaskID
	for _, step := range []struct {
		move string
		want int
	}{{"inspect", 409}, {"start", 200}, {"complete", 200}, {"inspect", 200}, {"dance", 404}} {
		if status, body := w.post(base+"/"+step.move, nil, own); status != step.want {
			t.Errorf("%s: %d %s", step.move, status, body)
		}
	}
	w.staffGet(p, "housekeeping", "/api/v1/properties/{p}/tasks", &tasks)
	if tasks.Items[i].Status != "inspected" || tasks.Items[i].Version != 4 {
		t.Errorf("%+v", tasks.Items[i])
	}

	d := dialectOf("maintenance")
	own = asking("maintenance", p.tenant)
	status, body := w.post("/maintenance/api/v1/work-orders", map[string]any{"propertyId": d.id(p.id), "title": "Lamp", "severity": "low"}, own)
	var order WorkOrder
	if err := json.Unmarshal([]byte(body), &order); err != nil || status != 201 {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := w.post("/maintenance/api/v1/work-orders/"+order.WorkOrderID+"/resolve", nil, own); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	var orders struct{ Items []WorkOrder }
	w.staffGet(p, "maintenance", "/api/v1/properties/{p}/work-orders?status=resolved", &orders)
	if !slices.ContainsFunc(orders.Items, func(o WorkOrder) bool { return o.WorkOrderID == order.WorkOrderID }) {
		t.Error("the resolved work order is not listed")
	}

	chain := slices.MaxFunc(w.data.tenants, func(a, b *tenant) int { return len(a.properties) - len(b.properties) })
	p = chain.properties[0]
	var advice struct{ Items []Suggestion }
	w.staffGet(p, "ai-orchestrator", "/api/v1/tenants/{t}/suggestions", &advice)
	hear := func(topic string, payload map[string]string) error {
		b, err := json.Marshal(payload)
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(bff.Event{Envelope: bff.Envelope{TenantID: &chain.id}, Payload: b})
		if err != nil {
			t.Fatal(err)
		}
		return w.Hear(topic, data)
	}
	if err := w.SetFault(Fault{Upstream: "ai-orchestrator", Status: 503}); err != nil {
		t.Fatal(err)
	}
	if hear(TopicDecided, map[string]string{"suggestionId": advice.Items[0].SuggestionID, "outcome": "rejected"}) == nil {
		t.Error("an orchestrator that is away has heard a decision")
	}
	w.ClearFaults()
	for _, step := range []struct {
		outcome string
		want    bool
	}{{"maybe", false}, {"accepted", true}, {"accepted", true}, {"rejected", true}} { // the first counts
		err := hear(TopicDecided, map[string]string{"suggestionId": advice.Items[0].SuggestionID, "outcome": step.outcome})
		if (err == nil) != step.want {
			t.Errorf("%s: %v", step.outcome, err)
		}
	}
	var decided Suggestion
	w.staffGet(p, "ai-orchestrator", "/api/v1/suggestions/"+advice.Items[0].SuggestionID, &decided)
	if decided.Status != "accepted" {
		t.Errorf("%+v", decided)
	}
	var alerts struct{ Items []Alert }
	w.staffGet(p, "notification", "/api/v1/tenants/{t}/alerts?status=open", &alerts)
	alert := alerts.Items[0]
	if err := hear(TopicAcknowledged, map[string]string{"alertId": alert.AlertID}); err != nil {
		t.Error(err)
	}
	w.staffGet(p, "notification", "/api/v1/alerts/"+alert.AlertID, &alert)
	if alert.Status != "acknowledged" {
		t.Errorf("%+v", alert)
	}

	device := "/sync/api/v1/devices/" + bff.MustParseID(bff.PrefixDevice, "dev_01H8YN7QV4D8KZ4F8Y5CK4MV3D").UUID() + "/cursor"
	own = asking("sync", chain)
	var cur cursor
	w.send("GET", device, nil, own, &cur)
	if status := w.send("POST", device, map[string]any{
		"expectedVersion": cur.CursorVersion, "pullCursor": "c7",
	}, own, &cur); status != 200 || cur.PullCursor != "c7" || cur.CursorVersion != 2 {
		t.Errorf("%d %+v", status, cur)
	}
	if status := w.send("POST", device, map[string]any{"expectedVersion": 1}, own, nil); status != 409 {
		t.Errorf("an old version: %d", status)
	}
	w.send("GET", device, nil, asking("sync", w.data.tenants[0]), &cur)
	if w.data.tenants[0] != chain && cur.CursorVersion != 1 {
		t.Errorf("another tenant's cursor: %+v", cur)
	}
}
