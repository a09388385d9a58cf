package sim

import (
	"time"

	"melmastoon.ghasi.io/bff"
)

// fxMillionths says how many millionths of a currency one US dollar buys. The
// table never moves: a price differs between two runs only by its date.
var fxMillionths = map[bff.Currency]int64{
	bff.USD: 1_000_000, bff.AFN: 70_250_000, bff.EUR: 920_000, bff.IRR: 580_000_000_000,
	bff.PKR: 278_500_000, bff.AED: 3_672_500, bff.GBP: 790_000,
}

// convert turns US cents into whole minor units of a currency, half up. (All
// currencies of the platform have two minor digits.)
func convert(cents int64, to bff.Currency) bff.Money {
	return bff.Money{Minor: (cents*fxMillionths[to] + 500_000) / 1_000_000, Currency: to}
}

func micros(m bff.Money) string {
	s, err := m.Micros()
	if err != nil {
		panic(err) // a fixed table and bounded parties keep every amount in range
	}
	return s
}

// nightCents is what one night costs a party, in US cents: the house's base,
// moved by weekend, season and day, times the rooms, plus those who sleep
// beyond two adults a room.
func (p *property) nightCents(night bff.Date, party bff.Occupancy) int64 {
	rate := p.baseCents
	weekday := time.Weekday((night + 4) % 7) // 1970-01-01 was a Thursday
	weekend := weekday == time.Thursday || weekday == time.Friday
	if p.country.fxBarred != "" { // Europe rests on other days
		weekend = weekday == time.Friday || weekday == time.Saturday
	}
	if weekend {
		rate = rate * 115 / 100
	}
	_, month, day := night.Time().Date()
	rate = rate * season(p.country.code, month, day) / 100
	rate = rate * (94 + int64(mix(p.seed, kindRate, uint64(night))%13)) / 100 //nolint:gosec // a date is not negative

	percent := int64(100 * party.Rooms)
	percent += 30 * int64(max(0, party.Adults-2*party.Rooms))
	if party.ChildrenAges == nil {
		percent += 15 * int64(party.Children)
	}
	for _, age := range party.ChildrenAges { // the smallest sleep free
		if age >= 6 {
			percent += 15
		}
		if age >= 13 {
			percent += 10
		}
	}
	return rate * percent / 100
}

// season is the percentage of the year's time: Nawruz fills every house of the
// region, summer the mountains, winter the Gulf.
func season(country string, m time.Month, day int) int64 {
	if m == time.March && day >= 18 && country != "DE" && country != "GB" && country != "FR" && country != "AT" {
		return 135
	}
	switch {
	case country == "AE" && (m >= time.November || m <= time.March):
		return 130
	case country == "AE" && m >= time.June && m <= time.August:
		return 72
	case m >= time.June && m <= time.September:
		return 112
	case m == time.December || m <= time.February:
		return 90
	}
	return 100
}

// roomsLeft is how many rooms a house can still sell for a night. About one
// night in thirty is sold out.
func (p *property) roomsLeft(night bff.Date) int {
	h := mix(p.seed, kindRooms, uint64(night)) //nolint:gosec // a date is not negative
	if h%30 == 0 {
		return 0
	}
	return 1 + int(h>>8%uint64(p.rooms)) //nolint:gosec // a small positive count
}

// fits reports whether the party can sleep in the rooms it asks for.
func (p *property) fits(party bff.Occupancy) bool {
	adults, heads := 3*party.Rooms, 5*party.Rooms
	if p.roomTypes == 4 {
		adults, heads = 4*party.Rooms, 6*party.Rooms
	}
	return party.Rooms <= p.rooms && party.Adults <= adults && party.Adults+party.Children <= heads
}

// sells reports whether the house can take the party on every night.
func (p *property) sells(stay bff.StayDates, party bff.Occupancy) bool {
	if !p.fits(party) {
		return false
	}
	for night := stay.CheckIn; night < stay.CheckOut; night++ {
		if p.roomsLeft(night) < party.Rooms {
			return false
		}
	}
	return true
}

// cheapestCents is the cheapest night of a stay.
func (p *property) cheapestCents(stay bff.StayDates, party bff.Occupancy) int64 {
	least := p.nightCents(stay.CheckIn, party)
	for night := stay.CheckIn + 1; night < stay.CheckOut; night++ {
		least = min(least, p.nightCents(night, party))
	}
	return least
}

// quoteCurrency is the currency that the house answers in, and why.
func (p *property) quoteCurrency(want bff.Currency) (got bff.Currency, policy string) {
	own := bff.Currency(p.country.currency)
	switch {
	case want == own:
		return own, "tenant"
	case string(want) == p.country.fxBarred:
		return own, "fallback"
	default:
		return want, "user-preferred"
	}
}
