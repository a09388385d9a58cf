package backofficehttp_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/action"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficecache"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficehttp"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/backoffice/lock"
	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// can are the steps of each item of a view, by its id.
func (s *sender) can(instance int, path string) map[string][]board.Step {
	s.f.tb.Helper()
	w := s.from(instance, "GET", path, "")
	var doc struct {
		Items []struct {
			ReservationID, TaskID, WorkOrderID, ID string
			Can                                    []board.Step
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || w.Code != 200 {
		s.f.tb.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	out := map[string][]board.Step{}
	for _, i := range doc.Items {
		if i.Can == nil {
			s.f.tb.Errorf("%s does not say what can be done: %s", path, w.Body)
		}
		out[i.ReservationID+i.TaskID+i.WorkOrderID+i.ID] = i.Can
	}
	return out
}

// Whatever was kept for other roles, each is told what it may do itself: from memory and from
// Redis.
func TestStepsDoNotLeakThroughTheCache(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{limits: manyReads, instances: 2, sharedCache: true})
	senders := map[backoffice.Role]*sender{}
	for _, r := range backoffice.Roles() {
		f.employAt("*", "opt_"+string(r), r)
		senders[r] = f.sender("opt_" + string(r))
	}
	next := func(r backoffice.Role, kind, status string) []board.Step {
		out := []board.Step{}
		for _, a := range backoffice.Actions() {
			if a.Kind == kind && slices.Contains(a.From, status) && slices.Contains(a.Roles, r) {
				out = append(out, board.Step(a.Verb()))
			}
		}
		return out
	}
	want := func(path string, r backoffice.Role) map[string][]board.Step {
		arrival, guest := next(r, backoffice.KindReservation, "confirmed"), next(r, backoffice.KindReservation, "checked_in")
		if slices.Contains(backoffice.LockRoles(), r) {
			guest = append(guest, board.StepIssueKey, board.StepExtendKey, board.StepRebindKey, board.StepRevokeKey)
		}
		pending, done, open := next(r, backoffice.KindTask, "pending"), next(r, backoffice.KindTask, "done"), next(r, backoffice.KindWorkOrder, "open")
		switch path {
		case "/today":
			return map[string][]board.Step{"rsv_1": arrival, "rsv_2": guest, "hkt_1": pending, "wko_1": open}
		case "/housekeeping/board":
			return map[string][]board.Step{"hkt_1": pending, "hkt_2": done}
		}
		return map[string][]board.Step{"rsv_1": arrival, "rsv_2": guest}
	}
	of := "?propertyId=" + bff.NewID(bff.PrefixProperty, time.Now()).String()
	for i, instance := range []int{0, 1, 0} { // made for each role, then kept for all of them: in Redis and in memory
		for _, role := range backoffice.Roles() {
			for _, path := range []string{"/today", "/arrivals", "/housekeeping/board"} {
				if diff := cmp.Diff(want(path, role), senders[role].can(instance, path+of)); diff != "" {
					t.Errorf("%s, %s, round %d: may do (-) and is told (+):\n%s", path, role, i, diff)
				}
			}
		}
	}
}

// Each step is the last word of a route, or a transition of one.
func TestStepsAreRoutes(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	f.employAt("*", "opt_owner", backoffice.Owner)
	s := f.sender("opt_owner")
	var served []string
	for _, a := range backoffice.Actions() {
		served = append(served, a.Verb())
	}
	api := backofficehttp.New(backofficehttp.Config{Metrics: prometheus.NewRegistry()})
	for _, rt := range api.Routes() {
		served = append(served, rt.Pattern[strings.LastIndexByte(rt.Pattern, '/')+1:])
	}
	for path := range map[string]bool{"/in-house": true, "/housekeeping/board": true, "/maintenance/board": true} {
		for id, can := range s.can(0, path+"?propertyId="+house) {
			for _, step := range can {
				if !slices.Contains(served, string(step)) {
					t.Errorf("%s %s: no route ends in %s", path, id, step)
				}
			}
		}
	}
}

// On a day of the simulator, what a manager can do with an item is accepted by the service
// that has it, and what is not among it is refused.
func TestStepsAreAccepted(t *testing.T) {
	t.Parallel()
	now := time.Now()
	simulator, up := overSimulator(t, sim.Config{Latency: map[string]sim.Latency{}, HouseTime: 11 * time.Hour, Now: func() time.Time { return now }})
	p := busyHouse(t, simulator, up.House, now)
	tenant, property := bff.MustParseID(bff.PrefixTenant, p.TenantID), bff.MustParseID(bff.PrefixProperty, p.PropertyID)
	f := newFront(t, frontConfig{limits: manyReads, upstreams: up.House, properties: up.Property, tenant: tenant})
	f.employAt("*", "opt_mirwais", backoffice.GeneralManager)
	s := f.sender("opt_mirwais")
	key := func() string { return strings.TrimPrefix(bff.NewID(bff.PrefixRequest, time.Now()).String(), "req_") }
	try := func(id string, name backoffice.ActionName) error {
		a, _ := backoffice.FindAction(name)
		_, err := up.Actions.Execute(t.Context(), tenant, property, &action.Command{
			Action: a, ID: bff.MustParseID(a.ID, id), Once: backoffice.Once{Key: key()},
		})
		return err
	}
	const none board.Step = ""
	tried := map[string]int{}
	// walk tries on a few items of each kind first what they cannot do, and then one step that they can; without one, on all.
	walk := func(path string, want board.Step, names map[board.Step]backoffice.ActionName) {
		t.Helper()
		parts := backoffice.WorkbenchViews()
		if err := backofficecache.NewInvalidator(f.stores[0]).Invalidate(t.Context(), tenant, property, parts...); err != nil {
			t.Fatal(err)
		}
		like := map[string]int{}
		for id, can := range s.can(0, path+"propertyId="+p.PropertyID) {
			like[fmt.Sprint(can)]++
			for step, name := range names {
				if slices.Contains(can, step) || want != none && like[fmt.Sprint(can)] > 3 {
					continue
				}
				if err := try(id, name); bff.CodeOf(err) != bff.CodeStateConflict {
					t.Errorf("%s of %s in %s, which cannot: %v", step, id, path, err)
				}
			}
			// All who leave do: others get their rooms.
			if !slices.Contains(can, want) || want != board.StepCheckOut && like[fmt.Sprint(can)] > 3 {
				continue
			}
			tried[path+string(want)]++
			if err := try(id, names[want]); err != nil {
				t.Errorf("%s of %s in %s, which can: %v", want, id, path, err)
			}
		}
	}
	moves := func(p bff.Prefix) map[board.Step]backoffice.ActionName {
		out := map[board.Step]backoffice.ActionName{}
		for _, a := range backoffice.Actions() {
			if a.ID == p && !a.New {
				out[board.Step(a.Verb())] = a.Name
			}
		}
		return out
	}
	stays, tasks, orders := moves(bff.PrefixReservation), moves(backoffice.PrefixTask), moves(backoffice.PrefixWorkOrder)
	today := s.view("/arrivals?propertyId=" + p.PropertyID).Date
	date, err := time.Parse(time.DateOnly, today)
	if err != nil {
		t.Fatal(err)
	}
	for id, can := range s.can(0, "/in-house?propertyId="+p.PropertyID) {
		if tried["keys"]++; tried["keys"] > 3 {
			break
		}
		for _, a := range []lock.Action{lock.IssueKey, lock.ExtendKey, lock.RebindKey, lock.RevokeKey} {
			r, err := up.Lock.ActOnKey(t.Context(), lock.Order{
				Tenant: tenant, Property: property, Reservation: bff.MustParseID(bff.PrefixReservation, id), Action: a,
				Request: bff.NewID(bff.PrefixRequest, time.Now()).UUID(),
			})
			if err != nil || !slices.Contains(can, board.Step(a+"-key")) {
				t.Errorf("%s of %s: %+v, %v; can %v", a, id, r, err, can)
			}
			if r.State == lock.LockPending {
				break // the vendor is slow, and the next has to wait for it
			}
		}
	}
	walk("/departures?", board.StepCheckOut, stays)
	for days := range 5 { // rooms of some of those who come later are free already
		walk("/arrivals?date="+date.AddDate(0, 0, days+1).Format(time.DateOnly)+"&", none, stays)
	}
	walk("/arrivals?", board.StepCheckIn, stays)
	for _, step := range []board.Step{board.StepStart, board.StepComplete, board.StepInspect, board.StepReopen} {
		walk("/housekeeping/board?", step, tasks)
	}
	// A closed order leaves the board, so those that are reopened come before.
	for _, step := range []board.Step{board.StepStart, board.StepResolve, board.StepReopen, board.StepResolve, board.StepClose} {
		walk("/maintenance/board?", step, orders)
	}
	if t.Log(tried); len(tried) < 11 {
		t.Errorf("steps that were never possible: %v", tried)
	}
}

// busyHouse is a property that guests arrive at and depart from, with something to repair.
func busyHouse(t *testing.T, s *sim.Sim, from board.House, now time.Time) sim.CatalogProperty {
	t.Helper()
	for _, p := range s.Catalog().Properties {
		zone, err := board.ReadZone("", p.Country)
		if err != nil {
			t.Fatal(err)
		}
		at := board.Place{
			Tenant: bff.MustParseID(bff.PrefixTenant, p.TenantID), Property: bff.MustParseID(bff.PrefixProperty, p.PropertyID),
			Day: zone.Today(now),
		}
		read := func(source board.Source) (r board.Reading) {
			testkit.Retry(t, string(source)+" within the budget of its upstream", func() bool {
				var err error
				r, err = from.Read(t.Context(), source, at)
				return err == nil
			})
			return r
		}
		arrivals, departures, orders := read(board.SourceArrivals), read(board.SourceDepartures), read(board.SourceWorkOrders)
		open := slices.ContainsFunc(orders.Value.([]board.WorkOrder), func(w board.WorkOrder) bool { return w.Status == "open" })
		expected := slices.ContainsFunc(arrivals.Value.([]board.Stay), func(g board.Stay) bool { return g.Status == "confirmed" })
		leaving := slices.ContainsFunc(departures.Value.([]board.Stay), func(g board.Stay) bool { return g.Status == "checked_in" })
		if open && expected && leaving {
			return p
		}
	}
	t.Fatal("no house is busy")
	return sim.CatalogProperty{}
}
