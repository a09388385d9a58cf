package sim

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
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
	if status := w.send(http.MethodGet, path, asking(upstream, p.tenant), out); status != 200 {
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
		if status := w.send("GET", "/reservation/api/v1/properties/"+p.id+"/arrivals?date="+date, own, nil); status != 400 {
			t.Errorf("%s: %d", date, status)
		}
	}
	if status := w.send("GET", "/inventory/api/v1/properties/"+p.id+"/occupancy?from=1970-01-01&to=1970-01-02", own, nil); status != 400 {
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
			if got := w.send("GET", path, test.header, nil); got != test.want {
				t.Errorf("%s, %s: %d, want %d", upstream, name, got, test.want)
			}
		}
	}
}

// send calls a route with headers and decodes its answer into out, if there is
// one.
func (w *fixture) send(method, path string, header map[string]string, out any) int {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, http.NoBody)
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
