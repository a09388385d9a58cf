package sim

import (
	"melmastoon.ghasi.io/bff"
)

// Minor is money as billing writes it: whole minor units, as a number.
type Minor struct {
	AmountMinor int64  `json:"amountMinor"`
	Currency    string `json:"currency"`
}

func minor(m bff.Money) Minor { return Minor{m.Minor, string(m.Currency)} }

// Folio is a party's account: it opens with the check-in and is settled at the
// check-out. Ids are UUIDs.
type Folio struct {
	FolioID       string        `json:"folioId"`
	ReservationID string        `json:"reservationId"`
	PropertyID    string        `json:"propertyId"`
	RoomNumber    string        `json:"roomNumber"`
	GuestName     string        `json:"guestName"`
	Status        string        `json:"status"`
	Charged       Minor         `json:"charged"`
	Paid          Minor         `json:"paid"`
	Balance       Minor         `json:"balance"`
	UpdatedAt     bff.Timestamp `json:"updatedAt"`
}

// account is what a party was charged and has paid. What an agency or the
// platform sold is paid in advance.
func (s *Sim) account(res Reservation) (charged, paid bff.Money) {
	charged = res.stay.price()
	paid.Currency = charged.Currency
	if res.Channel == "agency" || res.Channel == "melmastoon" {
		paid.Minor = charged.Minor
	}
	s.staff.mu.Lock()
	defer s.staff.mu.Unlock()
	charged.Minor += s.staff.folios[res.FolioID]
	if res.Status == "checked_out" {
		paid.Minor = charged.Minor
	}
	return charged, paid
}

func (s *Sim) folio(c *call, res Reservation) Folio {
	charged, paid := s.account(res)
	f := Folio{
		FolioID: c.speaks.id(res.FolioID), ReservationID: c.speaks.id(res.ReservationID), PropertyID: c.speaks.id(res.PropertyID), RoomNumber: res.RoomNumber,
		GuestName: res.GuestName, Status: map[string]string{"checked_in": "open", "checked_out": "settled"}[res.Status],
		Charged: minor(charged), Paid: minor(paid), Balance: minor(bff.Money{Minor: charged.Minor - paid.Minor, Currency: charged.Currency}),
	}
	switch {
	case res.CheckedOutAt != nil:
		f.UpdatedAt = *res.CheckedOutAt
	case res.CheckedInAt != nil:
		f.UpdatedAt = *res.CheckedInAt
	}
	return f
}

func (s *Sim) folioRoutes() {
	s.handle("billing", "GET /api/v1/properties/{propertyId}/folios", s.folios)
	s.handle("billing", "GET /api/v1/folios/{folioId}", func(c *call) (any, error) {
		res, err := s.findFolio(c)
		if err != nil {
			return nil, err
		}
		return s.folio(c, res), nil
	})
	s.handle("billing", "GET /api/v1/properties/{propertyId}/cash-drawer", func(c *call) (any, error) {
		p, day, err := s.houseDay(c)
		if err != nil {
			return nil, err
		}
		return s.drawer(c, p, day), nil
	})
	s.mutation("billing", "POST /api/v1/folios/{folioId}/charges", func(c *call) (any, error) { return s.post(c, 1) })
	s.mutation("billing", "POST /api/v1/folios/{folioId}/refunds", func(c *call) (any, error) { return s.post(c, -1) })
}

// folios lists the accounts of a day, the open ones unless said.
func (s *Sim) folios(c *call) (any, error) {
	p, day, err := s.houseDay(c)
	if err != nil {
		return nil, err
	}
	due := bff.Money{Currency: bff.Currency(p.country.currency)}
	counts := map[string]int{"open": 0, "settled": 0}
	items := []Folio{}
	for _, r := range s.book(p, day, s.houseTime(p, c.now)) {
		f := s.folio(c, r)
		if f.Status == "" { // they have not come, or will not
			continue
		}
		if counts[f.Status]++; f.Status == "open" {
			due.Minor += f.Balance.AmountMinor
		}
		if c.wanted(f.Status, "open") {
			items = append(items, f)
		}
	}
	out, err := pageOf(s, c, p, day, items)
	out.Counts = counts
	return struct {
		page[Folio]
		BalanceDue Minor `json:"balanceDue"`
	}{out, minor(due)}, err
}

// Drawer is the cash of a house on a day.
type Drawer struct {
	PropertyID string        `json:"propertyId"`
	Date       bff.Date      `json:"date"`
	AsOf       bff.Timestamp `json:"asOf"`
	Status     string        `json:"status"`
	OpenedBy   string        `json:"openedBy"`
	Opening    Minor         `json:"opening"`
	Taken      Minor         `json:"taken"`
	Expected   Minor         `json:"expected"`
}

// drawer fills with the parties that pay in cash when they leave.
func (s *Sim) drawer(c *call, p *property, day bff.Date) Drawer {
	rnd := stream{mix(p.seed, kindFolio, uint64(day))} //nolint:gosec // a date is not negative
	cur := bff.Currency(p.country.currency)
	opening, taken := convert(int64(rnd.between(5_000, 20_000)), cur), bff.Money{Currency: cur}
	for _, r := range only(s.book(p, day, s.houseTime(p, c.now)), departing(day)) {
		if r.Status == "checked_out" && r.Channel == "direct" {
			charged, _ := s.account(r)
			taken.Minor += charged.Minor
		}
	}
	s.staff.mu.Lock()
	taken.Minor += s.staff.drawers[p.id+day.String()]
	s.staff.mu.Unlock()
	return Drawer{
		PropertyID: c.speaks.id(p.id), Date: day, AsOf: bff.At(s.houseTime(p, c.now)), Status: "open", OpenedBy: c.speaks.id(p.tenant.staffer("front_desk")),
		Opening: minor(opening), Taken: minor(taken), Expected: minor(bff.Money{Minor: opening.Minor + taken.Minor, Currency: cur}),
	}
}

// putCash adds cash to the drawer of the path.
func (s *Sim) putCash(c *call) (any, error) {
	var req struct {
		AmountMinor int64 `json:"amountMinor"`
	}
	if err := decodeStrict(c.body, &req); err != nil {
		return nil, err
	}
	p, err := s.house(c)
	if err != nil {
		return nil, err
	}
	if req.AmountMinor <= 0 || req.AmountMinor > maxPosting {
		return nil, refused(bff.FieldErrors{{Field: "amountMinor", Code: bff.FieldRange}})
	}
	day := dateOf(s.houseTime(p, c.now))
	s.staff.mu.Lock()
	bound(s.staff.drawers)
	s.staff.drawers[p.id+day.String()] += req.AmountMinor
	s.staff.mu.Unlock()
	c.speaks = dialectOf("billing")
	s.tell(c, "melmastoon.billing.cash_drawer", p, map[string]any{"change": "cash_in", "date": day})
	return s.drawer(c, p, day), nil
}

func (s *Sim) findFolio(c *call) (Reservation, error) {
	return s.findParty(c, bff.PrefixFolio, "folio")
}

const maxPosting = 1e13

// post writes a charge or a refund on a folio.
func (s *Sim) post(c *call, sign int64) (any, error) {
	res, err := s.findFolio(c)
	if err != nil {
		return nil, err
	}
	var req struct {
		Amount      Minor  `json:"amount"`
		Description string `json:"description"`
	}
	if err := c.decode(&req); err != nil {
		return nil, err
	}
	var bad bff.FieldErrors
	bad.Check(req.Amount.AmountMinor > 0 && req.Amount.AmountMinor < maxPosting, "amount.amountMinor", bff.FieldRange)
	bad.Check(req.Amount.Currency == res.stay.house.country.currency, "amount.currency", bff.FieldConflict)
	bad.Check(len(req.Description) <= 200, "description", bff.FieldLength)
	if err := refused(bad); err != nil {
		return nil, err
	}
	if res.Status != "checked_in" {
		return nil, &failure{status: 409, code: "INVALID_STATE", message: "the folio is not open"}
	}
	s.staff.mu.Lock()
	bound(s.staff.folios)
	s.staff.folios[res.FolioID] += sign * req.Amount.AmountMinor
	s.staff.mu.Unlock()
	s.tellFolio(c, res, map[int64]string{1: "charged", -1: "refunded"}[sign])
	f := s.folio(c, res)
	return created{map[string]any{
		"entryId": bff.NewID(prefixEntry, c.now).UUID(), "folioId": f.FolioID, "reservationId": f.ReservationID,
		"amount": req.Amount, "balance": f.Balance, "postedAt": bff.At(c.now),
	}}, nil
}

func (s *Sim) tellFolio(c *call, res Reservation, change string) {
	billing := *c
	billing.speaks = dialectOf("billing")
	s.tell(&billing, "melmastoon.billing.folio", res.stay.house, map[string]any{
		"folioId": billing.speaks.id(res.FolioID), "reservationId": billing.speaks.id(res.ReservationID), "change": change,
	})
}
