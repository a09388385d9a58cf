package backofficehttp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/http1"
	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// changeOf is the next day on which clocks in a zone change, or the day after tomorrow
// where they never do.
func changeOf(l *time.Location, now time.Time) time.Time {
	if _, end := now.In(l).ZoneBounds(); !end.IsZero() {
		return end
	}
	return now.Add(48 * time.Hour)
}

// Every minute of the hours around the midnights of the house and of UTC, views,
// dashboard and counts are of the day that a calendar on the wall of the house shows:
// in five countries, and where clocks change. The short form looks once before midnight, at
// midnight and after it, in one of them and where clocks change.
func TestProofHouseDay(t *testing.T) {
	t.Parallel()
	var clock atomic.Pointer[front]
	s, up := overSimulator(t, sim.Config{Latency: map[string]sim.Latency{}, Now: func() time.Time {
		if f := clock.Load(); f != nil {
			return f.clock()
		}
		return time.Now()
	}})
	houses := map[string]sim.CatalogProperty{}
	for _, p := range s.Catalog().Properties {
		houses[p.Country] = p
	}
	for country, zone := range map[string]string{
		"AF": "Asia/Kabul", "IR": "Asia/Tehran", "TJ": "Asia/Dushanbe", "PK": "Asia/Karachi", "AE": "Asia/Dubai", "DE": "Europe/Berlin",
	} {
		if !testkit.LongProof() && country != "AF" && country != "DE" {
			continue
		}
		tenant := bff.MustParseID(bff.PrefixTenant, houses[country].TenantID)
		f := newFront(t, frontConfig{limits: manyReads, upstreams: up.House, properties: up.Property, tenant: tenant})
		clock.Store(f)
		f.employAt("*", "opt_mirwais", backoffice.GeneralManager)
		l, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		device, err := desk.NewDevice(desk.EdDSA, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		near := changeOf(l, time.Now())
		y, m, d := near.In(l).Date()
		step := testkit.Proof(60, 1)
		for _, midnight := range []time.Time{time.Date(y, m, d, 0, 0, 0, 0, l), time.Date(y, m, d+1, 0, 0, 0, 0, l), time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC)} {
			for minute := -60; minute <= 60; minute += step {
				at := midnight.Add(time.Duration(minute) * time.Minute)
				f.mu.Lock()
				f.now = at
				f.mu.Unlock()
				looksAtTheWall(t, f.senderAt("opt_mirwais", device), houses[country].PropertyID, at.In(l))
			}
		}
	}
}

// dated is what answers say of their day.
type dated struct {
	Day    board.Day
	Date   string
	Counts map[string]int
	Items  []struct{ CheckIn, CheckOut string }
}

// looksAtTheWall compares what a manager is shown with the date on the wall.
func looksAtTheWall(t *testing.T, s *sender, property string, wall time.Time) {
	t.Helper()
	want := wall.Format(time.DateOnly)
	read := func(path string) (out dated) {
		t.Helper()
		var w *httptest.ResponseRecorder
		testkit.Retry(t, path+" within the budgets of upstreams", func() bool {
			w = s.get(path)
			return !testkit.TooSlow(w.Code, w.Body.Bytes())
		})
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s when it is %s: %d %s", path, wall, w.Code, w.Body)
		}
		return out
	}
	for _, view := range []string{"/today", "/arrivals", "/departures", "/in-house", "/housekeeping/board", "/maintenance/board", "/dashboard"} {
		got := read(view + "?propertyId=" + property)
		next := wall.AddDate(0, 0, 1).Format(time.DateOnly)
		if got.Day.Date.String() != want || got.Day.TimeZone != wall.Location().String() || got.Day.Source != board.DayOfProperty ||
			got.Day.EndsAt.In(wall.Location()).Format(time.DateTime) != next+" 00:00:00" {
			t.Errorf("%s when it is %s: %+v", view, wall, got.Day)
		}
		if got.Date != "" && got.Date != want {
			t.Errorf("%s when it is %s: of %s", view, wall, got.Date)
		}
		for _, i := range got.Items {
			if view == "/arrivals" && i.CheckIn != want || view == "/departures" && i.CheckOut != want {
				t.Errorf("%s when it is %s: %+v", view, wall, i)
			}
		}
		if view == "/arrivals" && got.Counts["total"] != len(read("/arrivals?propertyId="+property+"&date="+want).Items) {
			t.Errorf("arrivals when it is %s: %v", wall, got.Counts)
		}
	}
	for days, code := range map[int]string{0: "OK", -1: "OK", 1: "VALIDATION_FAILED", -2: "VALIDATION_FAILED"} {
		date := wall.AddDate(0, 0, days).Format(time.DateOnly)
		if got := codeOf(s.get(fmt.Sprintf("/in-house?propertyId=%s&date=%s", property, date))); got != code {
			t.Errorf("in-house of %s when it is %s: %s, want %s", date, wall, got, code)
		}
	}
}

// Streams are told once when the day of a house that was looked at is over, whichever
// instance it was looked at through.
func TestTurnIsTold(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{instances: 2})
	url := f.listen(0, http1.Options{})
	s := f.sender("opt_parwana")
	shown := s.stream(url, "")
	shown.until("ready")
	for i := range f.instances {
		if w := s.from(i, http.MethodGet, "/today?propertyId="+house, ""); w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	ends := f.house.zone.Today(f.clock()).EndsAt
	for _, now := range []time.Time{ends.Add(-time.Second), ends.Time, ends.Add(time.Second)} {
		for _, turns := range f.turns {
			if err := turns.RunOnce(t.Context(), now); err != nil {
				t.Fatal(err)
			}
		}
	}
	if e := shown.next(); e.name != "dashboard" || !strings.Contains(e.data, `"today"`) || !strings.Contains(e.data, `"at":"`+ends.String()) {
		t.Errorf("%+v", e)
	}
	f.streams[0].Shed(1)
	if e := shown.next(); e.name != "drain" {
		t.Errorf("told more than once: %+v", e)
	}
}
