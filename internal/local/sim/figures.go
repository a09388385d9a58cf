package sim

import (
	"math"

	"melmastoon.ghasi.io/bff"
)

// figureRoutes are the services that sum up: analytics, staff, and what pricing,
// property and theme-config have for the staff console.
func (s *Sim) figureRoutes() {
	s.handle("analytics", "GET /api/v1/properties/{propertyId}/kpis", s.kpis)
	s.handle("staff", "GET /api/v1/properties/{propertyId}/shifts", s.shifts)
	s.handle("pricing", "GET /v1/pricing/properties/{propertyId}/rates", s.rates)
	s.handle("property", "GET /api/v1/properties/{propertyId}/notes", s.houseNotes)
	s.handle("theme-config", "GET /api/v1/tenants/{tenantId}/theme/version", func(c *call) (any, error) {
		t, err := s.tenant(c)
		if err != nil {
			return nil, err
		}
		if err := c.ofTenant(t); err != nil {
			return nil, err
		}
		return map[string]any{"tenantId": t.id, "publishedVersion": s.themeOf(t).version}, nil
	})
}

// kpis are the night's figures. Analytics writes money as a number in major
// units and names the currency once.
func (s *Sim) kpis(c *call) (any, error) {
	p, day, err := s.houseDay(c)
	if err != nil {
		return nil, err
	}
	at := s.houseTime(p, c.now)
	cur := bff.Currency(p.country.currency)
	book := s.book(p, day, at)
	night := p.night(day, at, book)
	var revenue, nights int64
	channels := map[string]int{}
	taken := 0
	for _, r := range book {
		if held(r) && r.CheckOut > day {
			taken++
			revenue += convert(r.stay.nightCents(day), cur).Minor
			nights += int64(r.CheckOut - r.CheckIn)
			channels[r.Channel]++
		}
	}
	arrivals := countStays(only(book, arriving(day)))
	per := func(n int) float64 { return math.Round(float64(revenue)/float64(max(n, 1))) / 100 }
	return map[string]any{
		"propertyId": c.speaks.id(p.id), "date": day, "asOf": bff.At(s.houseTime(p, c.now)), "currency": cur, "adr": per(taken), "revpar": per(p.rooms),
		"occupancyRate":       math.Round(1000*float64(night.Occupied)/float64(night.Total)) / 1000,
		"averageLengthOfStay": math.Round(10*float64(nights)/float64(max(taken, 1))) / 10,
		"cancellations":       arrivals["cancelled"], "noShows": arrivals["no_show"], "channelMix": channels,
	}, nil
}

// Shift is a turn of work; without an operator it is a gap.
type Shift struct {
	OperatorID  string `json:"operatorId,omitempty"`
	DisplayName string `json:"displayName,omitempty"`
	Role        string `json:"role"`
	From        string `json:"from"`
	To          string `json:"to"`
}

func (s *Sim) shifts(c *call) (any, error) {
	p, day, err := s.houseDay(c)
	if err != nil {
		return nil, err
	}
	items, gaps := []Shift{}, []Shift{}
	for i, role := range []string{"front_desk", "front_desk", "housekeeper", "housekeeping_lead", "maintenance", "fnb_manager"} {
		sh := Shift{Role: role, From: []string{"06:00", "14:00"}[i%2], To: []string{"14:00", "22:00"}[i%2]}
		if mix(p.seed, kindStaff, uint64(day), uint64(i))%6 == 0 { //nolint:gosec // not negative
			gaps = append(gaps, sh)
			continue
		}
		o := p.tenant.operator[p.tenant.staffer(role)]
		sh.OperatorID, sh.DisplayName = o.id, o.displayName
		items = append(items, sh)
	}
	out, err := pageOf(s, c, p, day, items)
	return struct {
		page[Shift]
		Gaps []Shift `json:"gaps"`
	}{out, gaps}, err
}

// rates is what the house sells a night for, by kind of room, as quotes have
// it.
func (s *Sim) rates(c *call) (any, error) {
	p, day, err := s.houseDay(c)
	if err != nil {
		return nil, err
	}
	type rate struct {
		RoomTypeID   string `json:"roomTypeId"`
		RoomTypeName Text   `json:"roomTypeName"`
		RatePlanID   string `json:"ratePlanId"`
		Nightly      string `json:"nightly"`
	}
	cur := bff.Currency(p.country.currency)
	items := []rate{}
	for n := range p.roomTypes {
		cents := p.nightCents(day, bff.DefaultOccupancy()) * int64(100+25*n) / 100
		items = append(items, rate{
			derivedID(bff.PrefixRoomType, p.seed, kindRoomType, uint64(n)), roomKinds()[n].names.text(), p.ratePlanID, micros(convert(cents, cur)),
		}) //nolint:gosec // small index
	}
	return pageOf(s, c, p, day, items)
}

// Note is something to know about a day in the house.
type Note struct {
	NoteID string `json:"noteId"`
	Text   string `json:"text"`
	By     string `json:"by"`
}

func (s *Sim) houseNotes(c *call) (any, error) {
	p, day, err := s.houseDay(c)
	if err != nil {
		return nil, err
	}
	rnd := stream{mix(p.seed, kindProperty, uint64(day))} //nolint:gosec // not negative
	texts := []string{
		"The lift is serviced at noon", "A wedding party has the garden from 17:00", "Water is off between 10:00 and 11:00", "The bakery comes an hour later",
		"Fire drill at 15:00",
	}
	items := []Note{}
	for n := range 1 + rnd.below(3) {
		items = append(items, Note{s.refID(prefixNote, ref{p, day, n}), texts[rnd.below(len(texts))], p.tenant.staffer("general_manager")})
	}
	return pageOf(s, c, p, day, items)
}
