package backofficehttp_test

import (
	"context"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
)

// patient waits as long as a busy machine needs.
var patient = board.Deadlines{
	Widget: time.Minute, Whole: time.Minute, Of: func(backoffice.Upstream) time.Duration { return time.Minute },
}

// foreign is a property of another tenant.
const foreign = "ppt_01JXG9KMGRC638MD0V7C0ZPD0Y"

// houseFake plays every upstream that knows about properties.
type houseFake struct {
	mu      sync.Mutex
	foreign map[string]bool // properties of other tenants
	away    error           // of property-service
	zone    board.Zone
	fails   map[board.Source]error
	gates   map[board.Source]chan struct{} // sources that answer only after it is closed
	calls   map[board.Source]int
	version int // shows in readings
}

func newHouseFake() *houseFake {
	zone, err := board.ReadZone("Asia/Kabul", "")
	if err != nil {
		panic(err) // the name is constant
	}
	return &houseFake{
		zone: zone, foreign: map[string]bool{}, fails: map[board.Source]error{}, gates: map[board.Source]chan struct{}{},
		calls: map[board.Source]int{}, version: 1,
	}
}

// change changes the house while others read it.
func (h *houseFake) change(f func(*houseFake)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(h)
}

// asked is how often each source was, since the last look.
func (h *houseFake) asked() map[board.Source]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	calls := h.calls
	h.calls = map[board.Source]int{}
	return calls
}

// FindProperty implements board.Properties.
func (h *houseFake) FindProperty(_ context.Context, _, property bff.ID) (board.Property, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.away == nil && h.foreign[property.String()] {
		return board.Property{}, bff.Errorf(bff.CodeResourceNotFound, "there is no such property")
	}
	return board.Property{Zone: h.zone}, h.away
}

// ListProperties lists both houses.
func (h *houseFake) ListProperties(context.Context, bff.ID) ([]board.Property, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []board.Property
	for _, id := range []string{house, other} {
		name := bff.LocalizedString{Default: "House " + id[len(id)-1:], Localized: map[string]string{"fa": "خانه"}}
		all = append(all, board.Property{ID: bff.MustParseID(bff.PrefixProperty, id), Name: name, City: "Kabul", Zone: h.zone})
	}
	return all, h.away
}

// Read implements board.House.
func (h *houseFake) Read(ctx context.Context, from board.Source, at board.Place) (board.Reading, error) {
	h.mu.Lock()
	h.calls[from]++
	gate := h.gates[from]
	h.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return board.Reading{}, context.Cause(ctx)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.fails[from]; err != nil {
		return board.Reading{}, err
	}
	return board.Reading{Value: h.value(from, at), AsOf: time.Now()}, nil
}

func (h *houseFake) value(from board.Source, at board.Place) any {
	amount := board.Amount{Minor: "1250", Currency: bff.AFN}
	stay := board.Stay{
		ReservationID: "rsv_1", GuestName: "Zarghuna Karimi", RoomNumber: "204", Adults: 2, CheckIn: at.Date, CheckOut: at.Date + 2,
		Status: "confirmed", ETA: "15:30", VIP: true, Channel: "direct", FolioID: "fol_1", Version: h.version,
	}
	other := stay
	other.ReservationID, other.VIP, other.Status = "rsv_2", false, "checked_in"
	switch from {
	case board.SourceArrivals, board.SourceDepartures, board.SourceInHouse:
		return []board.Stay{stay, other}
	case board.SourceOccupancy:
		return []board.Night{{Date: at.Date, Occupied: 3, Total: 4}}
	case board.SourceRooms:
		return []board.Room{{RoomNumber: "204", Status: "clean"}}
	case board.SourceRates:
		return []board.Rate{{RoomTypeID: "rmt_1", Nightly: amount}}
	case board.SourceFigures:
		return board.Figures{ADR: amount, RevPAR: amount, ChannelMix: board.Counts{"direct": 1}, NoShows: h.version}
	case board.SourceTasks:
		return []board.Task{
			{TaskID: "hkt_1", RoomNumber: "204", Kind: "departure_clean", Status: "pending", Priority: "high", AssignedTo: "opt_parwana", Version: 1},
			{TaskID: "hkt_2", RoomNumber: "205", Kind: "stayover", Status: "done", Priority: "normal", Version: 1},
		}
	case board.SourceProgress:
		return board.Progress{Total: 2, Counts: board.Counts{"pending": 1, "done": 1}}
	case board.SourceLinen:
		return board.Linen{CleanSets: 4, SetsPerDay: 2, RunwayDays: 2}
	case board.SourceWorkOrders:
		return []board.WorkOrder{
			{
				WorkOrderID: "wko_1", RoomNumber: "204", Title: "Leaking tap", Severity: "high", Status: "open", BlocksRoom: true, OpenedAt: bff.At(at.Date.Time()),
				Version: 1,
			},
			{WorkOrderID: "wko_2", Title: "Generator filter", Severity: "low", Status: "resolved", OpenedAt: bff.At(at.Date.Time()), Version: 1},
		}
	case board.SourceFolios:
		return board.Folios{Open: 2, BalanceDue: amount}
	case board.SourceCashDrawer:
		return board.CashDrawer{Status: "open", Opening: amount, Taken: amount, Expected: amount}
	case board.SourceAlerts, board.SourceSuggestions:
		return board.Counts{"warning": 2}
	case board.SourceAcceptance:
		return board.Acceptance{Days: 30, Accepted: 3, Rate: 1}
	case board.SourceDevices:
		return []board.SyncDevice{{Online: true, LagSeconds: 3}, {LagSeconds: 700}}
	case board.SourceShiftGaps:
		return []board.Shift{{Role: "front_desk", From: "06:00", To: "14:00"}}
	case board.SourceLockFailures:
		return []board.LockFailure{{RoomNumber: "204", Reason: "battery_low", At: bff.At(at.Date.Time())}}
	case board.SourceNotes:
		return []board.Note{{NoteID: "nte_1", Text: "Fire drill at " + at.Tenant.String() + " " + at.Property.String()}}
	}
	return nil
}
