package sim

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"melmastoon.ghasi.io/bff"
)

// stay is what the data set plans for a room: who comes and leaves when. Its ref
// is the day of arrival and the number of the room, so that no two parties ever
// have one room for one night.
type stay struct {
	ref
	out              bff.Date
	guest            string
	adults, children int
	kind             int // of room
	eta              string
	vip              bool
	channel, notes   string
	fate             string // cancelled, no_show, or empty: they come
	// As the clock of the house moves them; staff can be faster. Some come and
	// go only at midnight: at any hour there is a party to check in and one to
	// check out.
	arrives time.Time
	leaves  time.Duration // after the day of departure began
	lingers bool          // until midnight, unless others come for the room
}

const blockDays = 7

// sold is how many of a house's rooms have guests. The last one is where
// repairs are under way.
func (p *property) sold() int { return p.rooms - 1 }

// block lists the stays of one room in the seven days around a day; none of them
// reaches beyond. In rooms 0 and 1 a party changes every other day in turn, and
// 2 and 3 have long stays: every house has an arrival, a departure and a guest
// every day.
func (p *property) block(room int, day bff.Date) []stay {
	number := (int(day) + room) / blockDays
	start := bff.Date(number*blockDays - room)                                //nolint:gosec // a day
	rnd := stream{mix(p.seed, kindReservation, uint64(room), uint64(number))} //nolint:gosec // not negative
	var out []stay
	for d := start; d < start+blockDays; {
		gap, nights := 0, 1+rnd.below(4)
		if rnd.chance(45) {
			gap = 1 + rnd.below(2)
		}
		switch {
		case room < 2:
			gap, nights = (int(d)+room)%2, 1
		case room < 4:
			gap, nights = 0, blockDays
		}
		d += bff.Date(gap) //nolint:gosec // a few nights
		if d >= start+blockDays {
			break
		}
		end := min(d+bff.Date(nights), start+blockDays) //nolint:gosec // a few nights
		if n := len(out); n > 0 && out[n-1].out == d {
			out[n-1].lingers = false
		}
		out = append(out, p.stay(room, d, end))
		d = end
	}
	if n := len(out); n > 0 && room >= 2 && out[n-1].out == start+blockDays { // others may come the same day
		out[n-1].lingers = false
	}
	return out
}

func (p *property) stay(room int, in, out bff.Date) stay {
	rnd := stream{mix(p.seed, kindReservation, uint64(in), uint64(room), 1)} //nolint:gosec // not negative
	hour, quarter := rnd.between(12, 21), rnd.below(4)
	st := stay{
		ref: ref{p, in, room}, out: out, guest: people()[rnd.below(len(people()))], adults: 1 + rnd.below(3), children: rnd.below(2),
		kind: room % p.roomTypes, eta: fmt.Sprintf("%02d:%02d", hour, 15*quarter), vip: rnd.chance(8),
		channel: []string{"direct", "melmastoon", "phone", "agency"}[rnd.below(4)],
		arrives: p.begin(in).Add(time.Duration(hour)*time.Hour + time.Duration(15*quarter)*time.Minute),
		leaves:  time.Duration(rnd.between(7*60, 11*60+45)) * time.Minute,
	}
	if rnd.chance(20) {
		st.notes = []string{"Late arrival", "Needs a cot", "Ground floor, please", "Vegetarian"}[rnd.below(4)]
	}
	byHand := rnd.chance(25)
	st.lingers = rnd.chance(20)
	switch {
	case room < 2:
		byHand, st.lingers = true, true
	case room < 4:
	case rnd.chance(4):
		st.fate = "cancelled"
	case rnd.chance(3):
		st.fate = "no_show"
	}
	if byHand {
		st.arrives = p.begin(in + 1)
	}
	return st
}

// planned finds the stay that begins in a room on a day.
func (r ref) planned() (stay, bool) {
	if r.n >= r.house.sold() {
		return stay{}, false
	}
	for _, st := range r.house.block(r.n, r.day) {
		if st.day == r.day {
			return st, true
		}
	}
	return stay{}, false
}

// Reservation is one stay of one party.
type Reservation struct {
	ReservationID string         `json:"reservationId"`
	TenantID      string         `json:"tenantId"`
	PropertyID    string         `json:"propertyId"`
	Status        string         `json:"status"`
	GuestName     string         `json:"guestName"`
	VIP           bool           `json:"vip"`
	Adults        int            `json:"adults"`
	Children      int            `json:"children"`
	RoomNumber    string         `json:"roomNumber"`
	RoomTypeID    string         `json:"roomTypeId"`
	RoomTypeName  Text           `json:"roomTypeName"`
	CheckIn       bff.Date       `json:"checkIn"`
	CheckOut      bff.Date       `json:"checkOut"`
	ETA           string         `json:"eta"`
	CheckedInAt   *bff.Timestamp `json:"checkedInAt,omitempty"`
	CheckedOutAt  *bff.Timestamp `json:"checkedOutAt,omitempty"`
	Channel       string         `json:"channel"`
	FolioID       string         `json:"folioId"`
	Total         Amount         `json:"total"`
	Notes         string         `json:"notes,omitempty"`
	Version       int            `json:"version"`

	stay stay
}

// Amount is money as reservation writes it: in major units, as text.
type Amount struct {
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
}

func decimal(m bff.Money) Amount {
	sign, minor := "", m.Minor
	if minor < 0 {
		sign, minor = "-", -minor
	}
	return Amount{fmt.Sprintf("%s%d.%02d", sign, minor/100, minor%100), string(m.Currency)}
}

func roomNumber(n int) string { return strconv.Itoa((1+n/10)*100 + 1 + n%10) }

// roomIndex reads a room's number.
func (p *property) roomIndex(number string) (int, bool) {
	n, err := strconv.Atoi(number)
	n = (n/100-1)*10 + n%100 - 1
	return n, err == nil && n >= 0 && n < p.rooms && roomNumber(n) == number
}

// plan is a stay that neither staff nor a clock has moved yet.
func (s *Sim) plan(st stay) Reservation {
	p := st.house
	return Reservation{
		ReservationID: s.refID(bff.PrefixReservation, st.ref), PropertyID: p.id, TenantID: p.tenant.id, GuestName: st.guest, VIP: st.vip,
		Adults: st.adults, Children: st.children, RoomNumber: roomNumber(st.n), CheckIn: st.day, CheckOut: st.out, ETA: st.eta,
		RoomTypeID:   derivedID(bff.PrefixRoomType, p.seed, kindRoomType, uint64(st.kind)), //nolint:gosec // small index
		RoomTypeName: roomKinds()[st.kind].names.text(),
		Channel:      st.channel, FolioID: s.refID(bff.PrefixFolio, st.ref), Total: decimal(st.price()), Notes: st.notes, stay: st,
	}
}

// reservation is where a stay stands at a moment in the house.
func (s *Sim) reservation(st stay, at time.Time) Reservation {
	s.staff.mu.Lock()
	defer s.staff.mu.Unlock()
	return s.staff.asOf(at, s.plan(st))
}

// asOf is a planned stay as it stands at a moment. The caller holds the lock.
func (staff *staffState) asOf(at time.Time, res Reservation) Reservation {
	st, p := &res.stay, res.stay.house
	did, moved := staff.status[res.ReservationID]
	if notes, ok := staff.notes[res.ReservationID]; ok {
		res.Notes = notes
	}
	if out, ok := staff.outs[res.ReservationID]; ok {
		res.CheckOut, st.out, st.lingers = out, out, false // others may come that day
		res.Total = decimal(st.price())
	}
	leaves := p.begin(res.CheckOut).Add(st.leaves)
	if st.lingers {
		leaves = p.begin(res.CheckOut + 1)
	}
	rank := 0
	since := func(to **bff.Timestamp, t time.Time) { ts := bff.At(t); *to = &ts }
	arrive := func(t time.Time) {
		if since(&res.CheckedInAt, t); at.Before(leaves) {
			res.Status, rank = "checked_in", 1
			return
		}
		since(&res.CheckedOutAt, leaves)
		res.Status, rank = "checked_out", 2
	}
	switch {
	case moved && did.status == "cancelled":
		res.Status = "cancelled"
	case moved && did.status == "checked_out":
		since(&res.CheckedOutAt, did.at)
		res.Status, rank = "checked_out", 2
	case moved && did.status == "checked_in":
		arrive(did.at)
	case !moved && st.fate == "cancelled":
		res.Status = "cancelled"
	case !moved && st.fate == "no_show" && !at.Before(p.begin(st.day+1)):
		res.Status, rank = "no_show", 1
	case at.Before(st.arrives) || !moved && st.fate == "no_show":
		res.Status = "confirmed"
	default:
		arrive(st.arrives)
	}
	res.Version = max(did.version, 1) + rank
	return res
}

// price is what the whole stay costs.
func (st *stay) price() bff.Money {
	cur := bff.Currency(st.house.country.currency)
	m := bff.Money{Currency: cur}
	for d := st.day; d < st.out; d++ {
		m.Minor += convert(st.nightCents(d), cur).Minor
	}
	return m
}

func (st *stay) nightCents(d bff.Date) int64 {
	return st.house.nightCents(d, bff.Occupancy{Adults: st.adults, Children: st.children, Rooms: 1})
}

// week is seven days of a room. All requests about a house, and its clock, ask what is planned for them.
type week struct {
	house        *property
	room, number int
}

// book lists the stays that touch a day, by room: those that begin, go on or end.
func (s *Sim) book(p *property, day bff.Date, at time.Time) []Reservation {
	s.staff.mu.Lock()
	defer s.staff.mu.Unlock()
	var out []Reservation
	for room := range p.sold() {
		for _, of := range [...]bff.Date{day - blockDays, day} {
			w := week{p, room, (int(of) + room) / blockDays}
			planned, known := s.staff.weeks[w]
			if !known {
				for _, st := range p.block(room, of) {
					planned = append(planned, s.plan(st))
				}
				bound(s.staff.weeks)
				s.staff.weeks[w] = planned
			}
			for i := range planned {
				if planned[i].CheckIn > day {
					break
				}
				if res := s.staff.asOf(at, planned[i]); res.CheckOut >= day {
					out = append(out, res)
				}
			}
		}
	}
	return out
}

func held(r Reservation) bool { return r.Status != "cancelled" && r.Status != "no_show" }

func only(all []Reservation, want func(Reservation) bool) []Reservation {
	return slices.DeleteFunc(slices.Clone(all), func(r Reservation) bool { return !want(r) })
}

// sleeping selects the stays of a night: those in the house today, those that
// are expected on another day.
func sleeping(day bff.Date, at time.Time) func(Reservation) bool {
	today := day == dateOf(at)
	return func(r Reservation) bool {
		return today && r.Status == "checked_in" || !today && held(r) && r.CheckIn <= day && r.CheckOut > day
	}
}

func arriving(day bff.Date) func(Reservation) bool {
	return func(r Reservation) bool { return r.CheckIn == day }
}

func departing(day bff.Date) func(Reservation) bool {
	return func(r Reservation) bool { return r.CheckOut == day && held(r) }
}

func (s *Sim) stayRoutes() {
	list := func(route string, of func(day bff.Date, at time.Time) func(Reservation) bool, usual ...string) {
		s.handle("reservation", "GET /api/v1/properties/{propertyId}/"+route, func(c *call) (any, error) {
			p, day, err := s.houseDay(c)
			if err != nil {
				return nil, err
			}
			at := s.houseTime(p, c.now)
			all := only(s.book(p, day, at), of(day, at))
			slices.SortStableFunc(all, func(a, b Reservation) int { return cmp.Compare(a.ETA, b.ETA) })
			vip := c.URL.Query().Get("vip") == "true"
			out, err := pageOf(s, c, p, day, only(all, func(r Reservation) bool { return c.wanted(r.Status, usual...) && (r.VIP || !vip) }))
			out.Counts = countStays(all)
			return out, err
		})
	}
	list("arrivals", func(day bff.Date, _ time.Time) func(Reservation) bool { return arriving(day) }, "confirmed")
	list("departures", func(day bff.Date, _ time.Time) func(Reservation) bool { return departing(day) }, "checked_in", "confirmed")
	list("in-house", sleeping)
	s.handle("reservation", "GET /api/v1/properties/{propertyId}/summary", s.stayCounts)
	s.handle("reservation", "GET /api/v1/reservations/{reservationId}", func(c *call) (any, error) { return s.findStay(c) })
	for _, action := range []string{"check-in", "check-out"} {
		s.mutation("reservation", "POST /api/v1/reservations/{reservationId}/"+action, func(c *call) (any, error) {
			res, err := s.moveStay(c, action)
			if err != nil {
				return nil, err
			}
			return map[string]any{"reservationId": res.ReservationID, "propertyId": res.PropertyID, "status": res.Status, "version": res.Version}, nil
		})
	}
}

func countStays(all []Reservation) map[string]int {
	counts := map[string]int{"confirmed": 0, "checked_in": 0, "checked_out": 0, "cancelled": 0, "no_show": 0, "vip": 0, "adults": 0, "children": 0}
	for _, r := range all {
		counts[r.Status]++
		if held(r) {
			counts["adults"] += r.Adults
			counts["children"] += r.Children
			if r.VIP {
				counts["vip"]++
			}
		}
	}
	return counts
}

// stayCounts is the day of a house in numbers.
func (s *Sim) stayCounts(c *call) (any, error) {
	p, day, err := s.houseDay(c)
	if err != nil {
		return nil, err
	}
	at := s.houseTime(p, c.now)
	book := s.book(p, day, at)
	channels := map[string]int{}
	for _, r := range only(book, arriving(day)) {
		if held(r) {
			channels[r.Channel]++
		}
	}
	arrivals := countStays(only(book, arriving(day)))
	return map[string]any{
		"propertyId": p.id, "date": day, "asOf": bff.At(s.houseTime(p, c.now)), "arrivals": arrivals, "departures": countStays(only(book, departing(day))),
		"inHouse": countStays(only(book, sleeping(day, at))), "cancellations": arrivals["cancelled"], "noShows": arrivals["no_show"], "channels": channels,
	}, nil
}

// findStay finds the reservation of the path.
func (s *Sim) findStay(c *call) (Reservation, error) {
	return s.findParty(c, bff.PrefixReservation, "reservation")
}

// findParty finds the reservation that the path names by an id of its own or of what goes with it.
func (s *Sim) findParty(c *call, prefix bff.Prefix, what string) (Reservation, error) {
	r, err := s.findRef(c, prefix, what+"Id")
	if err != nil {
		return Reservation{}, err
	}
	st, ok := r.planned()
	if !ok {
		return Reservation{}, notFound(what)
	}
	return s.reservation(st, s.houseTime(st.house, c.now)), nil
}

// moveStay does what the front desk does with the reservation of the path, and
// tells the platform. With the guest comes the folio: billing hears of it too.
func (s *Sim) moveStay(c *call, action string) (Reservation, error) {
	res, err := s.findStay(c)
	if err != nil {
		return res, err
	}
	t, ok := map[string]transition{
		"check-in":  {"checked_in", []string{"confirmed"}, "checked_in"},
		"check-out": {"checked_out", []string{"checked_in"}, "checked_out"},
		"cancel":    {"cancelled", []string{"confirmed"}, "cancelled"},
		"reinstate": {"confirmed", []string{"cancelled"}, "confirmed"},
	}[action]
	if !ok {
		return res, notFound("action")
	}
	at := s.houseTime(res.stay.house, c.now)
	if action == "check-in" && res.CheckIn > dateOf(at) {
		return res, &failure{status: http.StatusConflict, code: "INVALID_STATE", message: "the stay begins on " + res.CheckIn.String()}
	}
	if action == "check-in" && res.Status == "confirmed" && s.floor(res.stay.house, at)[res.stay.n].Status == "occupied" {
		return res, &failure{status: http.StatusConflict, code: "ROOM_OCCUPIED", message: "others are still in room " + res.RoomNumber}
	}
	if _, err := s.staff.move(res.ReservationID, progress{res.Status, res.Version, at}, t.to, at, t.from...); err != nil {
		return res, err
	}
	res = s.reservation(res.stay, at)
	if action == "check-in" || action == "check-out" {
		s.tellMovedStay(c, res)
	} else {
		s.tellStay(c, res, t.event)
	}
	return res, nil
}

// tellStay reports a change of a reservation: ids and states, no guest.
func (s *Sim) tellStay(c *call, res Reservation, event string) {
	s.tell(c, "melmastoon.reservation."+event+".v1", res.stay.house, map[string]any{
		"reservationId": res.ReservationID, "status": res.Status, "checkIn": res.CheckIn, "checkOut": res.CheckOut, "version": res.Version,
	})
}

const maxNotes = 200

// changeStay changes the notes or the departure of the reservation of the path.
func (s *Sim) changeStay(c *call) (Reservation, error) {
	var req struct {
		Notes    *string   `json:"notes"`
		CheckOut *bff.Date `json:"checkOut"`
	}
	if err := decodeStrict(c.body, &req); err != nil {
		return Reservation{}, err
	}
	res, err := s.findStay(c)
	if err != nil {
		return res, err
	}
	at := s.houseTime(res.stay.house, c.now)
	var bad bff.FieldErrors
	bad.Check(req.Notes != nil || req.CheckOut != nil, "notes", bff.FieldRequired)
	bad.Check(req.Notes == nil || len(*req.Notes) <= maxNotes, "notes", bff.FieldLength)
	if out := req.CheckOut; out != nil {
		bad.Check(*out > res.CheckIn && *out <= res.CheckIn+2*blockDays && *out >= dateOf(at), "checkOut", bff.FieldRange)
		bad.Check(*out <= res.CheckOut || s.free(res, *out, at), "checkOut", bff.FieldConflict)
	}
	if err := refused(bad); err != nil {
		return res, err
	}
	stands := progress{status: res.Status, version: res.Version}
	if res.CheckedInAt != nil {
		stands.at = res.CheckedInAt.Time
	}
	if _, err := s.staff.move(res.ReservationID, stands, res.Status, at, "confirmed", "checked_in"); err != nil {
		return res, err
	}
	s.staff.mu.Lock()
	if req.Notes != nil {
		bound(s.staff.notes)
		s.staff.notes[res.ReservationID] = *req.Notes
	}
	if req.CheckOut != nil {
		bound(s.staff.outs)
		s.staff.outs[res.ReservationID] = *req.CheckOut
	}
	s.staff.mu.Unlock()
	res = s.reservation(res.stay, at)
	if req.Notes != nil {
		s.tellStay(c, res, "modified")
	}
	if req.CheckOut != nil {
		s.tellStay(c, res, "dates_changed")
		s.tell(c, "melmastoon.inventory.allocation.changed.v1", res.stay.house, map[string]any{"reservationId": res.ReservationID, "roomNumber": res.RoomNumber})
	}
	return res, nil
}

// free reports whether a party's room has no other guests in it until a day.
func (s *Sim) free(res Reservation, until bff.Date, at time.Time) bool {
	for d := res.CheckOut; d < until; d++ {
		moves := func(other Reservation) bool { return other.stay.n == res.stay.n && other.CheckIn == d && held(other) }
		if slices.ContainsFunc(s.book(res.stay.house, d, at), moves) {
			return false
		}
	}
	return true
}
