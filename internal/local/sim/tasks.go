package sim

import (
	"slices"
	"time"

	"melmastoon.ghasi.io/bff"
)

// Task is a room to clean or to look at.
type Task struct {
	TaskID     string   `json:"taskId"`
	PropertyID string   `json:"propertyId"`
	RoomNumber string   `json:"roomNumber"`
	Kind       string   `json:"kind"`
	Status     string   `json:"status"`
	Priority   string   `json:"priority"`
	AssignedTo string   `json:"assignedTo"`
	Minutes    int      `json:"minutes"`
	Date       bff.Date `json:"date"`
	Version    int      `json:"version"`
}

// WorkOrder is something to repair.
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

// transition is a move that staff can make.
type transition struct {
	to   string
	from []string
}

func (s *Sim) taskRoutes() {
	s.handle("housekeeping", "GET /api/v1/properties/{propertyId}/tasks", func(c *call) (any, error) {
		p, day, err := s.houseDay(c)
		if err != nil {
			return nil, err
		}
		items := make([]Task, p.tasks())
		for n := range items {
			items[n] = s.task(ref{p, day, n})
		}
		return pageOf(p, day, c.now, items), nil
	})
	s.mutation("housekeeping", "POST /api/v1/tasks/{taskId}/{transition}", func(c *call) (any, error) {
		r, id, err := s.findRef(c, prefixTask, "taskId")
		if err != nil {
			return nil, err
		}
		if r.n >= r.house.tasks() {
			return nil, notFound("task")
		}
		return s.transit(c, "taskId", id, s.task(r).Status, map[string]transition{
			"start":    {"in_progress", []string{"pending"}},
			"complete": {"done", []string{"pending", "in_progress"}},
			"inspect":  {"inspected", []string{"done"}},
			"reopen":   {"pending", []string{"done", "inspected", "in_progress"}},
		})
	})

	s.handle("maintenance", "GET /api/v1/properties/{propertyId}/work-orders", func(c *call) (any, error) {
		p, day, err := s.houseDay(c)
		if err != nil {
			return nil, err
		}
		want := c.URL.Query().Get("status")
		items := slices.DeleteFunc(s.workOrders(p, day), func(w WorkOrder) bool { return want != "" && w.Status != want })
		return pageOf(p, day, c.now, items), nil
	})
	s.mutation("maintenance", "POST /api/v1/work-orders", s.openWorkOrder)
	s.mutation("maintenance", "POST /api/v1/work-orders/{workOrderId}/{transition}", func(c *call) (any, error) {
		id, began, err := s.findWorkOrder(c)
		if err != nil {
			return nil, err
		}
		return s.transit(c, "workOrderId", id, began, map[string]transition{
			"start":   {"in_progress", []string{"open"}},
			"resolve": {"resolved", []string{"open", "in_progress"}},
			"close":   {"closed", []string{"resolved"}},
			"reopen":  {"open", []string{"in_progress", "resolved", "closed"}},
		})
	})
}

// transit makes the move that the path names.
func (s *Sim) transit(c *call, name, id, began string, moves map[string]transition) (any, error) {
	m, ok := moves[c.PathValue("transition")]
	if !ok {
		return nil, notFound("transition")
	}
	now, err := s.staff.move(id, began, m.to, m.from...)
	if err != nil {
		return nil, err
	}
	return map[string]any{name: id, "status": now.status, "version": now.version, "updatedAt": bff.At(c.now)}, nil
}

func (p *property) tasks() int { return min(p.rooms*3/5+1, 40) }

// staffer picks a member of staff with a role.
func (t *tenant) staffer(role string) string {
	for _, o := range t.operators {
		if slices.Contains(o.roles, role) {
			return o.id
		}
	}
	return t.operators[0].id
}

func (s *Sim) task(r ref) Task {
	rnd := stream{mix(r.house.seed, kindTask, uint64(r.day), uint64(r.n))} //nolint:gosec // not negative
	t := Task{
		TaskID: s.refID(prefixTask, r), PropertyID: r.house.id, RoomNumber: itoa((1+r.n/10)*100 + 1 + r.n%10),
		Kind:     []string{"departure_clean", "departure_clean", "stayover", "stayover", "inspection"}[rnd.below(5)],
		Priority: []string{"normal", "normal", "normal", "high"}[rnd.below(4)], Minutes: 15 + 5*rnd.below(8),
		AssignedTo: r.house.tenant.staffer("housekeeper"), Date: r.day,
	}
	now := s.staff.stands(t.TaskID, []string{"pending", "pending", "in_progress", "done", "inspected"}[rnd.below(5)])
	t.Status, t.Version = now.status, now.version
	return t
}

const (
	openOrderDays = 10 // a work order older than that has been closed
	ordersPerDay  = 2
	maxOrders     = 200 // that staff may open per house
)

func (s *Sim) workOrder(r ref) (WorkOrder, bool) {
	rnd := stream{mix(r.house.seed, kindWorkOrder, uint64(r.day), uint64(r.n))} //nolint:gosec // not negative
	if !rnd.chance(22) {
		return WorkOrder{}, false
	}
	w := WorkOrder{
		WorkOrderID: s.refID(prefixWorkOrder, r), PropertyID: r.house.id, RoomNumber: itoa(101 + rnd.below(9)),
		Title:    []string{"Heater does not start", "Leaking tap", "Door closer broken", "Generator filter", "Wi-Fi weak on the second floor", "Broken window"}[rnd.below(6)],
		Severity: []string{"low", "medium", "medium", "high", "critical"}[rnd.below(5)], BlocksRoom: rnd.chance(20),
		OpenedAt:   bff.At(r.day.Time().Add(time.Duration(rnd.below(86400)) * time.Second)),
		AssignedTo: r.house.tenant.staffer("maintenance"),
	}
	now := s.staff.stands(w.WorkOrderID, []string{"open", "open", "in_progress", "resolved"}[rnd.below(4)])
	w.Status, w.Version = now.status, now.version
	return w, true
}

func (s *Sim) workOrders(p *property, day bff.Date) []WorkOrder {
	items := []WorkOrder{}
	for d := day - openOrderDays; d <= day; d++ {
		for n := range ordersPerDay {
			if w, ok := s.workOrder(ref{p, d, n}); ok {
				items = append(items, w)
			}
		}
	}
	s.staff.mu.Lock()
	opened := slices.Clone(s.staff.orders[p.id])
	s.staff.mu.Unlock()
	for _, w := range opened {
		now := s.staff.stands(w.WorkOrderID, "open")
		w.Status, w.Version = now.status, now.version
		items = append(items, w)
	}
	return items
}

// findWorkOrder finds one of the data set or one that staff opened.
func (s *Sim) findWorkOrder(c *call) (id, began string, err error) {
	r, id, err := s.findRef(c, prefixWorkOrder, "workOrderId")
	if err == nil {
		if w, ok := s.workOrder(r); ok {
			return id, w.Status, nil
		}
		return "", "", notFound("work order")
	}
	s.staff.mu.Lock()
	defer s.staff.mu.Unlock()
	for house, orders := range s.staff.orders {
		for _, w := range orders {
			if w.WorkOrderID == c.PathValue("workOrderId") {
				return w.WorkOrderID, "open", s.sameTenant(c, s.data.propertyByID[house].tenant)
			}
		}
	}
	return "", "", err
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
	bad.Check(req.Title != "", "title", bff.FieldRequired)
	bad.Check(len(req.Title) <= 200, "title", bff.FieldLength)
	bad.Check(slices.Contains([]string{"low", "medium", "high", "critical"}, req.Severity), "severity", bff.FieldUnsupported)
	bad.Check(len(req.RoomNumber) <= 10, "roomNumber", bff.FieldLength)
	bad.Check(req.PropertyID != "", "propertyId", bff.FieldRequired)
	if err := refused(bad); err != nil {
		return nil, err
	}
	p := s.data.propertyByID[req.PropertyID]
	if p == nil || s.sameTenant(c, p.tenant) != nil {
		return nil, notFound("property")
	}
	w := WorkOrder{
		WorkOrderID: bff.NewID(prefixWorkOrder, c.now).String(), PropertyID: p.id, RoomNumber: req.RoomNumber, Title: req.Title,
		Severity: req.Severity, Status: "open", BlocksRoom: req.BlocksRoom, OpenedAt: bff.At(c.now), AssignedTo: p.tenant.staffer("maintenance"), Version: 1,
	}
	s.staff.mu.Lock()
	defer s.staff.mu.Unlock()
	s.staff.orders[p.id] = append(s.staff.orders[p.id], w)
	if n := len(s.staff.orders[p.id]); n > maxOrders {
		s.staff.orders[p.id] = s.staff.orders[p.id][n-maxOrders:]
	}
	return created{w}, nil
}
