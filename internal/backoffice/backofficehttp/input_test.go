package backofficehttp_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
)

// faults are what a refusal names, each with its code.
func faults(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var doc struct {
		Error struct{ Errors []bff.FieldError }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || codeOf(w) != "VALIDATION_FAILED" {
		return codeOf(w)
	}
	var out []string
	for _, e := range doc.Error.Errors {
		out = append(out, e.Field+" "+e.Code)
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ", ")
}

// Every bad field is named at once, and nothing is done.
func TestInput(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{limits: "change=100000,device=100000,read=100000,step-up=100000,auth=100000"})
	f.employ("opt_parwana", backoffice.Roles()...)
	f.furnish()
	s := f.sender("opt_parwana")
	const (
		post, put, get = http.MethodPost, http.MethodPut, http.MethodGet
		at             = "?propertyId=" + house
		decide         = "/ai/suggestions/sug_2/decide" + at
		orders         = "/maintenance/work-orders"
		locks          = "/locks/" + reservation
		prefs          = "/preferences"
	)
	folio := "/folios/" + bff.NewID(bff.PrefixFolio, f.clock()).String()
	charges, own := folio+"/charges"+at, "/devices/"+s.device.ID()
	deep := strings.Repeat(`{"a":`, 8) + `1` + strings.Repeat(`}`, 8)
	for _, test := range []struct{ method, path, body, want string }{
		{post, "/reservations/rsv_1/check-in" + at, "", "reservationId format"},
		{post, "/housekeeping/tasks/hkt_1/dance" + at, "", "taskId format, transition unsupported"},
		{post, orders + "/" + bff.NewID(backoffice.PrefixWorkOrder, f.clock()).String() + "/complete" + at, "", "transition unsupported"},
		{post, orders + at, `{"guest":"x"}`, "guest unsupported, severity required, title required"},
		{post, orders + at, `{"title":"","severity":"low"}`, "title required"},
		{post, orders + at, `{"title":7,"severity":"dire","roomNumber":"a b"}`, "roomNumber format, severity unsupported, title type"},
		{post, charges, `{}`, "amount required"},
		{post, charges, `{"amount":{},"guestName":"x"}`, "amount.currency required, amount.minor required, guestName unsupported"},
		{post, charges, `{"amount":{"minor":"1.5","currency":"AFN"}}`, "amount.minor format"},
		{post, charges, `{"amount":{"minor":"0","currency":"AFN"}}`, "amount.minor range"},
		{post, charges, `{"amount":{"minor":"-5","currency":"AFN"}}`, "amount.minor range"},
		{post, charges, `{"amount":{"minor":"5","minor":"500000","currency":"AFN"},"amount":{"minor":"5","currency":"AFN"}}`, "amount conflict, amount.minor conflict"},
		{
			post, folio + "/refunds" + at, `{"amount":{"minor":5,"currency":"JPY"},"description":5}`,
			"amount.currency unsupported, amount.minor type, description type",
		},
		{post, decide, `{}`, "outcome required"},
		{post, decide, `{"outcome":"maybe","severity":"info"}`, "outcome unsupported, severity unsupported"},
		{post, decide, `{"outcome":"accepted","outcome":"rejected"}`, "outcome conflict"},
		{post, decide, `{"outcome":"modified"}`, "modifiedDelta required"},
		{post, decide, `{"outcome":"modified","modifiedDelta":{}}`, "modifiedDelta required"},
		{post, decide, `{"outcome":"accepted","modifiedDelta":{"a":1}}`, "modifiedDelta conflict"},
		{
			post, decide, `{"outcome":"modified","modifiedDelta":{"ratePercent":1e131071,"b":[1E-99999,"a\u0000b"],"c":{"d":1e16}}}`,
			"modifiedDelta.b[0] range, modifiedDelta.b[1] format, modifiedDelta.c.d range, modifiedDelta.ratePercent range",
		},
		{
			post, decide, `{"outcome":"modified","modifiedDelta":{"a":{"note":"Zarghuna Ahmadzai"},"b":["x y"]}}`,
			"modifiedDelta.a.note format, modifiedDelta.b[0] format",
		},
		{post, decide, `{"outcome":"modified","modifiedDelta":{"ratePercent":4,"ratePercent":40}}`, "modifiedDelta.ratePercent conflict"},
		{
			post, decide, `{"outcome":"modified","modifiedDelta":{"a":"` + strings.Repeat("x", 100) + `","l":[` + strings.Repeat(`"abcdefgh",`, 400) + `1]}}`,
			"modifiedDelta count, modifiedDelta length",
		},
		{post, "/alerts/alr_2/acknowledge" + at, `{"notes":"a","notes":"b"}`, "notes conflict"},
		{post, "/alerts/alr_2/acknowledge" + at, `{"notes":7,"category":"power"}`, "category unsupported, notes type"},

		{post, "/locks/x/extend-key" + at, `{"validUntil":"soon","guest":1}`, "guest unsupported, reservationId format, validUntil format"},
		{post, locks + "/extend-key" + at, `{"validUntil":"2020-01-01T00:00:00.000Z"}`, "validUntil range"},
		{post, locks + "/issue-key" + at, `{"validUntil":"2099-01-01T00:00:00.000Z"}`, "validUntil unsupported"},
		{post, "/locks/x/issue-key" + at, ``, "reservationId format"},

		{post, "/devices/" + f.sender("opt_parwana").device.ID() + "/heartbeat", goodHeartbeat, "DEVICE_MISMATCH"},
		{post, "/devices/" + f.sender("opt_parwana").device.ID() + "/offline-hints", goodHints, "DEVICE_MISMATCH"},
		{post, "/devices/mine/heartbeat", goodHeartbeat, "deviceId format"},
		{
			post, own + "/heartbeat", `{}`,
			"appPlatform required, appVersion required, installerChannel required, networkProfile required, pendingHintCount required",
		},
		{
			post, own + "/heartbeat",
			`{"appVersion":"two","appPlatform":"amiga","networkProfile":"bad","installerChannel":"A B","pendingHintCount":-1,"lastPullCursor":"a b"}`,
			"appPlatform unsupported, appVersion format, installerChannel format, lastPullCursor format, networkProfile unsupported, pendingHintCount range",
		},
		{
			post, own + "/heartbeat", `{"appVersion":"","appPlatform":"","networkProfile":"","installerChannel":"","pendingHintCount":0}`,
			"appPlatform required, appVersion required, installerChannel required, networkProfile required",
		},
		{post, own + "/offline-hints", `{}`, "entries required"},
		{post, own + "/offline-hints", `{"entries":[],"note":"x"}`, "note unsupported"},
		{
			post, own + "/offline-hints", `{"entries":[` + strings.TrimSuffix(strings.Repeat(`{"kind":"a","count":1},`, device.MaxHints+1), ",") + `]}`,
			"entries count",
		},
		{
			post, own + "/offline-hints",
			`{"entries":[1,{"kind":"check_in","count":1,"guestName":"Ahmad"},{"kind":"Check In","count":0,"id":"a b","resourceId":"/","queuedAt":"today"},{}]}`,
			"entries[0] type, entries[1].guestName unsupported, entries[2].count range, entries[2].id format, entries[2].kind format, " +
				"entries[2].queuedAt format, entries[2].resourceId format, entries[3].count required, entries[3].kind required",
		},
		{post, "/sync/cursor", `{"pullCursor":"1"}`, "expectedVersion required"},
		{post, "/sync/cursor", `{"expectedVersion":3}`, "pullCursor required"},
		{post, "/sync/cursor", `{"expectedVersion":-1,"pushAck":"1"}`, "expectedVersion range"},
		{post, "/sync/cursor", `{"expectedVersion":3,"pullCursor":"a b"}`, "pullCursor format"},
		{post, "/sync/cursor", `{"expectedVersion":"3","pullCursor":"ab"}`, "expectedVersion type"},

		{put, prefs, `{}`, "payload required"},
		{put, prefs, `{"payload":[]}`, "payload type"},
		{put, prefs, `{"payload":{},"version":2}`, "version unsupported"},
		{put, prefs, `{"payload":{"a":` + deep + `}}`, "payload.a.a.a.a.a.a.a.a range"},
		{put, prefs, `{"payload":{"n":1e99999999}}`, "payload.n range"},
		{put, prefs, `{"payload":{"n":[0,{"x":1e131071}]}}`, "payload.n[1].x range"},
		{put, prefs, `{"payload":{"n":123456789012345678}}`, "payload.n range"},
		{put, prefs, `{"payload":{"theme":"a\u0000b"}}`, "payload.theme format"},
		{put, prefs, `{"payload":{"\u0000":1}}`, "payload format"},
		{put, prefs, `{"payload":{"list":[` + strings.Repeat("1,", 2000) + `1]}}`, "payload count"},
		{put, prefs, `{"payload":{"a":1,"a":2}}`, "payload.a conflict"},
		{put, prefs, `{"payload":{"keyboardShortcuts":{"view.refresh":"Ctl+X"}}}`, "payload.keyboardShortcuts format"},
		{put, prefs, `{"payload":{"keyboardShortcuts":[]}}`, "payload.keyboardShortcuts format"},
		{put, prefs, `{"payload":{"a":"` + strings.Repeat("x", device.MaxPreferences) + `"}}`, "PAYLOAD_TOO_LARGE"},

		{get, "/alerts" + at + "&status=new&limit=201&cursor=x", "", "cursor format, limit range, status[0] unsupported"},
		{get, "/alerts" + at + "&cursor=MS4x", "", "cursor format"},
		{get, "/alerts" + at + "&limit=1&limit", "", "limit conflict"},
		{
			get, "/activity" + at + "&resource=a:&operatorId=a%20b&from=yesterday&to=2026-11-17&cursor=x&limit=201", "",
			"cursor format, from format, limit range, operatorId format, resource format, to format",
		},
		{get, "/activity" + at + "&from=2026-11-17T00:00:00Z&to=2026-11-17T00:00:00Z", "", "to range"},
		{get, "/activity" + at + "&resource=:", "", "resource format"},
		{get, "/activity" + at + "&resource=a%20b", "", "resource format"},
		{get, "/activity" + at + "&to=0001-01-01T00:00:00Z&limit=0", "", "limit range, to format"},

		{post, "/auth/mfa/step-up", `{"scope":"lock.revoke"}`, "code required"},
		{post, "/auth/mfa/step-up", `{"scope":"everything","code":"0000000000000"}`, "code length, scope unsupported"},
		{post, "/auth/mfa/step-up", `{"code":"000000"}`, "scope required"},
	} {
		r := s.keyed(base+test.path, test.body)
		r.method, r.proof.Method = test.method, test.method
		r.header.Set("If-Match", `"1"`)
		if got := faults(t, f.send(0, r)); got != test.want {
			t.Errorf("%s %s %s: %s, want %s", test.method, test.path, test.body, got, test.want)
		}
	}
	if _, calls := f.actions.carried(); calls+len(f.locks.calls())+len(f.behindUs.decisions)+len(f.devices.seen)+len(f.devices.reports)+len(f.syncing.did) > 0 ||
		f.version() != 1 {
		t.Error("something was done")
	}
}
