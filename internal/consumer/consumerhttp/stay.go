package consumerhttp

import (
	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/web"
)

// readStay reads checkIn and checkOut, both required.
func readStay(in *web.Input) bff.StayDates {
	in.Require("checkIn", "checkOut")
	from, ok1 := in.Date("checkIn")
	to, ok2 := in.Date("checkOut")
	stay := bff.StayDates{CheckIn: from, CheckOut: to}
	if ok1 && ok2 {
		in.RefuseAll(stay.Validate())
	}
	return stay
}

// readOccupancy reads the party. Adults and rooms must be given when required.
func readOccupancy(in *web.Input, required bool) bff.Occupancy {
	if required {
		in.Require("adults", "rooms")
	}
	def := bff.DefaultOccupancy()
	o := bff.Occupancy{
		Adults:       in.Int("adults", def.Adults, 1, bff.MaxAdults),
		Children:     in.Int("children", 0, 0, bff.MaxChildren),
		Rooms:        in.Int("rooms", def.Rooms, 1, bff.MaxRooms),
		ChildrenAges: in.Ints("childrenAges", bff.MaxChildren, 0, bff.MaxChildAge),
	}
	if o.ChildrenAges != nil && len(o.ChildrenAges) != o.Children {
		in.Refuse("childrenAges", bff.FieldCount)
	}
	return o
}

// readCurrency reads the member "currency"; "" if absent or not supported.
func readCurrency(in *web.Input) bff.Currency {
	s := in.String("currency", 64)
	if s == "" {
		return ""
	}
	c, err := bff.ParseCurrency(s)
	if err != nil {
		in.Refuse("currency", bff.FieldUnsupported)
		return ""
	}
	return c
}
