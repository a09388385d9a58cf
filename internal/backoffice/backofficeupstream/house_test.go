package backofficeupstream

import (
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficetest"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/local/sim"
)

// platform is the simulator, reached without a network.
type platform struct {
	up    *Upstreams
	at    board.Place // a property with many rooms
	other bff.ID      // another tenant
	// accepted are the actions that were carried out; nil = that is not kept.
	accepted map[backoffice.ActionName]bool
}

func newPlatform(t *testing.T) *platform {
	t.Helper()
	// Ten in the morning: some have left, some are yet to come.
	s, err := sim.New(sim.Config{Latency: map[string]sim.Latency{}, HouseTime: 10 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	transport := inProcess(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		if r.Body == nil {
			r.Body = http.NoBody
		}
		s.Handler().ServeHTTP(w, r)
	})
	up, err := New(Config{
		URLs: backofficetest.UpstreamURLs("http://platform.test"), Transport: transport, Metrics: prometheus.NewRegistry(), Namespace: "test",
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/_sim/catalog", nil))
	var catalog struct {
		Properties []struct {
			PropertyID bff.ID `json:"propertyId"`
			TenantID   bff.ID `json:"tenantId"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &catalog); err != nil || len(catalog.Properties) < 2 {
		t.Fatal(err)
	}
	p := &platform{up: up, at: board.Place{Property: catalog.Properties[0].PropertyID, Tenant: catalog.Properties[0].TenantID}}
	p.at, _, err = board.NewCalendar(up.Property, 0).Today(t.Context(), p.at.Tenant, p.at.Property, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, house := range catalog.Properties {
		if house.TenantID != p.at.Tenant {
			p.other = house.TenantID
		}
	}
	return p
}

// types are what each source must read as.
var types = map[board.Source]any{
	board.SourceArrivals: []board.Stay{}, board.SourceDepartures: []board.Stay{}, board.SourceInHouse: []board.Stay{},
	board.SourceOccupancy: []board.Night{}, board.SourceRooms: []board.Room{}, board.SourceRates: []board.Rate{},
	board.SourceFigures: board.Figures{}, board.SourceTasks: []board.Task{}, board.SourceProgress: board.Progress{},
	board.SourceLinen: board.Linen{}, board.SourceWorkOrders: []board.WorkOrder{}, board.SourceFolios: board.Folios{},
	board.SourceCashDrawer: board.CashDrawer{}, board.SourceAlerts: board.Counts{}, board.SourceSuggestions: board.Counts{},
	board.SourceAcceptance: board.Acceptance{}, board.SourceDevices: []board.SyncDevice{}, board.SourceShiftGaps: []board.Shift{},
	board.SourceLockFailures: []board.LockFailure{}, board.SourceNotes: []board.Note{},
}

// Every source of every widget is read from its upstream, in that one's dialect, and
// not by another tenant.
func TestEverySource(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	needed := map[board.Source]bool{}
	for _, w := range board.Widgets() {
		needed[w.From] = true
	}
	needed[board.SourceTasks] = true // of a view alone
	for from := range needed {
		r, err := p.up.House.Read(t.Context(), from, p.at)
		if err != nil || r.AsOf.IsZero() || reflect.TypeOf(r.Value) != reflect.TypeOf(types[from]) {
			t.Errorf("%s: %+v, %v", from, r, err)
		}
		theirs := p.at
		theirs.Tenant = p.other
		if r, err := p.up.House.Read(t.Context(), from, theirs); bff.CodeOf(err) != bff.CodeResourceNotFound && !empty(r) {
			t.Errorf("%s: another tenant reads %+v, %v", from, r, err)
		}
	}
	if len(needed) != len(readers) {
		t.Errorf("%d sources are needed, %d can be read", len(needed), len(readers))
	}
	for owner, want := range map[bff.ID]bool{p.at.Tenant: true, p.other: false} {
		found, err := p.up.Property.FindProperty(t.Context(), owner, p.at.Property)
		if want && (err != nil || found.Zone.IsZero()) || !want && bff.CodeOf(err) != bff.CodeResourceNotFound {
			t.Errorf("%s finds the property: %+v, %v", owner, found, err)
		}
		hotels, err1 := p.up.Property.ListProperties(t.Context(), owner)
		names, err2 := p.up.Tenant.ListNames(t.Context(), owner)
		listed := slices.IndexFunc(hotels, func(h board.Property) bool { return h.ID == p.at.Property })
		if err1 != nil || err2 != nil || (listed >= 0) != want || len(names) < 8 || slices.Contains(slices.Collect(maps.Values(names)), "") {
			t.Errorf("%s lists %+v, %v, and %v, %v", owner, hotels, err1, names, err2)
		}
		if want && (hotels[listed].City == "" || hotels[listed].Zone.Name() != p.at.TimeZone || hotels[listed].Name.Localized["fa"] == "") {
			t.Errorf("%+v", hotels[listed])
		}
	}
}

// empty reports whether an inbox, which is the tenant's own, shows nothing.
func empty(r board.Reading) bool {
	c, ok := r.Value.(board.Counts)
	return ok && len(c) == 0
}

// What upstreams say in their own words is the same house.
func TestSourcesAgree(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	read := func(from board.Source) any {
		t.Helper()
		r, err := p.up.House.Read(t.Context(), from, p.at)
		if err != nil {
			t.Fatal(err)
		}
		return r.Value
	}
	inHouse, _ := read(board.SourceInHouse).([]board.Stay)
	rooms, _ := read(board.SourceRooms).([]board.Room)
	occupied := map[string]bool{}
	for _, r := range rooms {
		if r.Status == "occupied" {
			occupied[r.RoomNumber] = true
		}
	}
	taken := map[string]bool{}
	for _, s := range inHouse {
		taken[s.RoomNumber] = true
		if s.Status != "checked_in" || s.GuestName == "" || !strings.HasPrefix(s.ReservationID, "rsv_") {
			t.Errorf("%+v", s)
		}
	}
	if diff := cmp.Diff(taken, occupied); diff != "" || len(taken) == 0 {
		t.Errorf("guests (-) and occupied rooms (+):\n%s", diff)
	}
	figures, _ := read(board.SourceFigures).(board.Figures)
	folios, _ := read(board.SourceFolios).(board.Folios)
	drawer, _ := read(board.SourceCashDrawer).(board.CashDrawer)
	if c := figures.ADR.Currency; c == "" || c != folios.BalanceDue.Currency || c != drawer.Expected.Currency || figures.ADR.Minor == "0" {
		t.Errorf("%+v %+v %+v", figures, folios, drawer)
	}
	orders, _ := read(board.SourceWorkOrders).([]board.WorkOrder)
	for _, w := range orders {
		if _, err := bff.ParseID(backoffice.PrefixWorkOrder, w.WorkOrderID); err != nil {
			t.Errorf("%+v", w)
		}
	}
}

func TestHouseFails(t *testing.T) {
	t.Parallel()
	at := board.Place{Tenant: bff.NewID(bff.PrefixTenant, time.Now()), Property: bff.NewID(bff.PrefixProperty, time.Now())}
	for name, test := range map[string]struct {
		status int
		body   string
		want   bff.Code
	}{
		"unknown":     {http.StatusNotFound, refusal("NOT_FOUND"), bff.CodeResourceNotFound},
		"forbidden":   {http.StatusForbidden, refusal("FORBIDDEN"), bff.CodeRoleDenied},
		"fails":       {http.StatusInternalServerError, `{}`, bff.CodeUpstreamUnavailable},
		"nonsense":    {http.StatusOK, `x`, bff.CodeUpstreamUnavailable},
		"odd amounts": {http.StatusOK, `{"asOf":"2026-11-17T11:10:08Z","currency":"AFN","adr":1.234,"revpar":1}`, bff.CodeUpstreamUnavailable},
	} {
		u, _, _ := serve(t, func(string) (int, string) { return test.status, test.body })
		if _, err := u.House.Read(t.Context(), board.SourceFigures, at); bff.CodeOf(err) != test.want {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
	u, _, _ := serve(t, func(string) (int, string) { return http.StatusOK, `{}` })
	if _, err := u.House.Read(t.Context(), "weather", at); err == nil {
		t.Error("a source that there is not was read")
	}
}
