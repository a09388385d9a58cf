package sim

import (
	"fmt"
	"time"

	"melmastoon.ghasi.io/bff"
)

// Reservation is one stay of one party.
type Reservation struct {
	ReservationID string   `json:"reservationId"`
	PropertyID    string   `json:"propertyId"`
	TenantID      string   `json:"tenantId"`
	GuestName     string   `json:"guestName"`
	RoomNumber    string   `json:"roomNumber"`
	RoomTypeID    string   `json:"roomTypeId"`
	Adults        int      `json:"adults"`
	Children      int      `json:"children"`
	CheckIn       bff.Date `json:"checkIn"`
	CheckOut      bff.Date `json:"checkOut"`
	Status        string   `json:"status"`
	ETA           string   `json:"eta,omitempty"`
	VIP           bool     `json:"vip"`
	Channel       string   `json:"channel"`
	FolioID       string   `json:"folioId"`
	BalanceDue    string   `json:"balanceDue"`
	Notes         string   `json:"notes,omitempty"`
	Version       int      `json:"version"`
}

const maxNights = 5

func (p *property) arrivals(day bff.Date) int {
	return int(mix(p.seed, kindReservation, uint64(day)) % uint64(p.rooms/5+2)) //nolint:gosec // small positive counts
}

// reservation is the n-th stay that begins on a day.
func (s *Sim) reservation(r ref, today bff.Date) Reservation {
	p := r.house
	rnd := stream{mix(p.seed, kindReservation, uint64(r.day), uint64(r.n))} //nolint:gosec // not negative
	out := r.day + bff.Date(1+rnd.below(maxNights))                         //nolint:gosec // a few nights
	kind := rnd.below(p.roomTypes)
	res := Reservation{
		ReservationID: s.refID(bff.PrefixReservation, r), PropertyID: p.id, TenantID: p.tenant.id,
		GuestName: people()[rnd.below(len(people()))], RoomNumber: roomNumber(p, r),
		RoomTypeID: derivedID(bff.PrefixRoomType, p.seed, kindRoomType, uint64(kind)), //nolint:gosec // small index
		Adults:     1 + rnd.below(3), Children: rnd.below(2), CheckIn: r.day, CheckOut: out,
		ETA: fmt.Sprintf("%02d:%02d", rnd.between(12, 21), 15*rnd.below(4)), VIP: rnd.chance(8),
		Channel: []string{"direct", "melmastoon", "phone", "agency"}[rnd.below(4)],
		FolioID: s.refID(bff.PrefixFolio, r),
	}
	if rnd.chance(20) {
		res.Notes = []string{"Late arrival", "Needs a cot", "Ground floor, please", "Vegetarian"}[rnd.below(4)]
	}
	began := "confirmed"
	switch arrived, left := rnd.chance(40), rnd.chance(50); {
	case rnd.chance(4):
		began = "cancelled"
	case rnd.chance(3) && r.day < today:
		began = "no_show"
	case out < today || out == today && left:
		began = "checked_out"
	case r.day < today || r.day == today && arrived:
		began = "checked_in"
	}
	now := s.staff.stands(res.ReservationID, began)
	res.Status, res.Version = now.status, now.version
	res.BalanceDue = micros(s.balance(r, res))
	return res
}

// roomNumber spreads the stays of neighbouring days over the floors.
func roomNumber(p *property, r ref) string {
	n := (int(r.day)*7 + r.n) % p.rooms
	return itoa((1+n/10)*100 + 1 + n%10)
}

// stays lists the reservations that a test selects, among those that can touch
// the day.
func (s *Sim) stays(p *property, day, today bff.Date, want func(Reservation) bool) []Reservation {
	var out []Reservation
	for d := day - maxNights; d <= day; d++ {
		for n := range p.arrivals(d) {
			if r := s.reservation(ref{p, d, n}, today); want(r) {
				out = append(out, r)
			}
		}
	}
	return out
}

func held(r Reservation) bool { return r.Status != "cancelled" && r.Status != "no_show" }

func (s *Sim) inHouse(p *property, day, today bff.Date) []Reservation {
	return s.stays(p, day, today, func(r Reservation) bool {
		return held(r) && r.CheckOut > day && (day != today || r.Status == "checked_in")
	})
}

// balance is what the party still owes: the stay, and what was charged.
func (s *Sim) balance(r ref, res Reservation) bff.Money {
	cur := bff.Currency(r.house.country.currency)
	m := bff.Money{Currency: cur}
	if res.Status != "checked_out" && res.Status != "cancelled" {
		party := bff.Occupancy{Adults: res.Adults, Children: res.Children, Rooms: 1}
		for d := res.CheckIn; d < res.CheckOut; d++ {
			m.Minor += convert(r.house.nightCents(d, party), cur).Minor
		}
	}
	s.staff.mu.Lock()
	defer s.staff.mu.Unlock()
	m.Minor += s.staff.folios[res.FolioID]
	return m
}

func (s *Sim) stayRoutes() {
	list := func(route string, want func(day bff.Date) func(Reservation) bool) {
		s.handle("reservation", "GET /api/v1/properties/{propertyId}/"+route, func(c *call) (any, error) {
			p, day, err := s.houseDay(c)
			if err != nil {
				return nil, err
			}
			return pageOf(p, day, c.now, s.stays(p, day, bff.DateOf(c.now), want(day))), nil
		})
	}
	list("arrivals", func(day bff.Date) func(Reservation) bool {
		return func(r Reservation) bool { return r.CheckIn == day }
	})
	list("departures", func(day bff.Date) func(Reservation) bool {
		return func(r Reservation) bool { return r.CheckOut == day && held(r) }
	})
	s.handle("reservation", "GET /api/v1/properties/{propertyId}/in-house", func(c *call) (any, error) {
		p, day, err := s.houseDay(c)
		if err != nil {
			return nil, err
		}
		return pageOf(p, day, c.now, s.inHouse(p, day, bff.DateOf(c.now))), nil
	})
	s.handle("reservation", "GET /api/v1/reservations/{reservationId}", func(c *call) (any, error) {
		r, _, err := s.findStay(c)
		if err != nil {
			return nil, err
		}
		return s.reservation(r, bff.DateOf(c.now)), nil
	})
	move := func(action, to string, from ...string) {
		s.mutation("reservation", "POST /api/v1/reservations/{reservationId}/"+action, func(c *call) (any, error) {
			r, id, err := s.findStay(c)
			if err != nil {
				return nil, err
			}
			now, err := s.staff.move(id, s.reservation(r, bff.DateOf(c.now)).Status, to, from...)
			if err != nil {
				return nil, err
			}
			return map[string]any{"reservationId": id, "propertyId": r.house.id, "status": now.status, "version": now.version}, nil
		})
	}
	move("check-in", "checked_in", "confirmed")
	move("check-out", "checked_out", "checked_in")

	s.handle("inventory", "GET /api/v1/properties/{propertyId}/rooms", s.rooms)
	s.handle("inventory", "GET /api/v1/properties/{propertyId}/occupancy", s.occupancy)
	s.handle("billing", "GET /api/v1/properties/{propertyId}/folios", s.foliosOpen)
	s.handle("billing", "GET /api/v1/properties/{propertyId}/cash-drawer", s.cashDrawer)
	s.mutation("billing", "POST /api/v1/folios/{folioId}/charges", func(c *call) (any, error) { return s.post(c, 1) })
	s.mutation("billing", "POST /api/v1/folios/{folioId}/refunds", func(c *call) (any, error) { return s.post(c, -1) })
	s.lockRoutes()
}

// findStay finds the reservation of the path.
func (s *Sim) findStay(c *call) (ref, string, error) {
	r, id, err := s.findRef(c, bff.PrefixReservation, "reservationId")
	if err == nil && r.n >= r.house.arrivals(r.day) {
		err = notFound("reservation")
	}
	return r, id, err
}

// Room is one room of a house today.
type Room struct {
	RoomNumber string `json:"roomNumber"`
	RoomTypeID string `json:"roomTypeId"`
	Floor      int    `json:"floor"`
	Status     string `json:"status"`
}

func (s *Sim) rooms(c *call) (any, error) {
	p, err := s.house(c)
	if err != nil {
		return nil, err
	}
	today := bff.DateOf(c.now)
	occupied := map[string]bool{}
	for _, r := range s.inHouse(p, today, today) {
		occupied[r.RoomNumber] = true
	}
	counts := map[string]int{"clean": 0, "dirty": 0, "inspected": 0, "occupied": 0, "out_of_order": 0}
	items := []Room{}
	for n := range p.rooms {
		rnd := stream{mix(p.seed, kindRooms, uint64(today), uint64(n), 7)} //nolint:gosec // not negative
		room := Room{
			RoomNumber: itoa((1+n/10)*100 + 1 + n%10), Floor: 1 + n/10,
			RoomTypeID: derivedID(bff.PrefixRoomType, p.seed, kindRoomType, uint64(n%p.roomTypes)),
			Status:     []string{"clean", "clean", "inspected", "inspected", "inspected", "dirty", "dirty"}[rnd.below(7)],
		}
		switch {
		case occupied[room.RoomNumber]:
			room.Status = "occupied"
		case rnd.chance(4):
			room.Status = "out_of_order"
		}
		counts[room.Status]++
		if want := c.URL.Query().Get("status"); want == "" || want == room.Status {
			items = append(items, room)
		}
	}
	return struct {
		page[Room]
		Counts map[string]int `json:"counts"`
	}{pageOf(p, today, c.now, items), counts}, nil
}

const maxOccupancyDays = 62

func (s *Sim) occupancy(c *call) (any, error) {
	p, err := s.house(c)
	if err != nil {
		return nil, err
	}
	var bad bff.FieldErrors
	from, to := c.date(&bad, "from"), c.date(&bad, "to")
	if len(bad) == 0 {
		bad.Check(to > from && to-from <= maxOccupancyDays, "to", bff.FieldRange)
		c.nearToday(&bad, "from", from)
	}
	if err := refused(bad); err != nil {
		return nil, err
	}
	type day struct {
		Date     bff.Date `json:"date"`
		Occupied int      `json:"occupied"`
		Total    int      `json:"total"`
	}
	items := []day{}
	for d := from; d < to; d++ {
		taken := len(s.stays(p, d, bff.DateOf(c.now), func(r Reservation) bool { return held(r) && r.CheckOut > d }))
		items = append(items, day{d, min(taken, p.rooms), p.rooms})
	}
	return pageOf(p, from, c.now, items), nil
}

// Folio is a guest's account.
type Folio struct {
	FolioID       string `json:"folioId"`
	ReservationID string `json:"reservationId"`
	GuestName     string `json:"guestName"`
	Status        string `json:"status"`
	Balance       string `json:"balance"`
}

func (s *Sim) foliosOpen(c *call) (any, error) {
	p, day, err := s.houseDay(c)
	if err != nil {
		return nil, err
	}
	due := bff.Money{Currency: bff.Currency(p.country.currency)}
	items := []Folio{}
	for _, r := range s.inHouse(p, day, bff.DateOf(c.now)) {
		items = append(items, Folio{r.FolioID, r.ReservationID, r.GuestName, "open", r.BalanceDue})
		m, err := bff.ParseMicros(r.BalanceDue)
		if err != nil {
			return nil, fmt.Errorf("add up folios: %w", err)
		}
		due.Minor += m.Minor
	}
	return struct {
		page[Folio]
		BalanceDue string `json:"balanceDue"`
	}{pageOf(p, day, c.now, items), micros(due)}, nil
}

func (s *Sim) cashDrawer(c *call) (any, error) {
	p, day, err := s.houseDay(c)
	if err != nil {
		return nil, err
	}
	rnd := stream{mix(p.seed, kindFolio, uint64(day))} //nolint:gosec // a date is not negative
	cur := bff.Currency(p.country.currency)
	opening, taken := convert(int64(rnd.between(5_000, 20_000)), cur), convert(int64(rnd.between(1_000, 90_000)), cur)
	expected := bff.Money{Minor: opening.Minor + taken.Minor, Currency: cur}
	return map[string]any{
		"propertyId": p.id, "date": day, "openedBy": p.tenant.operators[2].id, "asOf": bff.At(c.now),
		"opening": micros(opening), "taken": micros(taken), "expected": micros(expected),
	}, nil
}

// post writes a charge or a refund on a folio.
func (s *Sim) post(c *call, sign int64) (any, error) {
	r, id, err := s.findRef(c, bff.PrefixFolio, "folioId")
	if err != nil {
		return nil, err
	}
	if r.n >= r.house.arrivals(r.day) {
		return nil, notFound("folio")
	}
	var req struct {
		Amount      string `json:"amount"`
		Description string `json:"description"`
	}
	if err := c.decode(&req); err != nil {
		return nil, err
	}
	var bad bff.FieldErrors
	m, err := bff.ParseMicros(req.Amount)
	bad.Check(err == nil, "amount", bff.FieldFormat)
	if err == nil {
		bad.Check(m.Minor > 0 && m.Minor < 1e13, "amount", bff.FieldRange)
		bad.Check(m.Currency == bff.Currency(r.house.country.currency), "amount", bff.FieldConflict)
	}
	bad.Check(len(req.Description) <= 200, "description", bff.FieldLength)
	if err := refused(bad); err != nil {
		return nil, err
	}
	res := s.reservation(r, bff.DateOf(c.now))
	s.staff.mu.Lock()
	bound(s.staff.folios)
	s.staff.folios[id] += sign * m.Minor
	s.staff.mu.Unlock()
	return created{map[string]any{
		"entryId": bff.NewID(prefixEntry, c.now).String(), "folioId": id, "reservationId": res.ReservationID,
		"amount": req.Amount, "balance": micros(s.balance(r, res)), "postedAt": bff.At(c.now),
	}}, nil
}

// lockRoutes issue and end room keys. One vendor in three is slow and answers
// pending.
func (s *Sim) lockRoutes() {
	key := func(action, to string, from ...string) {
		s.mutation("lock", "POST /api/v1/reservations/{reservationId}/keys/"+action, func(c *call) (any, error) {
			r, id, err := s.findStay(c)
			if err != nil {
				return nil, err
			}
			credential := s.refID(prefixCredential, r)
			if _, err := s.staff.move(credential, "none", to, from...); err != nil {
				return nil, err
			}
			vendor := []string{"salto", "assa-abloy", "ttlock"}[r.house.seed%3]
			state, out := to, func(v any) any { return v }
			if vendor == "ttlock" {
				state, out = "pending", func(v any) any { return accepted{v} }
			}
			res := s.reservation(r, bff.DateOf(c.now))
			return out(map[string]any{
				"credentialId": credential, "reservationId": id, "propertyId": r.house.id, "roomNumber": res.RoomNumber,
				"state": state, "vendor": vendor, "expiresAt": bff.At(res.CheckOut.Time().Add(12 * time.Hour)),
			}), nil
		})
	}
	key("issue", "active", "none", "revoked")
	key("revoke", "revoked", "active")
	key("rebind", "active", "active")
	key("extend", "active", "active")
	s.handle("lock", "GET /api/v1/properties/{propertyId}/failures", func(c *call) (any, error) {
		p, day, err := s.houseDay(c)
		if err != nil {
			return nil, err
		}
		type lockFailure struct {
			RoomNumber string        `json:"roomNumber"`
			Reason     string        `json:"reason"`
			At         bff.Timestamp `json:"at"`
		}
		items := []lockFailure{}
		rnd := stream{mix(p.seed, kindDevice, uint64(day))} //nolint:gosec // a date is not negative
		for range rnd.below(4) {
			items = append(items, lockFailure{
				itoa(101 + rnd.below(9)), []string{"battery_low", "offline", "tamper"}[rnd.below(3)],
				bff.At(day.Time().Add(time.Duration(rnd.below(86400)) * time.Second)),
			})
		}
		return pageOf(p, day, c.now, items), nil
	})
}
