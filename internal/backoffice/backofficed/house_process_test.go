package backofficed

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// boards are the paths of dashboard and workbench.
func boards() []string {
	return []string{"/dashboard", "/today", "/arrivals", "/departures", "/in-house", "/housekeeping/board", "/maintenance/board"}
}

// widgetLine is a widget in either form of a dashboard.
type widgetLine struct {
	WidgetID            board.WidgetID
	Status              board.WidgetStatus
	Shell, End, Partial bool
}

// sim calls the simulator.
func (s *staff) sim(method, path, body string, header http.Header) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(testkit.Context(s.t), method, s.SimURL+path, bytes.NewReader([]byte(body)))
	if err != nil {
		s.t.Fatal(err)
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Content-Type", "application/json")
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	out, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= http.StatusMultipleChoices {
		s.t.Fatalf("%s %s: %d %s %v", method, path, res.StatusCode, out, err)
	}
}

// A morning at the front desk, over the simulator: the dashboard comes although one
// upstream hangs, is whole once that has recovered, and a guest who is checked in
// leaves the arrivals for the house.
func TestFrontDesk(t *testing.T) {
	t.Parallel()
	s := &staff{t: t, World: testkit.NewWorld(t, nil)}
	p := s.Start("bff-backoffice", map[string]string{"BFF_BACKOFFICE_LIMITS": "off"})
	d, ctx := s.newDesk(p, nil), testkit.Context(t)
	s.signIn(d, "parwana")
	w := s.whoAmI(d)
	of := "?propertyId=" + w.PropertyScope[0]

	s.sim(http.MethodPost, "/_sim/faults", `{"upstream":"lock","hang":true}`, nil)
	res, err := d.Send(ctx, desk.Call{Method: http.MethodGet, Path: "/dashboard" + of, Header: http.Header{"Accept": {"application/x-ndjson"}}})
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(res.Body)
	seen := map[board.WidgetID]board.WidgetStatus{}
	for n := 0; lines.Scan(); n++ {
		var l widgetLine
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil || l.Shell != (n == 0) {
			t.Fatalf("line %d: %s, %v", n, lines.Bytes(), err)
		}
		if l.End && !l.Partial {
			t.Error("lock hangs, and the dashboard is said to be whole")
		}
		seen[l.WidgetID] = l.Status
	}
	_ = res.Body.Close()
	if len(seen) != len(board.Widgets())+1 || seen["lock-failures"] == board.WidgetOK || seen["adr"] != board.WidgetForbidden {
		t.Errorf("%d widgets: %v", len(seen), seen)
	}

	s.sim(http.MethodDelete, "/_sim/faults", "", nil)
	late := map[board.WidgetID]bool{} // a busy machine may miss deadlines for a while, and not of all at once
	for _, w := range board.Widgets() {
		late[w.ID] = true
	}
	testkit.Retry(t, "every widget within the budgets of upstreams", func() bool {
		var doc struct {
			Partial bool
			Widgets []widgetLine
		}
		if err := s.do(d, http.StatusOK, http.MethodGet, "/dashboard"+of, nil).Into(&doc); err != nil {
			t.Fatal(err)
		}
		whole := true
		for _, l := range doc.Widgets {
			if l.Status == board.WidgetOK || l.Status == board.WidgetForbidden {
				delete(late, l.WidgetID)
			} else {
				whole = false
			}
		}
		if doc.Partial == whole {
			t.Errorf("partial is %v: %+v", doc.Partial, doc.Widgets)
		}
		return len(late) == 0
	})

	guest := s.arrival(d, of, "confirmed", "")
	s.sim(http.MethodPost, "/reservation/api/v1/reservations/"+guest+"/check-in", "{}", http.Header{"X-Tenant-Id": {w.TenantID}})
	if s.arrival(d, of, "checked_in", guest) != guest {
		t.Error("another guest was checked in")
	}
	testkit.Until(t, "the guest is in the house", func() bool {
		var v struct{ Items []board.Stay }
		if err := s.viewed(d, "/in-house"+of).Into(&v); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(v.Items, func(g board.Stay) bool { return g.ReservationID == guest })
	})
	for _, path := range boards() {
		if path != "/dashboard" {
			s.viewed(d, path+of)
		}
	}
	s.patiently(d, http.StatusNotFound, "/today?propertyId=ppt_01JXG9KMGRC638MD0V7C0ZPD0Y")
	s.inboxesApart(d, of)
}

// inboxesApart has the source of one inbox hang, which was not asked yet: what the other
// routes of an operator show is whole and fresh meanwhile.
func (s *staff) inboxesApart(d *desk.Client, of string) {
	s.t.Helper()
	s.sim(http.MethodPost, "/_sim/faults", `{"upstream":"notification","hang":true}`, nil)
	hanging := make(chan int, 1)
	go func() {
		a, err := d.Do(testkit.Context(s.t), http.MethodGet, "/alerts"+of, nil)
		if err != nil {
			a = &desk.Answer{}
		}
		hanging <- a.Status
	}()
	for _, path := range []string{"/ai/suggestions" + of, "/preferences", "/keyboard-shortcuts"} {
		var as struct {
			Degraded []any
			Stale    bool
		}
		s.fetch(d, path, &as)
		if len(as.Degraded) > 0 || as.Stale {
			s.t.Errorf("%s: %+v", path, as)
		}
	}
	if status := <-hanging; status != http.StatusServiceUnavailable && status != http.StatusGatewayTimeout {
		s.t.Errorf("alerts, whose source hangs: %d", status)
	}
	s.sim(http.MethodDelete, "/_sim/faults", "", nil)
	s.viewed(d, "/alerts"+of)
}

// viewed reads a view.
func (s *staff) viewed(d *desk.Client, path string) *desk.Answer {
	s.t.Helper()
	return s.patiently(d, http.StatusOK, path)
}

// patiently asks until the answer has the wanted status: a busy machine may miss the
// deadlines of upstreams for a while.
func (s *staff) patiently(d *desk.Client, want int, path string) *desk.Answer {
	s.t.Helper()
	var a *desk.Answer
	testkit.Retry(s.t, "an answer within the budgets of upstreams", func() (whole bool) {
		var err error
		if a, err = d.Do(testkit.Context(s.t), http.MethodGet, path, nil); err != nil {
			s.t.Fatal(err)
		}
		if whole = a.Status == want; !whole && a.Status < http.StatusInternalServerError {
			s.t.Fatalf("%s: %d %s", path, a.Status, a.Body)
		}
		return whole
	})
	return a
}

// arrival waits for an arrival with a status and returns its reservation.
func (s *staff) arrival(d *desk.Client, of, status, id string) (found string) {
	s.t.Helper()
	testkit.Until(s.t, "an arrival that is "+status, func() bool {
		var v struct{ Items []board.Stay }
		if err := s.viewed(d, "/arrivals"+of+"&status="+status).Into(&v); err != nil {
			s.t.Fatal(err)
		}
		i := slices.IndexFunc(v.Items, func(g board.Stay) bool { return id == "" || g.ReservationID == id })
		if i >= 0 {
			found = v.Items[i].ReservationID
		}
		return i >= 0
	})
	return found
}
