package backofficehttp_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficehttp"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
)

func newKey(f *front) string {
	return strings.TrimPrefix(bff.NewID(bff.PrefixRequest, f.clock()).String(), "req_")
}

// putPreferences is a good change of a version.
func (s *sender) putPreferences(version int, body string) *request {
	r := s.request(http.MethodPut, base+"/preferences", body)
	r.header.Set("X-Idempotency-Key", newKey(s.f))
	r.header.Set("If-Match", strconv.Quote(strconv.Itoa(version)))
	return r
}

// version is that of Parwana's preferences at tenant-service.
func (f *front) version() int {
	f.behindUs.mu.Lock()
	defer f.behindUs.mu.Unlock()
	return f.behindUs.saved(device.PreferencesOwner{Tenant: f.tenant, Operator: "opt_parwana"}).Version
}

func readPreferences(t *testing.T, w *httptest.ResponseRecorder) device.Preferences {
	t.Helper()
	var p device.Preferences
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return p
}

// personalReads are the reads of inboxes, preferences, shortcuts and properties.
func personalReads() map[string]string {
	return map[string]string{
		"suggestions": "/ai/suggestions?propertyId=" + house, "alerts": "/alerts?propertyId=" + house, "preferences": "/preferences",
		"shortcuts": "/keyboard-shortcuts", "properties": "/properties",
	}
}

// meetPersonal meets the answers of inboxes, preferences and shortcuts that other
// operations do not have.
func meetPersonal(f *front, s *sender, send func(*request, int)) {
	for _, path := range personalReads() {
		again := s.request(http.MethodGet, base+path, "")
		again.header.Set("If-None-Match", s.get(path).Header().Get("Etag"))
		send(again, http.StatusNotModified)
	}
	f.employed("opt_hamida", func(m *backoffice.Member) { m.Scope = backoffice.ReadPropertyScope([]string{"*"}) })
	hamida := f.sender("opt_hamida")
	for _, path := range []string{"/ai/suggestions", "/alerts", "/preferences"} {
		send(s.request(http.MethodGet, base+path+"?propertyId="+other, ""), http.StatusForbidden)
		if path != "/preferences" {
			send(hamida.request(http.MethodGet, base+path+"?propertyId="+other, ""), http.StatusNotFound)
		}
	}
	put := func(by *sender, change func(*request), want int) {
		r := by.putPreferences(f.version(), `{"payload":{}}`)
		change(r)
		send(r, want)
	}
	put(s, func(r *request) { r.header.Del("If-Match") }, http.StatusPreconditionRequired)
	put(s, func(r *request) { r.header.Set("If-Match", `"99"`) }, http.StatusPreconditionFailed)
	used := s.putPreferences(f.version(), `{"payload":{"a":1}}`)
	key := used.header.Get("X-Idempotency-Key")
	send(used, http.StatusOK)
	put(s, func(r *request) { r.header.Set("X-Idempotency-Key", key) }, http.StatusUnprocessableEntity)
	n := f.behindUs
	running := s.putPreferences(f.version(), `{"payload":{"b":1}}`)
	send(running, http.StatusOK)
	n.with(func() { n.answers[f.tenant.String()+running.header.Get("X-Idempotency-Key")].running = true })
	repeated := s.putPreferences(f.version()-1, `{"payload":{"b":1}}`)
	repeated.header.Set("X-Idempotency-Key", running.header.Get("X-Idempotency-Key"))
	send(repeated, http.StatusConflict)
	missing := &bff.Error{Code: bff.CodeResourceNotFound}
	n.with(func() { n.err = missing })
	elsewhere := hamida.putPreferences(1, `{"payload":{}}`)
	send(elsewhere, http.StatusNotFound)
	gone := hamida.request(http.MethodGet, base+"/preferences?propertyId="+other, "")
	send(gone, http.StatusNotFound)
	n.with(func() { n.err = nil })
}

// One operator's key, tag and preferences are nothing to another.
func TestPreferencesAreTheOperatorsOwn(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	f.employ("opt_karim", backoffice.FrontDesk)
	a, b := f.sender("opt_parwana"), f.sender("opt_karim")
	r := a.putPreferences(1, `{"payload":{"secret":"a"}}`)
	key := r.header.Get("X-Idempotency-Key")
	tag := f.send(0, r).Header().Get("Etag")
	if got := readPreferences(t, b.get("/preferences")); got.Version != 1 || string(got.Payload) != "{}" {
		t.Errorf("%+v", got)
	}
	stolen := b.putPreferences(1, `{"payload":{"secret":"a"}}`)
	stolen.header.Set("X-Idempotency-Key", key)
	if got := codeOf(f.send(0, stolen)); got != "IDEMPOTENCY_KEY_REUSED" {
		t.Errorf("another's key: %s", got)
	}
	readPreferences(t, f.send(0, b.putPreferences(1, `{"payload":{}}`))) // now both are at version 2
	poll := b.request(http.MethodGet, base+"/preferences", "")
	poll.header.Set("If-None-Match", tag)
	if w := f.send(0, poll); w.Code != http.StatusOK || string(readPreferences(t, w).Payload) != "{}" {
		t.Errorf("another's tag: %d %s", w.Code, w.Body)
	}
	change := b.putPreferences(2, `{"payload":{"x":1}}`)
	change.header.Set("If-Match", tag)
	if got := codeOf(f.send(0, change)); got != "PREFERENCES_VERSION_CONFLICT" {
		t.Errorf("another's tag in a change: %s", got)
	}
	// For one property they are others, and outside the scope there are none.
	here := a.request(http.MethodGet, base+"/preferences?propertyId="+house, "")
	here.header.Set("If-None-Match", tag)
	if got := readPreferences(t, f.send(0, here)); got.Version != 1 {
		t.Errorf("for one property: %+v", got)
	}
	f.house.change(func(h *houseFake) { h.foreign[foreign] = true })
	for path, want := range map[string]string{
		"?propertyId=" + other: "PROPERTY_SCOPE_DENIED", "?propertyId=" + foreign: "RESOURCE_NOT_FOUND", "?propertyId=x": "VALIDATION_FAILED",
		"?propertyId=" + house + "&propertyId=" + house: "VALIDATION_FAILED",
	} {
		if got := codeOf(a.get("/preferences" + path)); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	elsewhere := a.request(http.MethodGet, base+"/preferences?propertyId="+house, "")
	elsewhere.header.Set("X-Property-Id", other)
	if got := codeOf(f.send(0, elsewhere)); got != "OK" {
		t.Errorf("at another property: %s", got)
	}
}

// The version that an operator has seen is the tag of its own preferences, or a number in quotes.
func TestVersionOfPreferences(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	s := f.sender("opt_parwana")
	for tag, want := range map[string]string{
		"": "PREFERENCES_VERSION_REQUIRED", "*": "VALIDATION_FAILED", `W/"1"`: "VALIDATION_FAILED", `"0"`: "VALIDATION_FAILED", `"x"`: "VALIDATION_FAILED", `"1-x"`: "PREFERENCES_VERSION_CONFLICT", `"1"`: "OK",
	} {
		r := s.putPreferences(1, `{"payload":{}}`)
		if r.header.Set("If-Match", tag); tag == "" {
			r.header.Del("If-Match")
		}
		if got := codeOf(f.send(0, r)); got != want {
			t.Errorf("If-Match %s: %s, want %s", tag, got, want)
		}
	}
	own := s.putPreferences(0, `{"payload":{"a":1}}`)
	own.header.Set("If-Match", s.get("/preferences").Header().Get("Etag"))
	if got := readPreferences(t, f.send(0, own)); got.Version != 3 || string(got.Payload) != `{"a":1}` {
		t.Errorf("%+v", got)
	}
}

// Tenant-service away: our copy is shown and says so. Killed after tenant-service has
// accepted a change: the next read has it, and our copy too.
func TestPreferencesSurvive(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{sharedCache: true})
	s, n := f.sender("opt_parwana"), f.behindUs
	owner := device.PreferencesOwner{Tenant: f.tenant, Operator: "opt_parwana"}
	readPreferences(t, s.get("/preferences"))

	n.with(func() { n.killed = true })
	r := s.putPreferences(1, `{"payload":{"a":1}}`)
	key := r.header.Get("X-Idempotency-Key")
	if got := codeOf(f.send(0, r)); got != "INTERNAL" {
		t.Fatalf("killed: %s", got)
	}
	n.with(func() { n.killed = false })
	f.start(f.client)
	if got := readPreferences(t, s.from(1, http.MethodGet, "/preferences", "")); got.Version != 2 {
		t.Errorf("after the kill: %+v", got)
	}
	if got := n.copies[owner].Version; got != 2 {
		t.Errorf("our copy is at version %d", got)
	}
	again := s.putPreferences(1, `{"payload":{"a":1}}`)
	again.header.Set("X-Idempotency-Key", key)
	if got := readPreferences(t, f.send(1, again)); got.Version != 2 {
		t.Errorf("repeated: %+v", got)
	}

	// Cached, tenant-service is not missed; without, the copy stands in.
	n.with(func() { n.err = errAway })
	if got := readPreferences(t, s.get("/preferences")); got.Version != 2 {
		t.Errorf("cached: %+v", got)
	}
	if got := codeOf(f.send(0, s.putPreferences(2, `{"payload":{}}`))); got != "UPSTREAM_UNAVAILABLE" { // and forgets what is cached
		t.Errorf("a change while tenant-service is away: %s", got)
	}
	w := s.get("/preferences")
	stale := readPreferences(t, w)
	if stale.Version != 2 || !stale.Stale || !strings.HasSuffix(w.Header().Get("Etag"), `-stale"`) {
		t.Errorf("%+v %s", stale, w.Header().Get("Etag"))
	}
	n.with(func() { n.err, n.lost = nil, &bff.Error{Code: bff.CodeServiceUnavailable, Err: errors.New("away")} })
	if got := codeOf(f.send(0, s.putPreferences(2, `{"payload":{}}`))); got != "SERVICE_UNAVAILABLE" || f.version() != 2 {
		t.Errorf("a change that cannot be recorded: %s, version %d", got, f.version())
	}
}

func TestShortcuts(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	s, n := f.sender("opt_parwana"), f.behindUs
	read := func() (map[string]device.Shortcut, string, []backofficehttp.Missing) {
		t.Helper()
		w := s.get("/keyboard-shortcuts")
		var doc struct {
			ThemeVersion string
			Shortcuts    []device.Shortcut
			Degraded     []backofficehttp.Missing
		}
		if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		out := map[string]device.Shortcut{}
		for _, x := range doc.Shortcuts {
			out[x.Action] = x
		}
		return out, doc.ThemeVersion, doc.Degraded
	}
	before, theme, missing := read()
	if before["reservation.checkIn"].Keys != "Mod+Enter" || !strings.HasPrefix(theme, "thv_") || len(missing) > 0 {
		t.Errorf("%v %s %v", before["reservation.checkIn"], theme, missing)
	}
	readPreferences(
		t,
		f.send(
			0,
			s.putPreferences(1, `{"payload":{"keyboardShortcuts":{"reservation.checkIn":"mod+SPACE","folio.open":"mod+e","go.nowhere":"X","view.refresh":null}}}`),
		),
	)
	if got := codeOf(f.send(0, s.putPreferences(2, `{"payload":{"keyboardShortcuts":{"lock.issueKey":"enter+mod"}}}`))); got != "VALIDATION_FAILED" {
		t.Errorf("the key first: %s", got)
	}
	after, _, _ := read()
	for action, want := range map[string]device.Shortcut{
		"reservation.checkIn":  {Action: "reservation.checkIn", Context: "front_desk", Keys: "Mod+Space", Customised: true},
		"folio.open":           {Action: "folio.open", Context: "front_desk", Keys: "Mod+E", Customised: true},
		"lock.extendKey":       {Action: "lock.extendKey", Context: "front_desk", DisplacedBy: "folio.open"},
		"view.refresh":         {Action: "view.refresh", Context: "global", Customised: true},
		"reservation.checkOut": before["reservation.checkOut"],
	} {
		if diff := cmp.Diff(want, after[action]); diff != "" {
			t.Errorf("%s: %s", action, diff)
		}
	}
	// Without preferences and theme the app has the keys that it came with.
	f.prefix += "x"
	n.with(func() { n.err, n.lost = errAway, errors.New("away") })
	f.instances = nil
	f.start(f.client)
	bare, theme, missing := read()
	if diff := cmp.Diff([]backofficehttp.Missing{
		{Part: "preferences", Reason: "upstream"},
	}, missing); diff != "" || theme != "" || bare["view.refresh"].Keys != "F5" {
		t.Errorf("%s %q %+v", diff, theme, bare["view.refresh"])
	}
}
