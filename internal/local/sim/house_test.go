package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
)

// board is where services publish.
type board struct {
	mu     sync.Mutex
	topics []string
	events []bff.Event
}

func (b *board) Publish(_ context.Context, topic string, data []byte, _ string) error {
	var e bff.Event
	if err := json.Unmarshal(data, &e); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.topics, b.events = append(b.topics, strings.TrimPrefix(topic, "melmastoon.")), append(b.events, e)
	return nil
}

func (b *board) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.topics
	b.topics = nil
	return out
}

// overview is a house as its services show it.
type overview struct {
	arrivals, departures, inHouse []Reservation
	rooms                         map[string]Room
	counts                        map[string]int // of rooms
	tasks                         map[string]Task
	folios                        map[string]Folio // by reservation
	drawer                        Drawer
	occupied                      int
}

func (w *fixture) look(p *property) overview {
	w.t.Helper()
	var o overview
	var stays struct{ Items []Reservation }
	w.staffGet(p, "reservation", "/api/v1/properties/{p}/arrivals", &stays)
	o.arrivals, stays.Items = stays.Items, nil
	w.staffGet(p, "reservation", "/api/v1/properties/{p}/departures", &stays)
	o.departures, stays.Items = stays.Items, nil
	w.staffGet(p, "reservation", "/api/v1/properties/{p}/in-house", &stays)
	o.inHouse = stays.Items
	var rooms page[Room]
	w.staffGet(p, "inventory", "/api/v1/properties/{p}/rooms", &rooms)
	o.rooms, o.counts = map[string]Room{}, rooms.Counts
	for _, r := range rooms.Items {
		o.rooms[r.RoomNumber] = r
	}
	var tasks page[Task]
	w.staffGet(p, "housekeeping", "/api/v1/properties/{p}/tasks", &tasks)
	o.tasks = map[string]Task{}
	for _, t := range tasks.Items {
		o.tasks[t.RoomNumber] = t
	}
	var folios page[Folio]
	w.staffGet(p, "billing", "/api/v1/properties/{p}/folios", &folios)
	o.folios = map[string]Folio{}
	for _, f := range folios.Items {
		o.folios[f.ReservationID] = f
	}
	w.staffGet(p, "billing", "/api/v1/properties/{p}/cash-drawer", &o.drawer)
	today := bff.DateOf(w.clk.Now())
	var nights page[Night]
	w.staffGet(p, "inventory", fmt.Sprintf("/api/v1/properties/{p}/occupancy?from=%s&to=%s", today, today+1), &nights)
	o.occupied = nights.Items[0].Occupied
	return o
}

func has(list []Reservation, id string) bool {
	return slices.ContainsFunc(list, func(r Reservation) bool { return r.ReservationID == id })
}

// What the services say of a house fits together at every hour, and at every hour there
// are guests to check in, to check out and to look after.
func TestServicesAgreeAtEveryHour(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	billing := dialectOf("billing")
	w.clk.Advance(-9*time.Hour - 30*time.Minute)
	houses := []*property{w.data.properties[0], w.data.properties[7], busy(t, w)}
	changed := map[string]bool{}
	for range 8 {
		now := w.clk.Now()
		for _, p := range houses {
			o := w.look(p)
			taken := map[string]bool{}
			for _, r := range o.inHouse {
				room := o.rooms[r.RoomNumber]
				if taken[r.RoomNumber] || room.Status != "occupied" || room.ReservationID != r.ReservationID {
					t.Fatalf("%v: room %s of %s: %+v", now, r.RoomNumber, r.ReservationID, room)
				}
				taken[r.RoomNumber] = true
				if f, open := o.folios[billing.id(r.ReservationID)]; !open || f.Status != "open" {
					t.Fatalf("%v: no open folio for %+v", now, r)
				}
			}
			if len(o.inHouse) != o.counts["occupied"] || len(o.inHouse) != len(o.folios) {
				t.Fatalf("%v: %d in the house, rooms %v, %d open folios", now, len(o.inHouse), o.counts, len(o.folios))
			}
			for _, task := range o.tasks {
				status := o.rooms[task.RoomNumber].Status
				dirty := task.Kind == "departure_clean" && (task.Status == "pending" || task.Status == "in_progress")
				if dirty && status != "dirty" && status != "occupied" || task.Status == "waiting" && task.Kind == "departure_clean" && status != "occupied" {
					t.Fatalf("%v: %+v in a room that is %s", now, task, status)
				}
			}
			for _, r := range o.departures {
				if !has(o.inHouse, r.ReservationID) {
					t.Fatalf("%v: %s leaves and is not in the house", now, r.ReservationID)
				}
			}
			due := slices.ContainsFunc(o.arrivals, func(r Reservation) bool { return o.rooms[r.RoomNumber].Status != "occupied" && r.Status == "confirmed" })
			if !due || len(o.departures) == 0 || len(o.inHouse) <= len(o.departures) {
				t.Fatalf("%v: %d arrivals, %d departures, %d in the house", now, len(o.arrivals), len(o.departures), len(o.inHouse))
			}
			var alerts page[Alert]
			w.staffGet(p, "notification", "/api/v1/tenants/{t}/alerts?status=open&propertyId="+p.id, &alerts)
			var advice page[Suggestion]
			w.staffGet(p, "ai-orchestrator", "/api/v1/tenants/{t}/suggestions?propertyId="+p.id, &advice)
			if alerts.Total == 0 || advice.Total == 0 {
				t.Fatalf("%v: %d alerts, %d suggestions", now, alerts.Total, advice.Total)
			}
			changed[fmt.Sprint(p.id, len(o.arrivals))] = true
		}
		w.clk.Advance(7*time.Hour + time.Minute) // over three days, at hours of all parts of a day
	}
	if len(changed) < 2*len(houses) {
		t.Errorf("the day does not go on: %v", changed)
	}
}

// A party that checks in leaves the arrivals, is in the house, takes its room and has a
// folio; when it leaves, the room is to be cleaned. Every step is told.
func TestCheckInShowsEverywhere(t *testing.T) {
	t.Parallel()
	b := &board{}
	w := newFixture(t, func(c *Config) { c.Publisher = b })
	p := busy(t, w)
	billing := dialectOf("billing")
	before := w.look(p)
	i := slices.IndexFunc(before.arrivals, func(r Reservation) bool { return before.rooms[r.RoomNumber].Status != "occupied" })
	res := before.arrivals[i]

	if status := w.send(
		http.MethodPost, "/_sim/reservations/"+res.ReservationID+"/check-in", map[string]string{"X-Request-Id": "req_1"}, nil,
	); status != 200 {
		t.Fatalf("check in: %d", status)
	}
	in := w.look(p)
	if has(in.arrivals, res.ReservationID) || !has(in.inHouse, res.ReservationID) || in.rooms[res.RoomNumber].ReservationID != res.ReservationID {
		t.Errorf("after the check-in: %+v", in.rooms[res.RoomNumber])
	}
	if f := in.folios[billing.id(res.ReservationID)]; f.Status != "open" || f.FolioID != billing.id(res.FolioID) {
		t.Errorf("folio %+v", f)
	}
	if in.occupied != before.occupied {
		t.Errorf("%d nights sold, %d before", in.occupied, before.occupied)
	}
	if diff := cmp.Diff([]string{"reservation.checked_in.v1", "billing.folio", "inventory.room.status_changed.v1"}, b.take()); diff != "" {
		t.Error(diff)
	}
	e := b.events[0].Envelope
	if e.RequestID == nil || *e.RequestID != "req_1" || *e.TenantID != p.tenant.id || e.PropertyID != p.id {
		t.Errorf("envelope %+v", e)
	}
	if s := string(b.events[1].Payload); !strings.Contains(s, billing.id(p.id)) || strings.Contains(s, res.GuestName) {
		t.Errorf("billing says %s", s)
	}

	out := in.departures[0]
	cash := in.drawer.Taken.AmountMinor
	w.want(200, http.MethodPost, "/_sim/reservations/"+out.ReservationID+"/check-out", nil, nil)
	after := w.look(p)
	if has(after.inHouse, out.ReservationID) || has(after.departures, out.ReservationID) || after.rooms[out.RoomNumber].Status != "dirty" {
		t.Errorf("after the check-out: %+v", after.rooms[out.RoomNumber])
	}
	if paid := after.drawer.Taken.AmountMinor > cash; paid != (out.Channel == "direct") {
		t.Errorf("%s: cash %d, then %d", out.Channel, cash, after.drawer.Taken.AmountMinor)
	}
	task := after.tasks[out.RoomNumber]
	if task.Status != "pending" || task.Kind != "departure_clean" {
		t.Errorf("task %+v", task)
	}
	w.want(200, http.MethodPost, "/_sim/tasks/"+task.TaskID+"/complete", nil, nil)
	if room := w.look(p).rooms[out.RoomNumber]; room.Status != "clean" {
		t.Errorf("a cleaned room is %+v", room)
	}
	if got := b.take(); !slices.Contains(got, "housekeeping.task.completed.v1") || !slices.Contains(got, "reservation.checked_out.v1") {
		t.Errorf("told %v", got)
	}
	// The next day goes on from there.
	w.clk.Advance(24 * time.Hour)
	var later Reservation
	w.staffGet(p, "reservation", "/api/v1/reservations/"+res.ReservationID, &later)
	if later.Version < 2 || later.Status == "confirmed" {
		t.Errorf("a day later: %+v", later)
	}
}

// What the clock does in a house that is looked at is told, once; what staff did they
// have told themselves.
func TestDayIsTold(t *testing.T) {
	t.Parallel()
	b := &board{}
	w := newFixture(t, func(c *Config) { c.Publisher = b })
	p := busy(t, w)
	ctx := t.Context()
	morning := p.begin(dateOf(w.houseTime(p, testNow))).Add(6 * time.Hour)
	w.clk.Advance(morning.Sub(testNow))
	w.tellDay(ctx, morning, morning.Add(8*time.Hour))
	if got := b.take(); got != nil {
		t.Errorf("of houses that no one looks at: %v", got)
	}
	o := w.look(p)
	i := slices.IndexFunc(o.arrivals, func(r Reservation) bool { return o.rooms[r.RoomNumber].Status != "occupied" })
	w.want(200, http.MethodPost, "/_sim/reservations/"+o.arrivals[max(i, 0)].ReservationID+"/check-in", nil, nil)
	b.take()
	b.mu.Lock()
	b.events = nil
	b.mu.Unlock()
	w.clk.Advance(17 * time.Hour)
	w.asked(w.clk.Now(), p)
	w.tellDay(ctx, morning, w.clk.Now())
	got := b.take()
	for _, want := range []string{
		"reservation.checked_in.v1", "reservation.checked_out.v1", "billing.folio", "inventory.room.status_changed.v1", "housekeeping.task.completed.v1",
	} {
		if !slices.Contains(got, want) && !slices.Contains(got, strings.Replace(want, "completed", "inspected", 1)) {
			t.Errorf("%s is not told: %v", want, got)
		}
	}
	for _, e := range b.events {
		if strings.HasPrefix(e.Envelope.Subject, "melmastoon.reservation.") && strings.Contains(string(e.Payload), o.arrivals[max(i, 0)].ReservationID) {
			t.Errorf("what staff did is told again: %s", e.Payload)
		}
	}
	w.tellDay(ctx, w.clk.Now(), w.clk.Now())
	if again := b.take(); again != nil {
		t.Errorf("told without time having passed: %v", again)
	}
}

// A task that was added is found by its id, also while it is another day in the houses
// than at the service.
func TestAddedTaskOfHousesAhead(t *testing.T) {
	t.Parallel()
	w := newFixture(t, func(c *Config) { c.HousesAhead = 24 * time.Hour })
	var task Task
	w.want(201, http.MethodPost, "/_sim/tasks", map[string]any{"propertyId": busy(t, w).id, "roomNumber": "101"}, &task)
	w.want(200, http.MethodPost, "/_sim/tasks/"+task.TaskID+"/complete", nil, nil)
}
