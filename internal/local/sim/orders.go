package sim

import (
	"slices"
	"time"

	"melmastoon.ghasi.io/bff"
)

// WorkOrder is something to repair. Its ids are UUIDs on the wire.
type WorkOrder struct {
	WorkOrderID string        `json:"workOrderId"`
	PropertyID  string        `json:"propertyId"`
	RoomNumber  string        `json:"roomNumber,omitempty"`
	Title       string        `json:"title"`
	Severity    string        `json:"severity"`
	Status      string        `json:"status"`
	BlocksRoom  bool          `json:"blocksRoom"`
	OpenedAt    bff.Timestamp `json:"openedAt"`
	AssignedTo  string        `json:"assignedTo"`
	Version     int           `json:"version"`
}

func severities() []string { return []string{"low", "medium", "high", "critical"} }

func orderMoves() map[string]transition {
	return map[string]transition{
		"start":   {"in_progress", []string{"open"}, "started"},
		"resolve": {"resolved", []string{"open", "in_progress"}, "resolved"},
		"close":   {"closed", []string{"resolved"}, "closed"},
		"reopen":  {"open", []string{"in_progress", "resolved", "closed"}, "reopened"},
	}
}

const (
	openOrderDays = 10 // a work order older than that has been closed
	ordersPerDay  = 2
)

// workOrder is one of the data set. Only in the room that is never sold does a
// repair block the room.
func (s *Sim) workOrder(r ref) (WorkOrder, bool) {
	p := r.house
	rnd := stream{mix(p.seed, kindWorkOrder, uint64(r.day), uint64(r.n))} //nolint:gosec // not negative
	if !rnd.chance(22) {
		return WorkOrder{}, false
	}
	w := WorkOrder{
		WorkOrderID: s.refID(prefixWorkOrder, r), PropertyID: p.id, RoomNumber: roomNumber(rnd.below(p.sold())),
		Title: []string{
			"Heater does not start", "Leaking tap", "Door closer broken", "Generator filter", "Wi-Fi weak on the second floor", "Broken window",
		}[rnd.below(6)],
		Severity:   []string{"low", "medium", "medium", "high", "critical"}[rnd.below(5)],
		BlocksRoom: rnd.chance(25),
		OpenedAt:   bff.At(p.begin(r.day).Add(time.Duration(rnd.below(86400)) * time.Second)),
		AssignedTo: p.tenant.staffer("maintenance"),
	}
	if w.BlocksRoom {
		w.RoomNumber = roomNumber(p.rooms - 1)
	}
	w.Status = []string{"open", "open", "in_progress", "resolved"}[rnd.below(4)]
	return w, true
}

// workOrders lists what was opened lately, the newest first.
func (s *Sim) workOrders(p *property, at time.Time) []WorkOrder {
	items := []WorkOrder{}
	today := dateOf(at)
	for d := today - openOrderDays; d <= today; d++ {
		for n := range ordersPerDay {
			if w, ok := s.workOrder(ref{p, d, n}); ok && !w.OpenedAt.After(at) {
				items = append(items, w)
			}
		}
	}
	s.staff.mu.Lock()
	items = append(items, s.staff.orders[p.id]...)
	s.staff.mu.Unlock()
	for i := range items {
		now := s.staff.stands(items[i].WorkOrderID, items[i].Status)
		items[i].Status, items[i].Version = now.status, now.version
	}
	slices.SortStableFunc(items, func(a, b WorkOrder) int { return b.OpenedAt.Compare(a.OpenedAt.Time) })
	return items
}

// spoken is the work order as maintenance writes it.
func (w WorkOrder) spoken(d dialect) WorkOrder {
	w.WorkOrderID, w.PropertyID, w.AssignedTo = d.id(w.WorkOrderID), d.id(w.PropertyID), d.id(w.AssignedTo)
	return w
}

func (s *Sim) orderRoutes() {
	s.handle("maintenance", "GET /api/v1/properties/{propertyId}/work-orders", func(c *call) (any, error) {
		p, err := s.house(c)
		if err != nil {
			return nil, err
		}
		at := s.houseTime(p, c.now)
		counts := map[string]int{"open": 0, "in_progress": 0, "resolved": 0, "closed": 0}
		bySeverity := map[string]int{}
		for _, sev := range severities() {
			bySeverity[sev] = 0
		}
		severity := c.URL.Query().Get("severity")
		items := []WorkOrder{}
		for _, w := range s.workOrders(p, at) {
			if counts[w.Status]++; w.Status == "open" || w.Status == "in_progress" {
				bySeverity[w.Severity]++
			}
			if c.wanted(w.Status, "open", "in_progress") && (severity == "" || severity == w.Severity) {
				items = append(items, w.spoken(c.speaks))
			}
		}
		out, err := pageOf(s, c, p, dateOf(at), items)
		out.Counts = counts
		return struct {
			page[WorkOrder]
			OpenBySeverity map[string]int `json:"openBySeverity"`
		}{out, bySeverity}, err
	})
	s.handle("maintenance", "GET /api/v1/properties/{propertyId}/blocked-rooms", func(c *call) (any, error) {
		p, err := s.house(c)
		if err != nil {
			return nil, err
		}
		type blocked struct {
			RoomNumber  string        `json:"roomNumber"`
			WorkOrderID string        `json:"workOrderId"`
			Severity    string        `json:"severity"`
			Since       bff.Timestamp `json:"since"`
		}
		at := s.houseTime(p, c.now)
		items := []blocked{}
		for _, w := range s.workOrders(p, at) {
			if w.BlocksRoom && (w.Status == "open" || w.Status == "in_progress") {
				items = append(items, blocked{w.RoomNumber, c.speaks.id(w.WorkOrderID), w.Severity, w.OpenedAt})
			}
		}
		return pageOf(s, c, p, dateOf(at), items)
	})
	s.handle("maintenance", "GET /api/v1/work-orders/{workOrderId}", func(c *call) (any, error) {
		_, w, err := s.findWorkOrder(c)
		if err != nil {
			return nil, err
		}
		return w.spoken(c.speaks), nil
	})
	s.mutation("maintenance", "POST /api/v1/work-orders", s.openWorkOrder)
	s.mutation("maintenance", "POST /api/v1/work-orders/{workOrderId}/{transition}", s.moveWorkOrder)
}

// findWorkOrder finds one of the data set or one that staff opened.
func (s *Sim) findWorkOrder(c *call) (*property, WorkOrder, error) {
	id, err := c.pathID(prefixWorkOrder, "workOrderId")
	if err != nil {
		return nil, WorkOrder{}, err
	}
	houses := s.data.properties
	if r, ok := s.readRef(id); ok {
		houses = []*property{r.house}
	} else {
		houses = s.housesWith(houses, func(p *property) bool { return len(s.staff.orders[p.id]) > 0 })
	}
	for _, p := range houses {
		if c.ofTenant(p.tenant) != nil {
			continue
		}
		for _, w := range s.workOrders(p, s.houseTime(p, c.now)) {
			if w.WorkOrderID == id.String() {
				return p, w, nil
			}
		}
	}
	return nil, WorkOrder{}, notFound("work order")
}

func (s *Sim) moveWorkOrder(c *call) (any, error) {
	p, w, err := s.findWorkOrder(c)
	if err != nil {
		return nil, err
	}
	m, ok := orderMoves()[c.PathValue("transition")]
	if !ok {
		return nil, notFound("transition")
	}
	now, err := s.staff.move(w.WorkOrderID, progress{status: w.Status, version: w.Version}, m.to, c.now, m.from...)
	if err != nil {
		return nil, err
	}
	w.Status, w.Version = now.status, now.version
	s.tellWorkOrder(c, p, w, m.event)
	return map[string]any{"workOrderId": c.speaks.id(w.WorkOrderID), "status": now.status, "version": now.version, "updatedAt": bff.At(c.now)}, nil
}

// tellWorkOrder reports a change; a repair that blocks a room also changes the
// room.
func (s *Sim) tellWorkOrder(c *call, p *property, w WorkOrder, event string) {
	said := *c
	said.speaks = dialectOf("maintenance")
	s.tell(&said, "melmastoon.maintenance.work_order."+event+".v1", p, map[string]any{
		"workOrderId": said.speaks.id(w.WorkOrderID), "roomNumber": w.RoomNumber, "severity": w.Severity, "status": w.Status, "blocksRoom": w.BlocksRoom, "version": w.Version,
	})
	if n, ok := p.roomIndex(w.RoomNumber); ok && w.BlocksRoom {
		inventory := *c
		inventory.speaks = dialectOf("inventory")
		s.tellRoom(&inventory, p, n, s.floor(p, s.houseTime(p, c.now))[n].Status)
	}
}

func (s *Sim) openWorkOrder(c *call) (any, error) {
	var req struct {
		PropertyID string `json:"propertyId"`
		RoomNumber string `json:"roomNumber"`
		Title      string `json:"title"`
		Severity   string `json:"severity"`
		BlocksRoom bool   `json:"blocksRoom"`
	}
	if err := c.decode(&req); err != nil {
		return nil, err
	}
	var bad bff.FieldErrors
	id, err := c.speaks.parse(bff.PrefixProperty, req.PropertyID)
	bad.Check(err == nil, "propertyId", bff.FieldFormat)
	p := s.data.propertyByID[id.String()]
	bad.Check(req.Title != "", "title", bff.FieldRequired)
	bad.Check(len(req.Title) <= 200, "title", bff.FieldLength)
	bad.Check(slices.Contains(severities(), req.Severity), "severity", bff.FieldUnsupported)
	if p != nil && req.RoomNumber != "" {
		_, ok := p.roomIndex(req.RoomNumber)
		bad.Check(ok, "roomNumber", bff.FieldUnsupported)
	}
	if err := refused(bad); err != nil {
		return nil, err
	}
	if p == nil {
		return nil, notFound("property")
	}
	if err := c.ofTenant(p.tenant); err != nil {
		return nil, err
	}
	w := WorkOrder{
		WorkOrderID: bff.NewID(prefixWorkOrder, c.now).String(), PropertyID: p.id, RoomNumber: req.RoomNumber, Title: req.Title,
		Severity: req.Severity, Status: "open", BlocksRoom: req.BlocksRoom, OpenedAt: bff.At(c.now), AssignedTo: p.tenant.staffer("maintenance"), Version: 1,
	}
	s.staff.mu.Lock()
	s.staff.orders[p.id] = keepLast(append(s.staff.orders[p.id], w))
	s.staff.mu.Unlock()
	s.tellWorkOrder(c, p, w, "opened")
	return created{w.spoken(c.speaks)}, nil
}
