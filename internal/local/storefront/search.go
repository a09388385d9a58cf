package storefront

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
)

// search is the body of a search, as web/storefront/query.ts makes it of an address. What
// is wrong in an address is refused by the service, and left to the script.
type search struct {
	Geo       map[string]any `json:"geo"`
	Dates     bff.StayDates  `json:"dates"`
	Occupancy map[string]any `json:"occupancy"`
	Filters   map[string]any `json:"filters,omitempty"`
	Page      map[string]any `json:"page"`
	SortKey   string         `json:"sortKey,omitempty"`
	Locale    bff.Locale     `json:"locale"`
	Currency  string         `json:"currency,omitempty"`

	Where, country string
	Children       int
	unsaid         bool // a price in the session's currency, which only the script knows
}

const (
	usualCity, usualCountry = "Kabul", "AF"
	daysAhead, usualNights  = 14, 3
	pageSize                = 10
)

func readSearch(q url.Values, l bff.Locale, now time.Time) search {
	s := search{Where: q.Get("where"), country: q.Get("country"), SortKey: q.Get("sort"), Locale: l, Currency: q.Get("currency"), Filters: map[string]any{}}
	s.Page = map[string]any{"limit": pageSize}
	at, box := numbers(q["at"]), numbers(q["box"])
	switch {
	case len(at) == 3:
		s.Geo = map[string]any{"mode": "point", "point": map[string]float64{"lat": at[0], "lng": at[1], "radiusKm": at[2]}}
	case len(box) == 4:
		s.Geo = map[string]any{"mode": "bounding-box", "boundingBox": map[string]float64{"swLat": box[0], "swLng": box[1], "neLat": box[2], "neLng": box[3]}}
	case q.Get("city") == "" && q.Get("region") != "":
		s.Geo = map[string]any{"mode": "region", "region": q.Get("region")}
	default:
		s.Geo = map[string]any{"mode": "city", "city": cmp.Or(q.Get("city"), s.Where, usualCity)}
	}
	if s.Where == "" {
		s.country = cmp.Or(s.country, usualCountry)
	}
	if s.country != "" {
		s.Geo["country"] = s.country
	}
	today := bff.DateOf(now.Add(kabul))
	s.Dates.CheckIn, s.Dates.CheckOut = today+daysAhead, 0
	if d, err := bff.ParseDate(q.Get("in")); err == nil && d >= today {
		s.Dates.CheckIn = d
	}
	if d, err := bff.ParseDate(q.Get("out")); err == nil {
		s.Dates.CheckOut = d
	}
	if n := s.Dates.Nights(); n <= 0 || n > 365 {
		s.Dates.CheckOut = s.Dates.CheckIn + usualNights
	}
	ages := words(q["ages"])
	s.Children = count(q.Get("children"), len(ages))
	s.Occupancy = map[string]any{"adults": count(q.Get("adults"), 2), "rooms": max(1, count(q.Get("rooms"), 1)), "children": s.Children}
	if known := numbers(q["ages"]); len(ages) > 0 && len(known) == len(ages) && len(ages) == s.Children {
		s.Occupancy["childrenAges"] = known
	}
	s.filter(q)
	return s
}

func (s *search) filter(q url.Values) {
	for member, name := range map[string]string{"amenities": "f", "propertyType": "kind"} {
		if chosen := words(q[name]); len(chosen) > 0 {
			s.Filters[member] = chosen
		}
	}
	if stars := numbers(q["stars"]); len(stars) > 0 {
		s.Filters["starRating"] = stars
	}
	if rating := numbers(q["rating"]); len(rating) == 1 {
		s.Filters["guestRatingMin"] = rating[0]
	}
	if most := numbers(q["most"]); len(most) == 1 {
		s.unsaid = s.Currency == ""
		s.Filters["priceRange"] = map[string]any{"min": 0, "max": most[0], "currency": s.Currency}
	}
	if q.Get("free") == "1" {
		s.Filters["cancellationFlexibility"] = "free"
	}
}

// kabul is how far the clocks of most houses are ahead of Greenwich.
const kabul = 4*time.Hour + 30*time.Minute

func words(values []string) []string {
	all := strings.FieldsFunc(strings.Join(values, ","), func(r rune) bool { return r == ',' })
	return all[:min(len(all), 30)]
}

func numbers(values []string) []float64 {
	var all []float64
	for _, w := range words(values) {
		n, err := strconv.ParseFloat(w, 64)
		if err != nil {
			return nil
		}
		all = append(all, n)
	}
	return slices.Clip(all)
}

func count(text string, otherwise int) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 30 {
		return otherwise
	}
	return n
}
