// Package board composes what operators look at: the dashboard and the views of the
// workbench, of one property on one of its days.
package board

import (
	"context"
	"slices"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// Place is a property on one of its days.
type Place struct {
	Tenant, Property bff.ID
	Day
}

// Source is one answer of one upstream about a place. Widgets and views that need
// the same answer share the call.
type Source string

// The sources there are, with the type of their readings.
const (
	SourceArrivals     Source = "arrivals"      // []Stay
	SourceDepartures   Source = "departures"    // []Stay
	SourceInHouse      Source = "in-house"      // []Stay
	SourceOccupancy    Source = "occupancy"     // []Night, of a week from the date on
	SourceRooms        Source = "rooms"         // []Room, as they are now
	SourceRates        Source = "rates"         // []Rate
	SourceFigures      Source = "figures"       // Figures
	SourceTasks        Source = "tasks"         // []Task
	SourceProgress     Source = "progress"      // Progress
	SourceLinen        Source = "linen"         // Linen
	SourceWorkOrders   Source = "work-orders"   // []WorkOrder, those not closed
	SourceFolios       Source = "folios"        // Folios
	SourceCashDrawer   Source = "cash-drawer"   // CashDrawer
	SourceAlerts       Source = "alerts"        // Counts of the open ones, by severity
	SourceSuggestions  Source = "suggestions"   // Counts of the open ones, by category
	SourceAcceptance   Source = "acceptance"    // Acceptance
	SourceDevices      Source = "devices"       // []SyncDevice
	SourceShiftGaps    Source = "shift-gaps"    // []Shift that no operator has
	SourceLockFailures Source = "lock-failures" // []LockFailure
	SourceNotes        Source = "notes"         // []Note
)

// Upstream is the one that has the source.
func (s Source) Upstream() backoffice.Upstream {
	switch s {
	case SourceArrivals, SourceDepartures, SourceInHouse:
		return backoffice.UpstreamReservation
	case SourceOccupancy, SourceRooms:
		return backoffice.UpstreamInventory
	case SourceRates:
		return backoffice.UpstreamPricing
	case SourceFigures:
		return backoffice.UpstreamAnalytics
	case SourceTasks, SourceProgress, SourceLinen:
		return backoffice.UpstreamHousekeeping
	case SourceWorkOrders:
		return backoffice.UpstreamMaintenance
	case SourceFolios, SourceCashDrawer:
		return backoffice.UpstreamBilling
	case SourceAlerts:
		return backoffice.UpstreamNotification
	case SourceSuggestions, SourceAcceptance:
		return backoffice.UpstreamAI
	case SourceDevices:
		return backoffice.UpstreamSync
	case SourceShiftGaps:
		return backoffice.UpstreamStaff
	case SourceLockFailures:
		return backoffice.UpstreamLock
	case SourceNotes:
		return backoffice.UpstreamProperty
	}
	return ""
}

// Reading is what a source said.
type Reading struct {
	Value any // of the source's type; shared, not to be changed
	AsOf  time.Time
	// Stale: it is an earlier one, because the upstream fails or is slow.
	Stale bool
}

// House reads what upstreams know about places.
type House interface {
	// Read returns a reading, at the latest when the context ends. A property that
	// the tenant does not have is [bff.CodeResourceNotFound].
	Read(ctx context.Context, from Source, at Place) (Reading, error)
}

// Amount is money for front ends: minor units in a decimal string.
type Amount struct {
	Minor    string       `json:"minor"`
	Currency bff.Currency `json:"currency"`
}

// AmountOf writes money for front ends.
func AmountOf(m bff.Money) Amount { return Amount{m.MinorString(), m.Currency} }

// NamesKept is how long anything that names guests is kept (DATA_MODEL §3.2). What
// stands in for longer is nameless.
const NamesKept = 15 * time.Second

// Nameless returns stays without what names or describes their guests.
func Nameless(all []Stay) []Stay {
	out := slices.Clone(all)
	for i := range out {
		out[i].GuestName, out[i].Notes = "", ""
	}
	return out
}

// Stay is one stay of one party. The guest's name is personal, and so may the notes be:
// they are shown, kept for NamesKept, and nothing else.
type Stay struct {
	ReservationID string               `json:"reservationId"`
	GuestName     string               `json:"guestName"`
	RoomNumber    string               `json:"roomNumber,omitempty"`
	RoomTypeID    string               `json:"roomTypeId,omitempty"`
	RoomTypeName  *bff.LocalizedString `json:"roomTypeName,omitempty"`
	Adults        int                  `json:"adults"`
	Children      int                  `json:"children"`
	CheckIn       bff.Date             `json:"checkIn"`
	CheckOut      bff.Date             `json:"checkOut"`
	Status        string               `json:"status"`
	ETA           string               `json:"eta,omitempty"`
	VIP           bool                 `json:"vip"`
	Channel       string               `json:"channel,omitempty"`
	Notes         string               `json:"notes,omitempty"`
	FolioID       string               `json:"folioId,omitempty"`
	Version       int                  `json:"version"`
}

// Night is how full a property is on a date.
type Night struct {
	Date     bff.Date `json:"date"`
	Occupied int      `json:"occupied"`
	Total    int      `json:"total"`
}

// Room is a room as it is now.
type Room struct {
	RoomNumber string `json:"roomNumber"`
	Status     string `json:"status"`
}

// Rate is what a kind of room is sold for tonight.
type Rate struct {
	RoomTypeID   string               `json:"roomTypeId"`
	RoomTypeName *bff.LocalizedString `json:"roomTypeName,omitempty"`
	RatePlanID   string               `json:"ratePlanId,omitempty"`
	Nightly      Amount               `json:"nightly"`
}

// Figures are a day's figures of analytics.
type Figures struct {
	ADR, RevPAR            Amount
	AverageLengthOfStay    float64
	Cancellations, NoShows int
	ChannelMix             Counts
}

// Task is a room to clean or to look at.
type Task struct {
	TaskID     string `json:"taskId"`
	RoomNumber string `json:"roomNumber"`
	Kind       string `json:"kind"`
	Status     string `json:"status"`
	Priority   string `json:"priority,omitempty"`
	AssignedTo string `json:"assignedTo,omitempty"`
	Minutes    int    `json:"minutes,omitempty"`
	NeededBy   string `json:"neededBy,omitempty"`
	Version    int    `json:"version"`
}

// Progress is how far housekeeping is with a day.
type Progress struct {
	Total                  int
	Counts                 Counts
	PercentDone            float64
	TimeToReadyMinutes     int
	PendingAtArrivalWindow int
}

// Linen is how long the clean linen lasts.
type Linen struct {
	CleanSets  int     `json:"cleanSets"`
	SetsPerDay int     `json:"setsPerDay"`
	RunwayDays float64 `json:"runwayDays"`
}

// WorkOrder is something to repair.
type WorkOrder struct {
	WorkOrderID string        `json:"workOrderId"`
	RoomNumber  string        `json:"roomNumber,omitempty"`
	Title       string        `json:"title"`
	Severity    string        `json:"severity"`
	Status      string        `json:"status"`
	BlocksRoom  bool          `json:"blocksRoom"`
	OpenedAt    bff.Timestamp `json:"openedAt"`
	AssignedTo  string        `json:"assignedTo,omitempty"`
	Version     int           `json:"version"`
}

// active reports whether there is still something to do.
func (w *WorkOrder) active() bool { return w.Status == "open" || w.Status == "in_progress" }

// Folios are the open accounts of a property.
type Folios struct {
	Open       int
	BalanceDue Amount
}

// CashDrawer is the cash of a property on a day.
type CashDrawer struct {
	Status   string `json:"status,omitempty"`
	Opening  Amount `json:"opening"`
	Taken    Amount `json:"taken"`
	Expected Amount `json:"expected"`
}

// Counts are how many there are of each kind.
type Counts map[string]int

// Acceptance is what became of suggestions.
type Acceptance struct {
	Days     int     `json:"days"`
	Accepted int     `json:"accepted"`
	Rejected int     `json:"rejected"`
	Modified int     `json:"modified"`
	Rate     float64 `json:"rate"` // 0 to 1
}

// SyncDevice is a computer of the property as sync knows it.
type SyncDevice struct {
	Online     bool
	LagSeconds int
}

// Shift is a turn of work.
type Shift struct {
	Role string `json:"role"`
	From string `json:"from"`
	To   string `json:"to"`
}

// LockFailure is a door that refused a key.
type LockFailure struct {
	RoomNumber string        `json:"roomNumber"`
	Reason     string        `json:"reason"`
	At         bff.Timestamp `json:"at"`
}

// Note is something to know about a day at the property.
type Note struct {
	NoteID string `json:"noteId"`
	Text   string `json:"text"`
}
