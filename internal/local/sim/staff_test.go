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

	"melmastoon.ghasi.io/bff"
)

// busy is a large house with guests in it today.
func busy(t *testing.T, w *fixture) *property {
	t.Helper()
	today := bff.DateOf(testNow)
	for _, p := range w.data.byCity["kabul"] {
		arriving := w.stays(p, today, today, func(r Reservation) bool { return r.CheckIn == today && r.Status == "confirmed" })
		if len(arriving) > 0 && len(w.inHouse(p, today, today)) > 3 && p.seed%3 != 2 {
			return p
		}
	}
	t.Fatal("every house is empty")
	return nil
}

func TestStaffReadsAnswer(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	p := busy(t, w)
	for _, path := range []string{
		"/reservation/api/v1/properties/{p}/arrivals", "/reservation/api/v1/properties/{p}/departures?date=2026-05-05",
		"/reservation/api/v1/properties/{p}/in-house", "/inventory/api/v1/properties/{p}/rooms",
		"/inventory/api/v1/properties/{p}/occupancy?from=2026-05-04&to=2026-05-11", "/housekeeping/api/v1/properties/{p}/tasks",
		"/maintenance/api/v1/properties/{p}/work-orders", "/billing/api/v1/properties/{p}/folios",
		"/lock/api/v1/properties/{p}/failures", "/ai-orchestrator/api/v1/tenants/{t}/suggestions",
		"/notification/api/v1/tenants/{t}/alerts?status=open", "/staff/api/v1/properties/{p}/shifts", "/sync/api/v1/properties/{p}/devices",
	} {
		path = strings.NewReplacer("{p}", p.id, "{t}", p.tenant.id).Replace(path)
		var first, second struct {
			Items []json.RawMessage
			Total *int
		}
		w.want(200, "GET", path, nil, &first)
		w.want(200, "GET", path, nil, &second)
		if first.Items == nil || first.Total == nil || *first.Total != len(first.Items) {
			t.Errorf("%s: %+v", path, first)
		}
		if !slices.EqualFunc(first.Items, second.Items, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			t.Errorf("%s: differs from one call to the next", path)
		}
	}
	for _, path := range []string{"/billing/api/v1/properties/{p}/cash-drawer", "/analytics/api/v1/properties/{p}/kpis"} {
		var out map[string]any
		w.want(200, "GET", strings.ReplaceAll(path, "{p}", p.id), nil, &out)
		if out["propertyId"] != p.id {
			t.Errorf("%s: %v", path, out)
		}
	}
	for _, date := range []string{"1970-01-01", "2149-01-01", "soon"} {
		w.want(400, "GET", "/reservation/api/v1/properties/"+p.id+"/arrivals?date="+date, nil, nil)
	}
	w.want(400, "GET", "/inventory/api/v1/properties/"+p.id+"/occupancy?from=1970-01-01&to=1970-01-02", nil, nil)
	for _, name := range Upstreams() { // every name can be counted and failed
		if err := w.SetFault(Fault{Upstream: name, LatencyMs: 1}); err != nil {
			t.Error(err)
		}
	}
}

// post calls a mutation with headers.
func (w *fixture) post(path string, body any, header map[string]string) (int, string) {
	w.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url+path, bytes.NewReader(b))
	if err != nil {
		w.t.Fatal(err)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	res, err := w.web.Do(req)
	if err != nil {
		w.t.Error(err)
		return 0, ""
	}
	defer func() { _ = res.Body.Close() }()
	out, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Error(err)
	}
	return res.StatusCode, string(out)
}

func TestStayFromArrivalToDeparture(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	p := busy(t, w)
	var list struct{ Items []Reservation }
	w.want(200, "GET", "/reservation/api/v1/properties/"+p.id+"/arrivals", nil, &list)
	i := slices.IndexFunc(list.Items, func(r Reservation) bool { return r.Status == "confirmed" })
	res := list.Items[i]
	base := "/reservation/api/v1/reservations/" + res.ReservationID
	var got Reservation
	w.want(200, "GET", base, nil, &got)
	if got != res {
		t.Errorf("%+v, listed as %+v", got, res)
	}
	if status, _ := w.post(base+"/check-out", nil, nil); status != 409 {
		t.Errorf("check-out before check-in: %d", status)
	}
	other := map[string]string{"X-Tenant-Id": w.data.tenants[0].id}
	if status, _ := w.post(base+"/check-in", nil, other); status != 404 {
		t.Errorf("another tenant's check-in: %d", status)
	}
	own := map[string]string{"X-Tenant-Id": p.tenant.id, "Idempotency-Key": "k1"}
	status, first := w.post(base+"/check-in", nil, own)
	again, second := w.post(base+"/check-in", nil, own)
	if status != 200 || again != 200 || first != second {
		t.Errorf("check-in: %d %s, again %d %s", status, first, again, second)
	}
	keys := "/lock/api/v1/reservations/" + res.ReservationID + "/keys/"
	for _, step := range []struct {
		action string
		want   int
	}{{"revoke", 409}, {"issue", 200}, {"issue", 409}, {"extend", 200}, {"rebind", 200}, {"revoke", 200}, {"extend", 409}, {"issue", 200}} {
		if status, body := w.post(keys+step.action, nil, nil); status != step.want {
			t.Errorf("%s: %d %s", step.action, status, body)
		}
	}
	if status, _ := w.post(base+"/check-out", nil, nil); status != 200 {
		t.Errorf("check-out: %d", status)
	}
	w.want(404, "GET", "/reservation/api/v1/reservations/"+bff.NewID(bff.PrefixReservation, testNow).String(), nil, nil)
}

func TestChargeOncePerKey(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	p := busy(t, w)
	today := bff.DateOf(testNow)
	res := w.inHouse(p, today, today)[0]
	before, err := bff.ParseMicros(res.BalanceDue)
	if err != nil {
		t.Fatal(err)
	}
	path := "/billing/api/v1/folios/" + res.FolioID
	charge := map[string]string{"amount": "150000000:AFN", "description": "dinner"}
	var wg sync.WaitGroup
	answers := make([]string, 20)
	for i := range answers {
		wg.Go(func() {
			status, body := w.post(path+"/charges", charge, map[string]string{"Idempotency-Key": "dinner"})
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
	var got Reservation
	w.want(200, "GET", "/reservation/api/v1/reservations/"+res.ReservationID, nil, &got)
	after, err := bff.ParseMicros(got.BalanceDue)
	if err != nil || after.Minor != before.Minor+15000 {
		t.Errorf("balance %v, then %v (%v)", before, after, err)
	}
	if status, _ := w.post(path+"/refunds", charge, nil); status != 201 {
		t.Errorf("refund: %d", status)
	}
	for _, amount := range []string{"1:AFN", "-10000:AFN", "10000:USD", "x"} {
		if status, _ := w.post(path+"/charges", map[string]string{"amount": amount}, nil); status != 400 {
			t.Errorf("%s: %d", amount, status)
		}
	}
}

func TestTasksAndInboxes(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	p := busy(t, w)
	var tasks struct{ Items []Task }
	w.want(200, "GET", "/housekeeping/api/v1/properties/"+p.id+"/tasks", nil, &tasks)
	i := slices.IndexFunc(tasks.Items, func(t Task) bool { return t.Status == "pending" })
	base := "/housekeeping/api/v1/tasks/" + tasks.Items[i].TaskID
	for _, step := range []struct {
		move string
		want int
	}{{"inspect", 409}, {"start", 200}, {"complete", 200}, {"inspect", 200}, {"dance", 404}} {
		if status, body := w.post(base+"/"+step.move, nil, nil); status != step.want {
			t.Errorf("%s: %d %s", step.move, status, body)
		}
	}
	w.want(200, "GET", "/housekeeping/api/v1/properties/"+p.id+"/tasks", nil, &tasks)
	if tasks.Items[i].Status != "inspected" || tasks.Items[i].Version != 4 {
		t.Errorf("%+v", tasks.Items[i])
	}

	status, body := w.post("/maintenance/api/v1/work-orders", map[string]any{"propertyId": p.id, "title": "Lamp", "severity": "low"}, nil)
	var order WorkOrder
	if err := json.Unmarshal([]byte(body), &order); err != nil || status != 201 {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := w.post("/maintenance/api/v1/work-orders/"+order.WorkOrderID+"/resolve", nil, nil); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	var orders struct{ Items []WorkOrder }
	w.want(200, "GET", "/maintenance/api/v1/properties/"+p.id+"/work-orders?status=resolved", nil, &orders)
	if !slices.ContainsFunc(orders.Items, func(o WorkOrder) bool { return o.WorkOrderID == order.WorkOrderID }) {
		t.Error("the resolved work order is not listed")
	}

	chain := slices.MaxFunc(w.data.tenants, func(a, b *tenant) int { return len(a.properties) - len(b.properties) })
	var advice struct{ Items []Suggestion }
	w.want(200, "GET", "/ai-orchestrator/api/v1/tenants/"+chain.id+"/suggestions?status=open", nil, &advice)
	decision := "/ai-orchestrator/api/v1/suggestions/" + advice.Items[0].SuggestionID + "/decisions"
	for _, step := range []struct {
		outcome string
		want    int
	}{{"maybe", 400}, {"accepted", 202}, {"accepted", 202}, {"rejected", 409}} {
		if status, body := w.post(decision, map[string]string{"outcome": step.outcome}, nil); status != step.want {
			t.Errorf("%s: %d %s", step.outcome, status, body)
		}
	}
	var alerts struct{ Items []Alert }
	w.want(200, "GET", "/notification/api/v1/tenants/"+chain.id+"/alerts", nil, &alerts)
	alert := alerts.Items[0]
	if status, _ := w.post("/notification/api/v1/alerts/"+alert.AlertID+"/acknowledge", nil, nil); status != 200 {
		t.Errorf("acknowledge: %d", status)
	}
	w.want(200, "GET", "/notification/api/v1/alerts/"+alert.AlertID, nil, &alert)
	if alert.Status != "acknowledged" {
		t.Errorf("%+v", alert)
	}

	const device = "/sync/api/v1/devices/dev_01H8YN7QV4D8KZ4F8Y5CK4MV3D/cursor"
	var cur cursor
	w.want(200, "GET", device, nil, &cur)
	w.want(200, "POST", device, map[string]any{"expectedVersion": cur.CursorVersion, "pullCursor": "c7"}, &cur)
	if cur.PullCursor != "c7" || cur.CursorVersion != 2 {
		t.Errorf("%+v", cur)
	}
	w.want(409, "POST", device, map[string]any{"expectedVersion": 1}, nil)
}
