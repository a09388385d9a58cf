package board

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// Pack is what a desk works from while it has no line: the house's day and the next, in one
// document, of the readings that the views are made of.
type Pack struct {
	PropertyID bff.ID            `json:"propertyId"`
	Day        Day               `json:"day"`
	AsOf       bff.Timestamp     `json:"asOf"`
	Stale      bool              `json:"stale"`
	Missing    []packPart        `json:"missing,omitempty"`
	Degraded   []packDegradation `json:"degraded,omitempty"`
	Names      bool              `json:"names"` // guests are named
	Arrivals   []stayItem        `json:"arrivals"`
	InHouse    []stayItem        `json:"inHouse"` // by room
	Departures []stayItem        `json:"departures"`
	Next       nextDay           `json:"next"`
	Rooms      []Room            `json:"rooms"`
	Tasks      []taskItem        `json:"tasks"`
	WorkOrders []orderItem       `json:"workOrders"`
	KeysDue    []keyDue          `json:"keysDue"`
}

// nextDay is the day after the pack's.
type nextDay struct {
	Day        Day        `json:"day"`
	Arrivals   []stayItem `json:"arrivals"`
	Departures []stayItem `json:"departures"`
}

// packPart is what a pack is made of: a source, of the pack's day or of the next.
type packPart string

// The parts there are.
const (
	packArrivals       packPart = "arrivals"
	packDepartures     packPart = "departures"
	packInHouse        packPart = "in-house"
	packRooms          packPart = "rooms"
	packTasks          packPart = "tasks"
	packWorkOrders     packPart = "work-orders"
	packNextArrivals   packPart = "next-arrivals"
	packNextDepartures packPart = "next-departures"
)

// packDegradation tells what of a pack is missing or old, and why.
type packDegradation struct {
	Part     packPart   `json:"part"`
	Reason   bff.Reason `json:"reason"`
	AgeMs    int64      `json:"ageMs,omitempty"`
	Affected int        `json:"affected"`
}

// keyDue is a key to make or to take back. That needs a line: on paper it is to do.
type keyDue struct {
	ReservationID string `json:"reservationId"`
	RoomNumber    string `json:"roomNumber,omitempty"`
	Step          Step   `json:"step"`
}

// PackNames reports whether the packs of an operator name guests: at the front desk alone.
func PackNames(m *backoffice.Member) bool { return m.HasAny(backoffice.LockRoles()) }

// PackViews are the views of which a pack shows something: what makes them void makes it void.
func PackViews() []backoffice.Part { return backoffice.WorkbenchViews() }

// Pack makes the pack of a place, with next as the same place a day later. It shows what it
// can get and names what it cannot; without any of it there is none.
func (b *Workbench) Pack(ctx context.Context, at, next Place, may Steps, names bool, now time.Time) (Pack, error) {
	from := []struct {
		part   packPart
		source Source
		at     Place
	}{
		{packArrivals, SourceArrivals, at},
		{packDepartures, SourceDepartures, at},
		{packInHouse, SourceInHouse, at},
		{packRooms, SourceRooms, at},
		{packTasks, SourceTasks, at},
		{packWorkOrders, SourceWorkOrders, at},
		{packNextArrivals, SourceArrivals, next},
		{packNextDepartures, SourceDepartures, next},
	}
	readings, failed := make([]Reading, len(from)), make([]error, len(from))
	var wg sync.WaitGroup
	for i, f := range from {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, b.deadlines.of(f.source))
			defer cancel()
			readings[i], failed[i] = b.house.Read(ctx, f.source, f.at)
		})
	}
	wg.Wait()
	p := Pack{
		PropertyID: at.Property, Day: at.Day, Names: names, Arrivals: []stayItem{}, InHouse: []stayItem{}, Departures: []stayItem{},
		Next: nextDay{next.Day, []stayItem{}, []stayItem{}}, Rooms: []Room{}, Tasks: []taskItem{}, WorkOrders: []orderItem{}, KeysDue: []keyDue{},
	}
	for i, f := range from {
		if failed[i] != nil {
			p.Missing = append(p.Missing, f.part)
			p.Degraded = append(p.Degraded, packDegradation{Part: f.part, Reason: bff.ReasonOf(failed[i]), Affected: 1})
			continue
		}
		if p.AsOf.IsZero() || readings[i].AsOf.Before(p.AsOf.Time) {
			p.AsOf = bff.At(readings[i].AsOf)
		}
		rows, err := p.add(f.part, readings[i].Value, may)
		if err != nil {
			return Pack{}, err
		}
		if readings[i].Stale {
			d := old(f.source, now.Sub(readings[i].AsOf), rows)
			p.Stale = true
			p.Degraded = append(p.Degraded, packDegradation{f.part, d.Reason, d.AgeMs, d.Affected})
		}
	}
	if len(p.Missing) == len(from) {
		return Pack{}, unread(failed[0])
	}
	slices.SortStableFunc(p.InHouse, func(a, b stayItem) int {
		return cmp.Or(len(a.RoomNumber)-len(b.RoomNumber), cmp.Compare(a.RoomNumber, b.RoomNumber))
	})
	p.addKeys()
	return p, nil
}

// add puts a reading into the pack, and returns how many rows it has.
func (p *Pack) add(part packPart, value any, may Steps) (int, error) {
	switch all := value.(type) {
	case []Stay:
		to := map[packPart]*[]stayItem{
			packArrivals: &p.Arrivals, packDepartures: &p.Departures, packInHouse: &p.InHouse,
			packNextArrivals: &p.Next.Arrivals, packNextDepartures: &p.Next.Departures,
		}[part]
		if !p.Names {
			all = Nameless(all)
		}
		for i := range all {
			*to = append(*to, stayItem{all[i], may.ofStay(&all[i])})
		}
		return len(all), nil
	case []Task:
		for i := range all {
			p.Tasks = append(p.Tasks, taskItem{all[i], may.next(backoffice.KindTask, all[i].Status)})
		}
		return len(all), nil
	case []WorkOrder:
		for i := range all {
			p.WorkOrders = append(p.WorkOrders, orderItem{all[i], may.next(backoffice.KindWorkOrder, all[i].Status)})
		}
		return len(all), nil
	case []Room:
		p.Rooms = append(p.Rooms, all...)
		return len(all), nil
	}
	return 0, errReading
}

// addKeys lists a key to make for each party that is expected, and one to take back from
// each that leaves.
func (p *Pack) addKeys() {
	for _, due := range []struct {
		from   []stayItem
		status string
		step   Step
	}{{p.Arrivals, "confirmed", StepIssueKey}, {p.Departures, "checked_in", StepRevokeKey}} {
		for i := range due.from {
			if s := &due.from[i]; s.Status == due.status {
				p.KeysDue = append(p.KeysDue, keyDue{s.ReservationID, s.RoomNumber, due.step})
			}
		}
	}
}

// Whole reports whether the pack shows all there is, as it is.
func (p *Pack) Whole() bool { return !p.Stale && len(p.Missing) == 0 }

// Lasting is the pack without moments and ages: two packs of which it is the same say the
// same of the house.
func (p *Pack) Lasting() Pack {
	out := *p
	out.AsOf, out.Degraded = bff.Timestamp{}, slices.Clone(p.Degraded)
	for i := range out.Degraded {
		out.Degraded[i].AgeMs = 0
	}
	return out
}
