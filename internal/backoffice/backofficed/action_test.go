package backofficed

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/action"
	"melmastoon.ghasi.io/bff/internal/backoffice/inbox"
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

// Every action demands its roles, a second factor where money is at stake, and a
// resource of the property; what it is told ends up in the ledger and in an event.
func TestActions(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{limits: "change=100000,step-up=100000"})
	f.furnish()
	for _, r := range backoffice.Roles() {
		f.employ("opt_"+string(r), r)
	}
	for _, a := range backoffice.Actions() {
		for _, role := range backoffice.Roles() {
			s := f.sender("opt_" + string(role))
			want := "ROLE_DENIED"
			if slices.Contains(a.Roles, role) {
				want = http.StatusText(a.Status())
			}
			if got := codeOf(f.send(0, s.action(string(a.Name)))); got != want {
				t.Errorf("%s by %s: %s, want %s", a.Name, role, got, want)
			}
		}
	}
	s := f.sender("opt_general_manager")
	for _, test := range []struct {
		name   string
		err    error
		want   string
		ledger backoffice.Outcome // of the activity
	}{
		{"late", &bff.Error{Code: bff.CodeUpstreamTimeout, Err: backoffice.ErrOutcomeUnknown}, "UPSTREAM_TIMEOUT", backoffice.Unknown},
		{"malformed", &bff.Error{Code: bff.CodeUpstreamUnavailable, Err: backoffice.ErrOutcomeUnknown}, "UPSTREAM_UNAVAILABLE", backoffice.Unknown},
		{"not called", &bff.Error{Code: bff.CodeUpstreamUnavailable}, "UPSTREAM_UNAVAILABLE", backoffice.Failed},
		{"occupied", bff.Errorf(bff.CodeStateConflict, "other guests are still in the room"), "STATE_CONFLICT", backoffice.Failed},
		{"gone", bff.Errorf(bff.CodeResourceNotFound, "gone"), "RESOURCE_NOT_FOUND", backoffice.Failed},
		{"denied there", bff.Errorf(bff.CodeRoleDenied, "no"), "ROLE_DENIED", backoffice.Denied},
	} {
		for _, a := range backoffice.Actions() {
			f.behindUs.with(func() { f.behindUs.did = nil })
			f.outbox.forget()
			f.hands.change(func(h *handsFake) { h.err = test.err })
			r := s.action(string(a.Name))
			if got := codeOf(f.send(0, r)); got != test.want {
				t.Errorf("%s, %s: %s, want %s", a.Name, test.name, got, test.want)
			}
			f.hands.change(func(h *handsFake) { h.err = nil })
			want := []backoffice.Outcome{test.ledger, backoffice.Succeeded}
			if test.want == "STATE_CONFLICT" || test.want == "RESOURCE_NOT_FOUND" { // final
				want = want[:1]
			}
			w := f.send(0, s.again(r))
			if got := codeOf(w); len(want) == 1 && got != test.want || len(want) == 2 && w.Code >= http.StatusMultipleChoices {
				t.Errorf("%s, %s, repeated: %s", a.Name, test.name, got)
			}
			var got []backoffice.Outcome
			f.behindUs.with(func() {
				for _, did := range f.behindUs.did {
					if did.Action == string(a.Name) {
						got = append(got, did.Outcome)
					}
				}
			})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %s: the ledger says (-want +got):\n%s", a.Name, test.name, diff)
			}
			if diff := cmp.Diff(want, f.outbox.proxied(a.Name)); diff != "" {
				t.Errorf("%s, %s: events say (-want +got):\n%s", a.Name, test.name, diff)
			}
		}
	}
	// Resources that are not there, or elsewhere.
	r := s.action(string(backoffice.CheckIn))
	f.hands.change(func(h *handsFake) { h.moved[idIn(r.path)] = true })
	if got := codeOf(f.send(0, r)); got != "RESOURCE_NOT_FOUND" {
		t.Errorf("of another property: %s", got)
	}
}

// proxied are the outcomes of an action that events tell of, in their order.
func (o *outboxFake) proxied(name backoffice.ActionName) []backoffice.Outcome {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []backoffice.Outcome
	for _, e := range o.events {
		var said action.MutationProxied
		decode(o.tb, e.Payload, &said)
		if strings.Contains(string(e.Payload), "Zarghuna") {
			o.tb.Errorf("a guest in %s", e.Payload)
		}
		if said.Action == name {
			out = append(out, said.Outcome)
		}
	}
	return out
}

// forget makes the outbox empty.
func (o *outboxFake) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = nil
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

// idIn is the first id in a path.
func idIn(path string) bff.ID {
	for part := range strings.SplitSeq(path, "/") {
		prefix, _, _ := strings.Cut(part, "_")
		if id, err := bff.ParseID(bff.Prefix(prefix), part); err == nil {
			return id
		}
	}
	return bff.ID{}
}

// Refunds and large charges need a second factor, which one request uses up: the same
// request again is not asked for another, and is carried out once.
func TestSecondFactorOfMoney(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{limits: "change=100000,step-up=100000"})
	s := f.sender("opt_parwana")
	post := func(path, amount string) *request {
		return s.keyed(base+"/folios/"+bff.NewID(bff.PrefixFolio, f.clock()).String()+path+"?propertyId="+house, `{"amount":`+amount+`}`)
	}
	for _, test := range []struct{ path, amount, want string }{
		{"/charges", `{"minor":"10000","currency":"AFN"}`, "Created"}, // the threshold itself
		{"/charges", `{"minor":"10001","currency":"AFN"}`, "MFA_REQUIRED"},
		{"/charges", `{"minor":"501","currency":"USD"}`, "MFA_REQUIRED"},
		{"/charges", `{"minor":"1","currency":"EUR"}`, "MFA_REQUIRED"}, // which has no threshold
		{"/refunds", `{"minor":"1","currency":"AFN"}`, "MFA_REQUIRED"},
	} {
		if got := codeOf(f.send(0, post(test.path, test.amount))); got != test.want {
			t.Errorf("%s %s: %s, want %s", test.path, test.amount, got, test.want)
		}
	}
	before, _ := f.hands.carried()
	r := post("/refunds", `{"minor":"5","currency":"AFN"}`)
	if got := codeOf(f.send(0, r)); got != "MFA_REQUIRED" {
		t.Fatal(got)
	}
	wrong := s.again(r)
	wrong.header.Set("X-Mfa-Attestation", s.attest(backoffice.ScopeLargeCharge, idIn(r.path).String()))
	if got := codeOf(f.send(0, wrong)); got != "MFA_ATTESTATION_INVALID" {
		t.Errorf("of another scope: %s", got)
	}
	// The same key, now with the factor; cut off, and repeated.
	r.header.Set("X-Mfa-Attestation", s.attest(backoffice.ScopeRefund, idIn(r.path).String()))
	f.hands.change(func(h *handsFake) {
		h.err = &bff.Error{Code: bff.CodeUpstreamTimeout, Err: backoffice.ErrOutcomeUnknown}
	})
	if got := codeOf(f.send(0, s.again(r))); got != "UPSTREAM_TIMEOUT" {
		t.Errorf("cut off: %s", got)
	}
	f.hands.change(func(h *handsFake) { h.err = nil })
	for range 2 {
		if got := codeOf(f.send(0, s.again(r))); got != "Created" {
			t.Errorf("repeated: %s", got)
		}
	}
	bare := s.again(r) // what is done is told without a factor
	bare.header.Del("X-Mfa-Attestation")
	if got := codeOf(f.send(0, bare)); got != "Created" {
		t.Errorf("told again: %s", got)
	}
	if after, _ := f.hands.carried(); after != before+1 {
		t.Errorf("%d refunds", after-before)
	}
	other := post("/refunds", `{"minor":"5","currency":"AFN"}`)
	other.header.Set("X-Mfa-Attestation", r.header.Get("X-Mfa-Attestation"))
	if got := codeOf(f.send(0, other)); got != "MFA_ATTESTATION_INVALID" {
		t.Errorf("a used attestation: %s", got)
	}
}

// Several charges that are large together need what a large one needs, by operator, folio
// and day. One that was not made does not count.
func TestSecondFactorOfSplitCharges(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{limits: "change=100000,step-up=100000"})
	f.employ("opt_karim", backoffice.FrontDesk)
	folio, another := bff.NewID(bff.PrefixFolio, f.clock()), bff.NewID(bff.PrefixFolio, f.clock())
	s, karim := f.sender("opt_parwana"), f.sender("opt_karim")
	charge := func(s *sender, folio bff.ID, minor, currency string) *request {
		return s.keyed(base+"/folios/"+folio.String()+"/charges?propertyId="+house, `{"amount":{"minor":"`+minor+`","currency":"`+currency+`"}}`)
	}
	expect := func(what string, r *request, want string) {
		t.Helper()
		if got := codeOf(f.send(0, r)); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	f.hands.change(func(h *handsFake) { h.err = bff.Errorf(bff.CodeStateConflict, "the folio is settled") })
	expect("refused by billing", charge(s, folio, "9000", "AFN"), "STATE_CONFLICT")
	f.hands.change(func(h *handsFake) { h.err = errAway })
	expect("never sent", charge(s, folio, "9000", "AFN"), "UPSTREAM_UNAVAILABLE")
	f.hands.change(func(h *handsFake) {
		h.err = &bff.Error{Code: bff.CodeUpstreamTimeout, Err: backoffice.ErrOutcomeUnknown}
	})
	unknown := charge(s, folio, "4000", "AFN")
	expect("which may have been made", unknown, "UPSTREAM_TIMEOUT")
	f.hands.change(func(h *handsFake) { h.err = nil })
	expect("up to the threshold", charge(s, folio, "6000", "AFN"), "Created")
	expect("one more", charge(s, folio, "1", "AFN"), "MFA_REQUIRED")
	expect("one more in another currency", charge(s, folio, "1", "USD"), "MFA_REQUIRED")
	expect("what was let through, again", s.again(unknown), "Created")
	expect("another folio", charge(s, another, "10000", "AFN"), "Created")
	expect("another operator", charge(karim, folio, "10000", "AFN"), "Created")
	r := charge(s, folio, "5000", "AFN")
	r.header.Set("X-Mfa-Attestation", s.attest(backoffice.ScopeLargeCharge, folio.String()))
	expect("with the factor", r, "Created")
	expect("and without it again", charge(s, folio, "1", "AFN"), "MFA_REQUIRED")
	f.advance(24 * time.Hour)
	expect("on the next day", charge(f.sender("opt_parwana"), folio, "10000", "AFN"), "Created")
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

// Suggestions of a category are decided by its roles, and by managers and owners.
func TestDecidersOfACategory(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{limits: "change=100000"})
	f.furnish()
	f.employ("opt_karim", backoffice.Housekeeper, backoffice.FrontDesk, backoffice.Finance)
	f.employ("opt_lead", backoffice.HousekeepingLead)
	f.employ("opt_manager", backoffice.GeneralManager)
	for category, want := range map[string]string{
		"pricing": "ROLE_DENIED ROLE_DENIED OK", "revenue": "ROLE_DENIED ROLE_DENIED OK", "maintenance": "ROLE_DENIED ROLE_DENIED OK",
		"housekeeping": "ROLE_DENIED OK OK", "staffing": "OK OK OK",
	} {
		var got []string
		for _, operator := range []string{"opt_karim", "opt_lead", "opt_manager"} {
			id := f.adviseOf(category)
			got = append(got, codeOf(f.send(0, f.sender(operator).keyed(base+"/ai/suggestions/"+id+"/decide?propertyId="+house, `{"outcome":"accepted"}`))))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", category, got, want)
		}
	}
}

// Of two operators that decide about one suggestion at once, over two instances, one
// does. The inbox shows it at once, and the event tells the orchestrator.
func TestDecide(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{instances: 2, limits: "change=100000"})
	f.furnish()
	f.employ("opt_karim", backoffice.Housekeeper)
	a, b := f.sender("opt_parwana"), f.sender("opt_karim")
	path := base + "/ai/suggestions/sug_2/decide?propertyId=" + house
	requests := []*request{
		a.keyed(path, `{"outcome":"accepted","notes":"`+strings.Repeat("ü", 300)+`"}`),
		b.keyed(path, `{"outcome":"modified","modifiedDelta":{"ratePercent":4}}`),
	}
	codes := make([]string, 2)
	var wg sync.WaitGroup
	for i, r := range requests {
		wg.Go(func() { codes[i] = codeOf(f.send(i, r)) })
	}
	wg.Wait()
	slices.Sort(codes)
	if diff := cmp.Diff([]string{"OK", "SUGGESTION_ALREADY_DECIDED"}, codes); diff != "" {
		t.Fatal(diff)
	}
	decisions := f.behindUs.decisions
	if len(decisions) != 1 || decisions[0].Category != "power" || decisions[0].Severity != "warning" || len([]rune(decisions[0].Notes)) > 200 {
		t.Errorf("%+v", decisions)
	}
	if got := slices.DeleteFunc(f.outbox.subjects(), func(s string) bool { return s != "ai_suggestion.decided" }); len(got) != 1 {
		t.Errorf("%d events", len(got))
	}
	for i, r := range requests { // each is told the same again
		by := []*sender{a, b}[i]
		w := f.send(1-i, by.again(r))
		if decisions[0].Operator == by.claims["sub"] && codeOf(w) != "OK" || decisions[0].Operator != by.claims["sub"] && codeOf(w) != "SUGGESTION_ALREADY_DECIDED" {
			t.Errorf("repeated: %s", w.Body)
		}
	}
	if got := readInboxDoc(t, a.get("/ai/suggestions?status=open&propertyId="+house)); got.Total != 0 {
		t.Errorf("still open: %v", got.ids())
	}
	// The orchestrator is late, away or malformed when it is asked for one that is new:
	// nothing is decided, and the same request decides when it answers.
	for code, want := range map[bff.Code]string{bff.CodeUpstreamTimeout: "UPSTREAM_TIMEOUT", bff.CodeUpstreamUnavailable: "UPSTREAM_UNAVAILABLE"} {
		r := a.action("decide")
		f.behindUs.with(func() { f.behindUs.err = bff.Errorf(code, "no answer") })
		if got := codeOf(f.send(0, r)); got != want {
			t.Errorf("%s: %s", code, got)
		}
		f.behindUs.with(func() { f.behindUs.err = nil })
		if got := codeOf(f.send(0, a.again(r))); got != "OK" {
			t.Errorf("after %s: %s", code, got)
		}
	}
	at := f.clock()
	f.behindUs.add(inbox.Suggestions, f.tenant, "sug_old", at, `,"expiresAt":"`+bff.At(at).String()+`"`)
	for id, want := range map[string]string{"sug_old": "STATE_CONFLICT", "sug_none": "RESOURCE_NOT_FOUND", firstSuggestion: "SUGGESTION_ALREADY_DECIDED"} {
		if got := codeOf(f.send(0, a.keyed(base+"/ai/suggestions/"+id+"/decide?propertyId="+house, `{"outcome":"accepted"}`))); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}

// An operator acknowledges an alert once, however often and under whatever key.
func TestAcknowledge(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	f.furnish()
	f.employ("opt_karim", backoffice.Housekeeper)
	path := base + "/alerts/alr_2/acknowledge?propertyId=" + house
	s := f.sender("opt_parwana")
	first := f.send(0, s.keyed(path, `{}`))
	f.advance(time.Minute)
	second := f.send(0, s.keyed(path, `{"notes":"again"}`))
	if first.Code != http.StatusOK || first.Body.String() != second.Body.String() {
		t.Errorf("%s, then %s", first.Body, second.Body)
	}
	if w := f.send(0, f.sender("opt_karim").keyed(path, `{}`)); w.Code != http.StatusOK {
		t.Error(w.Body)
	}
	if got := slices.DeleteFunc(f.outbox.subjects(), func(s string) bool { return s != "alert.acknowledged" }); len(got) != 2 {
		t.Errorf("%d events, want one of each operator", len(got))
	}
	if got := codeOf(f.send(0, s.keyed(base+"/alerts/alr_none/acknowledge?propertyId="+house, `{}`))); got != "RESOURCE_NOT_FOUND" {
		t.Error(got)
	}
	if doc := readInboxDoc(t, s.get("/alerts?propertyId="+house)); len(doc.Items[0].Acknowledgements) != 2 {
		t.Errorf("%+v", doc.Items[0])
	}
}
