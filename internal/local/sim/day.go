package sim

import (
	"context"
	"net/http"
	"slices"
	"time"

	"melmastoon.ghasi.io/bff"
)

const (
	// dayTick is how often the houses' clocks are looked at.
	dayTick = 2 * time.Second
	// watched is how long after a call a house's day is told. Thousands of houses that
	// no one looks at would drown the topics.
	watched = 10 * time.Minute
)

// Run tells, until ctx ends, what the clock does in the houses that were asked about
// lately: guests that come and go, tasks that are done, alerts and advice.
func (s *Sim) Run(ctx context.Context) {
	ticker := time.NewTicker(dayTick)
	defer ticker.Stop()
	for last := s.cfg.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			now := s.cfg.Now()
			s.tellDay(ctx, last, now)
			s.settleLocks(ctx, now)
			last = now
		}
	}
}

// asked remembers that a house is looked at.
func (s *Sim) asked(now time.Time, houses ...*property) {
	s.staff.mu.Lock()
	defer s.staff.mu.Unlock()
	for _, p := range houses {
		s.staff.asked[p] = now // bounded by the houses of the data set
	}
}

func (s *Sim) tellDay(ctx context.Context, from, to time.Time) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	if err != nil {
		return // the arguments are constant
	}
	c := &call{Request: req, now: to, above: true}
	s.staff.mu.Lock()
	var houses []*property
	for p, at := range s.staff.asked {
		if to.Sub(at) < watched {
			houses = append(houses, p)
		}
	}
	s.staff.mu.Unlock()
	slices.SortFunc(houses, func(a, b *property) int { return a.index - b.index })
	for _, p := range houses {
		s.tellHouse(c, p, s.houseTime(p, from), s.houseTime(p, to))
	}
}

// tellHouse tells what the clock alone changed between two moments: both are seen with
// what staff have done by now, of which they have told themselves.
func (s *Sim) tellHouse(c *call, p *property, from, to time.Time) {
	if !to.After(from) {
		return
	}
	day := dateOf(to)
	before, after := s.book(p, day, from), s.book(p, day, to)
	stood := map[string]string{}
	for _, r := range before {
		stood[r.ReservationID] = r.Status
	}
	for _, t := range s.tasks(p, day, before, from) {
		stood[t.TaskID] = t.Status
	}
	for _, x := range s.alerts(p, from) {
		stood[x.AlertID] = x.Status
	}
	for _, x := range s.suggestions(p, from) {
		stood[x.SuggestionID] = x.Status
	}
	for _, r := range after {
		if stood[r.ReservationID] != r.Status {
			s.tellMovedStay(c, r)
		}
	}
	for _, t := range s.tasks(p, day, after, to) {
		event := map[string]string{"in_progress": "started", "done": "completed", "inspected": "inspected"}[t.Status]
		if event != "" && stood[t.TaskID] != t.Status {
			s.tellTask(c, p, t, event, progress{status: t.Status, version: t.Version})
		}
	}
	for _, x := range s.alerts(p, to) {
		switch was, known := stood[x.AlertID]; {
		case !known && x.Status == "open":
			s.tellAlert(c, p, x, "raised")
		case was == "open" && x.Status == "resolved":
			s.tellAlert(c, p, x, "resolved")
		}
	}
	for _, x := range s.suggestions(p, to) {
		switch was, known := stood[x.SuggestionID]; {
		case !known && x.Status == "open":
			s.tellSuggestion(c, p, x, "created")
		case was == "open" && x.Status == "expired":
			s.tellSuggestion(c, p, x, "expired")
		}
	}
	for _, w := range s.workOrders(p, to) {
		if w.OpenedAt.After(from) && w.Version == 1 {
			if _, ours := s.readRef(bff.MustParseID(prefixWorkOrder, w.WorkOrderID)); ours {
				s.tellWorkOrder(c, p, w, "opened")
			}
		}
	}
}

// tellMovedStay tells of a reservation that the clock moved.
func (s *Sim) tellMovedStay(c *call, r Reservation) {
	switch r.Status {
	case "checked_in":
		s.tellStay(c, r, "checked_in")
		s.tellFolio(c, r, "opened")
		s.tellRoom(c, r.stay.house, r.stay.n, "occupied")
	case "checked_out":
		s.tellStay(c, r, "checked_out")
		s.tellFolio(c, r, "settled")
		s.tellRoom(c, r.stay.house, r.stay.n, "dirty")
	default:
		s.tellStay(c, r, "modified")
	}
}
