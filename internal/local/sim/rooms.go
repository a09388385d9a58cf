package sim

import (
	"slices"
	"time"

	"melmastoon.ghasi.io/bff"
)

// Room is one room of a house.
type Room struct {
	RoomNumber    string `json:"roomNumber"`
	RoomTypeID    string `json:"roomTypeId"`
	Floor         int    `json:"floor"`
	Status        string `json:"status"`
	ReservationID string `json:"reservationId,omitempty"`
}

func roomStatuses() []string {
	return []string{"clean", "dirty", "inspected", "occupied", "out_of_order"}
}

// floor is how the rooms of a house stand: taken while a party is checked in,
// dirty from its departure until housekeeping is done, out of order while a
// repair blocks them.
func (s *Sim) floor(p *property, at time.Time) []Room {
	today := dateOf(at)
	book := s.book(p, today, at)
	status := map[int]string{}
	for _, t := range s.tasks(p, today, book, at) {
		if n, ok := p.roomIndex(t.RoomNumber); ok && t.Kind == "departure_clean" {
			status[n] = map[string]string{"done": "clean", "inspected": "inspected"}[t.Status]
			if status[n] == "" {
				status[n] = "dirty"
			}
		}
	}
	for _, w := range s.workOrders(p, at) {
		if n, ok := p.roomIndex(w.RoomNumber); ok && w.BlocksRoom && (w.Status == "open" || w.Status == "in_progress") {
			status[n] = "out_of_order"
		}
	}
	taken := map[int]string{}
	for _, r := range book {
		if r.Status == "checked_in" {
			taken[r.stay.n] = r.ReservationID
		}
	}
	rooms := make([]Room, p.rooms)
	for n := range rooms {
		room := Room{
			RoomNumber: roomNumber(n), Floor: 1 + n/10, Status: "inspected",
			RoomTypeID: derivedID(bff.PrefixRoomType, p.seed, kindRoomType, uint64(n%p.roomTypes)),
		}
		if st := status[n]; st != "" {
			room.Status = st
		}
		if set, ok := s.staff.moved(roomKey(p, n)); ok && dateOf(set.at.In(p.country.zone)) == today {
			room.Status = set.status
		}
		if id := taken[n]; id != "" {
			room.Status, room.ReservationID = "occupied", id
		}
		rooms[n] = room
	}
	return rooms
}

func roomKey(p *property, n int) string { return p.id + " " + roomNumber(n) }

func (s *Sim) roomRoutes() {
	s.handle("inventory", "GET /api/v1/properties/{propertyId}/rooms", func(c *call) (any, error) {
		p, err := s.house(c)
		if err != nil {
			return nil, err
		}
		at := s.houseTime(p, c.now)
		counts := map[string]int{}
		for _, st := range roomStatuses() {
			counts[st] = 0
		}
		items := s.floor(p, at)
		for _, r := range items {
			counts[r.Status]++
		}
		items = slices.DeleteFunc(items, func(r Room) bool { return !c.wanted(r.Status) })
		out, err := pageOf(s, c, p, dateOf(at), items)
		out.Counts = counts
		return out, err
	})
	s.handle("inventory", "GET /api/v1/properties/{propertyId}/occupancy", s.occupancy)
}

const maxOccupancyDays = 62

// Night is how full a house is on a date.
type Night struct {
	Date     bff.Date `json:"date"`
	Occupied int      `json:"occupied"`
	Total    int      `json:"total"`
}

// occupancy counts the nights that are sold: those in the house, and those
// that are still expected.
func (s *Sim) occupancy(c *call) (any, error) {
	p, err := s.house(c)
	if err != nil {
		return nil, err
	}
	var bad bff.FieldErrors
	from, to := c.date(&bad, "from"), c.date(&bad, "to")
	if len(bad) == 0 {
		bad.Check(to > from && to-from <= maxOccupancyDays, "to", bff.FieldRange)
		nearDay(&bad, "from", from, dateOf(s.houseTime(p, c.now)))
	}
	if err := refused(bad); err != nil {
		return nil, err
	}
	at := s.houseTime(p, c.now)
	items := []Night{}
	for d := from; d < to; d++ {
		items = append(items, p.night(d, at, s.book(p, d, at)))
	}
	return pageOf(s, c, p, from, items)
}

func (p *property) night(d bff.Date, at time.Time, book []Reservation) Night {
	sold := only(book, func(r Reservation) bool {
		return held(r) && r.CheckIn <= d && r.CheckOut > d && (r.Status != "checked_out" || d < dateOf(at))
	})
	return Night{d, len(sold), p.rooms}
}

// setRoom gives a room of the path another status.
func (s *Sim) setRoom(c *call) (any, error) {
	var req struct {
		Status string `json:"status"`
	}
	if err := decodeStrict(c.body, &req); err != nil {
		return nil, err
	}
	p, err := s.house(c)
	if err != nil {
		return nil, err
	}
	n, ok := p.roomIndex(c.PathValue("roomNumber"))
	if !ok {
		return nil, notFound("room")
	}
	if req.Status == "occupied" || !slices.Contains(roomStatuses(), req.Status) {
		return nil, refused(bff.FieldErrors{{Field: "status", Code: bff.FieldUnsupported}})
	}
	at := s.houseTime(p, c.now)
	stands := progress{status: s.floor(p, at)[n].Status}
	if did, ok := s.staff.moved(roomKey(p, n)); ok {
		stands.version = did.version
	}
	if _, err := s.staff.move(roomKey(p, n), stands, req.Status, at, "clean", "dirty", "inspected", "out_of_order"); err != nil {
		return nil, err
	}
	s.tellRoom(c, p, n, req.Status)
	return s.floor(p, at)[n], nil
}

func (s *Sim) tellRoom(c *call, p *property, n int, status string) {
	s.tell(c, "melmastoon.inventory.room.status_changed.v1", p, map[string]any{"roomNumber": roomNumber(n), "status": status})
}
