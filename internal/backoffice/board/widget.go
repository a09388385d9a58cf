package board

import (
	"errors"
	"slices"

	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// WidgetID names a widget of the dashboard.
type WidgetID string

// Widget is one tile of the dashboard.
type Widget struct {
	ID WidgetID
	// From is the source that it is made of.
	From Source
	// Roles may see it; empty = every role.
	Roles []backoffice.Role
	// show makes the widget's data of a reading.
	show func(value any) (any, error)
}

// Visible reports whether one of the roles may see the widget.
func (w *Widget) Visible(roles []backoffice.Role) bool {
	return len(w.Roles) == 0 || slices.ContainsFunc(roles, func(r backoffice.Role) bool { return slices.Contains(w.Roles, r) })
}

// errReading says that a source gave a value of another type than its own.
var errReading = errors.New("the reading is not of its source's type")

func widget[T any](id WidgetID, from Source, roles []backoffice.Role, show func(T) any) Widget {
	return Widget{ID: id, From: from, Roles: roles, show: func(value any) (any, error) {
		v, ok := value.(T)
		if !ok {
			return nil, errReading
		}
		return show(v), nil
	}}
}

// Shapes of data that several widgets have.
type (
	countOf struct {
		Count int `json:"count"`
	}
	countsOf struct {
		Count  int    `json:"count"`
		Counts Counts `json:"counts"`
	}
	amountOf struct {
		Amount Amount `json:"amount"`
	}
	listOf[T any] struct {
		Count int `json:"count"`
		Items []T `json:"items"`
	}
)

// maxItems bounds the items that a widget shows of a list; its count is of all.
const maxItems = 20

func list[T any](all []T) any {
	return listOf[T]{len(all), append([]T{}, all[:min(len(all), maxItems)]...)}
}

// Widgets is the table of the dashboard, in the order in which it is shown. Which
// roles see a widget is said here and nowhere else.
func Widgets() []Widget {
	var (
		managers = []backoffice.Role{backoffice.GeneralManager, backoffice.Owner}
		with     = func(more ...backoffice.Role) []backoffice.Role { return append(slices.Clone(managers), more...) }
		guests   = with(backoffice.FrontDesk, backoffice.HousekeepingLead, backoffice.FnBManager)
		rooms    = with(backoffice.FrontDesk, backoffice.Housekeeper, backoffice.HousekeepingLead, backoffice.Maintenance)
		money    = with(backoffice.Finance)
		everyone []backoffice.Role
		sellers  = with(backoffice.FrontDesk, backoffice.HousekeepingLead, backoffice.FnBManager, backoffice.Finance)
	)
	return []Widget{
		widget("arrivals", SourceArrivals, guests, stays),
		widget("departures", SourceDepartures, guests, stays),
		widget("in-house", SourceInHouse, guests, guestsInHouse),
		widget("occupancy-today", SourceOccupancy, sellers, occupancyToday),
		widget("occupancy-7-days", SourceOccupancy, sellers, list[Night]),
		widget("adr", SourceFigures, money, func(f Figures) any { return amountOf{f.ADR} }),
		widget("revpar", SourceFigures, money, func(f Figures) any { return amountOf{f.RevPAR} }),
		widget("alos", SourceFigures, money, func(f Figures) any {
			return struct {
				Nights float64 `json:"nights"`
			}{f.AverageLengthOfStay}
		}),
		widget("cancellations", SourceFigures, with(backoffice.FrontDesk, backoffice.Finance), func(f Figures) any { return countOf{f.Cancellations} }),
		widget("no-shows", SourceFigures, with(backoffice.FrontDesk, backoffice.Finance), func(f Figures) any { return countOf{f.NoShows} }),
		widget("channel-mix", SourceFigures, money, func(f Figures) any { return total(f.ChannelMix) }),
		widget("rate-snapshot", SourceRates, with(backoffice.FrontDesk, backoffice.Finance), list[Rate]),
		widget("rooms-by-status", SourceRooms, rooms, roomsByStatus),
		widget("housekeeping-progress", SourceProgress, rooms, func(p Progress) any {
			return struct {
				Total       int     `json:"total"`
				Counts      Counts  `json:"counts"`
				PercentDone float64 `json:"percentDone"`
			}{p.Total, p.Counts, p.PercentDone}
		}),
		widget("time-to-ready", SourceProgress, with(backoffice.FrontDesk, backoffice.HousekeepingLead), func(p Progress) any {
			return struct {
				Minutes int `json:"minutes"`
			}{p.TimeToReadyMinutes}
		}),
		widget("pending-at-arrival", SourceProgress, with(backoffice.FrontDesk, backoffice.Housekeeper, backoffice.HousekeepingLead), func(p Progress) any {
			return countOf{p.PendingAtArrivalWindow}
		}),
		widget("linen-runway", SourceLinen, with(backoffice.HousekeepingLead), func(l Linen) any { return l }),
		widget("open-work-orders", SourceWorkOrders, rooms, openWorkOrders),
		widget("blocked-rooms", SourceWorkOrders, rooms, blockedRooms),
		widget("open-folios", SourceFolios, with(backoffice.FrontDesk, backoffice.Finance), func(f Folios) any { return countOf{f.Open} }),
		widget("balance-due", SourceFolios, money, func(f Folios) any { return amountOf{f.BalanceDue} }),
		widget("cash-drawer", SourceCashDrawer, with(backoffice.FrontDesk, backoffice.Finance), func(d CashDrawer) any { return d }),
		widget("alerts", SourceAlerts, everyone, total),
		widget("ai-suggestions", SourceSuggestions, with(backoffice.HousekeepingLead, backoffice.Finance), total),
		widget("ai-acceptance", SourceAcceptance, managers, func(a Acceptance) any { return a }),
		widget("devices", SourceDevices, with(backoffice.FrontDesk), devicesOnline),
		widget("sync-lag", SourceDevices, with(backoffice.FrontDesk), syncLag),
		widget("staffing-gaps", SourceShiftGaps, with(backoffice.HousekeepingLead, backoffice.FnBManager), list[Shift]),
		widget("lock-failures", SourceLockFailures, with(backoffice.FrontDesk, backoffice.Maintenance), list[LockFailure]),
		widget("vip-arrivals", SourceArrivals, guests, vipArrivals),
		widget("notes", SourceNotes, everyone, list[Note]),
	}
}

func total(c Counts) any {
	n := 0
	for _, k := range c {
		n += k
	}
	if c == nil {
		c = Counts{}
	}
	return countsOf{n, c}
}

// count counts things by one of their properties.
func count[T any](all []T, by func(*T) string) Counts {
	c := Counts{}
	for i := range all {
		c[by(&all[i])]++
	}
	return c
}

func statusOf(s *Stay) string { return s.Status }

func stays(all []Stay) any { return total(count(all, statusOf)) }

func guestsInHouse(all []Stay) any {
	out := struct {
		Rooms    int `json:"rooms"`
		Adults   int `json:"adults"`
		Children int `json:"children"`
	}{Rooms: len(all)}
	for i := range all {
		out.Adults += all[i].Adults
		out.Children += all[i].Children
	}
	return out
}

func occupancyToday(nights []Night) any {
	out := struct {
		Occupied int     `json:"occupied"`
		Total    int     `json:"total"`
		Percent  float64 `json:"percent"`
	}{}
	if len(nights) > 0 && nights[0].Total > 0 {
		out.Occupied, out.Total = nights[0].Occupied, nights[0].Total
		out.Percent = float64(1000*out.Occupied/out.Total) / 10
	}
	return out
}

func roomsByStatus(all []Room) any {
	return total(count(all, func(r *Room) string { return r.Status }))
}

func openWorkOrders(all []WorkOrder) any {
	open := Counts{}
	for i := range all {
		if all[i].active() {
			open[all[i].Severity]++
		}
	}
	return total(open)
}

func blockedRooms(all []WorkOrder) any {
	type blocked struct {
		RoomNumber  string `json:"roomNumber"`
		WorkOrderID string `json:"workOrderId"`
		Severity    string `json:"severity"`
	}
	var out []blocked
	for i := range all {
		if w := &all[i]; w.BlocksRoom && w.active() {
			out = append(out, blocked{w.RoomNumber, w.WorkOrderID, w.Severity})
		}
	}
	return list(out)
}

// vipArrivals names no guest: the arrivals view does.
func vipArrivals(all []Stay) any {
	type vip struct {
		ReservationID string `json:"reservationId"`
		RoomNumber    string `json:"roomNumber,omitempty"`
		Status        string `json:"status"`
		ETA           string `json:"eta,omitempty"`
	}
	var out []vip
	for i := range all {
		if s := &all[i]; s.VIP && s.expected() {
			out = append(out, vip{s.ReservationID, s.RoomNumber, s.Status, s.ETA})
		}
	}
	return list(out)
}

// expected reports whether the party comes, or has come.
func (s *Stay) expected() bool { return s.Status != "cancelled" && s.Status != "no_show" }

func devicesOnline(all []SyncDevice) any {
	out := struct {
		Online  int `json:"online"`
		Offline int `json:"offline"`
	}{}
	for _, d := range all {
		if d.Online {
			out.Online++
		} else {
			out.Offline++
		}
	}
	return out
}

func syncLag(all []SyncDevice) any {
	out := struct {
		WorstSeconds int `json:"worstSeconds"`
	}{}
	for _, d := range all {
		out.WorstSeconds = max(out.WorstSeconds, d.LagSeconds)
	}
	return out
}
