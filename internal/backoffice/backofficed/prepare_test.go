package backofficed

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/lock"
	"melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// prepareLock finds a reservation that no other action was about, whose key stands as
// the action wants it.
func (f *killedFleet) prepareLock(d *till, action lock.Action) ready {
	f.t.Helper()
	ctx := testkit.Context(f.t)
	tenant, houses := f.houses(d)
	stay := f.freshStay(tenant, houses, "/in-house")
	for f.slowLock(stay) {
		houses = slices.DeleteFunc(houses, func(house string) bool { return house == stay.PropertyID })
		stay = f.freshStay(tenant, houses, "/in-house")
	}
	reservation, header := stay.ReservationID, http.Header{"X-Property-Id": {stay.PropertyID}}
	path := "/locks/" + reservation + "/"
	if action != lock.IssueKey {
		issue := desk.Call{Method: http.MethodPost, Path: path + "issue-key", Header: header, IdempotencyKey: bff.NewID(bff.PrefixRequest, time.Now()).ULID()}
		testkit.Retry(f.t, "issue", func() bool {
			a, err := d.Ask(ctx, issue)
			return err == nil && a.Status < http.StatusBadRequest
		})
	}
	if action == lock.RevokeKey {
		header.Set("X-Mfa-Attestation", f.factor(d, "lock.revoke", reservation))
	}
	call := desk.Call{
		Method: http.MethodPost, Path: path + string(action) + "-key", Header: header, IdempotencyKey: bff.NewID(bff.PrefixRequest, time.Now()).ULID(),
	}
	return ready{call: call, routes: []string{"/keys/" + string(action)}, executed: func() (n int) {
		f.t.Helper()
		var doc struct {
			Requests []struct {
				RequestKey, Action string
				Executions         int
			}
		}
		f.look("/_sim/locks?"+url.Values{"reservationId": {reservation}}.Encode(), &doc)
		for _, r := range doc.Requests {
			if r.Action == string(action) {
				n += r.Executions
			}
		}
		return n
	}}
}

// slowLock reports whether the locks of the house are of the make that answers later.
func (f *killedFleet) slowLock(stay sim.Reservation) bool {
	f.t.Helper()
	var failure sim.LockFailure
	f.drill("/reservations/"+stay.ReservationID+"/lock-failures", nil, &failure)
	return failure.Vendor == "ttlock"
}

// heard is what a service behind must say of a thing in the end.
type heard struct{ path, tenant, status string }

// mutate is a request of an action at a property.
func mutate(property, path string, body any) desk.Call {
	return desk.Call{
		Method: http.MethodPost, Path: path, Body: body, Header: http.Header{"X-Property-Id": {property}},
		IdempotencyKey: bff.NewID(bff.PrefixRequest, time.Now()).ULID(),
	}
}

// houses are the properties of a manager's tenant.
func (f *killedFleet) houses(d *till) (tenant string, properties []string) {
	f.t.Helper()
	tenant = f.whoAmI(d.Client).TenantID
	for _, p := range f.Sim.Catalog().Properties {
		if p.TenantID == tenant {
			properties = append(properties, p.PropertyID)
		}
	}
	return tenant, properties
}

// prepareProxied makes a resource of its own ready for an action: it stands where the
// action wants it.
func (f *killedFleet) prepareProxied(d *till, a *backoffice.Action) ready {
	f.t.Helper()
	tenant, houses := f.houses(d)
	property, behind := houses[0], "/"+string(a.Upstream)+"/api/v1"
	var id string
	var body any
	switch a.ID {
	case bff.PrefixReservation:
		list, ok := map[string]string{"confirmed": "/arrivals?status=confirmed", "checked_in": "/in-house"}[a.From[0]]
		if !ok {
			f.t.Fatalf("%s: there is no list of reservations that are %s", a.Name, a.From[0])
		}
		stay := f.freshStay(tenant, houses, list)
		property, id = stay.PropertyID, stay.ReservationID
		behind += "/reservations/" + id
	case backoffice.PrefixTask:
		var task sim.Task
		f.drill("/tasks", map[string]string{"propertyId": property, "roomNumber": "101"}, &task)
		id = task.TaskID
		f.bring(a, "/tasks/"+id, "pending", "start", "in_progress", "complete", "done", "inspect", "inspected")
		behind += "/tasks/" + id
	case backoffice.PrefixWorkOrder:
		lamp := map[string]any{"title": "Lamp", "severity": "low"}
		if body, behind = lamp, behind+"/work-orders"; !a.New {
			var order sim.WorkOrder
			lamp["propertyId"] = property
			f.drill("/work-orders", lamp, &order)
			body, id = nil, order.WorkOrderID
			f.bring(a, "/work-orders/"+id, "open", "start", "in_progress", "resolve", "resolved", "close", "closed")
			behind += "/" + bff.MustParseID(a.ID, id).UUID()
		}
	case bff.PrefixFolio:
		stay := f.freshStay(tenant, houses, "/in-house")
		property, id = stay.PropertyID, stay.FolioID
		body = map[string]any{"amount": map[string]string{"minor": "1250", "currency": stay.Total.Currency}, "description": "Tea"}
		behind += "/folios/" + bff.MustParseID(a.ID, id).UUID()
	default:
		f.t.Fatalf("%s: there is no %s that can be made ready", a.Name, a.Kind)
	}
	if !a.New {
		behind += "/" + a.Verb()
	}
	r := ready{call: mutate(property, strings.Replace(a.Path, "{"+a.Member+"}", id, 1), body)}
	if a.Scope != "" && !a.Large {
		r.call.Header.Set("X-Mfa-Attestation", f.factor(d, string(a.Scope), id))
	}
	book := func() int {
		f.t.Helper()
		var doc struct{ Executions int }
		f.look("/_sim/executions?"+url.Values{"path": {behind}}.Encode(), &doc)
		return doc.Executions
	}
	before := book()
	r.action, r.routes, r.executed = string(a.Name), []string{behind}, func() int { return book() - before }
	return r
}

// freshStay is a stay of a list that no other action was about. If it is to be checked
// in, the room is empty.
func (f *killedFleet) freshStay(tenant string, houses []string, list string) sim.Reservation {
	f.t.Helper()
	for _, house := range houses {
		var stays, inHouse struct{ Items []sim.Reservation }
		f.upstreamGet("/reservation/api/v1/properties/"+house+list, "X-Tenant-Id", tenant, &stays)
		f.upstreamGet("/reservation/api/v1/properties/"+house+"/in-house", "X-Tenant-Id", tenant, &inHouse)
		for _, stay := range stays.Items {
			if f.used[stay.ReservationID] {
				continue
			}
			for _, other := range inHouse.Items {
				if other.RoomNumber == stay.RoomNumber && other.ReservationID != stay.ReservationID {
					f.drill("/reservations/"+other.ReservationID+"/check-out", nil, nil)
				}
			}
			f.used[stay.ReservationID] = true
			return stay
		}
	}
	f.t.Fatalf("no stay is left of %s", list)
	return sim.Reservation{}
}

// bring takes a thing through its life, from state to state, until it stands in the last
// of those in which the action is possible.
func (f *killedFleet) bring(a *backoffice.Action, path string, life ...string) {
	f.t.Helper()
	end := slices.Index(life, a.From[len(a.From)-1])
	if end < 0 {
		f.t.Fatalf("%s: there is no way to %v", a.Name, a.From)
	}
	for i := 1; i < end; i += 2 {
		f.drill(path+"/"+life[i], nil, nil)
	}
}

// prepareDecision has the orchestrator suggest something.
func (f *killedFleet) prepareDecision(d *till) ready {
	f.t.Helper()
	tenant, houses := f.houses(d)
	var s sim.Suggestion
	f.drill("/suggestions", map[string]string{"propertyId": houses[0], "category": "staffing"}, &s) // which every role decides about
	f.heard = append(f.heard, heard{"/ai-orchestrator/api/v1/suggestions/" + s.SuggestionID, tenant, "accepted"})
	return ready{
		call:   mutate(houses[0], "/ai/suggestions/"+s.SuggestionID+"/decide", map[string]string{"outcome": "accepted"}),
		routes: []string{"/suggestions", "/suggestions/" + s.SuggestionID}, action: "decide",
		executed: func() int {
			f.t.Helper()
			return f.counted(`SELECT count(*) FROM bff_backoffice.ai_decision_log WHERE suggestion_id = $1`, s.SuggestionID)
		},
	}
}

// prepareAcknowledgement raises an alert.
func (f *killedFleet) prepareAcknowledgement(d *till) ready {
	f.t.Helper()
	tenant, houses := f.houses(d)
	var a sim.Alert
	f.drill("/alerts", map[string]string{"propertyId": houses[0]}, &a)
	f.heard = append(f.heard, heard{"/notification/api/v1/alerts/" + a.AlertID, tenant, "acknowledged"})
	return ready{
		call: mutate(houses[0], "/alerts/"+a.AlertID+"/acknowledge", map[string]string{}), routes: []string{"/alerts", "/alerts/" + a.AlertID}, action: "acknowledge",
		executed: func() int {
			f.t.Helper()
			return f.counted(`SELECT count(*) FROM bff_backoffice.alert_ack_log WHERE alert_id = $1`, a.AlertID)
		},
	}
}

// factor is an attestation.
func (f *killedFleet) factor(d *till, scope, resource string) string {
	f.t.Helper()
	var factor string
	testkit.Retry(f.t, "step-up", func() (ok bool) {
		var err error
		factor, err = d.StepUp(testkit.Context(f.t), scope, resource, "000000")
		return err == nil
	})
	return factor
}

// drill has the simulated platform do something, and reads what came of it.
func (s *staff) drill(path string, body, into any) {
	s.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	s.control(http.MethodPost, "/_sim"+path, b, into)
}

// look reads what the simulator has seen.
func (s *staff) look(path string, into any) {
	s.t.Helper()
	s.control(http.MethodGet, path, nil, into)
}

// control speaks to the simulator itself.
func (s *staff) control(method, path string, body []byte, into any) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(testkit.Context(s.t), method, s.SimURL+path, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("X-Request-Id", "req_drill")
	res, err := new(http.Client).Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= http.StatusMultipleChoices {
		s.t.Fatalf("%s: %d", path, res.StatusCode)
	}
	if into == nil {
		return
	}
	if err := json.NewDecoder(res.Body).Decode(into); err != nil {
		s.t.Fatalf("%s: %v", path, err)
	}
}
