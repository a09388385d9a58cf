package board_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
)

// shelf is a house whose sources are read at once.
type shelf map[board.Source]any

func (s shelf) Read(_ context.Context, from board.Source, _ board.Place) (board.Reading, error) {
	return board.Reading{Value: s[from], AsOf: began}, nil
}

// The agenda has what the day still asks for, in the order of its time, with what the reader
// may do next, and names no guest; the other views have every item as its service says it.
func TestWorkbenchItems(t *testing.T) {
	t.Parallel()
	const today bff.Date = 20774
	stay := func(id, room, status, eta string) board.Stay {
		return board.Stay{ReservationID: id, GuestName: "Zarghuna", RoomNumber: room, Status: status, ETA: eta, CheckIn: today}
	}
	task := func(id, priority, status, by string) board.Task {
		return board.Task{TaskID: id, RoomNumber: "4", Priority: priority, Status: status, NeededBy: by, Kind: "stayover"}
	}
	order := func(id, room, severity, status string) board.WorkOrder {
		return board.WorkOrder{WorkOrderID: id, RoomNumber: room, Severity: severity, Status: status, Title: "a tap"}
	}
	h := shelf{
		board.SourceArrivals:   []board.Stay{stay("rsv_1", "2", "confirmed", "15:30"), stay("rsv_2", "1", "checked_in", "")},
		board.SourceDepartures: []board.Stay{stay("rsv_3", "9", "checked_in", ""), stay("rsv_4", "8", "checked_out", ""), stay("rsv_5", "7", "confirmed", "")},
		board.SourceInHouse:    []board.Stay{stay("rsv_6", "6", "checked_in", "")},
		board.SourceRooms:      []board.Room{},
		board.SourceTasks: []board.Task{
			task("hkt_1", "high", "pending", "14:00"), task("hkt_2", "normal", "pending", ""), task("hkt_3", "high", "done", ""), task("hkt_4", "high", "inspected", ""),
		},
		board.SourceWorkOrders: []board.WorkOrder{
			order("wko_1", "5", "critical", "open"), order("wko_2", "3", "high", "in_progress"), order("wko_3", "3", "low", "open"), order("wko_4", "3", "high", "resolved"),
		},
	}
	for part, want := range map[backoffice.Part]string{
		backoffice.PartToday: `
{"kind":"task","id":"hkt_1","roomNumber":"4","status":"pending","at":"14:00","can":["start","complete"]}
{"kind":"arrival","id":"rsv_1","roomNumber":"2","status":"confirmed","at":"15:30","can":["check-in"]}
{"kind":"work_order","id":"wko_2","roomNumber":"3","status":"in_progress","severity":"high","can":["resolve","reopen"]}
{"kind":"work_order","id":"wko_1","roomNumber":"5","status":"open","severity":"critical","can":["start","resolve"]}
{"kind":"departure","id":"rsv_3","roomNumber":"9","status":"checked_in","can":["check-out","issue-key","extend-key","rebind-key","revoke-key"]}`,
		backoffice.PartArrivals: `
{"reservationId":"rsv_1","guestName":"Zarghuna","status":"confirmed","can":["check-in"]}
{"reservationId":"rsv_2","guestName":"Zarghuna","status":"checked_in","can":["check-out","issue-key","extend-key","rebind-key","revoke-key"]}`,
		backoffice.PartHousekeeping: `
{"taskId":"hkt_1","status":"pending","can":["start","complete"]}
{"taskId":"hkt_2","status":"pending","can":["start","complete"]}
{"taskId":"hkt_3","status":"done","can":["inspect","reopen"]}
{"taskId":"hkt_4","status":"inspected","can":["reopen"]}`,
		backoffice.PartMaintenance: `
{"workOrderId":"wko_1","status":"open","can":["start","resolve"]}
{"workOrderId":"wko_2","status":"in_progress","can":["resolve","reopen"]}
{"workOrderId":"wko_3","status":"open","can":["start","resolve"]}
{"workOrderId":"wko_4","status":"resolved","can":["close","reopen"]}`,
	} {
		at := board.Place{Tenant: tenant, Property: property, Day: board.Day{Date: today}}
		v, err := board.NewWorkbench(h, usual()).View(t.Context(), part, at, board.StepsFor(part, backoffice.Roles(), today), began)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, item := range v.Items {
			line, err := json.Marshal(item)
			if err != nil {
				t.Fatal(err)
			}
			if part != backoffice.PartToday { // what a service says has its own tests
				if line, err = json.Marshal(brief(t, line)); err != nil {
					t.Fatal(err)
				}
			}
			b.WriteString("\n" + string(line))
		}
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", part, diff)
		}
		if v.View != part || v.PropertyID != property || v.Day.Date != today || !v.AsOf.Equal(began) {
			t.Errorf("%s: %+v", part, v)
		}
	}
}

// briefly is what an item of a view is, and what can be done with it.
type briefly struct {
	ReservationID string   `json:"reservationId,omitempty"`
	GuestName     string   `json:"guestName,omitempty"`
	TaskID        string   `json:"taskId,omitempty"`
	WorkOrderID   string   `json:"workOrderId,omitempty"`
	Status        string   `json:"status"`
	Can           []string `json:"can"`
}

func brief(t *testing.T, item []byte) (b briefly) {
	t.Helper()
	if err := json.Unmarshal(item, &b); err != nil {
		t.Fatal(err)
	}
	return b
}

// Only views of stays name guests; only arrivals and departures are of any day; and each
// filter has its words.
func TestWorkbenchViewsAreDescribed(t *testing.T) {
	t.Parallel()
	const today bff.Date = 20774
	stays := "confirmed checked_in checked_out cancelled no_show"
	for part, want := range map[backoffice.Part]struct {
		dated, guests bool
		filters       map[string]string
	}{
		backoffice.PartToday: {
			filters: map[string]string{"kind": "arrival departure task work_order", "status": "confirmed checked_in waiting pending in_progress open"},
		},
		backoffice.PartArrivals:   {dated: true, guests: true, filters: map[string]string{"status": stays, "vip": "true false"}},
		backoffice.PartDepartures: {dated: true, guests: true, filters: map[string]string{"status": stays, "vip": "true false"}},
		backoffice.PartInHouse:    {guests: true, filters: map[string]string{"status": stays, "vip": "true false"}},
		backoffice.PartHousekeeping: {
			filters: map[string]string{"status": "waiting pending in_progress done inspected", "kind": "departure_clean stayover inspection", "priority": "normal high"},
		},
		backoffice.PartMaintenance: {
			filters: map[string]string{"status": "open in_progress resolved", "severity": strings.Join(backoffice.WorkOrderSeverities(), " ")},
		},
	} {
		if board.Dated(part) != want.dated || board.NamesGuests(part) != want.guests || !slices.Contains(backoffice.WorkbenchViews(), part) {
			t.Errorf("%s: of any day %t, names guests %t", part, board.Dated(part), board.NamesGuests(part))
		}
		for date, shows := range map[bff.Date]bool{today: true, today - 1: true, today - 2: want.dated, today + 1: want.dated} {
			if board.Shows(part, date, today) != shows {
				t.Errorf("%s of %s, today is %s: %t", part, date, today, !shows)
			}
		}
		filters := map[string]string{}
		for _, name := range board.FilterNames(part) {
			filters[name] = strings.Join(board.FilterWords(part, name), " ")
		}
		if diff := cmp.Diff(want.filters, filters); diff != "" {
			t.Errorf("%s filters (-want +got):\n%s", part, diff)
		}
		if board.FilterWords(part, "guestName") != nil {
			t.Errorf("%s is narrowed by names", part)
		}
	}
	for _, v := range []board.WorkbenchView{{Stale: true}, {Missing: []board.Source{board.SourceRooms}}} {
		if v.Whole() {
			t.Errorf("%+v is whole", v)
		}
	}
	// Without a deadline of its own a source has the time of its upstream, and no more.
	hangs := &fakeHouse{takes: map[board.Source]time.Duration{board.SourceArrivals: -1}}
	_, err := board.NewWorkbench(hangs, board.Deadlines{Widget: time.Nanosecond, Whole: time.Nanosecond}).
		View(t.Context(), backoffice.PartArrivals, board.Place{}, board.Steps{}, began)
	if bff.CodeOf(err) != bff.CodeUpstreamTimeout {
		t.Errorf("a source that hangs: %v", err)
	}
}
