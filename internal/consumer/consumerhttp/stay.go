package consumerhttp

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

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

// readStayAhead reads a stay that a guest can still begin: one from yesterday on,
// because it is yesterday somewhere for as long as it is today in UTC.
func readStayAhead(in *web.Input, now time.Time) bff.StayDates {
	stay := readStay(in)
	if stay.CheckIn != 0 && stay.CheckIn < bff.DateOf(now)-1 {
		in.Refuse("checkIn", bff.FieldPast)
	}
	return stay
}

// readPlace reads the name of a place. One without a letter or digit in it names
// nothing, and some grow when they are folded: "ﷺ" has eighteen characters then.
func readPlace(in *web.Input, name string, most int) string {
	s := in.String(name, most)
	if s != "" && !isPlace(s) {
		in.Refuse(name, bff.FieldFormat)
	} else if utf8.RuneCountInString(bff.FoldPlace(s)) > most {
		in.Refuse(name, bff.FieldLength)
	}
	return s
}

func isPlace(s string) bool {
	return strings.ContainsFunc(bff.FoldPlace(s), func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })
}

func isCountry(s string) bool {
	if len(s) != 2 {
		return false
	}
	for _, c := range []byte(upper(s)) {
		if c < 'A' || c > 'Z' {
			return false
		}
	}
	return true
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
		in.Offer("currency", bff.Texts(bff.Currencies()))
		return ""
	}
	return c
}
