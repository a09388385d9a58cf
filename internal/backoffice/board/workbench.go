package board

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// WorkbenchView is what operators work from: a list of one property on one day.
type WorkbenchView struct {
	View       backoffice.Part `json:"view"`
	PropertyID bff.ID          `json:"propertyId"`
	Date       *bff.Date       `json:"date,omitempty"` // nil: it is of now
	Day        Day             `json:"day"`
	AsOf       bff.Timestamp   `json:"asOf"`
	Stale      bool            `json:"stale"`
	Missing    []Source        `json:"missing,omitempty"` // what could not be had
	Degraded   []Degradation   `json:"degraded,omitempty"`
	Counts     map[string]int  `json:"counts"` // of all items, also those that were filtered out
	Items      []any           `json:"items"`

	steps Steps // of the reader
}

// Degradation tells a client what of a view is missing or old, and why.
type Degradation struct {
	Part     Source     `json:"part"`
	Reason   bff.Reason `json:"reason"`
	AgeMs    int64      `json:"ageMs,omitempty"`
	Affected int        `json:"affected"` // rows that are old; 1 for a part that is missing
}

// Aged returns what is missing or old in a view that stands in although it is void: what
// was old is older by its age, and the rest of its sources is as old as it.
func Aged(d []Degradation, part backoffice.Part, age time.Duration) []Degradation {
	out := slices.Clone(d)
	for i := range out {
		if out[i].Reason == bff.ReasonStale {
			out[i].AgeMs += age.Milliseconds()
		}
	}
	for _, from := range sources(part) {
		if !slices.ContainsFunc(d, func(had Degradation) bool { return had.Part == from }) {
			out = append(out, old(from, age, 1))
		}
	}
	return out
}

func old(from Source, age time.Duration, rows int) Degradation {
	return Degradation{Part: from, Reason: bff.ReasonStale, AgeMs: max(1, age.Milliseconds()), Affected: max(1, rows)}
}

// Whole reports whether the view shows all there is, as it is.
func (v *WorkbenchView) Whole() bool { return !v.Stale && len(v.Missing) == 0 }

// Dated reports whether the view can be had for any day (DATA_MODEL §3.2).
func Dated(p backoffice.Part) bool {
	return p == backoffice.PartArrivals || p == backoffice.PartDepartures
}

// Shows reports whether the view can be had for a date. Views of now can be had for the
// day before, too: the night audit closes it after midnight.
func Shows(p backoffice.Part, date, today bff.Date) bool {
	return Dated(p) || date == today || date == today-1
}

// sources are what a view is made of.
func sources(p backoffice.Part) []Source {
	switch p {
	case backoffice.PartToday:
		return []Source{SourceArrivals, SourceDepartures, SourceInHouse, SourceRooms, SourceTasks, SourceWorkOrders}
	case backoffice.PartArrivals:
		return []Source{SourceArrivals}
	case backoffice.PartDepartures:
		return []Source{SourceDepartures}
	case backoffice.PartInHouse:
		return []Source{SourceInHouse}
	case backoffice.PartHousekeeping:
		return []Source{SourceTasks, SourceRooms}
	case backoffice.PartMaintenance:
		return []Source{SourceWorkOrders}
	}
	return nil
}

// FilterNames are the members of a view's items by which it can be narrowed.
func FilterNames(p backoffice.Part) []string {
	switch p {
	case backoffice.PartToday:
		return []string{"kind", "status"}
	case backoffice.PartArrivals, backoffice.PartDepartures, backoffice.PartInHouse:
		return []string{"status", "vip"}
	case backoffice.PartHousekeeping:
		return []string{"status", "kind", "priority"}
	case backoffice.PartMaintenance:
		return []string{"status", "severity"}
	}
	return nil
}

// NamesGuests reports whether the view's items are stays, with their guests' names.
func NamesGuests(p backoffice.Part) bool {
	return p == backoffice.PartArrivals || p == backoffice.PartDepartures || p == backoffice.PartInHouse
}

// FilterWords are the words that a filter of the view knows.
func FilterWords(p backoffice.Part, name string) []string {
	stays := []string{"confirmed", "checked_in", "checked_out", "cancelled", "no_show"}
	tasks := []string{"waiting", "pending", "in_progress", "done", "inspected"}
	orders := []string{"open", "in_progress", "resolved"}
	switch {
	case p == backoffice.PartToday && name == "kind":
		return []string{"arrival", "departure", "task", "work_order"}
	case p == backoffice.PartToday && name == "status":
		return []string{"confirmed", "checked_in", "waiting", "pending", "in_progress", "open"}
	case p == backoffice.PartHousekeeping && name == "status":
		return tasks
	case p == backoffice.PartHousekeeping && name == "kind":
		return []string{"departure_clean", "stayover", "inspection"}
	case p == backoffice.PartHousekeeping && name == "priority":
		return []string{"normal", "high"}
	case p == backoffice.PartMaintenance && name == "status":
		return orders
	case p == backoffice.PartMaintenance && name == "severity":
		return backoffice.WorkOrderSeverities()
	case name == "status":
		return stays
	case name == "vip":
		return []string{"true", "false"}
	}
	return nil
}

// retryLate is when a client may ask again for a view that was not ready in time.
const retryLate = 2 * time.Second

// Workbench makes views.
type Workbench struct {
	house     House
	deadlines Deadlines
}

// NewWorkbench returns a Workbench.
func NewWorkbench(h House, d Deadlines) *Workbench { return &Workbench{h, d} }

// View makes one view. A view of several sources shows what it can get and names
// what it cannot; without its first source there is none.
func (b *Workbench) View(ctx context.Context, part backoffice.Part, at Place, may Steps, now time.Time) (WorkbenchView, error) {
	all := sources(part)
	if len(all) == 0 {
		return WorkbenchView{}, fmt.Errorf("%s is no view of the workbench", part)
	}
	readings := make([]Reading, len(all))
	failed := make([]error, len(all))
	var wg sync.WaitGroup
	for i, from := range all {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, b.deadlines.of(from))
			defer cancel()
			readings[i], failed[i] = b.house.Read(ctx, from, at)
		})
	}
	wg.Wait()
	if failed[0] != nil {
		return WorkbenchView{}, unread(failed[0])
	}
	v := WorkbenchView{View: part, PropertyID: at.Property, Day: at.Day, Counts: map[string]int{}, Items: []any{}, AsOf: bff.At(readings[0].AsOf), steps: may}
	if Dated(part) || part == backoffice.PartToday {
		v.Date = &at.Date
	}
	for i, from := range all {
		if failed[i] != nil {
			v.Missing = append(v.Missing, from)
			v.Degraded = append(v.Degraded, Degradation{Part: from, Reason: bff.ReasonOf(failed[i]), Affected: 1})
			continue
		}
		if readings[i].AsOf.Before(v.AsOf.Time) {
			v.AsOf = bff.At(readings[i].AsOf)
		}
		rows, err := v.add(from, readings[i].Value)
		if err != nil {
			return WorkbenchView{}, err
		}
		if readings[i].Stale {
			v.Stale = true
			v.Degraded = append(v.Degraded, old(from, now.Sub(readings[i].AsOf), rows))
		}
	}
	if part == backoffice.PartToday {
		sortAgenda(v.Items)
	}
	return v, nil
}

// unread gives a reading that did not come in time its code.
func unread(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &bff.Error{Code: bff.CodeUpstreamTimeout, RetryAfter: retryLate, Err: err}
	}
	return err
}

// add puts a reading into the view, and returns how many rows it has.
func (v *WorkbenchView) add(from Source, value any) (int, error) {
	switch all := value.(type) {
	case []Stay:
		v.addStays(from, all)
		return len(all), nil
	case []Task:
		v.addTasks(all)
		return len(all), nil
	case []WorkOrder:
		v.addWorkOrders(all)
		return len(all), nil
	case []Room:
		v.count("rooms.", count(all, func(r *Room) string { return r.Status }))
		return len(all), nil
	}
	return 0, errReading
}

func (v *WorkbenchView) count(prefix string, c Counts) {
	for name, n := range c {
		v.Counts[prefix+name] += n
	}
}

func (v *WorkbenchView) addStays(from Source, all []Stay) {
	if v.View == backoffice.PartToday {
		v.count(string(from)+".", count(all, statusOf))
		for i := range all {
			switch s := &all[i]; {
			case from == SourceArrivals && s.Status == "confirmed":
				v.Items = append(v.Items, agendaItem{"arrival", s.ReservationID, s.RoomNumber, s.Status, s.ETA, "", v.steps.ofStay(s)})
			case from == SourceDepartures && s.Status == "checked_in":
				v.Items = append(v.Items, agendaItem{"departure", s.ReservationID, s.RoomNumber, s.Status, "", "", v.steps.ofStay(s)})
			}
		}
		return
	}
	v.count("", count(all, statusOf))
	vip := 0
	for i := range all {
		if all[i].VIP {
			vip++
		}
		v.Items = append(v.Items, stayItem{all[i], v.steps.ofStay(&all[i])})
	}
	v.Counts["total"], v.Counts["vip"] = len(all), vip
}

func (v *WorkbenchView) addTasks(all []Task) {
	byStatus := count(all, func(t *Task) string { return t.Status })
	if v.View == backoffice.PartToday {
		v.count("tasks.", byStatus)
		for i := range all {
			if t := &all[i]; t.Priority == "high" && t.Status != "done" && t.Status != "inspected" {
				v.Items = append(v.Items, agendaItem{"task", t.TaskID, t.RoomNumber, t.Status, t.NeededBy, "", v.steps.next(backoffice.KindTask, t.Status)})
			}
		}
		return
	}
	v.count("", byStatus)
	v.Counts["total"] = len(all)
	for i := range all {
		v.Items = append(v.Items, taskItem{all[i], v.steps.next(backoffice.KindTask, all[i].Status)})
	}
}

func (v *WorkbenchView) addWorkOrders(all []WorkOrder) {
	byStatus := count(all, func(w *WorkOrder) string { return w.Status })
	if v.View == backoffice.PartToday {
		v.count("workOrders.", byStatus)
		for i := range all {
			if w := &all[i]; w.active() && (w.Severity == "critical" || w.Severity == "high") {
				can := v.steps.next(backoffice.KindWorkOrder, w.Status)
				v.Items = append(v.Items, agendaItem{"work_order", w.WorkOrderID, w.RoomNumber, w.Status, "", w.Severity, can})
			}
		}
		return
	}
	v.count("", byStatus)
	v.count("severity.", count(all, func(w *WorkOrder) string { return w.Severity }))
	v.Counts["total"] = len(all)
	for i := range all {
		v.Items = append(v.Items, orderItem{all[i], v.steps.next(backoffice.KindWorkOrder, all[i].Status)})
	}
}

// Items of views: what an upstream says of them, and what the reader may do next.
type (
	stayItem struct {
		Stay
		Can []Step `json:"can"`
	}
	taskItem struct {
		Task
		Can []Step `json:"can"`
	}
	orderItem struct {
		WorkOrder
		Can []Step `json:"can"`
	}
)

// agendaItem is something that the day still asks for. It names no guest.
type agendaItem struct {
	Kind       string `json:"kind"`
	ID         string `json:"id"`
	RoomNumber string `json:"roomNumber,omitempty"`
	Status     string `json:"status"`
	At         string `json:"at,omitempty"` // time of day
	Severity   string `json:"severity,omitempty"`
	Can        []Step `json:"can"`
}

// sortAgenda puts what has a time first, by that; the rest by room.
func sortAgenda(items []any) {
	slices.SortStableFunc(items, func(a, b any) int {
		x, _ := a.(agendaItem)
		y, _ := b.(agendaItem)
		late := func(at string) string { return cmp.Or(at, "99:99") }
		return cmp.Or(cmp.Compare(late(x.At), late(y.At)), cmp.Compare(x.RoomNumber, y.RoomNumber), cmp.Compare(x.ID, y.ID))
	})
}
