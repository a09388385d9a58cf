package backofficeupstream

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/action"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/backoffice/inbox"
	"melmastoon.ghasi.io/bff/internal/backoffice/lock"
)

// wire answers every call with the next of some answers, the last one again and again, and
// keeps what was sent: method, address, body. Tests use it within a bubble, in which a busy machine uses up no budget.
type wire struct {
	mu      sync.Mutex
	answers []string // a status and a body
	calls   []string
	headers []http.Header
}

func newWire(t *testing.T, answers ...string) (*Upstreams, *wire) {
	t.Helper()
	w := &wire{answers: answers}
	urls := map[backoffice.Upstream]string{}
	for _, name := range backoffice.Upstreams() {
		urls[name] = "http://" + string(name)
	}
	u, err := New(Config{URLs: urls, Transport: inProcess(w.answer), Metrics: prometheus.NewRegistry(), Namespace: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return u, w
}

func (w *wire) answer(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	body := []byte{}
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body) // what cannot be read was not sent
	}
	w.calls = append(w.calls, strings.TrimSpace(r.Method+" "+r.URL.String()+" "+string(body)))
	w.headers = append(w.headers, r.Header.Clone())
	status, text, _ := strings.Cut(w.answers[0], " ")
	if len(w.answers) > 1 {
		w.answers = w.answers[1:]
	}
	code, _ := strconv.Atoi(status)
	reply(rw, code, text)
}

// sent checks the only call so far, and the headers of its tenant and key.
func (w *wire) sent(t *testing.T, u backoffice.Upstream, tenant bff.ID, key, want string) {
	t.Helper()
	if diff := cmp.Diff([]string{want}, w.calls); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
		return
	}
	d := dialectOf(u)
	if got := w.headers[0].Get(d.tenant); got != d.write(tenant) {
		t.Errorf("for the tenant %q", got)
	}
	if got := w.headers[0].Get(d.key); d.key != "" && got != key {
		t.Errorf("with the key %q, want %q", got, key)
	}
}

var (
	wireTenant   = bff.MustParseID(bff.PrefixTenant, "tnt_01H8YN7QV4D8KZ4F8Y5CK4MV3A")
	wireProperty = bff.MustParseID(bff.PrefixProperty, "ppt_01H8YN7QV4D8KZ4F8Y5CK4MV3B")
	wireDevice   = bff.MustParseID(bff.PrefixDevice, "dev_01H8YN7QV4D8KZ4F8Y5CK4MV3C")
)

// Every service is spoken to with its own header, key and form of ids.
func TestDialects(t *testing.T) {
	t.Parallel()
	own := map[backoffice.Upstream]dialect{
		backoffice.UpstreamBilling: {"X-Billing-Tenant", "X-Idempotency-Key", true}, backoffice.UpstreamMaintenance: {"X-Tenant", "Idempotency-Key", true},
		backoffice.UpstreamLock: {"X-Lock-Tenant", "X-Request-Key", true}, backoffice.UpstreamAnalytics: {"X-Org-Id", "", true},
		backoffice.UpstreamSync: {"X-Tenant-Id", "X-Idempotency-Key", true},
	}
	for _, u := range backoffice.Upstreams() {
		want, ok := own[u]
		if !ok {
			want = dialect{"X-Tenant-Id", "Idempotency-Key", false}
		}
		if got := dialectOf(u); got != want {
			t.Errorf("%s: %+v", u, got)
		}
		p := Probe(u, wireTenant)
		about := probes[u].about
		switch {
		case about == "" && (len(p.Header) > 0 || strings.Contains(p.Path, "{")):
			t.Errorf("%s is probed with %+v", u, p)
		case about != "" && (p.Header.Get(want.tenant) != want.write(wireTenant) || !strings.Contains(
			p.Path, want.write(bff.IDFromBytes(about, wireTenant.Bytes())),
		)):
			t.Errorf("%s is probed with %+v", u, p)
		}
		if p.Route != probes[u].route || p.Route == "" {
			t.Errorf("%s is probed at %q", u, p.Route)
		}
	}
	uuid := dialect{uuid: true}
	if got := uuid.read(bff.PrefixProperty, wireProperty.UUID()); got != wireProperty.String() {
		t.Errorf("read %s", got)
	}
	if got := uuid.read(bff.PrefixProperty, "else"); got != "else" {
		t.Errorf("read %s", got)
	}
	if got := (dialect{}).read(bff.PrefixProperty, wireProperty.UUID()); got != wireProperty.UUID() {
		t.Errorf("read %s", got)
	}
}

// An action is posted to the resource that it is about, with its amount or its work order,
// and what the service has done is what it says of that resource.
func TestActionsAreSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ulid = "01H8YN7QV4D8KZ4F8Y5CK4MV3D"
		key := bff.MustParseID(bff.PrefixRequest, "req_"+ulid)
		at := bff.At(time.Date(2026, 11, 17, 6, 0, 0, 0, time.UTC))
		entry := bff.NewID(backoffice.PrefixPosting, time.Now())
		state := `"status":"done","version":3,"updatedAt":"2026-11-17T06:00:00Z","openedAt":"2026-11-17T06:00:00Z"}`
		money := &action.Posting{Amount: bff.Money{Minor: 1250, Currency: bff.AFN}, Description: "Tea"}
		paid := `,"entryId":"` + entry.UUID() + `","postedAt":"2026-11-17T06:00:00Z"}`
		const posted = ` {"amount":{"amountMinor":1250,"currency":"AFN"},"description":"Tea"}`
		for _, a := range backoffice.Actions() {
			d := dialectOf(a.Upstream)
			c := &action.Command{Action: &a, ID: bff.NewID(a.ID, time.Now()), Once: backoffice.Once{Key: ulid}}
			id := c.ID
			want := map[backoffice.Upstream]struct{ member, path, answer, body string }{
				backoffice.UpstreamReservation:  {"reservationId", "/api/v1/reservations/", state, ""},
				backoffice.UpstreamHousekeeping: {"taskId", "/api/v1/tasks/", state, ""},
				backoffice.UpstreamMaintenance:  {"workOrderId", "/api/v1/work-orders/", state, ""},
				backoffice.UpstreamBilling:      {"folioId", "/api/v1/folios/", paid[1:], posted},
			}[a.Upstream]
			sent := "POST http://" + string(a.Upstream) + want.path + d.write(id) + "/" + verbOf(a.Name) + want.body
			switch {
			case a.New:
				c.ID, c.WorkOrder = bff.ID{}, &action.NewWorkOrder{Title: "Lamp", Severity: "high", RoomNumber: "12", BlocksRoom: true}
				sent = `POST http://maintenance/api/v1/work-orders {"propertyId":"` + wireProperty.UUID() +
					`","title":"Lamp","severity":"high","roomNumber":"12","blocksRoom":true}`
			case want.body != "":
				c.Posting = money
			}
			u, w := newWire(t, `200 {"`+want.member+`":"`+d.write(id)+`",`+want.answer)
			done, err := u.Actions.Execute(t.Context(), wireTenant, wireProperty, c)
			if err != nil {
				t.Errorf("%s: %v", a.Name, err)
				continue
			}
			told := ulid
			if d.uuid {
				told = key.UUID()
			}
			w.sent(t, a.Upstream, wireTenant, told, sent)
			says := action.Done{want.member: id.String(), "status": "done", "version": 3, "updatedAt": at, "openedAt": at}
			if want.body != "" {
				says = action.Done{want.member: id.String(), "entryId": entry.String(), "postedAt": at}
			}
			if diff := cmp.Diff(says, done); diff != "" {
				t.Errorf("%s is done (-want +got):\n%s", a.Name, diff)
			}
			// Without what says where the resource stands it is not known.
			for _, part := range []string{`"status":"done"`, `"version":3`, `"entryId":"` + entry.UUID() + `"`, `"postedAt":"2026-11-17T06:00:00Z"`} {
				if !strings.Contains(want.answer, part) {
					continue
				}
				u, _ := newWire(t, `200 {"`+want.member+`":"`+d.write(id)+`",`+strings.Replace(want.answer, part, `"x":0`, 1))
				if done, err := u.Actions.Execute(t.Context(), wireTenant, wireProperty, c); !errors.Is(err, backoffice.ErrOutcomeUnknown) {
					t.Errorf("%s without %s: %v, %v", a.Name, part, done, err)
				}
			}
			if a.New {
				continue
			}
			u, w = newWire(t, `200 {"propertyId":"`+d.write(wireProperty)+`"}`)
			if at, err := u.Actions.FindProperty(t.Context(), wireTenant, &a, id); err != nil || at != wireProperty {
				t.Errorf("%s: at %s, %v", a.Name, at, err)
			}
			w.sent(t, a.Upstream, wireTenant, "", "GET http://"+string(a.Upstream)+want.path+d.write(id))
			for answer, code := range map[string]bff.Code{
				`404 {}`: bff.CodeResourceNotFound, `400 {}`: bff.CodeUpstreamUnavailable,
				`200 {"propertyId":"x"}`: bff.CodeUpstreamUnavailable, `200 {}`: bff.CodeUpstreamUnavailable,
			} {
				u, _ := newWire(t, answer)
				if _, err := u.Actions.FindProperty(t.Context(), wireTenant, &a, id); bff.CodeOf(err) != code {
					t.Errorf("%s at %s: %v, want %s", a.Name, answer, err, code)
				}
			}
			for answer, code := range map[string]bff.Code{`400 {}`: bff.CodeValidationFailed, `409 {}`: bff.CodeStateConflict} {
				u, _ := newWire(t, answer)
				if _, err := u.Actions.Execute(t.Context(), wireTenant, wireProperty, c); bff.CodeOf(err) != code || errors.Is(err, backoffice.ErrOutcomeUnknown) {
					t.Errorf("%s at %s: %v, want %s", a.Name, answer, err, code)
				}
			}
		}
	})
}

// verbOf is how the services call an action.
func verbOf(name backoffice.ActionName) string {
	return map[backoffice.ActionName]string{
		backoffice.CheckIn: "check-in", backoffice.CheckOut: "check-out", backoffice.TaskStart: "start", backoffice.TaskComplete: "complete",
		backoffice.TaskInspect: "inspect", backoffice.TaskReopen: "reopen", backoffice.WorkOrderStart: "start", backoffice.WorkOrderResolve: "resolve",
		backoffice.WorkOrderClose: "close", backoffice.WorkOrderReopen: "reopen", backoffice.Charge: "charges", backoffice.Refund: "refunds",
	}[name]
}

// A lock action is sent once, under its request's key, with the end of a key that has one;
// its state is what can follow from it.
func TestLockActionsAreSent(t *testing.T) {
	t.Parallel()
	reservation := bff.MustParseID(bff.PrefixReservation, "rsv_01H8YN7QV4D8KZ4F8Y5CK4MV3D")
	credential := bff.NewID(prefixCredential, time.Now())
	says := func(state, rest string) string { return `200 {"state":"` + state + `","vendor":"salto"` + rest + `}` }
	known := `,"credentialId":"` + credential.UUID() + `","reservationId":"` + reservation.UUID() + `"`
	unknown := lock.Result{State: lock.LockUnknown}
	for name, tc := range map[string]struct {
		action lock.Action
		until  bff.Timestamp
		answer string
		body   string
		want   lock.Result
		code   bff.Code
	}{
		"issued": {
			action: lock.IssueKey, until: bff.At(time.Date(2026, 11, 19, 12, 0, 0, 0, time.UTC)), answer: says("issued", known),
			body: `"validUntil":"2026-11-19T12:00:00.000Z",`,
			want: lock.Result{State: lock.LockIssued, Vendor: "salto", Credential: credential.String()},
		},
		"revoked": {action: lock.RevokeKey, answer: says("revoked", ""), want: lock.Result{State: lock.LockRevoked, Vendor: "salto"}},
		"pending": {action: lock.RevokeKey, answer: says("pending", ""), want: lock.Result{State: lock.LockPending, Vendor: "salto"}},
		"failed": {
			action: lock.IssueKey, answer: says("failed", `,"reason":"battery_low"`),
			want: lock.Result{State: lock.LockFailed, Vendor: "salto", Reason: "battery_low"},
		},
		"failed, in words": {
			action: lock.IssueKey, answer: says("failed", `,"reason":"a guest"`), want: lock.Result{State: lock.LockFailed, Vendor: "salto", Reason: "other"},
		},
		"revoked by issue": {action: lock.IssueKey, answer: says("revoked", ""), want: unknown, code: bff.CodeLockOutcomeUnknown},
		"issued by revoke": {action: lock.RevokeKey, answer: says("issued", ""), want: unknown, code: bff.CodeLockOutcomeUnknown},
		"of another": {
			action: lock.IssueKey, answer: says("issued", `,"reservationId":"`+credential.UUID()+`"`), want: unknown, code: bff.CodeLockOutcomeUnknown,
		},
		"gone": {
			action: lock.IssueKey, answer: `404 {}`, want: lock.Result{State: lock.LockFailed, Vendor: "none", Reason: string(bff.CodeResourceNotFound)},
			code: bff.CodeResourceNotFound,
		},
		"malformed": {
			action: lock.IssueKey, answer: `400 {}`, want: lock.Result{State: lock.LockFailed, Vendor: "none", Reason: string(bff.CodeValidationFailed)},
			code: bff.CodeValidationFailed,
		},
		"unfit": {
			action: lock.IssueKey, answer: `422 {}`, want: lock.Result{State: lock.LockFailed, Vendor: "none", Reason: string(bff.CodeValidationFailed)},
			code: bff.CodeValidationFailed,
		},
		"too many": {
			action: lock.IssueKey, answer: `429 {}`, want: lock.Result{State: lock.LockRefused, Reason: string(bff.CodeUpstreamUnavailable)},
			code: bff.CodeUpstreamUnavailable,
		},
		"refused": {action: lock.IssueKey, answer: `409 ` + refusal("KEY_REVOKED"), want: lock.Result{State: lock.LockFailed, Vendor: "none", Reason: "KEY_REVOKED"}},
		"fails":   {action: lock.IssueKey, answer: `500 {}`, want: unknown, code: bff.CodeLockOutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u, w := newWire(t, tc.answer)
				got, err := u.Lock.ActOnKey(t.Context(), lock.Order{
					Tenant: wireTenant, Property: wireProperty, Reservation: reservation, Action: tc.action, Request: "the request", ValidUntil: tc.until,
				})
				if (err != nil) != (tc.code != "") || err != nil && bff.CodeOf(err) != tc.code || got.Latency < time.Millisecond {
					t.Errorf("%+v, %v; want %q", got, err, tc.code)
				}
				got.Latency = 0
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				w.sent(t, backoffice.UpstreamLock, wireTenant, "the request", "POST http://lock/api/v1/reservations/"+reservation.UUID()+"/keys/"+string(tc.action)+
					` {"propertyId":"`+wireProperty.UUID()+`",`+tc.body+`"requestedBy":"bff-backoffice"}`)
			})
		})
	}
	for answer, want := range map[string]lock.Result{
		`200 {"state":"revoked","vendor":"salto","action":"revoke"}`: {State: lock.LockRevoked, Vendor: "salto"},
		`200 {"state":"revoked","vendor":"salto","action":"issue"}`:  unknown,
		`200 {"state":"issued","vendor":"a b","action":"issue"}`:     {State: lock.LockIssued, Vendor: "other"},
		`404 {}`: {},
		`500 {}`: {},
	} {
		u, w := newWire(t, answer)
		got, err := u.Lock.FindLockAction(t.Context(), wireTenant, "request")
		if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (want.Vendor != "") || errors.Is(err, lock.ErrNoLockAction) != (answer == `404 {}`) {
			t.Errorf("%s: %v (-want +got):\n%s", answer, err, diff)
		}
		w.sent(t, backoffice.UpstreamLock, wireTenant, "", "GET http://lock/api/v1/requests/request")
	}
}

// A cursor is read and moved for one device of one tenant; another version is told as such.
func TestCursors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		moved := `200 {"pullCursor":"p","pushAck":"a","cursorVersion":4}`
		want := device.SyncCursor{PullCursor: "p", PushAck: "a", Version: 4}
		at := " http://sync/api/v1/devices/" + wireDevice.UUID() + "/cursor"
		for answer, code := range map[string]bff.Code{
			moved: "", `409 {}`: bff.CodeInternal, `400 {}`: bff.CodeValidationFailed, `404 {}`: bff.CodeUpstreamUnavailable, `500 {}`: bff.CodeUpstreamUnavailable,
		} {
			u, w := newWire(t, answer)
			got, err := u.Sync.MoveCursor(t.Context(), wireTenant, wireDevice, device.CursorMove{Expected: 3, Pull: "p"}, "key")
			if (err != nil) != (code != "") || err != nil && bff.CodeOf(err) != code || errors.Is(err, device.ErrCursorMoved) != (answer == `409 {}`) ||
				err == nil && got != want {
				t.Errorf("%s: %+v, %v", answer, got, err)
			}
			w.sent(t, backoffice.UpstreamSync, wireTenant, "key", "POST"+at+` {"expectedVersion":3,"pullCursor":"p"}`)
		}
		for answer, code := range map[string]bff.Code{moved: "", `500 {}`: bff.CodeUpstreamUnavailable} {
			u, w := newWire(t, answer)
			got, err := u.Sync.FetchCursor(t.Context(), wireTenant, wireDevice)
			if (err != nil) != (code != "") || err != nil && bff.CodeOf(err) != code || err == nil && got != want {
				t.Errorf("%s: %+v, %v", answer, got, err)
			}
			w.sent(t, backoffice.UpstreamSync, wireTenant, "", "GET"+at)
		}
	})
}

// A property is its tenant's by what property-service says of it, and not by the tenant of the call.
func TestFindProperty(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		own := `"tenantId":"` + wireTenant.String() + `"`
		kabul, err := board.ReadZone("Asia/Kabul", "AF")
		if err != nil {
			t.Fatal(err)
		}
		kabulText, err := kabul.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		for answer, code := range map[string]bff.Code{
			`200 {` + own + `,"timeZone":"Asia/Kabul","address":{"country":"AF"}}`:    "",
			`200 {"tenantId":"tnt_01HCCAJ930Q3Y811AXYN4D8YR9"}`:                       bff.CodeResourceNotFound,
			`404 {"tenantId":"` + wireTenant.String() + `","address":{"country":""}}`: bff.CodeResourceNotFound,
			`200 {}`: bff.CodeResourceNotFound,
			`500 {}`: bff.CodeUpstreamUnavailable,
		} {
			u, w := newWire(t, answer)
			got, err := u.Property.FindProperty(t.Context(), wireTenant, wireProperty)
			zone, _ := got.Zone.MarshalText() // of a zone that there is not
			if (err != nil) != (code != "") || err != nil && bff.CodeOf(err) != code || err == nil && string(zone) != string(kabulText) {
				t.Errorf("%s: %+v, %v", answer, got, err)
			}
			if code != bff.CodeUpstreamUnavailable { // which is asked twice
				w.sent(t, backoffice.UpstreamProperty, wireTenant, "", "GET http://property/api/v1/properties/"+wireProperty.String())
			}
		}
	})
}

// A tenant's properties are listed by their ids, and none of another tenant's. A name has a
// default whatever property-service calls it; a zone that is not known is not made up.
func TestListProperties(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		row := func(last, rest string) string {
			return `{"propertyId":"ppt_01JXG9KMGRC638MD0V7C0ZPD0` + last + `","tenantId":"` + wireTenant.String() + `"` + rest + `}`
		}
		u, w := newWire(t, `200 {"asOf":"2026-11-17T06:00:00Z","nextCursor":"c1","items":[`+
			row("Z", `,"name":{"default":"de","values":{"ps":"کور","fa":"خانه"}}`)+`,
			{"propertyId":"ppt_01JXG9KMGRC638MD0V7C0ZPD0V","tenantId":"tnt_01HCCAJ930Q3Y811AXYN4D8YR9"},`+strings.Replace(row("Y", ""), "ppt_", "x", 1)+`]}`,
			`200 {"asOf":"2026-11-17T06:00:00Z","items":[`+row("W", `,"name":{"default":"en","values":{"en":"House"}},"address":{"city":"Kabul","country":"AF"}`)+`]}`)
		got, err := u.Property.ListProperties(t.Context(), wireTenant)
		text, err2 := json.Marshal(got)
		want := `[{"id":"ppt_01JXG9KMGRC638MD0V7C0ZPD0W","name":{"default":"House"},"city":"Kabul","zone":"country Asia/Kabul"},` +
			`{"id":"ppt_01JXG9KMGRC638MD0V7C0ZPD0Z","name":{"default":"خانه","localized":{"ps":"کور"}},"city":"","zone":""}]`
		if err != nil || err2 != nil || string(text) != want || len(w.calls) != 2 {
			t.Errorf("%s, %v %v, %v", text, err, err2, w.calls)
		}
		u, _ = newWire(t, `404 {}`)
		if _, err := u.Property.ListProperties(t.Context(), wireTenant); bff.CodeOf(err) != bff.CodeUpstreamUnavailable {
			t.Errorf("no list: %v", err)
		}
	})
}

// Iam is told whose session and whose second factor it is.
func TestIAMIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		session := &backoffice.Session{Tenant: wireTenant, Operator: "opt_1", Device: wireDevice}
		who := `"tenantId":"` + wireTenant.String() + `","operatorId":"opt_1","deviceId":"` + wireDevice.String() + `"`
		u, w := newWire(t, `204 `)
		if err := u.IAM.SignOut(t.Context(), session); err != nil {
			t.Error(err)
		}
		if err := u.IAM.StepUp(t.Context(), session, backoffice.Use{Scope: backoffice.ScopeRefund, Resource: "fol_1"}, "123456"); err == nil {
			t.Error("attested without an answer")
		}
		if _, err := u.IAM.Refresh(t.Context(), &identity.Holder{Device: wireDevice, Proof: "proof"}, "rft_1", ""); err == nil {
			t.Error("refreshed without an answer")
		}
		want := []string{
			`POST http://iam/api/v1/auth/sign-out {` + who + `}`,
			`POST http://iam/api/v1/auth/step-up {` + who + `,"scope":"folio.refund","resourceId":"fol_1","code":"123456"}`,
			`POST http://iam/api/v1/auth/refresh {"refreshToken":"rft_1","deviceId":"` + wireDevice.String() + `"}`,
		}
		if diff := cmp.Diff(want, w.calls); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
		if h := w.headers[2]; h.Get("DPoP") != "proof" || h["Idempotency-Key"] != nil {
			t.Errorf("refreshed with %v", h)
		}
		u, _ = newWire(t, `200 {"accessToken":"a","refreshToken":"b","expiresIn":900}`)
		got, err := u.IAM.Refresh(t.Context(), &identity.Holder{Device: wireDevice}, "rft_1", "")
		if err != nil || got != (identity.Tokens{AccessToken: "a", RefreshToken: "b", ExpiresIn: 900}) {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// A member has the rights that tenant-service names and no others, and preferences are read
// and changed for all properties or for one.
func TestTenantIsAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tenantPath, member := "/api/v1/tenants/"+wireTenant.String(), `{"roles":["owner","unknown"],"propertyScope":["`+wireProperty.String()+`","x"]}`
		u, _, _ := serve(t, func(path string) (int, string) {
			if path == tenantPath {
				return http.StatusOK, `{"status":"active"}`
			}
			return http.StatusOK, member
		})
		m, err := u.Tenant.FindMember(t.Context(), wireTenant, "opt_1", "")
		if err != nil || m.Suspended || m.Flags == nil || !slices.Equal(
			m.Roles, []backoffice.Role{backoffice.Owner},
		) || !m.Scope.Covers(wireProperty) || m.Scope.Covers(wireTenant) {
			t.Errorf("%+v, %v", m, err)
		}
		owner := device.PreferencesOwner{Tenant: wireTenant, Operator: "opt_1", Property: wireProperty}
		at := "http://tenant" + tenantPath + "/operators/opt_1/preferences"
		const good = `200 {"payload":"theirs","version":3,"updatedAt":"2026-11-17T06:00:00Z"}`
		u, w := newWire(t, good)
		p, err := u.Tenant.FetchPreferences(t.Context(), owner)
		if err != nil || p.Version != 3 || string(p.Payload) != `{}` || p.UpdatedAt.IsZero() {
			t.Errorf("%+v, %v", p, err)
		}
		if _, err := u.Tenant.ReplacePreferences(t.Context(), device.PreferencesChange{Owner: owner, Seen: 2, Payload: []byte(`{"a":1}`)}, "key"); err != nil {
			t.Error(err)
		}
		want := []string{
			"GET " + at + "?propertyId=" + wireProperty.String(), "PUT " + at + ` {"payload":{"a":1},"version":2,"propertyId":"` + wireProperty.String() + `"}`,
		}
		if diff := cmp.Diff(want, w.calls); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
		for _, bad := range []string{strings.Replace(good, `"version":3`, `"version":0`, 1), strings.Replace(good, `"version":3`, `"version":-1`, 1)} {
			u, _ := newWire(t, bad)
			if p, err := u.Tenant.FetchPreferences(t.Context(), owner); bff.CodeOf(err) != bff.CodeUpstreamUnavailable {
				t.Errorf("%s: %+v, %v", bad, p, err)
			}
		}
	})
}

// Lists are read to their end, up to ten pages, and are as old as their oldest page.
func TestPages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		place := board.Place{Tenant: wireTenant, Property: wireProperty}
		page := func(minute int, cursor string) string {
			return `200 {"asOf":"2026-11-17T06:` + strconv.Itoa(minute) + `:00Z","items":[{"roomNumber":"1","status":"dirty"}],"nextCursor":"` + cursor + `"}`
		}
		for name, tc := range map[string]struct {
			answers []string
			items   int
			minute  int
			cursors []string
		}{
			"one":     {[]string{page(10, "")}, 1, 10, []string{""}},
			"three":   {[]string{page(20, "a"), page(11, "b"), page(30, "")}, 3, 11, []string{"", "a", "b"}},
			"endless": {[]string{page(20, "a")}, 10, 20, []string{"", "a", "a", "a", "a", "a", "a", "a", "a", "a"}},
		} {
			u, w := newWire(t, tc.answers...)
			r, err := u.House.Read(t.Context(), board.SourceRooms, place)
			rooms, _ := r.Value.([]board.Room)
			if err != nil || len(rooms) != tc.items || r.AsOf.Minute() != tc.minute {
				t.Errorf("%s: %d items as of %s, %v", name, len(rooms), r.AsOf, err)
			}
			var cursors []string
			for _, call := range w.calls {
				_, address, _ := strings.Cut(call, " ")
				parsed, err := url.Parse(address)
				if err != nil || parsed.Query().Get("limit") != "200" {
					t.Fatalf("%s: %s", name, call)
				}
				cursors = append(cursors, parsed.Query().Get("cursor"))
			}
			if diff := cmp.Diff(tc.cursors, cursors); diff != "" {
				t.Errorf("%s: cursors (-want +got):\n%s", name, diff)
			}
		}
		for source, answers := range map[board.Source][]string{
			board.SourceRates:  {`200 {"asOf":"2026-11-17T06:00:00Z","items":[{"nightly":"1.5:AFN"}]}`},
			board.SourceRooms:  {page(1, "a"), `500 {}`},
			board.SourceAlerts: {`500 {}`},
		} {
			u, _ := newWire(t, answers...)
			if r, err := u.House.Read(t.Context(), source, place); bff.CodeOf(err) != bff.CodeUpstreamUnavailable {
				t.Errorf("%s: %+v, %v", source, r, err)
			}
		}
	})
}

// An inbox shows what is the tenant's and of its property, the newest first and not without
// end; what it has of others is counted.
func TestInboxesAreRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		entry := func(id, rest string) string {
			return `{"alertId":"` + id + `","raisedAt":"2026-11-17T06:00:00Z"` + rest + `}`
		}
		house := `,"propertyId":"` + wireProperty.String() + `"`
		for name, tc := range map[string]struct {
			answer string
			id     string
			want   bff.Code
		}{
			"found":            {`200 ` + entry("alr_1", house), "alr_1", ""},
			"of its property":  {`200 ` + entry("alr_1", ""), "alr_1", ""},
			"another one":      {`200 ` + entry("alr_2", house), "alr_1", bff.CodeResourceNotFound},
			"another tenant's": {`200 ` + entry("alr_1", house+`,"tenantId":"tnt_01HCCAJ930Q3Y811AXYN4D8YR9"`), "alr_1", bff.CodeResourceNotFound},
			"another house's":  {`200 ` + entry("alr_1", `,"propertyId":"ppt_01HCCAJ930Q3Y811AXYN4D8YR9"`), "alr_1", bff.CodeResourceNotFound},
			"odd property":     {`200 ` + entry("alr_1", `,"propertyId":"x"`), "alr_1", bff.CodeResourceNotFound},
			"none":             {`404 {}`, "alr_1", bff.CodeResourceNotFound},
			"no id of theirs":  {`400 {}`, "x", bff.CodeResourceNotFound},
			"away":             {`500 {}`, "alr_1", bff.CodeUpstreamUnavailable},
			"forbidden":        {`403 {}`, "alr_1", bff.CodeUpstreamUnavailable},
		} {
			u, w := newWire(t, tc.answer)
			got, err := u.Inboxes.FindEntry(t.Context(), inbox.Alerts, wireTenant, wireProperty, tc.id)
			if (err != nil) != (tc.want != "") || err != nil && bff.CodeOf(err) != tc.want || err == nil && (got.ID != tc.id || got.Property != wireProperty) {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			if w.calls[0] != "GET http://notification/api/v1/alerts/"+tc.id || w.headers[0].Get("X-Tenant-Id") != wireTenant.String() {
				t.Errorf("%s: asked %s", name, w.calls[0])
			}
		}
		// As many as an inbox may have, from as many pages as that takes.
		var items []string
		for n := range 400 {
			items = append(items, entry("alr_"+strconv.Itoa(n), house))
		}
		u, w := newWire(t, `200 {"items":[`+strings.Join(items, ",")+`],"nextCursor":"c"}`)
		got, err := u.Inboxes.FetchInbox(t.Context(), inbox.Alerts, wireTenant, wireProperty, "tag")
		if err != nil || len(got.Entries) != inbox.MaxInbox || len(w.calls) != 3 {
			t.Errorf("%d entries of %d pages, %v", len(got.Entries), len(w.calls), err)
		}
		if first, second := w.headers[0].Get("If-None-Match"), w.headers[1].Get("If-None-Match"); first != "tag" || second != "" {
			t.Errorf("tags %q, %q", first, second)
		}
		if want := "GET http://notification/api/v1/tenants/" + wireTenant.String() +
			"/alerts?limit=200&propertyId=" + wireProperty.String() + "&status=all"; w.calls[0] != want ||
			!strings.Contains(w.calls[2], "cursor=c") {
			t.Errorf("asked %s, %s", w.calls[0], w.calls[2])
		}
	})
}
