package backofficeupstream

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// carry has a command carried out as a client would: once more, with the same key,
// where a busy machine was too slow.
func (p *platform) carry(t *testing.T, tenant bff.ID, c *backoffice.Command) (backoffice.Done, error) {
	t.Helper()
	ctx := testkit.Context(t)
	if c.Once.Key == "" {
		c.Once.Key = bff.NewID(bff.PrefixRequest, time.Now()).ULID()
	}
	for {
		done, err := p.up.Hands.Carry(ctx, tenant, p.at.Property, c)
		if bff.CodeOf(err) != bff.CodeUpstreamTimeout || ctx.Err() != nil {
			return done, err
		}
	}
}

func find(t *testing.T, name backoffice.ActionName) *backoffice.Action {
	t.Helper()
	a, ok := backoffice.FindAction(name)
	if !ok {
		t.Fatalf("there is no action %s", name)
	}
	return a
}

// Each service is spoken to in its own headers, ids and money: the simulator takes
// nothing else.
func TestActionsAtTheSimulator(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	ctx := testkit.Context(t)
	read := func(from backoffice.Source) any {
		t.Helper()
		for {
			r, err := p.up.House.Read(ctx, from, p.at)
			if err == nil {
				return r.Value
			}
			if bff.CodeOf(err) != bff.CodeUpstreamTimeout || ctx.Err() != nil {
				t.Fatal(err)
			}
		}
	}
	// Those whose room is free can be checked in, once per key.
	codes := map[bff.Code]int{}
	stays, _ := read(backoffice.SourceArrivals).([]backoffice.Stay)
	for _, s := range stays {
		if s.Status != "confirmed" {
			continue
		}
		c := &backoffice.Command{Action: find(t, backoffice.CheckIn), ID: bff.MustParseID(bff.PrefixReservation, s.ReservationID)}
		done, err := p.carry(t, p.at.Tenant, c)
		codes[bff.CodeOf(err)]++
		if err != nil {
			continue
		}
		again, err := p.carry(t, p.at.Tenant, c)
		if diff := cmp.Diff(done, again); diff != "" || err != nil || done["status"] != "checked_in" || done["reservationId"] != s.ReservationID {
			t.Errorf("%v, again %v, %v", done, again, err)
		}
		if _, err := p.carry(t, p.other, &backoffice.Command{Action: c.Action, ID: c.ID}); bff.CodeOf(err) != bff.CodeResourceNotFound {
			t.Errorf("another tenant's: %v", err)
		}
		if property, err := p.up.Hands.FindProperty(ctx, p.at.Tenant, c.Action, c.ID); err == nil && property != p.at.Property {
			t.Errorf("it is at %s", property)
		}
		if _, err := p.up.Hands.FindProperty(ctx, p.other, c.Action, c.ID); err == nil {
			t.Error("another tenant has found it")
		}
	}
	delete(codes, bff.CodeStateConflict) // others are in the room
	if len(codes) != 1 || codes[bff.CodeOf(nil)] == 0 {
		t.Errorf("%v", codes)
	}
	// A task that waits for staff.
	tasks, _ := read(backoffice.SourceTasks).([]backoffice.Task)
	i := slices.IndexFunc(tasks, func(x backoffice.Task) bool { return x.Status == "pending" })
	task := bff.MustParseID(backoffice.PrefixTask, tasks[i].TaskID)
	for name, want := range map[backoffice.ActionName]string{backoffice.TaskStart: "in_progress"} {
		if done, err := p.carry(t, p.at.Tenant, &backoffice.Command{Action: find(t, name), ID: task}); err != nil || done["status"] != want || done["taskId"] != task.String() {
			t.Errorf("%s: %v, %v", name, done, err)
		}
	}
	if _, err := p.carry(t, p.at.Tenant, &backoffice.Command{Action: find(t, backoffice.TaskInspect), ID: task}); bff.CodeOf(err) != bff.CodeStateConflict {
		t.Errorf("inspected before it is done: %v", err)
	}
	// A work order from its report to its end.
	opened, err := p.carry(t, p.at.Tenant, &backoffice.Command{
		Action: find(t, backoffice.WorkOrderOpen), WorkOrder: &backoffice.NewWorkOrder{Title: "Lamp", Severity: "low"},
	})
	if err != nil || opened["status"] != "open" || opened["openedAt"] == nil {
		t.Fatalf("%v, %v", opened, err)
	}
	name, _ := opened["workOrderId"].(string)
	order := bff.MustParseID(backoffice.PrefixWorkOrder, name)
	for _, action := range []backoffice.ActionName{backoffice.WorkOrderStart, backoffice.WorkOrderResolve, backoffice.WorkOrderClose, backoffice.WorkOrderReopen} {
		if done, err := p.carry(t, p.at.Tenant, &backoffice.Command{Action: find(t, action), ID: order}); err != nil || done["workOrderId"] != name {
			t.Errorf("%s: %v, %v", action, done, err)
		}
	}
	// Money, in the folio's currency alone.
	var folios struct {
		Items []struct {
			FolioID string     `json:"folioId"`
			Balance minorUnits `json:"balance"`
		} `json:"items"`
	}
	d := dialectOf(backoffice.UpstreamBilling)
	const route = "/api/v1/properties/{propertyId}/folios"
	if err := p.up.Hands.clients[backoffice.UpstreamBilling].Get(ctx, route, upstream.Path(route, d.write(p.at.Property)), nil, &folios, d.of(p.at.Tenant), upstream.Within(time.Minute)); err != nil {
		t.Fatal(err)
	}
	folio := bff.MustParseID(bff.PrefixFolio, d.read(bff.PrefixFolio, folios.Items[0].FolioID))
	for _, action := range []backoffice.ActionName{backoffice.Charge, backoffice.Refund} {
		c := &backoffice.Command{Action: find(t, action), ID: folio, Posting: &backoffice.Posting{Amount: bff.Money{Minor: 1250, Currency: folios.Items[0].Balance.Currency}, Description: "Tea"}}
		if done, err := p.carry(t, p.at.Tenant, c); err != nil || done["folioId"] != folio.String() || done["entryId"] == nil || done["postedAt"] == nil {
			t.Errorf("%s: %v, %v", action, done, err)
		}
		c.Posting.Amount.Currency, c.Once.Key = "XXX", ""
		if _, err := p.carry(t, p.at.Tenant, c); bff.CodeOf(err) != bff.CodeValidationFailed {
			t.Errorf("%s in another currency: %v", action, err)
		}
	}
	// One entry of each inbox.
	for of := range inboxDialects {
		list, err := p.up.Inboxes.FetchInbox(ctx, of, p.at.Tenant, p.at.Property, "")
		if err != nil || len(list.Entries) == 0 {
			t.Fatal(of, err)
		}
		want := list.Entries[0]
		got, err := p.up.Inboxes.FindEntry(ctx, of, p.at.Tenant, p.at.Property, want.ID)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", of, err, diff)
		}
		for _, id := range []string{"x", want.ID[:4] + strings.Repeat("0", 26)} {
			if _, err := p.up.Inboxes.FindEntry(ctx, of, p.at.Tenant, p.at.Property, id); bff.CodeOf(err) != bff.CodeResourceNotFound {
				t.Errorf("%s %s: %v", of, id, err)
			}
		}
		if _, err := p.up.Inboxes.FindEntry(ctx, of, p.other, p.at.Property, want.ID); bff.CodeOf(err) != bff.CodeResourceNotFound {
			t.Errorf("another tenant's entry: %v", err)
		}
	}
}

// Only an answer says that nothing was done.
func TestFailuresOfActions(t *testing.T) {
	t.Parallel()
	rsv := bff.NewID(bff.PrefixReservation, time.Now())
	for _, test := range []struct {
		status  int
		body    string
		want    bff.Code
		unknown bool
	}{
		{200, `{"reservationId":"` + rsv.String() + `","status":"checked_in","version":2}`, bff.CodeOf(nil), false},
		{200, `{"reservationId":"` + bff.NewID(bff.PrefixReservation, time.Now()).String() + `","status":"checked_in","version":2}`, bff.CodeUpstreamUnavailable, true},
		{200, `{"reservationId":"` + rsv.String() + `"}`, bff.CodeUpstreamUnavailable, true},
		{200, `<html>`, bff.CodeUpstreamUnavailable, true},
		{500, `{}`, bff.CodeUpstreamUnavailable, true},
		{429, `{}`, bff.CodeUpstreamUnavailable, false},
		{401, `{}`, bff.CodeUpstreamUnavailable, false},
		{403, `{}`, bff.CodeRoleDenied, false},
		{404, `{}`, bff.CodeResourceNotFound, false},
		{409, `{"error":{"code":"ROOM_OCCUPIED"}}`, bff.CodeStateConflict, false},
		{422, `{}`, bff.CodeValidationFailed, false},
	} {
		u := dial(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Idempotency-Key") == "" || r.Header.Get("X-Tenant-Id") == "" {
				t.Error("no key or no tenant")
			}
			reply(w, test.status, test.body)
		})
		p := &platform{up: u}
		_, err := p.carry(t, bff.NewID(bff.PrefixTenant, time.Now()), &backoffice.Command{Action: find(t, backoffice.CheckIn), ID: rsv})
		if got := bff.CodeOf(err); got != test.want || errors.Is(err, backoffice.ErrOutcomeUnknown) != test.unknown {
			t.Errorf("%d %s: %v", test.status, test.body, err)
		}
	}
}
