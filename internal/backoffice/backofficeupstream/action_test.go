package backofficeupstream

import (
	"errors"
	"fmt"
	"io"
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
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/backoffice/inbox"
	"melmastoon.ghasi.io/bff/internal/backoffice/lock"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// carry has a command carried out as a client would: once more, with the same key,
// where a busy machine was too slow.
func (p *platform) carry(t *testing.T, tenant bff.ID, c *action.Command) (action.Done, error) {
	t.Helper()
	ctx := testkit.Context(t)
	if c.Once.Key == "" {
		c.Once.Key = bff.NewID(bff.PrefixRequest, time.Now()).ULID()
	}
	for {
		done, err := p.up.Actions.Execute(ctx, tenant, p.at.Property, c)
		if err == nil && p.accepted != nil {
			p.accepted[c.Action.Name] = true
		}
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
// nothing else, and it takes every action.
func TestActionsAtTheSimulator(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	p.accepted = map[backoffice.ActionName]bool{}
	ctx := testkit.Context(t)
	read := func(from board.Source) any {
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
	stays, _ := read(board.SourceArrivals).([]board.Stay)
	for _, s := range stays {
		if s.Status != "confirmed" {
			continue
		}
		c := &action.Command{Action: find(t, backoffice.CheckIn), ID: bff.MustParseID(bff.PrefixReservation, s.ReservationID)}
		done, err := p.carry(t, p.at.Tenant, c)
		codes[bff.CodeOf(err)]++
		if err != nil {
			continue
		}
		again, err := p.carry(t, p.at.Tenant, c)
		if diff := cmp.Diff(done, again); diff != "" || err != nil || done["status"] != "checked_in" || done["reservationId"] != s.ReservationID {
			t.Errorf("%v, again %v, %v", done, again, err)
		}
		if _, err := p.carry(t, p.other, &action.Command{Action: c.Action, ID: c.ID}); bff.CodeOf(err) != bff.CodeResourceNotFound {
			t.Errorf("another tenant's: %v", err)
		}
		if property, err := p.up.Actions.FindProperty(ctx, p.at.Tenant, c.Action, c.ID); err == nil && property != p.at.Property {
			t.Errorf("it is at %s", property)
		}
		if _, err := p.up.Actions.FindProperty(ctx, p.other, c.Action, c.ID); err == nil {
			t.Error("another tenant has found it")
		}
	}
	delete(codes, bff.CodeStateConflict) // others are in the room
	if len(codes) != 1 || codes[bff.CodeOf(nil)] == 0 {
		t.Errorf("%v", codes)
	}
	guests, _ := read(board.SourceInHouse).([]board.Stay)
	leaving := bff.MustParseID(bff.PrefixReservation, guests[0].ReservationID)
	if done, err := p.carry(t, p.at.Tenant, &action.Command{Action: find(t, backoffice.CheckOut), ID: leaving}); err != nil || done["status"] != "checked_out" {
		t.Errorf("checked out: %v, %v", done, err)
	}
	// A task that waits for staff, from its start to its end and back.
	tasks, _ := read(board.SourceTasks).([]board.Task)
	i := slices.IndexFunc(tasks, func(x board.Task) bool { return x.Status == "pending" })
	task := bff.MustParseID(backoffice.PrefixTask, tasks[i].TaskID)
	if _, err := p.carry(t, p.at.Tenant, &action.Command{Action: find(t, backoffice.TaskInspect), ID: task}); bff.CodeOf(err) != bff.CodeStateConflict {
		t.Errorf("inspected before it is done: %v", err)
	}
	for _, step := range []struct {
		name backoffice.ActionName
		want string
	}{{backoffice.TaskStart, "in_progress"}, {backoffice.TaskComplete, "done"}, {backoffice.TaskInspect, "inspected"}, {backoffice.TaskReopen, "pending"}} {
		done, err := p.carry(t, p.at.Tenant, &action.Command{Action: find(t, step.name), ID: task})
		if err != nil || done["status"] != step.want || done["taskId"] != task.String() {
			t.Errorf("%s: %v, %v", step.name, done, err)
		}
	}
	// A work order from its report to its end.
	opened, err := p.carry(t, p.at.Tenant, &action.Command{
		Action: find(t, backoffice.WorkOrderOpen), WorkOrder: &action.NewWorkOrder{Title: "Lamp", Severity: "low"},
	})
	if err != nil || opened["status"] != "open" || opened["openedAt"] == nil {
		t.Fatalf("%v, %v", opened, err)
	}
	name, _ := opened["workOrderId"].(string)
	order := bff.MustParseID(backoffice.PrefixWorkOrder, name)
	for _, act := range []backoffice.ActionName{backoffice.WorkOrderStart, backoffice.WorkOrderResolve, backoffice.WorkOrderClose, backoffice.WorkOrderReopen} {
		if done, err := p.carry(t, p.at.Tenant, &action.Command{Action: find(t, act), ID: order}); err != nil || done["workOrderId"] != name {
			t.Errorf("%s: %v, %v", act, done, err)
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
	if err := p.up.Actions.clients[backoffice.UpstreamBilling].Get(
		ctx, route, upstream.Path(route, d.write(p.at.Property)), nil, &folios, d.of(p.at.Tenant), upstream.Within(time.Minute),
	); err != nil {
		t.Fatal(err)
	}
	folio := bff.MustParseID(bff.PrefixFolio, d.read(bff.PrefixFolio, folios.Items[0].FolioID))
	for _, act := range []backoffice.ActionName{backoffice.Charge, backoffice.Refund} {
		c := &action.Command{
			Action: find(t, act), ID: folio,
			Posting: &action.Posting{Amount: bff.Money{Minor: 1250, Currency: folios.Items[0].Balance.Currency}, Description: "Tea"},
		}
		if done, err := p.carry(t, p.at.Tenant, c); err != nil || done["folioId"] != folio.String() || done["entryId"] == nil || done["postedAt"] == nil {
			t.Errorf("%s: %v, %v", act, done, err)
		}
		c.Posting.Amount.Currency, c.Once.Key = "XXX", ""
		if _, err := p.carry(t, p.at.Tenant, c); bff.CodeOf(err) != bff.CodeValidationFailed {
			t.Errorf("%s in another currency: %v", act, err)
		}
	}
	for _, a := range backoffice.Actions() {
		if !p.accepted[a.Name] {
			t.Errorf("%s: no request of it in this test was accepted by the simulator", a.Name)
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
		if diff := cmp.Diff(want, got, sameID); diff != "" || err != nil {
			t.Errorf("%s: %v %s", of, err, diff)
		}
		// Without a property, those of all houses of the tenant, each with its own.
		all, err := p.up.Inboxes.FetchInbox(ctx, of, p.at.Tenant, bff.ID{}, "")
		if here := slices.DeleteFunc(
			all.Entries, func(e inbox.Entry) bool { return e.Property != p.at.Property },
		); err != nil || !cmp.Equal(here, list.Entries, sameID) {
			t.Errorf("%s of all houses: %d of this one, %v", of, len(here), err)
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

// guest is what must not get through.
const guest = "Zarghuna Ahmadzai"

// command is a good command of an action, and what its service answers.
func command(a *backoffice.Action) (c *action.Command, answer string) {
	d, now := dialectOf(a.Upstream), time.Now()
	id := bff.NewID(a.ID, now)
	c = &action.Command{Action: a, ID: id, Once: backoffice.Once{Key: bff.NewID(bff.PrefixRequest, now).ULID()}}
	const rest = `","status":"done","version":2,"guestName":"` + guest + `","notes":"` + guest + `"}`
	switch a.Upstream {
	case backoffice.UpstreamReservation:
		return c, `{"reservationId":"` + d.write(id) + rest
	case backoffice.UpstreamHousekeeping:
		return c, `{"taskId":"` + d.write(id) + rest
	case backoffice.UpstreamMaintenance:
		if a.New {
			c.ID, c.WorkOrder = bff.ID{}, &action.NewWorkOrder{Title: "Lamp", Severity: "low"}
		}
		return c, `{"workOrderId":"` + d.write(id) + rest
	}
	c.Posting = &action.Posting{Amount: bff.Money{Minor: 1250, Currency: "AFN"}, Description: "Tea"}
	return c, `{"folioId":"` + d.write(id) + `","entryId":"` + bff.NewID(backoffice.PrefixPosting, now).UUID() + `","postedAt":"2026-11-17T06:00:00Z","guestName":"` + guest + `"}`
}

// service answers calls of one path, and keeps their keys.
type service struct {
	key    string // header
	answer func(w http.ResponseWriter, r *http.Request, call int)

	mu   sync.Mutex
	keys []string
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.keys = append(s.keys, r.Header.Get(s.key))
	call := len(s.keys)
	s.mu.Unlock()
	s.answer(w, r, call)
}

// What a service can do besides answering with a status.
const (
	breaksOff = 0
	hangs     = -1
)

func answering(status int, body string) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, r *http.Request, _ int) {
		switch status {
		case breaksOff:
			panic(http.ErrAbortHandler)
		case hangs:
			_, _ = io.Copy(io.Discard, r.Body) // net/http notices that a client has gone only after the body
			<-r.Context().Done()
		default:
			reply(w, status, body)
		}
	}
}

// calls is how many there were; all have one key.
func (s *service) calls(t *testing.T) int {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.keys) == 0 || s.keys[0] == "" || len(slices.Compact(slices.Clone(s.keys))) != 1 {
		t.Errorf("keys %q, want one", s.keys)
	}
	return len(s.keys)
}

// Whatever action it is: only an answer says that nothing was done, one that is late,
// breaks off or cannot be read leaves the outcome unknown, a call that breaks off is
// repeated with its key, and nothing of a guest is read.
func TestFailuresOfActions(t *testing.T) {
	t.Parallel()
	for _, action := range backoffice.Actions() {
		t.Run(string(action.Name), func(t *testing.T) {
			t.Parallel()
			c, good := command(&action)
			tenant, property := bff.NewID(bff.PrefixTenant, time.Now()), bff.NewID(bff.PrefixProperty, time.Now())
			for _, test := range []struct {
				name    string
				status  int
				body    string
				want    bff.Code
				unknown bool
			}{
				{"done", 200, good, bff.CodeOf(nil), false},
				{"malformed", 200, `<html>` + guest, bff.CodeUpstreamUnavailable, true},
				{"empty", 200, `{}`, bff.CodeUpstreamUnavailable, true},
				{"half", 200, good[:len(good)/2], bff.CodeUpstreamUnavailable, true},
				{"list", 200, `[` + good + `]`, bff.CodeUpstreamUnavailable, true},
				{"failed", 500, `{"error":{"message":"` + guest + `"}}`, bff.CodeUpstreamUnavailable, true},
				{"breaks off", breaksOff, ``, bff.CodeUpstreamUnavailable, true},
				{"late", hangs, ``, bff.CodeUpstreamTimeout, true},
				{"too many", 429, `{}`, bff.CodeUpstreamUnavailable, false},
				{"unauthenticated", 401, `{}`, bff.CodeUpstreamUnavailable, false},
				{"denied", 403, `{}`, bff.CodeRoleDenied, false},
				{"gone", 404, `{}`, bff.CodeResourceNotFound, false},
				{"conflict", 409, `{"error":{"code":"ROOM_OCCUPIED","message":"` + guest + `"}}`, bff.CodeStateConflict, false},
				{"refused", 422, `{}`, bff.CodeValidationFailed, false},
			} {
				s := &service{key: dialectOf(action.Upstream).key, answer: answering(test.status, test.body)}
				u := dial(t, s.ServeHTTP)
				done, err := u.Actions.Execute(testkit.Context(t), tenant, property, c)
				for test.status != hangs && bff.CodeOf(err) == bff.CodeUpstreamTimeout { // a busy machine
					done, err = u.Actions.Execute(testkit.Context(t), tenant, property, c)
				}
				if got := bff.CodeOf(err); got != test.want || errors.Is(err, backoffice.ErrOutcomeUnknown) != test.unknown || (err == nil) == (done == nil) {
					t.Errorf("%s: %v, %v", test.name, done, err)
				}
				if coded, ok := errors.AsType[*bff.Error](err); strings.Contains(fmt.Sprint(done), guest) || ok && strings.Contains(coded.Detail, guest) {
					t.Errorf("%s: a guest in %v, %v", test.name, done, err)
				}
			}
			other, about := command(&action)
			if !action.New && other.ID != c.ID {
				u := dial(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, about) })
				if _, err := u.Actions.Execute(testkit.Context(t), tenant, property, c); !errors.Is(err, backoffice.ErrOutcomeUnknown) {
					t.Errorf("about another resource: %v", err)
				}
			}
			// Done, and the connection breaks: told at the second call.
			s := &service{key: dialectOf(action.Upstream).key, answer: func(w http.ResponseWriter, _ *http.Request, call int) {
				if call == 1 {
					panic(http.ErrAbortHandler)
				}
				reply(w, 200, good)
			}}
			p := &platform{up: dial(t, s.ServeHTTP), at: board.Place{Property: property}}
			if done, err := p.carry(t, tenant, c); err != nil || done == nil {
				t.Errorf("at the second call: %v, %v", done, err)
			}
			if n := s.calls(t); n < 2 {
				t.Errorf("%d calls", n)
			}
		})
	}
}

// Whatever lock action it is: it is sent once, and an answer that is late, breaks off or
// cannot be read leaves the outcome unknown.
func TestFailuresOfLockActions(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, action := range lock.LockActions() {
		t.Run(string(action), func(t *testing.T) {
			t.Parallel()
			o := lock.Order{
				Tenant: bff.NewID(bff.PrefixTenant, now), Property: bff.NewID(bff.PrefixProperty, now), Reservation: bff.NewID(bff.PrefixReservation, now),
				Action: action, Request: bff.NewID(bff.PrefixRequest, now).UUID(),
			}
			state, never := "issued", "revoked"
			if action == lock.RevokeKey {
				state, never = never, state
			}
			says := func(state, credential string) string {
				return `{"state":"` + state + `","vendor":"salto","credentialId":"` + credential + `","reservationId":"` + o.Reservation.UUID() + `","guestName":"` + guest + `"}`
			}
			credential := bff.NewID(prefixCredential, now)
			for _, test := range []struct {
				name   string
				status int
				body   string
				state  lock.State
				want   bff.Code
			}{
				{"done", 200, says(state, credential.UUID()), lock.State(state), bff.CodeOf(nil)},
				{"a guest's name for a credential", 200, says(state, guest), lock.State(state), bff.CodeOf(nil)},
				{"what cannot follow", 200, says(never, credential.UUID()), lock.LockUnknown, bff.CodeLockOutcomeUnknown},
				{"no such state", 200, says(guest, credential.UUID()), lock.LockUnknown, bff.CodeLockOutcomeUnknown},
				{"another reservation", 200, strings.Replace(says(state, ""), o.Reservation.UUID(), o.Tenant.UUID(), 1), lock.LockUnknown, bff.CodeLockOutcomeUnknown},
				{"malformed", 200, `<html>`, lock.LockUnknown, bff.CodeLockOutcomeUnknown},
				{"empty", 200, `{}`, lock.LockUnknown, bff.CodeLockOutcomeUnknown},
				{"failed", 500, `{}`, lock.LockUnknown, bff.CodeLockOutcomeUnknown},
				{"breaks off", breaksOff, ``, lock.LockUnknown, bff.CodeLockOutcomeUnknown},
				{"late", hangs, ``, lock.LockUnknown, bff.CodeLockOutcomeUnknown},
				{"gone", 404, `{}`, lock.LockFailed, bff.CodeResourceNotFound},
				{"conflict", 409, `{"error":{"code":"KEY_REVOKED"}}`, lock.LockFailed, bff.CodeOf(nil)},
			} {
				s := &service{key: "X-Request-Key", answer: answering(test.status, test.body)}
				u := dial(t, s.ServeHTTP)
				sent := 1
				got, err := u.Lock.ActOnKey(testkit.Context(t), o)
				for ; got.State == lock.LockUnknown && test.state != lock.LockUnknown; sent++ { // a busy machine was too slow
					got, err = u.Lock.ActOnKey(testkit.Context(t), o)
				}
				if n := s.calls(t); n != sent {
					t.Errorf("%s: sent %d times, %d calls", test.name, sent, n)
				}
				if got.State != test.state || bff.CodeOf(err) != test.want || strings.Contains(fmt.Sprint(got), guest) {
					t.Errorf("%s: %+v, %v", test.name, got, err)
				}
			}
		})
	}
}
