package backofficed

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// prepareLock finds a reservation that no other action was about, whose key stands as
// the action wants it.
func (f *killedFleet) prepareLock(d *till, action backoffice.LockAction) ready {
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
	if action != backoffice.IssueKey {
		issue := desk.Call{Method: http.MethodPost, Path: path + "issue-key", Header: header, IdempotencyKey: bff.NewID(bff.PrefixRequest, time.Now()).ULID()}
		for {
			a, err := d.Ask(ctx, issue)
			if err == nil && a.Status < http.StatusBadRequest {
				break
			}
			f.retry("issue")
		}
	}
	if action == backoffice.RevokeKey {
		header.Set("X-Mfa-Attestation", f.factor(d, "lock.revoke", reservation))
	}
	call := desk.Call{Method: http.MethodPost, Path: path + string(action) + "-key", Header: header, IdempotencyKey: bff.NewID(bff.PrefixRequest, time.Now()).ULID()}
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
	var r ready
	behind := "/" + string(a.Upstream) + "/api/v1"
	switch a.Name {
	case backoffice.CheckIn, backoffice.CheckOut:
		verb := map[backoffice.ActionName]string{backoffice.CheckIn: "check-in", backoffice.CheckOut: "check-out"}[a.Name]
		stay := f.freshStay(tenant, houses, map[bool]string{true: "/arrivals?status=confirmed", false: "/in-house"}[a.Name == backoffice.CheckIn])
		r.call = mutate(stay.PropertyID, "/reservations/"+stay.ReservationID+"/"+verb, nil)
		behind += r.call.Path
	case backoffice.TaskStart, backoffice.TaskComplete, backoffice.TaskInspect, backoffice.TaskReopen:
		var task sim.Task
		f.drill("/tasks", map[string]string{"propertyId": houses[0], "roomNumber": "101"}, &task)
		verb := f.moveTo("/tasks/"+task.TaskID, map[backoffice.ActionName][]string{
			backoffice.TaskStart: {"start"}, backoffice.TaskComplete: {"complete"}, backoffice.TaskInspect: {"complete", "inspect"}, backoffice.TaskReopen: {"complete", "reopen"},
		}[a.Name])
		r.call = mutate(houses[0], "/housekeeping/tasks/"+task.TaskID+"/"+verb, nil)
		behind += "/tasks/" + task.TaskID + "/" + verb
	case backoffice.WorkOrderOpen:
		r.call = mutate(houses[0], "/maintenance/work-orders", map[string]any{"title": "Lamp", "severity": "low"})
		behind += "/work-orders"
	case backoffice.WorkOrderStart, backoffice.WorkOrderResolve, backoffice.WorkOrderClose, backoffice.WorkOrderReopen:
		var order sim.WorkOrder
		f.drill("/work-orders", map[string]any{"propertyId": houses[0], "title": "Lamp", "severity": "low"}, &order)
		verb := f.moveTo("/work-orders/"+order.WorkOrderID, map[backoffice.ActionName][]string{
			backoffice.WorkOrderStart: {"start"}, backoffice.WorkOrderResolve: {"resolve"}, backoffice.WorkOrderClose: {"resolve", "close"}, backoffice.WorkOrderReopen: {"resolve", "reopen"},
		}[a.Name])
		r.call = mutate(houses[0], "/maintenance/work-orders/"+order.WorkOrderID+"/"+verb, nil)
		behind += "/work-orders/" + bff.MustParseID(backoffice.PrefixWorkOrder, order.WorkOrderID).UUID() + "/" + verb
	case backoffice.Charge, backoffice.Refund:
		stay := f.freshStay(tenant, houses, "/in-house")
		verb := string(a.Name) + "s"
		r.call = mutate(stay.PropertyID, "/folios/"+stay.FolioID+"/"+verb, map[string]any{
			"amount": map[string]string{"minor": "1250", "currency": stay.Total.Currency}, "description": "Tea",
		})
		if a.Name == backoffice.Refund {
			r.call.Header.Set("X-Mfa-Attestation", f.factor(d, "folio.refund", stay.FolioID))
		}
		behind += "/folios/" + bff.MustParseID(bff.PrefixFolio, stay.FolioID).UUID() + "/" + verb
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

// moveTo makes all but the last transition of a thing, and returns that one.
func (f *killedFleet) moveTo(path string, transitions []string) string {
	f.t.Helper()
	last := len(transitions) - 1
	for _, t := range transitions[:last] {
		f.drill(path+"/"+t, nil, nil)
	}
	return transitions[last]
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
	for {
		factor, err := d.StepUp(testkit.Context(f.t), scope, resource, "000000")
		if err == nil {
			return factor
		}
		f.retry("step-up")
	}
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
