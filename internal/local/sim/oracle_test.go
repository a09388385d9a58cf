package sim

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
)

// randomQuery asks for something that a guest could ask for.
func randomQuery(r *rand.Rand, ds *dataset) Query {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	maybe := func() bool { return r.IntN(4) == 0 }
	c := ds.cities[r.IntN(len(ds.cities))]
	if maybe() {
		c = ds.cities[0]
	}
	in := bff.Date(20577 + r.IntN(300))
	q := Query{
		Dates:     bff.StayDates{CheckIn: in, CheckOut: in + bff.Date(1+r.IntN(6))},
		Occupancy: bff.Occupancy{Adults: 1 + r.IntN(4), Children: r.IntN(3), Rooms: 1 + r.IntN(2)},
		SortKey:   pick("", "recommended", "price-asc", "price-desc", "rating-desc", "distance-asc"),
		Currency:  string(bff.Currencies()[r.IntN(7)]),
		Page:      Page{Limit: 200},
	}
	switch q.Geo.Mode = pick("city", "region", "point", "bounding-box"); q.Geo.Mode {
	case "city":
		q.Geo.City = pick(c.names.En, c.names.Ps, c.names.Fa, strings.ToUpper(c.names.En))
		if maybe() {
			q.Geo.Country = pick(c.country, "AF")
		}
	case "region":
		q.Geo.Region = pick(c.region.En, c.region.Ps, c.region.Fa)
	case "point":
		q.Geo.Point = &Circle{c.centre.Lat + r.Float64()/10, c.centre.Lng, []float64{0.5, 3, 25, 300}[r.IntN(4)]}
	case "bounding-box":
		d := []float64{0.02, 0.1, 3}[r.IntN(3)]
		q.Geo.BoundingBox = &BoundingBox{c.centre.Lat - d, c.centre.Lng - d, c.centre.Lat + d, c.centre.Lng + d}
		if maybe() { // eastward over the antimeridian
			q.Geo.BoundingBox = &BoundingBox{10, c.centre.Lng, 60, -170 + r.Float64()*190}
		}
	}
	f := &q.Filters
	if maybe() {
		cur := bff.Currencies()[r.IntN(7)]
		lo := float64(convert(int64(r.IntN(6000)), cur).Minor / 100)
		f.PriceRange = &PriceRange{Min: lo, Currency: string(cur)}
		if !maybe() {
			f.PriceRange.Max = new(lo + float64(convert(int64(1000+r.IntN(9000)), cur).Minor/100))
		}
	}
	for range r.IntN(4) - 1 {
		f.Amenities = append(f.Amenities, ds.amenities[r.IntN(len(ds.amenities))].code)
	}
	if maybe() {
		f.StarRating = []int{1 + r.IntN(5), 1 + r.IntN(5)}
	}
	if maybe() {
		f.GuestRatingMin = float64(r.IntN(95)) / 10
	}
	if maybe() {
		f.PropertyType = []string{pick("hotel", "guesthouse", "hostel", "apartment"), "hostel"}
	}
	f.CancellationFlexibility = pick("", "", "any", "partial", "free")
	if maybe() && len(c.neighbourhoods) > 0 {
		n := c.neighbourhoods[r.IntN(len(c.neighbourhoods))]
		f.Neighbourhoods = []string{pick(n.En, n.Ps, n.Fa)}
	}
	return q
}

// oracle answers a query the slow way, from the listings as they go over the
// wire, sharing neither index nor filter with the search.
func oracle(s *Sim, all []Listing, q Query) []string {
	type found struct {
		id                string
		price, rating, km float64
		score             int
	}
	var out []found
	folded := map[string]string{}
	key := func(s string) string {
		k, ok := folded[s]
		if !ok {
			k = foldKey(s)
			folded[s] = k
		}
		return k
	}
	same := func(a string, names Names) bool {
		return slices.ContainsFunc(names.sliced(), func(n string) bool { return key(n) == key(a) })
	}
	var middle Point // of the region: the mean of its cities
	var towns []*city
	for _, p := range s.data.properties {
		if q.Geo.Mode == "region" && same(q.Geo.Region, p.city.region) && !slices.Contains(towns, p.city) {
			towns = append(towns, p.city)
		}
	}
	for _, c := range towns {
		middle.Lat, middle.Lng = middle.Lat+c.centre.Lat, middle.Lng+c.centre.Lng
	}
	middle.Lat, middle.Lng = middle.Lat/float64(len(towns)), middle.Lng/float64(len(towns))
	for i, p := range s.data.properties {
		l := all[i]
		if s.state.suspended(l.TenantID) { // all of them long ago, in these tests
			continue
		}
		x := found{id: l.PropertyID, score: p.score, km: arc(l.Geo, p.city.centre)}
		ok := q.Geo.Country == "" || q.Geo.Country == l.Country
		switch g := q.Geo; g.Mode {
		case "city":
			ok = ok && same(g.City, p.city.names)
		case "region":
			ok = ok && same(g.Region, p.city.region)
			x.km = arc(l.Geo, middle)
		case "point":
			x.km = arc(l.Geo, Point{g.Point.Lat, g.Point.Lng})
			ok = ok && x.km <= g.Point.RadiusKm
		case "bounding-box":
			b := *g.BoundingBox
			if b.NeLng < b.SwLng {
				b.NeLng += 360
			}
			inLng := l.Geo.Lng >= b.SwLng && l.Geo.Lng <= b.NeLng || l.Geo.Lng+360 >= b.SwLng && l.Geo.Lng+360 <= b.NeLng
			ok = ok && l.Geo.Lat >= b.SwLat && l.Geo.Lat <= b.NeLat && inLng
			mid := (b.SwLng + b.NeLng) / 2
			if mid > 180 {
				mid -= 360
			}
			x.km = arc(l.Geo, Point{(b.SwLat + b.NeLat) / 2, mid})
		}
		f := q.Filters
		for _, a := range f.Amenities {
			ok = ok && slices.Contains(l.Amenities, a)
		}
		ok = ok && (len(f.StarRating) == 0 || slices.Contains(f.StarRating, l.StarRating))
		if l.GuestRating != nil {
			x.rating = l.GuestRating.Value
		}
		ok = ok && x.rating >= f.GuestRatingMin
		ok = ok && (len(f.PropertyType) == 0 || slices.Contains(f.PropertyType, l.PropertyType))
		switch f.CancellationFlexibility {
		case "free":
			ok = ok && l.CancellationFlexibility == "free"
		case "partial":
			ok = ok && l.CancellationFlexibility != "none"
		}
		ok = ok && (len(f.Neighbourhoods) == 0 || slices.ContainsFunc(f.Neighbourhoods, func(n string) bool { return same(n, p.neighbourhood) }))
		if !ok || !p.fits(q.Occupancy) {
			continue
		}
		x.price = math.Inf(1)
		var cents int64
		for d := q.Dates.CheckIn; d < q.Dates.CheckOut; d++ {
			ok = ok && p.roomsLeft(d) >= q.Occupancy.Rooms
			if c := p.nightCents(d, q.Occupancy); float64(c) < x.price {
				x.price, cents = float64(c), c
			}
		}
		if r := f.PriceRange; r != nil {
			major := float64(convert(cents, bff.Currency(r.Currency)).Minor) / 100
			ok = ok && major >= r.Min && (r.Max == nil || major <= *r.Max)
		}
		if ok {
			out = append(out, x)
		}
	}
	slices.SortStableFunc(out, func(a, b found) int {
		var d float64
		switch q.SortKey {
		case "price-asc":
			d = a.price - b.price
		case "price-desc":
			d = b.price - a.price
		case "rating-desc":
			d = b.rating - a.rating
		case "distance-asc":
			d = a.km - b.km
		default:
			d = float64(b.score - a.score)
		}
		switch {
		case d < -1e-9:
			return -1
		case d > 1e-9:
			return 1
		}
		return strings.Compare(a.id, b.id)
	})
	ids := []string{}
	for _, x := range out {
		ids = append(ids, x.id)
	}
	return ids
}

func everyListing(s *Sim) []Listing {
	var all []Listing
	for _, p := range s.data.properties {
		all = append(all, s.listing(p, ""))
	}
	return all
}

// arc is the distance by the spherical law of cosines in vectors.
func arc(a, b Point) float64 {
	u, v := onSphere(a.Lat, a.Lng), onSphere(b.Lat, b.Lng)
	c := u.cross(v)
	return earthKm * math.Atan2(math.Sqrt(c.dot(c)), u.dot(v))
}

type vec3 [3]float64

func (a vec3) dot(b vec3) float64 { return a[0]*b[0] + a[1]*b[1] + a[2]*b[2] }

func (a vec3) cross(b vec3) vec3 {
	return vec3{a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]}
}

func onSphere(lat, lng float64) vec3 {
	sinLat, cosLat := math.Sincos(lat * math.Pi / 180)
	sinLng, cosLng := math.Sincos(lng * math.Pi / 180)
	return vec3{cosLat * cosLng, cosLat * sinLng, sinLat}
}

func TestSearchAgainstOracle(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	r := rand.New(rand.NewPCG(1, 2))
	found, empty := 0, 0
	all := everyListing(w.Sim)
	const queries = 100
	for range queries {
		q := randomQuery(r, w.data)
		if bad := q.validate(); len(bad) > 0 {
			t.Fatalf("%+v: %v", q, bad)
		}
		got := []string{}
		for _, h := range w.find(&q, testNow) {
			got = append(got, h.id)
		}
		want := oracle(w.Sim, all, q)
		if diff := cmp.Diff(want, got); diff != "" {
			b, _ := json.Marshal(q)
			t.Fatalf("%s: (-want +got)\n%s", b, diff)
		}
		if len(got) > 0 {
			found++
		} else {
			empty++
		}
	}
	if found < queries/3 {
		t.Errorf("only %d queries found something, %d did not", found, empty)
	}
}
