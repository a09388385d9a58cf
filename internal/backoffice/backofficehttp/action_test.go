package backofficehttp_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

func decode(tb testing.TB, body []byte, into any) {
	tb.Helper()
	if err := json.Unmarshal(body, into); err != nil {
		tb.Fatalf("%v: %s", err, body)
	}
}

// meetActions meets the answers of actions that other operations do not have.
func meetActions(f *front, s *sender, send func(*request, int)) {
	f.house.change(func(h *houseFake) { h.foreign[foreign] = true })
	n := f.behindUs
	for _, name := range actionNames() {
		key := ""
		with := func(change func(*request), want int) {
			r := s.action(name)
			change(r)
			key = r.header.Get("X-Idempotency-Key")
			send(r, want)
		}
		with(func(r *request) { r.header.Del("X-Idempotency-Key") }, http.StatusPreconditionRequired)
		with(func(r *request) { r.path = strings.Replace(r.path, house, other, 1) }, http.StatusForbidden)
		with(func(r *request) { r.path = strings.Replace(r.path, house, foreign, 1) }, http.StatusNotFound)
		first := s.action(name)
		f.send(0, first)
		key = first.header.Get("X-Idempotency-Key")
		// Another resource or body under the key of the first.
		with(func(r *request) {
			r.body = strings.NewReplacer("seen", "noted", "low", "high").Replace(r.body)
			r.header.Set("X-Idempotency-Key", key)
		}, http.StatusUnprocessableEntity)
		n.with(func() { n.answers[f.tenant.String()+key].running = true })
		again := s.request(first.method, first.path, first.body)
		again.header.Set("X-Idempotency-Key", key)
		send(again, http.StatusConflict)
	}
}

// again is the same request with a new proof.
func (s *sender) again(r *request, also ...string) *request {
	same := s.request(r.method, r.path, r.body)
	for _, h := range append(also, "X-Idempotency-Key", "X-Mfa-Attestation") {
		if v := r.header.Get(h); v != "" {
			same.header.Set(h, v)
		}
	}
	return same
}

// Every bad field is named at once.
func TestActionInput(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{limits: "change=100000"})
	f.employ("opt_parwana", backoffice.Roles()...)
	f.furnish()
	s := f.sender("opt_parwana")
	folio := "/folios/" + bff.NewID(bff.PrefixFolio, f.clock()).String()
	decide := "/ai/suggestions/sug_2/decide"
	for _, test := range []struct{ path, body, want string }{
		{"/reservations/rsv_1/check-in", "", "reservationId"},
		{"/housekeeping/tasks/hkt_1/dance", "", "taskId transition"},
		{"/maintenance/work-orders/" + bff.NewID(backoffice.PrefixWorkOrder, f.clock()).String() + "/complete", "", "transition"},
		{"/maintenance/work-orders", `{"guest":"x"}`, "guest severity title"},
		{"/maintenance/work-orders", `{"title":"","severity":"dire","roomNumber":"a b"}`, "roomNumber severity title"},
		{folio + "/charges", `{}`, "amount"},
		{folio + "/charges", `{"amount":{},"guestName":"x"}`, "amount.currency amount.minor guestName"},
		{folio + "/charges", `{"amount":{"minor":"1.5","currency":"AFN"}}`, "amount.minor"},
		{folio + "/charges", `{"amount":{"minor":"0","currency":"AFN"}}`, "amount.minor"},
		{folio + "/charges", `{"amount":{"minor":"-5","currency":"AFN"}}`, "amount.minor"},
		{folio + "/refunds", `{"amount":{"minor":5,"currency":"JPY"},"description":5}`, "amount.currency amount.minor description"},
		{decide, `{}`, "outcome"},
		{decide, `{"outcome":"maybe","severity":"info"}`, "outcome severity"},
		{decide, `{"outcome":"modified"}`, "modifiedDelta"},
		{decide, `{"outcome":"modified","modifiedDelta":{}}`, "modifiedDelta"},
		{decide, `{"outcome":"accepted","modifiedDelta":{"a":1}}`, "modifiedDelta"},
		{
			decide, `{"outcome":"modified","modifiedDelta":{"ratePercent":1e131071,"b":[1E-99999,"a\u0000b"],"c":{"d":1e16}}}`,
			"modifiedDelta.b[0] modifiedDelta.b[1] modifiedDelta.c.d modifiedDelta.ratePercent",
		},
		{decide, `{"outcome":"modified","modifiedDelta":{"ratePercent":"4","guest":"Ahmad.Karimi"}}`, "modifiedDelta.guest modifiedDelta.ratePercent"},
		{decide, `{"outcome":"modified","modifiedDelta":{"ratePercent":4,"ratePercent":40}}`, "modifiedDelta.ratePercent"},
		{decide, `{"outcome":"accepted","outcome":"rejected"}`, "outcome"},
		{folio + "/charges", `{"amount":{"minor":"5","minor":"500000","currency":"AFN"},"amount":{"minor":"5","currency":"AFN"}}`, "amount amount.minor"},
		{"/alerts/alr_2/acknowledge", `{"notes":"a","notes":"b"}`, "notes"},
		{decide, `{"outcome":"modified","modifiedDelta":{"a":{"note":"Zarghuna Ahmadzai"},"b":["x y"]}}`, "modifiedDelta.a.note modifiedDelta.b[0]"},
		{
			decide, `{"outcome":"modified","modifiedDelta":{"a":"` + strings.Repeat("x", 100) + `","l":[` + strings.Repeat(`"abcdefgh",`, 400) + `1]}}`,
			"modifiedDelta",
		},
		{"/alerts/alr_2/acknowledge", `{"notes":7,"category":"power"}`, "category notes"},
	} {
		w := f.send(0, s.keyed(base+test.path+"?propertyId="+house, test.body))
		var doc struct {
			Error struct{ Errors []bff.FieldError }
		}
		decode(t, w.Body.Bytes(), &doc)
		fields := map[string]bool{}
		for _, e := range doc.Error.Errors {
			fields[e.Field] = true
		}
		if got := strings.Join(slices.Sorted(maps.Keys(fields)), " "); got != test.want || codeOf(w) != "VALIDATION_FAILED" {
			t.Errorf("%s %s: %s %q, want %q", test.path, test.body, codeOf(w), got, test.want)
		}
	}
	if _, calls := f.hands.carried(); calls > 0 {
		t.Errorf("%d calls", calls)
	}
	// A delta that does not fit is found out when the suggestion is read, and the refusal
	// is the key's.
	r := s.keyed(base+decide+"?propertyId="+house, `{"outcome":"modified","modifiedDelta":{"phone":"+93701234567"}}`)
	first, second := f.send(0, r), f.send(0, s.again(r))
	if codeOf(first) != "VALIDATION_FAILED" || codeOf(second) != "VALIDATION_FAILED" || !strings.Contains(second.Body.String(), `"modifiedDelta.phone"`) {
		t.Errorf("%s, then %s", first.Body, second.Body)
	}
	if got := len(f.behindUs.decisions); got > 0 {
		t.Errorf("%d decisions", got)
	}
}
