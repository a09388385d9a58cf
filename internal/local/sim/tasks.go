package sim

import (
	"cmp"
	"math"
	"slices"
	"time"

	"melmastoon.ghasi.io/bff"
)

// Task is a room to clean or to look at.
type Task struct {
	TaskID        string         `json:"taskId"`
	PropertyID    string         `json:"propertyId"`
	RoomNumber    string         `json:"roomNumber"`
	Kind          string         `json:"kind"`
	Status        string         `json:"status"`
	Priority      string         `json:"priority"`
	AssignedTo    string         `json:"assignedTo"`
	Minutes       int            `json:"minutes"`
	Date          bff.Date       `json:"date"`
	ReservationID string         `json:"reservationId,omitempty"`
	NeededBy      string         `json:"neededBy,omitempty"`
	ReadyAt       *bff.Timestamp `json:"readyAt,omitempty"`
	Version       int            `json:"version"`

	freed time.Time // when the guests left
}

func taskStatuses() []string {
	return []string{"waiting", "pending", "in_progress", "done", "inspected"}
}

// transition is a move that staff can make, and the event that tells of it.
type transition struct {
	to    string
	from  []string
	event string
}

func taskMoves() map[string]transition {
	return map[string]transition{
		"start":    {"in_progress", []string{"pending"}, "started"},
		"complete": {"done", []string{"pending", "in_progress"}, "completed"},
		"inspect":  {"inspected", []string{"done"}, "inspected"},
		"reopen":   {"pending", []string{"done", "inspected", "in_progress"}, "reopened"},
	}
}

// staffer picks a member of staff with a role.
func (t *tenant) staffer(role string) string {
	for _, o := range t.operators {
		if slices.Contains(o.roles, role) {
			return o.id
		}
	}
	return t.operators[0].id
}

// tasks are what a day's stays make of housekeeping: a room is cleaned after its
// guests left and refreshed while they stay, and one for a VIP is looked at.
func (s *Sim) tasks(p *property, day bff.Date, book []Reservation, at time.Time) []Task {
	next := map[int]Reservation{}
	for _, r := range book {
		if r.CheckIn == day && held(r) {
			next[r.stay.n] = r
		}
	}
	done := map[int]bool{}
	var out []Task
	add := func(r Reservation, kind string) {
		if done[r.stay.n] {
			return
		}
		done[r.stay.n] = true
		t := Task{
			TaskID: s.refID(prefixTask, ref{p, day, r.stay.n}), PropertyID: p.id, RoomNumber: r.RoomNumber, Kind: kind, Priority: "normal",
			AssignedTo: p.tenant.staffer("housekeeper"), Date: day, ReservationID: r.ReservationID,
		}
		if n, ok := next[r.stay.n]; ok {
			t.NeededBy, t.Priority = n.ETA, "high"
		}
		s.clean(&t, r, ref{p, day, r.stay.n}, at)
		out = append(out, t)
	}
	for _, r := range book {
		if r.CheckOut == day && held(r) {
			add(r, "departure_clean")
		}
	}
	for _, r := range book {
		switch {
		case !held(r):
		case r.CheckIn < day && r.CheckOut > day:
			add(r, "stayover")
		case r.CheckIn == day && r.VIP:
			add(r, "inspection")
		}
	}
	s.staff.mu.Lock()
	extra := slices.Clone(s.staff.tasks[p.id])
	s.staff.mu.Unlock()
	for _, t := range extra {
		if t.Date == day {
			now := s.staff.stands(t.TaskID, "pending")
			t.Status, t.Version = now.status, now.version
			out = append(out, t)
		}
	}
	slices.SortStableFunc(out, func(a, b Task) int { return cmpRooms(a.RoomNumber, b.RoomNumber) })
	return out
}

func cmpRooms(a, b string) int { return cmp.Or(len(a)-len(b), cmp.Compare(a, b)) }

// clean says how far a task is. The clock of the house moves it until staff do;
// some wait for staff until midnight.
func (s *Sim) clean(t *Task, r Reservation, key ref, at time.Time) {
	rnd := stream{mix(key.house.seed, kindTask, uint64(key.day), uint64(key.n))} //nolint:gosec // not negative
	t.Minutes = 15 + 5*rnd.below(8)
	free, byHand := key.house.begin(key.day).Add(8*time.Hour), rnd.chance(30) || key.n < 2
	if t.Kind == "departure_clean" {
		if free = at.Add(time.Hour); r.CheckedOutAt != nil {
			free = r.CheckedOutAt.Time
			t.freed = free
		}
	}
	start := free.Add(time.Duration(10+rnd.below(80)) * time.Minute)
	if t.Kind == "stayover" {
		start = free.Add(time.Duration(60+rnd.below(300)) * time.Minute)
	}
	end := start.Add(time.Duration(t.Minutes) * time.Minute)
	midnight := key.house.begin(key.day + 1)
	did, moved := s.staff.moved(t.TaskID)
	switch {
	case !at.Before(midnight):
		t.Status, t.Version = "inspected", 4
	case at.Before(free):
		t.Status, t.Version = "waiting", 1
	case byHand || at.Before(start):
		t.Status, t.Version = "pending", 1
	case at.Before(end):
		t.Status, t.Version = "in_progress", 2
	case at.Before(end.Add(20 * time.Minute)):
		t.Status, t.Version = "done", 3
	default:
		t.Status, t.Version = "inspected", 4
	}
	if moved {
		t.Status, t.Version, end = did.status, did.version, did.at
	}
	if (t.Status == "done" || t.Status == "inspected") && end.Before(midnight) {
		ready := bff.At(end)
		t.ReadyAt = &ready
	}
}

func (s *Sim) taskRoutes() {
	board := func(c *call) (*property, bff.Date, []Task, []Reservation, error) {
		p, day, err := s.houseDay(c)
		if err != nil {
			return nil, 0, nil, nil, err
		}
		at := s.houseTime(p, c.now)
		book := s.book(p, day, at)
		return p, day, s.tasks(p, day, book, at), book, nil
	}
	s.handle("housekeeping", "GET /api/v1/properties/{propertyId}/tasks", func(c *call) (any, error) {
		p, day, all, _, err := board(c)
		if err != nil {
			return nil, err
		}
		kind := c.URL.Query().Get("kind")
		items := slices.DeleteFunc(slices.Clone(all), func(t Task) bool { return !c.wanted(t.Status) || kind != "" && kind != t.Kind })
		out, err := pageOf(s, c, p, day, items)
		out.Counts = countTasks(all)
		return out, err
	})
	s.handle("housekeeping", "GET /api/v1/properties/{propertyId}/progress", func(c *call) (any, error) {
		p, day, all, book, err := board(c)
		if err != nil {
			return nil, err
		}
		counts := countTasks(all)
		return map[string]any{
			"propertyId": p.id, "date": day, "asOf": bff.At(s.houseTime(p, c.now)), "total": len(all), "counts": counts,
			"percentDone":            math.Round(1000*float64(counts["done"]+counts["inspected"])/float64(max(len(all), 1))) / 10,
			"timeToReadyMinutes":     timeToReady(all),
			"pendingAtArrivalWindow": soonNeeded(all, book, s.houseTime(p, c.now)),
		}, nil
	})
	s.handle("housekeeping", "GET /api/v1/properties/{propertyId}/linen", func(c *call) (any, error) {
		p, day, all, _, err := board(c)
		if err != nil {
			return nil, err
		}
		stock, perDay := p.rooms*(2+int(mix(p.seed, kindTask, uint64(day))%4)), max(len(all), 1) //nolint:gosec // small numbers
		return map[string]any{
			"propertyId": p.id, "date": day, "asOf": bff.At(s.houseTime(p, c.now)), "cleanSets": stock, "setsPerDay": perDay,
			"runwayDays": math.Round(10*float64(stock)/float64(perDay)) / 10,
		}, nil
	})
	s.handle("housekeeping", "GET /api/v1/tasks/{taskId}", func(c *call) (any, error) {
		_, t, err := s.findTask(c)
		if err != nil {
			return nil, err
		}
		return t, nil
	})
	s.mutation("housekeeping", "POST /api/v1/tasks/{taskId}/{transition}", s.moveTask)
}

func countTasks(all []Task) map[string]int {
	counts := map[string]int{}
	for _, st := range taskStatuses() {
		counts[st] = 0
	}
	for _, t := range all {
		counts[t.Status]++
	}
	return counts
}

// timeToReady is how long rooms took from departure to clean, on average.
func timeToReady(all []Task) int {
	var sum time.Duration
	n := 0
	for _, t := range all {
		if t.ReadyAt != nil && !t.freed.IsZero() && t.ReadyAt.After(t.freed) {
			sum += t.ReadyAt.Sub(t.freed)
			n++
		}
	}
	return int(sum.Minutes()) / max(n, 1)
}

const arrivalWindow = 3 * time.Hour

// soonNeeded counts the rooms that are not ready although their next guests are
// expected within the arrival window.
func soonNeeded(all []Task, book []Reservation, at time.Time) int {
	expected := map[string]bool{}
	for _, r := range book {
		eta, err := time.Parse("15:04", r.ETA)
		if err == nil && r.Status == "confirmed" && r.CheckIn == dateOf(at) {
			due := r.CheckIn.Time().Add(time.Duration(eta.Hour())*time.Hour + time.Duration(eta.Minute())*time.Minute)
			expected[r.RoomNumber] = due.Before(at.Add(arrivalWindow))
		}
	}
	n := 0
	for _, t := range all {
		if expected[t.RoomNumber] && t.Kind == "departure_clean" && t.Status != "done" && t.Status != "inspected" {
			n++
		}
	}
	return n
}

// findTask finds the task of the path.
func (s *Sim) findTask(c *call) (*property, Task, error) {
	id, err := c.pathID(prefixTask, "taskId")
	if err != nil {
		return nil, Task{}, err
	}
	houses, day := s.data.properties, bff.Date(0)
	if r, ok := s.readRef(id); ok {
		houses, day = []*property{r.house}, r.day
	} else {
		houses = s.housesWith(houses, func(p *property) bool { return len(s.staff.tasks[p.id]) > 0 })
	}
	for _, p := range houses {
		if c.ofTenant(p.tenant) != nil {
			continue
		}
		at, on := s.houseTime(p, c.now), cmp.Or(day, dateOf(s.houseTime(p, id.Time())))
		for _, t := range s.tasks(p, on, s.book(p, on, at), at) {
			if t.TaskID == id.String() {
				return p, t, nil
			}
		}
	}
	return nil, Task{}, notFound("task")
}

// housesWith selects houses by what staff did there.
func (s *Sim) housesWith(all []*property, has func(*property) bool) []*property {
	s.staff.mu.Lock()
	defer s.staff.mu.Unlock()
	var out []*property
	for _, p := range all {
		if has(p) {
			out = append(out, p)
		}
	}
	return out
}

func (s *Sim) moveTask(c *call) (any, error) {
	p, t, err := s.findTask(c)
	if err != nil {
		return nil, err
	}
	m, ok := taskMoves()[c.PathValue("transition")]
	if !ok {
		return nil, notFound("transition")
	}
	now, err := s.staff.move(t.TaskID, progress{status: t.Status, version: t.Version}, m.to, s.houseTime(p, c.now), m.from...)
	if err != nil {
		return nil, err
	}
	s.tellTask(c, p, t, m.event, now)
	if n, ok := p.roomIndex(t.RoomNumber); ok && t.Kind == "departure_clean" && m.to != "in_progress" {
		s.tellRoom(c, p, n, s.floor(p, s.houseTime(p, c.now))[n].Status)
	}
	return map[string]any{"taskId": t.TaskID, "status": now.status, "version": now.version, "updatedAt": bff.At(c.now)}, nil
}

func (s *Sim) tellTask(c *call, p *property, t Task, event string, now progress) {
	s.tell(c, "melmastoon.housekeeping.task."+event+".v1", p, map[string]any{
		"taskId": t.TaskID, "roomNumber": t.RoomNumber, "kind": t.Kind, "status": now.status, "version": now.version,
	})
}

// addTask adds to the plan of a house.
func (s *Sim) addTask(c *call) (any, error) {
	var req struct {
		PropertyID string `json:"propertyId"`
		RoomNumber string `json:"roomNumber"`
		Kind       string `json:"kind"`
	}
	if err := decodeStrict(c.body, &req); err != nil {
		return nil, err
	}
	p := s.data.propertyByID[req.PropertyID]
	if p == nil {
		return nil, notFound("property")
	}
	var bad bff.FieldErrors
	_, ok := p.roomIndex(req.RoomNumber)
	bad.Check(ok, "roomNumber", bff.FieldUnsupported)
	if req.Kind == "" {
		req.Kind = "inspection"
	}
	bad.Check(slices.Contains([]string{"departure_clean", "stayover", "inspection"}, req.Kind), "kind", bff.FieldUnsupported)
	if err := refused(bad); err != nil {
		return nil, err
	}
	t := Task{
		TaskID: bff.NewID(prefixTask, c.now).String(), PropertyID: p.id, RoomNumber: req.RoomNumber, Kind: req.Kind, Status: "pending", Priority: "high",
		AssignedTo: p.tenant.staffer("housekeeper"), Minutes: 20, Date: dateOf(s.houseTime(p, c.now)), Version: 1,
	}
	s.staff.mu.Lock()
	s.staff.tasks[p.id] = keepLast(append(s.staff.tasks[p.id], t))
	s.staff.mu.Unlock()
	s.tellTask(c, p, t, "created", progress{status: t.Status, version: t.Version})
	return created{t}, nil
}

const maxAdded = 200 // that staff or a test may add per house

func keepLast[T any](list []T) []T { return list[max(0, len(list)-maxAdded):] }
