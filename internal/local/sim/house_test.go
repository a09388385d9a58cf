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
	for range 3 * 8 {
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
		w.clk.Advance(3*time.Hour + time.Minute)
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
		http.MethodPost, "/_sim/reservations/"+res.ReservationID+"/check-in", nil, map[string]string{"X-Request-Id": "req_1"}, nil,
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

// Everything that a test can do to a house is told under the topic of its producer.
func TestDrills(t *testing.T) {
	t.Parallel()
	b := &board{}
	w := newFixture(t, func(c *Config) { c.Publisher = b })
	p := busy(t, w)
	o := w.look(p)
	free := slices.IndexFunc(o.arrivals, func(r Reservation) bool { return o.rooms[r.RoomNumber].Status != "occupied" })
	stay, guest := "/_sim/reservations/"+o.arrivals[free].ReservationID, "/_sim/reservations/"+o.inHouse[0].ReservationID
	clean := ""
	for number, r := range o.rooms {
		if r.Status == "inspected" || r.Status == "clean" {
			clean = number
		}
	}
	var alert Alert
	var advice Suggestion
	var order WorkOrder
	var task Task
	house := map[string]any{"propertyId": p.id}
	today := bff.DateOf(testNow)
	for _, step := range []struct {
		method, path string
		body, out    any
		want         []string
	}{
		{"POST", stay + "/cancel", nil, nil, []string{"reservation.cancelled.v1"}},
		{"POST", stay + "/reinstate", nil, nil, []string{"reservation.confirmed.v1"}},
		{"PATCH", stay, map[string]any{"notes": "A cot"}, nil, []string{"reservation.modified.v1"}},
		{
			"PATCH", guest,
			map[string]any{"checkOut": max(today, o.inHouse[0].CheckIn+1)},
			nil,
			[]string{"reservation.dates_changed.v1", "inventory.allocation.changed.v1"},
		},
		{"POST", guest + "/lock-failures", nil, nil, []string{"lock.credential.failed.v1"}},
		{"POST", "/_sim/tasks", map[string]any{"propertyId": p.id, "roomNumber": clean}, &task, []string{"housekeeping.task.created.v1"}},
		{
			"POST", "/_sim/work-orders",
			map[string]any{"propertyId": p.id, "title": "Lamp", "severity": "high", "roomNumber": clean, "blocksRoom": true},
			&order,
			[]string{"maintenance.work_order.opened.v1", "inventory.room.status_changed.v1"},
		},
		{"PUT", "/_sim/properties/" + p.id + "/rooms/" + clean, map[string]any{"status": "dirty"}, nil, []string{"inventory.room.status_changed.v1"}},
		{"POST", "/_sim/properties/" + p.id + "/cash", map[string]any{"amountMinor": 5000}, nil, []string{"billing.cash_drawer"}},
		{"POST", "/_sim/alerts", house, &alert, []string{"notification.alert.raised.v1"}},
		{"POST", "/_sim/suggestions", house, &advice, []string{"ai_orchestrator.suggestion.created.v1"}},
	} {
		if status := w.send(step.method, step.path, step.body, nil, step.out); status > 201 {
			t.Fatalf("%s %s: %d", step.method, step.path, status)
		}
		if diff := cmp.Diff(step.want, b.take()); diff != "" {
			t.Errorf("%s %s\n%s", step.method, step.path, diff)
		}
	}
	for _, step := range []struct {
		path string
		want []string
	}{
		{"/_sim/tasks/" + task.TaskID + "/start", []string{"housekeeping.task.started.v1"}},
		{"/_sim/work-orders/" + order.WorkOrderID + "/resolve", []string{"maintenance.work_order.resolved.v1", "inventory.room.status_changed.v1"}},
		{"/_sim/alerts/" + alert.AlertID + "/resolve", []string{"notification.alert.resolved.v1"}},
		{"/_sim/suggestions/" + advice.SuggestionID + "/expire", []string{"ai_orchestrator.suggestion.expired.v1"}},
	} {
		w.want(200, http.MethodPost, step.path, nil, nil)
		if diff := cmp.Diff(step.want, b.take()); diff != "" {
			t.Errorf("%s\n%s", step.path, diff)
		}
	}
	w.want(404, http.MethodPost, stay+"/dance", nil, nil)
	w.want(409, http.MethodPost, "/_sim/alerts/"+alert.AlertID+"/resolve", nil, nil)
	w.want(400, http.MethodPost, "/_sim/alerts", map[string]any{"propertyId": p.id, "colour": "red"}, nil)
}

// A client that polls an inbox is told that nothing changed, and when something did.
func TestInboxETag(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	p := busy(t, w)
	for upstream, list := range map[string]string{"notification": "alerts", "ai-orchestrator": "suggestions"} {
		path := "/" + upstream + "/api/v1/tenants/" + p.tenant.id + "/" + list
		ask := asking(upstream, p.tenant)
		var header http.Header
		if status := w.send(http.MethodGet, path, nil, ask, &header); status != 200 || header.Get("ETag") == "" {
			t.Fatalf("%s: %d %v", list, status, header)
		}
		ask["If-None-Match"] = `"other", ` + header.Get("ETag")
		w.clk.Advance(time.Second) // asOf is not part of it
		if status := w.send(http.MethodGet, path, nil, ask, nil); status != 304 {
			t.Errorf("%s: %d, want 304", list, status)
		}
		w.want(201, http.MethodPost, "/_sim/"+list, map[string]any{"propertyId": p.id}, nil)
		if status := w.send(http.MethodGet, path, nil, ask, nil); status != 200 {
			t.Errorf("%s after a change: %d", list, status)
		}
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	p := busy(t, w)
	var all, got page[Room]
	w.staffGet(p, "inventory", "/api/v1/properties/{p}/rooms", &all)
	cursor := ""
	var items []Room
	for range len(all.Items) {
		got = page[Room]{}
		w.staffGet(p, "inventory", "/api/v1/properties/{p}/rooms?limit=4"+cursor, &got)
		items = append(items, got.Items...)
		if got.Total != all.Total || !cmp.Equal(got.Counts, all.Counts) {
			t.Errorf("%d of %d, %v", got.Total, all.Total, got.Counts)
		}
		if got.NextCursor == "" {
			break
		}
		cursor = "&cursor=" + got.NextCursor
	}
	if diff := cmp.Diff(all.Items, items); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"limit=0", "limit=201", "limit=x", "cursor=x", "cursor=c-1"} {
		if status := w.send(http.MethodGet, "/inventory/api/v1/properties/"+p.id+"/rooms?"+bad, nil, asking("inventory", p.tenant), nil); status != 400 {
			t.Errorf("%s: %d", bad, status)
		}
	}
}
