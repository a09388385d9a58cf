package backofficehttp_test

import (
	"bytes"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/backoffice/lock"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// inProcess sends requests to a front.
type inProcess struct{ f *front }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if strings.HasSuffix(r.URL.Path, "/sse/stream") {
		return p.stream(w, r), nil
	}
	p.f.instances[0].ServeHTTP(w, r)
	return w.Result(), nil
}

// stream ends a stream as soon as it is open: its answer is read whole.
func (p inProcess) stream(w *httptest.ResponseRecorder, r *http.Request) *http.Response {
	var ends sync.WaitGroup
	opened := &onWrite{ResponseRecorder: w, do: sync.OnceFunc(func() {
		ends.Go(func() {
			p.f.tell(0, backoffice.Notice{Channel: backoffice.ChannelSession, Type: backoffice.MembershipChanged})
		})
	})}
	p.f.instances[0].ServeHTTP(opened, r)
	ends.Wait()
	return w.Result()
}

// onWrite does something when an event is written.
type onWrite struct {
	*httptest.ResponseRecorder
	do func()
}

func (w *onWrite) Write(b []byte) (int, error) {
	if bytes.HasPrefix(b, []byte("id: ")) {
		w.do()
	}
	return w.ResponseRecorder.Write(b)
}

// TestContract meets every answer of every operation through a client that holds both
// sides to the published description.
func TestContract(t *testing.T) {
	t.Parallel()
	contract := testkit.StaffContract(t)
	f := newFront(t, frontConfig{limits: "session=100000,auth=100000,step-up=100000,device=100000,read=100000,change=100000,stream=100000,replay=100000", minAppVersion: "2.0"})
	f.employed("opt_tariq", func(m *backoffice.Member) { m.Suspended = true })
	f.employ("opt_parwana", backoffice.Roles()...)
	f.employ("opt_nadia", backoffice.Finance)
	client := contract.Client(inProcess{f})
	send := func(r *request, want int) {
		t.Helper()
		if r.header["Dpop"] == nil && !r.noProof {
			r.header["Dpop"] = []string{f.prove(r)}
		}
		req, err := http.NewRequestWithContext(t.Context(), r.method, publicURL+r.path, strings.NewReader(r.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = r.header
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		if res.StatusCode != want {
			t.Errorf("%s %s: %d, want %d", r.method, r.path, res.StatusCode, want)
		}
	}
	s := f.sender("opt_parwana")
	f.iam.tokens = identity.Tokens{AccessToken: s.token(), RefreshToken: "rft_2", ExpiresIn: 900}
	operations := map[string]func(*sender) *request{
		"session": func(s *sender) *request { return s.request(http.MethodGet, base+"/session", "") },
		"refresh": func(s *sender) *request { return s.refreshRequest(`{"refreshToken":"rft_1"}`) },
		"signOut": func(s *sender) *request { return s.request(http.MethodPost, base+"/auth/sign-out", "") },
		"stepUp": func(s *sender) *request {
			return s.request(http.MethodPost, base+"/auth/mfa/step-up", `{"scope":"lock.revoke","code":"000000","resourceId":"rsv_1"}`)
		},
		"heartbeat": func(s *sender) *request {
			return s.request(http.MethodPost, base+"/devices/"+s.device.ID()+"/heartbeat", goodHeartbeat)
		},
		"offlineHints": func(s *sender) *request {
			return s.keyed(base+"/devices/"+s.device.ID()+"/offline-hints", goodHints)
		},
		"stream": func(s *sender) *request { return s.request(http.MethodGet, base+"/sse/stream", "") },
		"reauth": func(s *sender) *request { return s.request(http.MethodPost, base+"/sse/reauth", "") },
		"putPreferences": func(s *sender) *request {
			return s.putPreferences(f.version(), `{"payload":{"density":"compact"}}`)
		},
		"activity": func(s *sender) *request {
			return s.request(http.MethodGet, base+"/activity?propertyId="+house, "")
		},
		"replay": func(s *sender) *request {
			return s.replay(s.pressed("/reservations/"+bff.NewID(bff.PrefixReservation, f.clock()).String()+"/check-in", "", 0))
		},
		"handshake":  func(s *sender) *request { return s.request(http.MethodPost, base+"/sync/handshake", "") },
		"cursor":     func(s *sender) *request { return s.request(http.MethodGet, base+"/sync/cursor", "") },
		"moveCursor": func(s *sender) *request { return s.keyed(base+"/sync/cursor", s.nextMove()) },
	}
	for _, action := range lock.LockActions() {
		operations[string(action)+"Key"] = func(s *sender) *request { return s.lock(string(action), "{}") }
	}
	for name, path := range personalReads() {
		operations[name] = func(s *sender) *request { return s.request(http.MethodGet, base+path, "") }
	}
	f.furnish()
	for _, name := range actionNames() {
		operations[name] = func(s *sender) *request { return s.action(name) }
	}
	for name, path := range boards() {
		operations[name] = func(s *sender) *request { return s.request(http.MethodGet, base+path+"?propertyId="+house, "") }
	}
	answered := func(name string) int {
		switch name {
		case "signOut", "reauth":
			return http.StatusNoContent
		case "offlineHints":
			return http.StatusAccepted
		}
		if a, ok := backoffice.FindAction(backoffice.ActionName(name)); ok {
			return a.Status()
		}
		return http.StatusOK
	}
	for name, op := range operations {
		good := answered(name)
		by := s
		if name == "signOut" {
			by = f.sender("opt_parwana")
		}
		send(op(by), good)
		broken := func(want int, change func(*request)) {
			t.Helper()
			r := op(s)
			change(r)
			send(r, want)
		}
		broken(http.StatusBadRequest, func(r *request) { r.header.Set("X-Device-Id", "x") })
		broken(http.StatusUnauthorized, func(r *request) { r.proof.At = f.clock().Add(time.Hour) })
		broken(http.StatusUnauthorized, func(r *request) { r.noProof = true })
		broken(http.StatusUpgradeRequired, func(r *request) { r.header.Set("X-App-Version", "1.0") })
		if name != "refresh" {
			send(op(f.sender("opt_tariq")), http.StatusForbidden)
		}
		if r := op(s); r.body != "" {
			broken(http.StatusRequestEntityTooLarge, func(r *request) { r.body = `{"x":"` + strings.Repeat("x", 200_000) + `"}` })
			broken(http.StatusUnsupportedMediaType, func(r *request) { r.header.Set("Content-Type", "text/plain") })
		}
	}
	fail := func(err error, want int, names ...string) {
		t.Helper()
		f.iam.err, f.staff.err = err, err
		for _, name := range names {
			send(operations[name](s), want)
		}
		f.iam.err, f.staff.err = nil, nil
	}
	all := slices.Collect(maps.Keys(operations))
	fail(&bff.Error{Code: bff.CodeUpstreamUnavailable, RetryAfter: time.Second, Err: errors.New("away")}, http.StatusServiceUnavailable, all...)
	fail(&bff.Error{Code: bff.CodeUpstreamTimeout}, http.StatusGatewayTimeout, all...)

	moment := bff.At(f.clock())
	for _, failure := range []error{
		&bff.Error{Code: bff.CodeStaffIdempotencyInFlight}, &bff.Error{Code: bff.CodeStaffIdempotencyReused}, backoffice.ErrKeyExpired(nil),
		backoffice.ErrKeyExpired(&bff.Known{Outcome: string(backoffice.Failed), At: &moment, OperatorID: "opt_1", Code: bff.CodeStateConflict}),
	} {
		want := bff.CodeOf(failure).Info().Status
		f.devices.fail(failure)
		f.syncing.fail(failure)
		send(operations["offlineHints"](s), want)
		send(operations["moveCursor"](s), want)
	}
	f.devices.fail(nil)
	f.syncing.fail(nil)
	send(s.keyed(base+"/sync/cursor", `{"expectedVersion":0,"pullCursor":"1"}`), http.StatusConflict)
	for _, name := range []string{"offlineHints", "putPreferences", "moveCursor"} {
		keyless := operations[name](s)
		keyless.header.Del("X-Idempotency-Key")
		send(keyless, http.StatusPreconditionRequired)
	}
	meetPersonal(f, s, send)
	meetLocks(f, s, send)
	meetActions(f, s, send)
	meetReplays(f, s, send)
	meetActivity(f, s, send)

	f.house.change(func(h *houseFake) { h.foreign[foreign] = true })
	for _, property := range []string{foreign, other} {
		elsewhere := operations["replay"](s)
		elsewhere.path = strings.ReplaceAll(elsewhere.path, house, property)
		send(elsewhere, map[string]int{foreign: http.StatusNotFound, other: http.StatusForbidden}[property])
	}
	for name, path := range boards() {
		send(s.request(http.MethodGet, base+path+"?propertyId="+foreign, ""), http.StatusNotFound)
		send(s.request(http.MethodGet, base+path+"?propertyId="+other, ""), http.StatusForbidden)
		again := operations[name](s)
		again.header.Set("If-None-Match", "*")
		send(again, http.StatusNotModified)
	}
	for range 2 { // made and kept
		lines := operations["dashboard"](s)
		lines.header.Set("Accept", "application/x-ndjson")
		send(lines, http.StatusOK)
	}
	html := operations["dashboard"](s)
	html.header.Set("Accept", "text/html")
	send(html, http.StatusNotAcceptable)

	f.cfg.limits = "session=1,auth=1,step-up=1,device=1,read=1,change=1,stream=1,replay=1,fingerprint=1000"
	f.instances = nil
	f.start(f.client)
	for name, op := range operations {
		if name == "signOut" { // ends the session
			continue
		}
		f.advance(time.Second)        // an operator has so many sessions: the oldest end
		by := f.sender("opt_parwana") // with limits of its own
		if name == "refresh" {
			by = s // whose tokens iam gives out
		}
		send(op(by), answered(name))
		send(op(by), http.StatusTooManyRequests)
	}
	f.instances = nil
	f.start(f.client)
	f.advance(time.Second)
	out := f.sender("opt_parwana")
	send(out.request(http.MethodPost, base+"/auth/sign-out", ""), http.StatusNoContent)
	send(f.senderAt("opt_parwana", out.device).request(http.MethodPost, base+"/auth/sign-out", ""), http.StatusTooManyRequests)
	send(s.request(http.MethodGet, base+"/nothing", ""), http.StatusNotFound)
	send(s.request(http.MethodDelete, base+"/session", ""), http.StatusMethodNotAllowed)
	if unseen := contract.Unseen(); len(unseen) > 0 {
		t.Errorf("no test has met %v", unseen)
	}
	contract.Sends(map[string]string{
		"while a part is away or old": `Alerts/asOf BlackoutPack/degraded BlackoutPack/degraded/items/affected BlackoutPack/degraded/items/ageMs BlackoutPack/degraded/items/part
			BlackoutPack/degraded/items/reason BlackoutPack/missing Cursor/stale Dashboard/degraded/items/affected Dashboard/degraded/items/part
			Dashboard/degraded/items/reason Degraded/items/part Degraded/items/reason Handshake/stale Preferences/stale Properties/asOf
			Suggestions/asOf ViewDegradation/affected ViewDegradation/ageMs ViewDegradation/part ViewDegradation/reason WidgetState/errorCode
			WorkbenchView/degraded WorkbenchView/missing`,
		"to whom has lost a right before the answer came": "EntryNotPossible/known",
		"more than one page":                              "Alerts/nextCursor Properties/nextCursor Suggestions/nextCursor",
		"of other locales":                                "LocaleInfo/plurals/few LocaleInfo/plurals/many LocaleInfo/plurals/two LocaleInfo/plurals/zero MonthNames/standalone",
		"of a word that is not in a set":                  "Problem/error/errors/items/supported",
		"of a shortcut that another took":                 "Shortcuts/shortcuts/items/displacedBy",
		"where staff-service knows the name":              "Activities/items/items/operatorName WorkOrder/assigneeName",
		"as upstreams have them, whose rows are short here": `Alert/category Alert/propertyId Alert/raisedAt Alert/severity Moved/openedAt
			RatesData/items/items/ratePlanId RatesData/items/items/roomTypeName Stay/notes Stay/roomTypeId Stay/roomTypeName Suggestion/aiProvenance
			Suggestion/category Suggestion/confidence Suggestion/createdAt Suggestion/expiresAt Suggestion/propertyId Suggestion/severity
			Suggestion/title Task/minutes Task/neededBy WorkOrder/assignedTo`,
	})
}

// boards are the paths of dashboard and workbench by the names of their operations.
func boards() map[string]string {
	return map[string]string{
		"dashboard": "/dashboard", "today": "/today", "arrivals": "/arrivals", "departures": "/departures", "inHouse": "/in-house",
		"housekeepingBoard": "/housekeeping/board", "maintenanceBoard": "/maintenance/board", "blackoutPack": "/blackout",
	}
}
