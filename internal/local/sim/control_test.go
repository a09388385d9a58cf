package sim

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"

	"melmastoon.ghasi.io/bff"
)

const previewPath = "/pricing/v1/pricing/quotes/preview"

func (w *fixture) previewBody(n int) map[string]any {
	var refs []map[string]string
	for _, p := range w.data.byCity["kabul"][:n] {
		refs = append(refs, map[string]string{"propertyId": p.id, "tenantId": p.tenant.id})
	}
	return map[string]any{
		"properties": refs, "dates": map[string]string{"checkIn": "2026-06-10", "checkOut": "2026-06-13"},
		"occupancy": bff.DefaultOccupancy(), "currency": "USD", "locale": "en",
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	tenantPath := "/tenant/api/v1/tenants/" + w.data.tenants[0].id
	propertyPath := "/property/api/v1/properties/" + w.data.properties[0].id
	status := func(path string) int {
		got, err := w.do(t.Context(), "GET", path, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	fault := func(body string) { w.want(201, "POST", "/_sim/faults", body, nil) }

	fault(`{"upstream":"tenant","errorRate":1}`)
	if status(tenantPath) != 503 || status(propertyPath) != 200 {
		t.Error("errorRate without status is 503, for one upstream")
	}
	fault(`{"upstream":"tenant","status":429}`)
	if status(tenantPath) != 429 || len(w.Faults()) != 1 {
		t.Error("a later fault replaces, and status alone fails every call")
	}
	fault(`{"upstream":"tenant","status":429,"errorRate":0}`)
	if status(tenantPath) != 200 {
		t.Error("errorRate 0 fails nothing")
	}
	fault(`{"upstream":"*","status":502}`)
	if status(tenantPath) != 502 || status(propertyPath) != 502 || len(w.Faults()) != 2 {
		t.Error("* means all")
	}
	w.want(204, "DELETE", "/_sim/faults", nil, nil)
	fault(`{"upstream":"tenant","route":"GET /api/v1/tenants/{tenantId}","status":500}`)
	fault(`{"upstream":"theme-config","route":"/api/v1/tenants/{tenantId}/brand-peek","status":501}`)
	if status(tenantPath) != 500 || status(tenantPath+"/operators/none") != 404 ||
		status("/theme-config/api/v1/tenants/"+w.data.tenants[0].id+"/brand-peek") != 501 {
		t.Error("a route narrows the fault")
	}
	var list struct{ Faults []Fault }
	w.want(200, "GET", "/_sim/faults", nil, &list)
	if len(list.Faults) != 2 || list.Faults[0].Status != 500 {
		t.Errorf("%+v", list)
	}
	w.ClearFaults()

	fault(`{"upstream":"tenant","garbage":true}`)
	var v any
	if got, err := w.do(t.Context(), "GET", tenantPath, nil, &v); got != 200 || err == nil {
		t.Errorf("garbage: %d %v", got, err)
	}
	fault(`{"upstream":"tenant","errorRate":0.3}`)
	failed := 0
	for range 300 {
		if status(tenantPath) == 503 {
			failed++
		}
	}
	if failed < 50 || failed > 140 {
		t.Errorf("errorRate 0.3 failed %d of 300", failed)
	}
}

func TestFaultsRefused(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for body, want := range map[string]string{
		`{}`:                  "upstream",
		`{"upstream":"moon"}`: "upstream",
		`{"upstream":"iam","route":"GET /nowhere"}`:        "route",
		`{"upstream":"iam","latencyMs":-1}`:                "latencyMs",
		`{"upstream":"iam","jitterMs":99999999}`:           "jitterMs",
		`{"upstream":"iam","errorRate":2}`:                 "errorRate",
		`{"upstream":"iam","status":200}`:                  "status",
		`{"upstream":"iam","hang":"yes"}`:                  "hang",
		`{"upstream":"iam","latency":3}`:                   "latency",
		`{"upstream":"iam"} {"upstream":"iam"}`:            "body",
		`not json`:                                         "body",
		`{"upstream":"*","route":"GET /api/v1/nowhere/x"}`: "route",
	} {
		var p problem
		w.want(400, "POST", "/_sim/faults", body, &p)
		if !slices.Contains(p.fields(), want) {
			t.Errorf("%s: %v", body, p.fields())
		}
	}
}

type recorder struct {
	mu     sync.Mutex
	topic  string
	key    string
	event  bff.Event
	refuse error
}

func (r *recorder) Publish(_ context.Context, topic string, data []byte, orderingKey string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.topic, r.key = topic, orderingKey
	if err := json.Unmarshal(data, &r.event); err != nil {
		return err
	}
	return r.refuse
}

func TestEvents(t *testing.T) {
	t.Parallel()
	rec := &recorder{}
	w := newFixture(t, func(c *Config) { c.Publisher = rec })
	p := w.data.properties[0]
	var out struct {
		EventID   string
		Published bool
	}
	const topic = "melmastoon.search_aggregation.listing.indexed.v1"
	before := w.rating(p)
	w.want(202, "POST", "/_sim/events", map[string]any{
		"topic": topic, "payload": map[string]string{"tenantId": p.tenant.id, "propertyId": p.id, "geoCell": p.cell},
	}, &out)
	env := rec.event.Envelope
	if rec.topic != topic || rec.key != p.tenant.id || !out.Published || env.EventID != out.EventID ||
		env.Subject != topic || env.Producer != "upstream-sim" || env.Version != 1 || !env.OccurredAt.Equal(testNow) {
		t.Errorf("%+v %+v", out, rec)
	}
	if _, err := bff.ParseID(bff.PrefixEvent, out.EventID); err != nil {
		t.Error(err)
	}
	if got := w.listing(p, ""); got.GuestRating.Count != before.Count+1 {
		t.Error("an indexed listing looks as before")
	}

	peek := "/theme-config/api/v1/tenants/" + p.tenant.id + "/brand-peek"
	var was, is BrandPeek
	w.want(200, "GET", peek, nil, &was)
	version := bff.NewID(bff.PrefixThemeVersion, testNow).String()
	w.want(202, "POST", "/_sim/events", map[string]any{
		"topic": "melmastoon.theme.published.v1", "payload": map[string]string{"tenantId": p.tenant.id, "publishedVersion": version},
	}, nil)
	w.want(200, "GET", peek, nil, &is)
	if is.PublishedVersion != version || is.PrimaryColor == was.PrimaryColor {
		t.Errorf("%+v then %+v", was, is)
	}

	for body, want := range map[string]string{
		`{"payload":{}}`:                                       "topic",
		`{"topic":"x","payload":{}}`:                           "topic",
		`{"topic":"melmastoon.a.v1"}`:                          "payload",
		`{"topic":"melmastoon.a.v1","payload":[1]}`:            "payload",
		`{"topic":"melmastoon.a.v1","payload":{"tenantId":1}}`: "payload.tenantId",
		`{"topic":"melmastoon.a.v1","payload":{},"more":1}`:    "more",
	} {
		var pr problem
		w.want(400, "POST", "/_sim/events", body, &pr)
		if !slices.Contains(pr.fields(), want) {
			t.Errorf("%s: %v", body, pr.fields())
		}
	}
	rec.refuse = errors.New("no broker")
	w.want(502, "POST", "/_sim/events", `{"topic":"melmastoon.a.v1","payload":{}}`, nil)
}

func TestPreview(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	type answer struct {
		Quotes  []Quote
		Missing []string
	}
	var out answer
	body := w.previewBody(50)
	body["calendarDays"] = 7
	w.want(200, "POST", previewPath, body, &out)
	if len(out.Quotes)+len(out.Missing) != 50 || len(out.Quotes) < 30 {
		t.Fatalf("%d quotes, %d missing", len(out.Quotes), len(out.Missing))
	}
	for _, q := range out.Quotes {
		night, err1 := bff.ParseMicros(q.CheapestNightly)
		total, err2 := bff.ParseMicros(q.TotalForStay)
		if err1 != nil || err2 != nil || total.Minor < 3*night.Minor || night.Currency != bff.USD {
			t.Errorf("%+v", q)
		}
		if q.CurrencyDisplayPolicy != "user-preferred" || q.FxSnapshotID == "" || len(q.Calendar) == 0 || len(q.Calendar) > 7 {
			t.Errorf("%+v", q)
		}
	}
	// A price that search filters and sorts by is the price that pricing quotes.
	q := kabulQuery()
	q.SortKey = "price-asc"
	hits := w.find(&q, testNow)[:50]
	refs := []map[string]string{{"propertyId": "ppt_none", "tenantId": "tnt_none"}}
	for _, h := range hits[:49] {
		refs = append(refs, map[string]string{"propertyId": h.id, "tenantId": h.tenant.id})
	}
	body["properties"], body["dates"], body["currency"] = refs, q.Dates, "AFN"
	out = answer{}
	w.want(200, "POST", previewPath, body, &out)
	if len(out.Quotes) != 49 || len(out.Missing) != 1 {
		t.Fatalf("%d quotes, missing %v", len(out.Quotes), out.Missing)
	}
	for i, qt := range out.Quotes {
		if qt.CheapestNightly != micros(convert(hits[i].cents, bff.AFN)) || qt.CurrencyDisplayPolicy != "tenant" || qt.FxSnapshotID != "" {
			t.Errorf("%+v, want %d cents", qt, hits[i].cents)
		}
	}
	wrong := w.previewBody(1)
	wrong["properties"] = []map[string]string{{"propertyId": hits[0].id, "tenantId": w.data.tenants[0].id}}
	out = answer{}
	w.want(200, "POST", previewPath, wrong, &out)
	if len(out.Quotes) != 0 {
		t.Error("quoted another tenant's house")
	}
	w.want(400, "POST", previewPath, w.previewBody(51), nil)
}
