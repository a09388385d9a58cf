package backofficed

import (
	"context"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// patient waits as long as a busy machine needs.
var patient = backoffice.Deadlines{
	Widget: time.Minute, Whole: time.Minute, Of: func(backoffice.Upstream) time.Duration { return time.Minute },
}

// foreign is a property of another tenant.
const foreign = "ppt_01JXG9KMGRC638MD0V7C0ZPD0Y"

// houseFake plays every upstream that knows about properties.
type houseFake struct {
	mu      sync.Mutex
	foreign map[string]bool // properties of other tenants
	away    error           // of property-service
	zone    backoffice.Zone
	fails   map[backoffice.Source]error
	gates   map[backoffice.Source]chan struct{} // sources that answer only after it is closed
	calls   map[backoffice.Source]int
	version int // shows in readings
}

func newHouseFake() *houseFake {
	zone, err := backoffice.ReadZone("Asia/Kabul", "")
	if err != nil {
		panic(err) // the name is constant
	}
	return &houseFake{
		zone: zone, foreign: map[string]bool{}, fails: map[backoffice.Source]error{}, gates: map[backoffice.Source]chan struct{}{},
		calls: map[backoffice.Source]int{}, version: 1,
	}
}

// change changes the house while others read it.
func (h *houseFake) change(f func(*houseFake)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(h)
}

// asked is how often each source was, since the last look.
func (h *houseFake) asked() map[backoffice.Source]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	calls := h.calls
	h.calls = map[backoffice.Source]int{}
	return calls
}

// FindProperty implements backoffice.Properties.
func (h *houseFake) FindProperty(_ context.Context, _, property bff.ID) (backoffice.Property, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.away == nil && h.foreign[property.String()] {
		return backoffice.Property{}, bff.Errorf(bff.CodeResourceNotFound, "there is no such property")
	}
	return backoffice.Property{Zone: h.zone}, h.away
}

// Read implements backoffice.House.
func (h *houseFake) Read(ctx context.Context, from backoffice.Source, at backoffice.Place) (backoffice.Reading, error) {
	h.mu.Lock()
	h.calls[from]++
	gate := h.gates[from]
	h.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return backoffice.Reading{}, context.Cause(ctx)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.fails[from]; err != nil {
		return backoffice.Reading{}, err
	}
	return backoffice.Reading{Value: h.value(from, at), AsOf: time.Now()}, nil
}

func (h *houseFake) value(from backoffice.Source, at backoffice.Place) any {
	amount := backoffice.Amount{Minor: "1250", Currency: bff.AFN}
	stay := backoffice.Stay{
		ReservationID: "rsv_1", GuestName: "Zarghuna Karimi", RoomNumber: "204", Adults: 2, CheckIn: at.Date, CheckOut: at.Date + 2,
		Status: "confirmed", ETA: "15:30", VIP: true, Channel: "direct", Version: h.version,
	}
	other := stay
	other.ReservationID, other.VIP, other.Status = "rsv_2", false, "checked_in"
	switch from {
	case backoffice.SourceArrivals, backoffice.SourceDepartures, backoffice.SourceInHouse:
		return []backoffice.Stay{stay, other}
	case backoffice.SourceOccupancy:
		return []backoffice.Night{{Date: at.Date, Occupied: 3, Total: 4}}
	case backoffice.SourceRooms:
		return []backoffice.Room{{RoomNumber: "204", Status: "clean"}}
	case backoffice.SourceRates:
		return []backoffice.Rate{{RoomTypeID: "rmt_1", Nightly: amount}}
	case backoffice.SourceFigures:
		return backoffice.Figures{ADR: amount, RevPAR: amount, ChannelMix: backoffice.Counts{"direct": 1}, NoShows: h.version}
	case backoffice.SourceTasks:
		return []backoffice.Task{
			{TaskID: "hkt_1", RoomNumber: "204", Kind: "departure_clean", Status: "pending", Priority: "high", Version: 1},
			{TaskID: "hkt_2", RoomNumber: "205", Kind: "stayover", Status: "done", Priority: "normal", Version: 1},
		}
	case backoffice.SourceProgress:
		return backoffice.Progress{Total: 2, Counts: backoffice.Counts{"pending": 1, "done": 1}}
	case backoffice.SourceLinen:
		return backoffice.Linen{CleanSets: 4, SetsPerDay: 2, RunwayDays: 2}
	case backoffice.SourceWorkOrders:
		return []backoffice.WorkOrder{
			{WorkOrderID: "wko_1", RoomNumber: "204", Title: "Leaking tap", Severity: "high", Status: "open", BlocksRoom: true, OpenedAt: bff.At(at.Date.Time()), Version: 1},
			{WorkOrderID: "wko_2", Title: "Generator filter", Severity: "low", Status: "resolved", OpenedAt: bff.At(at.Date.Time()), Version: 1},
		}
	case backoffice.SourceFolios:
		return backoffice.Folios{Open: 2, BalanceDue: amount}
	case backoffice.SourceCashDrawer:
		return backoffice.CashDrawer{Status: "open", Opening: amount, Taken: amount, Expected: amount}
	case backoffice.SourceAlerts, backoffice.SourceSuggestions:
		return backoffice.Counts{"warning": 2}
	case backoffice.SourceAcceptance:
		return backoffice.Acceptance{Days: 30, Accepted: 3, Rate: 1}
	case backoffice.SourceDevices:
		return []backoffice.SyncDevice{{Online: true, LagSeconds: 3}, {LagSeconds: 700}}
	case backoffice.SourceShiftGaps:
		return []backoffice.Shift{{Role: "front_desk", From: "06:00", To: "14:00"}}
	case backoffice.SourceLockFailures:
		return []backoffice.LockFailure{{RoomNumber: "204", Reason: "battery_low", At: bff.At(at.Date.Time())}}
	case backoffice.SourceNotes:
		return []backoffice.Note{{NoteID: "nte_1", Text: "Fire drill at " + at.Tenant.String() + " " + at.Property.String()}}
	}
	return nil
}
