package backofficehttp_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficecache"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

const manyReads = "read=1000000,ip=1000000,fingerprint=1000000"

// widgetLine is a widget in either form of a dashboard.
type widgetLine struct {
	WidgetID  board.WidgetID     `json:"widgetId"`
	Status    board.WidgetStatus `json:"status"`
	Data      json.RawMessage    `json:"data"`
	ErrorCode bff.Code           `json:"errorCode"`
	Shell     bool               `json:"shell"`
	End       bool               `json:"end"`
	Partial   bool               `json:"partial"`
}

// dashboard reads a dashboard in one of its forms.
func (s *sender) dashboard(instance int, property, media string) map[board.WidgetID]widgetLine {
	s.f.tb.Helper()
	r := s.request(http.MethodGet, base+"/dashboard?propertyId="+property, "")
	r.header.Set("Accept", media)
	w := s.f.send(instance, r)
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != media {
		s.f.tb.Fatalf("%d %s: %s", w.Code, w.Header().Get("Content-Type"), w.Body)
	}
	out := map[board.WidgetID]widgetLine{}
	if media == "application/json" {
		var doc struct {
			Widgets []widgetLine `json:"widgets"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
			s.f.tb.Fatal(err)
		}
		for _, l := range doc.Widgets {
			out[l.WidgetID] = l
		}
		return out
	}
	lines := strings.Split(strings.TrimSuffix(w.Body.String(), "\n"), "\n")
	for i, text := range lines {
		var l widgetLine
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			s.f.tb.Fatal(err)
		}
		if l.Shell != (i == 0) || l.End != (i == len(lines)-1) {
			s.f.tb.Errorf("line %d of %d: %s", i, len(lines), text)
		}
		if !l.Shell && !l.End {
			out[l.WidgetID] = l
		}
	}
	return out
}

// employAt employs an operator for all properties of the tenant.
func (f *front) employAt(scope string, operator string, roles ...backoffice.Role) {
	f.staff.set(operator, &backoffice.Member{Roles: roles, Scope: backoffice.ReadPropertyScope([]string{scope}), Flags: map[string]bool{"blackout_desk": true}})
}

// Operators find the properties that they work for, by name: all of them page by page, the
// first with their session, which neither waits for property-service nor fails with it.
func TestPropertiesOfTheScope(t *testing.T) {
	t.Parallel()
	f, cold := newFront(t, frontConfig{}), newFront(t, frontConfig{})
	f.employAt("*", "opt_owner", backoffice.Owner)
	desk, owner, stranded := f.sender("opt_parwana"), f.sender("opt_owner"), cold.sender("opt_parwana")
	cold.house.change(func(h *houseFake) { h.away = errAway })
	wants := func(w *httptest.ResponseRecorder, parts ...string) {
		t.Helper()
		for _, want := range parts {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("%d %s\nhas no %s", w.Code, w.Body, want)
			}
		}
	}
	wants(stranded.get("/properties"), "UPSTREAM_UNAVAILABLE")
	wants(stranded.get("/session"), `"propertyScope":["`+house+`"],"flags"`, `"degraded":[{"part":"properties","reason":"upstream"}]`)
	one := `{"propertyId":"` + house + `","name":{"default":"House W","localized":{"fa":"خانه"}}`
	two := `{"propertyId":"` + other + `","name":{"default":"House X","localized":{"fa":"خانه"}}`
	place := `,"city":"Kabul","timeZone":"Asia/Kabul"}`
	wants(desk.get("/properties"), `{"items":[`+one+place+`],"total":1,"stale":false,"degraded":[]}`)
	wants(owner.get("/properties?limit=1"), `{"items":[`+one+place+`],"total":2,"nextCursor":"`+house+`",`)
	wants(owner.get("/properties?cursor="+house), `{"items":[`+two+place+`],"total":2,"stale":false,`)
	wants(owner.get("/session"), `"properties":[`+one+place+`,`+two+place+`],"propertyCount":2,`, `"degraded":[]`)
	f.house.change(func(h *houseFake) { h.away = errAway })
	f.void(backoffice.PartProperties)
	wants(desk.get("/properties"), `"stale":true,"asOf":"`, `"degraded":[{"part":"properties","reason":"stale"}]`)
	wants(desk.get("/session"), `"properties":[`+one+place+`],"propertyCount":1,`, `"degraded":[{"part":"properties","reason":"stale"}]`)
}

// Whatever was kept for other roles, each sees its own widgets and no others: in both forms,
// from memory and from Redis.
func TestRolesDoNotLeakThroughTheCache(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{limits: manyReads, instances: 2, sharedCache: true})
	visible := func(roles ...backoffice.Role) map[board.WidgetID]bool {
		out := map[board.WidgetID]bool{}
		for _, w := range board.Widgets() {
			if w.Visible(roles) {
				out[w.ID] = true
			}
		}
		return out
	}
	senders := map[string]*sender{}
	employ := func(roles ...backoffice.Role) *sender {
		name := fmt.Sprintf("opt_%v", roles)
		if senders[name] == nil {
			f.employAt("*", strings.ReplaceAll(name, " ", "_"), roles...)
			senders[name] = f.sender(strings.ReplaceAll(name, " ", "_"))
		}
		return senders[name]
	}
	sees := func(s *sender, instance int, property, media string, roles ...backoffice.Role) {
		t.Helper()
		got := map[board.WidgetID]bool{}
		for id, l := range s.dashboard(instance, property, media) {
			if l.Status != board.WidgetForbidden {
				got[id] = true
			} else if l.Data != nil {
				t.Errorf("%v: %s is forbidden and shown", roles, id)
			}
		}
		if diff := cmp.Diff(visible(roles...), got); diff != "" {
			t.Errorf("%v at %d (%s): may see (-) and sees (+):\n%s", roles, instance, media, diff)
		}
	}
	all := backoffice.Roles()
	property := bff.NewID(bff.PrefixProperty, time.Now()).String()
	for _, instance := range []int{0, 1, 0} { // made for each set of roles, then kept for all of them: in Redis and in memory
		for i, role := range all {
			for _, media := range []string{"application/json", "application/x-ndjson"} {
				sees(employ(role), instance, property, media, role)
				other := all[(i+1)%len(all)]
				sees(employ(role, other), instance, property, media, role, other)
			}
		}
	}
}

// What a manager of all properties, or another tenant, has had composed is not shown
// to an operator who may not see the property.
func TestScopeDoesNotLeakThroughTheCache(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{limits: manyReads})
	f.employAt("*", "opt_owner", backoffice.Owner)
	f.employAt(house, "opt_desk", backoffice.Owner)
	owner, desk := f.sender("opt_owner"), f.sender("opt_desk")
	stranger := f.sender("opt_owner")
	stranger.claims["tid"] = bff.NewID(bff.PrefixTenant, time.Now()).String()
	for _, path := range boards() {
		if w := owner.get(path + "?propertyId=" + other); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		if got := codeOf(desk.get(path + "?propertyId=" + other)); got != "PROPERTY_SCOPE_DENIED" {
			t.Errorf("%s outside the scope: %s", path, got)
		}
		if w := stranger.get(path + "?propertyId=" + other); strings.Contains(w.Body.String(), f.tenant.String()) {
			t.Errorf("%s shows another tenant's: %s", path, w.Body)
		}
	}
	f.house.change(func(h *houseFake) { h.foreign[other] = true })
	for _, path := range boards() {
		for name, s := range map[string]*sender{"owner": owner, "desk": desk} {
			if got := codeOf(s.get(path + "?propertyId=" + other)); got != "RESOURCE_NOT_FOUND" {
				t.Errorf("%s of another tenant, for the %s: %s", path, name, got)
			}
		}
	}
	if got := codeOf(desk.get("/in-house?propertyId=" + house)); got != "OK" {
		t.Errorf("the desk's own property: %s", got)
	}
	f.house.change(func(h *houseFake) { h.away = &bff.Error{Code: bff.CodeUpstreamUnavailable} })
	if got := codeOf(owner.get("/today?propertyId=" + other)); got != "UPSTREAM_UNAVAILABLE" {
		t.Errorf("without property-service: %s", got)
	}
	if got := codeOf(desk.get("/today?propertyId=" + house)); got != "OK" {
		t.Errorf("a property whose day is known, without property-service: %s", got)
	}
	r := desk.request(http.MethodGet, base+"/today?propertyId="+house, "")
	r.header.Set("X-Property-Id", other)
	if got := codeOf(f.send(0, r)); got != "VALIDATION_FAILED" {
		t.Errorf("header and query disagree: %s", got)
	}
}

// A change makes dashboards and views void in every instance.
func TestChangesReachEveryInstance(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{limits: manyReads, instances: 2, sharedCache: true})
	f.employAt("*", "opt_owner", backoffice.Owner)
	s, ctx := f.sender("opt_owner"), testkit.Context(t)
	shows := func(instance, version int) bool {
		data := string(s.dashboard(instance, house, "application/json")["no-shows"].Data)
		view := s.from(instance, http.MethodGet, "/arrivals?propertyId="+house, "").Body.String()
		return data == fmt.Sprintf(`{"count":%d}`, version) && strings.Contains(view, fmt.Sprintf(`"version":%d`, version))
	}
	if !shows(0, 1) || !shows(1, 1) {
		t.Fatal("nothing to change")
	}
	for version, property := range map[int]bff.ID{2: bff.MustParseID(bff.PrefixProperty, house), 3: {}} {
		f.house.change(func(h *houseFake) { h.version = version })
		err := backofficecache.NewInvalidator(f.stores[0]).Invalidate(ctx, f.tenant, property, backoffice.PartDashboard, backoffice.PartArrivals)
		if err != nil {
			t.Fatal(err)
		}
		if !shows(0, version) {
			t.Errorf("the instance that heard of change %d shows the state before", version)
		}
		for !shows(1, version) { // until the word gets there
			if ctx.Err() != nil {
				t.Fatalf("the other instance never shows change %d", version)
			}
		}
	}
	if err := backofficecache.NewInvalidator(f.stores[0]).Invalidate(ctx, bff.ID{}, bff.ID{}, backoffice.PartDashboard); err == nil {
		t.Error("invalidation without a tenant")
	}
}

// view is a view of the workbench.
type view struct {
	View     string                       `json:"view"`
	Date     string                       `json:"date"`
	Stale    bool                         `json:"stale"`
	Missing  []string                     `json:"missing"`
	Degraded []board.Degradation          `json:"degraded"`
	Counts   map[string]int               `json:"counts"`
	Items    []map[string]json.RawMessage `json:"items"`
}

func (s *sender) view(path string) (v view) {
	s.f.tb.Helper()
	w := s.get(path)
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != http.StatusOK {
		s.f.tb.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return v
}

// Filters narrow the items and leave the counts.
func TestViewsAreFiltered(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{limits: manyReads})
	s := f.sender("opt_parwana")
	for query, want := range map[string]int{
		"/arrivals?":                                2,
		"/arrivals?status=confirmed&":               1,
		"/arrivals?status=confirmed,checked_in&":    2,
		"/arrivals?vip=false&":                      1,
		"/arrivals?vip=true&status=checked_in&":     0,
		"/in-house?status=checked_in&":              1,
		"/departures?vip=true&date=2026-11-20&":     1,
		"/housekeeping/board?kind=stayover&":        1,
		"/housekeeping/board?priority=high&":        1,
		"/maintenance/board?severity=low,critical&": 1,
		"/maintenance/board?status=open&":           1,
		"/today?kind=arrival,task&":                 2,
	} {
		v := s.view(query + "propertyId=" + house)
		if len(v.Items) != want || len(v.Counts) == 0 || v.Stale {
			t.Errorf("%s: %+v, want %d items", query, v, want)
		}
		if strings.HasPrefix(query, "/arrivals") && v.Counts["total"] != 2 {
			t.Errorf("%s: the counts are of %d", query, v.Counts["total"])
		}
	}
	for _, query := range []string{"/arrivals?status=late&", "/arrivals?date=tomorrow&", "/in-house?date=2020-01-01&", "/maintenance/board?vip=x&severity=odd&"} {
		if got := codeOf(s.get(query + "propertyId=" + house)); got != "VALIDATION_FAILED" {
			t.Errorf("%s: %s", query, got)
		}
	}
	if v := s.view("/departures?date=2026-11-20&propertyId=" + house); v.Date != "2026-11-20" {
		t.Errorf("of another day: %+v", v)
	}
}

// While an upstream fails, the last good view is shown and says so; without one, the
// failure is told.
func TestViewsGoStale(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{limits: manyReads})
	s, ctx := f.sender("opt_parwana"), testkit.Context(t)
	if v := s.view("/arrivals?propertyId=" + house); v.Stale {
		t.Error("stale from the beginning")
	}
	away := &bff.Error{Code: bff.CodeUpstreamUnavailable, Err: &upstream.Error{Reason: upstream.Breaker}}
	f.house.change(func(h *houseFake) {
		h.fails = map[board.Source]error{board.SourceArrivals: away, board.SourceDepartures: away, board.SourceTasks: away}
	})
	if err := backofficecache.NewInvalidator(f.stores[0]).Invalidate(ctx, f.tenant, bff.ID{}, backoffice.PartArrivals); err != nil {
		t.Fatal(err)
	}
	if v := s.view("/arrivals?propertyId=" + house); !v.Stale || len(v.Items) != 2 || !isOld(v.Degraded) {
		t.Errorf("while reservation is away: %+v", v)
	}
	if v := s.view("/arrivals?vip=true&propertyId=" + house); !v.Stale || len(v.Items) != 1 || !isOld(v.Degraded) {
		t.Errorf("the same, filtered: %+v", v)
	}
	if got := codeOf(s.get("/departures?propertyId=" + house)); got != "UPSTREAM_UNAVAILABLE" {
		t.Errorf("never seen: %s", got)
	}
	f.house.change(func(h *houseFake) { delete(h.fails, board.SourceArrivals) })
	v := s.view("/today?propertyId=" + house)
	if !slices.Equal(v.Missing, []string{"departures", "tasks"}) {
		t.Errorf("today without two of its sources: %+v", v)
	}
	// The last reading of arrivals may stand in for a moment more.
	v.Degraded = slices.DeleteFunc(v.Degraded, func(d board.Degradation) bool { return d.Part == board.SourceArrivals })
	want := []board.Degradation{
		{Part: board.SourceDepartures, Reason: bff.ReasonBreaker, Affected: 1}, {Part: board.SourceTasks, Reason: bff.ReasonBreaker, Affected: 1},
	}
	if diff := cmp.Diff(want, v.Degraded); diff != "" {
		t.Errorf("why they are missing:\n%s", diff)
	}
}

// isOld reports whether arrivals are said to be old.
func isOld(d []board.Degradation) bool {
	return len(d) == 1 && d[0].Part == board.SourceArrivals && d[0].Reason == bff.ReasonStale && d[0].AgeMs > 0 && d[0].Affected > 0
}

// What Redis keeps of guests' names goes with the views that show them; what stands in
// for longer has none.
func TestViewsThatNameGuestsAreBrief(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{limits: manyReads, sharedCache: true})
	s, ctx := f.sender("opt_parwana"), testkit.Context(t)
	for _, path := range []string{"/arrivals", "/departures", "/in-house", "/today", "/housekeeping/board", "/maintenance/board"} {
		s.view(path + "?propertyId=" + house)
	}
	var keys []string
	for len(keys) != 6 { // a view is served before it is written
		var err error
		if keys, err = f.client.Do(ctx, f.client.B().Keys().Pattern(f.prefix+":bff-backoffice:wb:*").Build()).AsStrSlice(); err != nil {
			t.Fatalf("views in Redis: %v, %v", keys, err)
		}
	}
	if w := s.get("/housekeeping/board?priority=high&propertyId=" + house); !strings.Contains(w.Body.String(), `"assignedTo":"opt_parwana",`) ||
		!strings.Contains(w.Body.String(), `"assigneeName":"Somebody"}`) {
		t.Errorf("no assignee is named: %s", w.Body)
	}
	naming, longer := 0, 0
	for _, key := range keys {
		body, err1 := f.client.Do(ctx, f.client.B().Get().Key(key).Build()).AsBytes()
		left, err2 := f.client.Do(ctx, f.client.B().Pttl().Key(key).Build()).AsInt64()
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if body = unpacked(t, body); bytes.Contains(body, []byte("assigneeName")) {
			t.Errorf("%s names operators", key)
		}
		named := bytes.Contains(body, []byte(`"guestName"`)) || bytes.Contains(body, []byte(`"notes"`))
		switch brief := time.Duration(left)*time.Millisecond <= 15*time.Second; {
		case named && !brief:
			t.Errorf("%s names guests for %d ms", key, left)
		case named:
			naming++
		case !brief:
			longer++
		}
	}
	if naming != 3 || longer != 3 {
		t.Errorf("%d views name guests and %d live longer, want three of each", naming, longer)
	}
}

// unpacked adds to a kept view what it holds in gzip's form.
func unpacked(t *testing.T, kept []byte) []byte {
	t.Helper()
	_, packed, ok := bytes.Cut(kept, []byte{0x1f, 0x8b, 0x08})
	if !ok {
		return kept
	}
	z, err := gzip.NewReader(bytes.NewReader(append([]byte{0x1f, 0x8b, 0x08}, packed...)))
	if err != nil {
		t.Fatal(err)
	}
	z.Multistream(false) // others follow
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return append(plain, kept...)
}

// A dashboard shows an earlier value of a widget, marked, while its upstream fails.
func TestWidgetsGoStale(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{limits: manyReads})
	s := f.sender("opt_parwana")
	s.dashboard(0, house, "application/json")
	f.house.change(func(h *houseFake) { h.fails[board.SourceAlerts] = errors.New("away") })
	if err := backofficecache.NewInvalidator(f.stores[0]).Invalidate(testkit.Context(t), f.tenant, bff.ID{}, backoffice.PartDashboard); err != nil {
		t.Fatal(err)
	}
	got := s.dashboard(0, house, "application/x-ndjson")
	if l := got["alerts"]; l.Status != board.WidgetStale || l.Data == nil {
		t.Errorf("%+v", l)
	}
	if l := got["notes"]; l.Status != board.WidgetOK {
		t.Errorf("%+v", l)
	}
}
