package sim

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

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

func TestSearchAgainstOracle(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	r := rand.New(rand.NewPCG(1, 2))
	found, empty := 0, 0
	all := everyListing(w.Sim)
	for range 300 {
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
	if found < 100 {
		t.Errorf("only %d queries found something, %d did not", found, empty)
	}
}

type searchAnswer struct {
	Items            []Listing       `json:"items"`
	Total            int             `json:"total"`
	AIProvenance     json.RawMessage `json:"aiProvenance"`
	QueryRewriteHint string          `json:"queryRewriteHint"`
}

func kabulQuery() Query {
	in := bff.DateOf(testNow) + 30
	return Query{
		Geo: Geo{Mode: "city", City: "Kabul"}, Dates: bff.StayDates{CheckIn: in, CheckOut: in + 3},
		Occupancy: bff.DefaultOccupancy(), Page: Page{Limit: 50}, Locale: "en", Currency: "USD",
	}
}

func TestSearchPagesCoverEverythingOnce(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for _, sort := range []string{"recommended", "price-asc", "price-desc", "rating-desc", "distance-asc"} {
		q := kabulQuery()
		q.SortKey = sort
		q.Page.Limit = 37
		seen := map[string]bool{}
		var total int
		for {
			var page searchAnswer
			w.want(200, "POST", "/search-aggregation/api/v1/search/listings", q, &page)
			total = page.Total
			for _, l := range page.Items {
				if seen[l.PropertyID] {
					t.Fatalf("%s: %s twice", sort, l.PropertyID)
				}
				seen[l.PropertyID] = true
			}
			if len(page.Items) == 0 {
				break
			}
			q.Page.Offset += len(page.Items)
		}
		if len(seen) != total || total < 150 {
			t.Errorf("%s: saw %d of %d", sort, len(seen), total)
		}
	}
}

func TestSearchListingOnTheWire(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	q := kabulQuery()
	q.Geo = Geo{Mode: "point", Point: &Circle{34.5281, 69.1723, 5}}
	q.SortKey = "distance-asc"
	var page searchAnswer
	w.want(200, "POST", "/search-aggregation/api/v1/search/listings", q, &page)
	last := 0.0
	for _, l := range page.Items {
		if l.DistanceKm == nil || *l.DistanceKm < last || *l.DistanceKm > 5 {
			t.Fatalf("distance %v after %v", l.DistanceKm, last)
		}
		last = *l.DistanceKm
		want := w.listing(w.data.propertyByID[l.PropertyID], w.url)
		want.DistanceKm = l.DistanceKm
		if diff := cmp.Diff(want, l); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
	}
	// The picture that it names is there.
	media := strings.TrimPrefix(page.Items[0].Thumbnail.URL, w.url)
	if status, err := w.do(t.Context(), "GET", media, nil, nil); status != 200 || err != nil {
		t.Errorf("thumbnail: %d %v", status, err)
	}
	if page.AIProvenance != nil {
		t.Error("ranking provenance on a plain sort")
	}
	var none searchAnswer
	q = kabulQuery()
	q.Geo.City = "Kabull"
	w.want(200, "POST", "/search-aggregation/api/v1/search/listings", q, &none)
	if none.Total != 0 || none.Items == nil || none.QueryRewriteHint != "Kabul" {
		t.Errorf("%+v", none)
	}
}

func TestSearchRefuses(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	const path = "/search-aggregation/api/v1/search/listings"
	for name, tc := range map[string]struct {
		edit func(*Query)
		want string
	}{
		"mode":     {func(q *Query) { q.Geo.Mode = "moon" }, "geo.mode"},
		"point":    {func(q *Query) { q.Geo = Geo{Mode: "point"} }, "geo.point"},
		"box":      {func(q *Query) { q.Geo = Geo{Mode: "bounding-box", BoundingBox: &BoundingBox{SwLat: 99}} }, "geo.boundingBox.swLat"},
		"dates":    {func(q *Query) { q.Dates.CheckOut = q.Dates.CheckIn }, "dates.checkOut"},
		"adults":   {func(q *Query) { q.Occupancy.Adults = 0 }, "occupancy.adults"},
		"limit":    {func(q *Query) { q.Page.Limit = 201 }, "page.limit"},
		"sort":     {func(q *Query) { q.SortKey = "luck" }, "sortKey"},
		"currency": {func(q *Query) { q.Currency = "XXX" }, "currency"},
		"price":    {func(q *Query) { q.Filters.PriceRange = &PriceRange{Min: 9, Max: new(1.0), Currency: "USD"} }, "filters.priceRange.max"},
	} {
		q := kabulQuery()
		tc.edit(&q)
		var p problem
		w.want(400, "POST", path, q, &p)
		if !slices.Contains(p.fields(), tc.want) {
			t.Errorf("%s: %v", name, p.fields())
		}
	}
	w.want(400, "POST", path, `{"geo":`, nil)
	w.want(400, "POST", path, `{"dates":{"checkIn":"tomorrow"}}`, nil)
	w.want(413, "POST", path, strings.Repeat(" ", maxBody+1), nil)
	w.want(404, "GET", "/search-aggregation/api/v1/properties/ppt_01H8YN7QV4D8KZ4F8Y5CK4MV3D", nil, nil)
	w.want(400, "GET", "/search-aggregation/api/v1/properties/nonsense", nil, nil)
}

func TestMapPagesTheSameHouses(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	q := kabulQuery()
	q.Page = Page{Limit: 200}
	seen := map[string]bool{}
	var total int
	for range 3 {
		var out struct {
			Pins  []Pin
			Total int
		}
		w.want(200, "POST", "/search-aggregation/api/v1/search/map", q, &out)
		for _, p := range out.Pins {
			seen[p.PropertyID] = true
			if p.BrandColor == "" || p.TenantID == "" {
				t.Fatalf("%+v", p)
			}
		}
		total = out.Total
		q.Page.Offset += 200
	}
	if len(seen) != total || total != len(oracle(w.Sim, everyListing(w.Sim), q)) {
		t.Errorf("%d pins of %d", len(seen), total)
	}
}

func TestDetailSimilarAvailability(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	p := w.data.byCity["herat"][3]
	base := "/search-aggregation/api/v1/properties/" + p.id
	var one struct {
		PropertyID, TenantID, TenantSlug string
		Listing                          Listing
		Popularity                       struct{ BookedLast24h, ViewedLast1h int }
		ReviewSummary                    GuestRating
	}
	w.want(200, "GET", base, nil, &one)
	if one.TenantID != p.tenant.id || one.TenantSlug != p.tenant.slug || one.Listing.PropertyID != p.id {
		t.Errorf("%+v", one)
	}
	var sim searchAnswer
	w.want(200, "GET", base+"/similar?limit=4", nil, &sim)
	if len(sim.Items) != 4 {
		t.Fatalf("%d similar", len(sim.Items))
	}
	for _, l := range sim.Items {
		if l.City != "Herat" || l.PropertyID == p.id {
			t.Errorf("similar: %s in %s", l.PropertyID, l.City)
		}
	}
	var av struct {
		Days []struct {
			Date            bff.Date
			Available       bool
			RoomsLeft       int
			CheapestNightly string
		}
	}
	w.want(200, "GET", base+"/availability?from=2026-06-01&to=2026-08-01&adults=2&rooms=2&currency=EUR", nil, &av)
	if len(av.Days) != 61 || av.Days[0].Date.String() != "2026-06-01" {
		t.Fatalf("%d days", len(av.Days))
	}
	for _, d := range av.Days {
		if d.Available != (d.RoomsLeft >= 2) || d.Available == (d.CheapestNightly == "") {
			t.Errorf("%+v", d)
		}
	}
	w.want(400, "GET", base+"/availability?from=2026-06-01", nil, nil)
	w.want(400, "GET", base+"/availability?from=2026-06-02&to=2026-06-01", nil, nil)
}

func TestFacetsCountTruly(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for _, region := range []string{"", "Balkh Province", "ولایت هرات"} {
		var out struct{ Facets []facet }
		w.want(200, "GET", "/search-aggregation/api/v1/facets?country=AF&region="+url.QueryEscape(region), nil, &out)
		want := map[string]int{}
		houses := 0
		for _, p := range w.data.properties {
			if p.country.code != "AF" || w.state.suspended(p.tenant.id) || region != "" && !slices.Contains(p.regionKeys, foldKey(region)) {
				continue
			}
			houses++
			l := w.listing(p, "")
			want["propertyType/"+l.PropertyType]++
			want["cancellationFlexibility/"+l.CancellationFlexibility]++
			want["city/"+l.City]++
			want["neighbourhoods/"+l.Neighbourhood]++
			if l.StarRating > 0 {
				want[fmt.Sprint("starRating/", l.StarRating)]++
			}
			for _, a := range l.Amenities {
				want["amenities/"+a]++
			}
			for n := 6; l.GuestRating != nil && n <= 9; n++ {
				if l.GuestRating.Value >= float64(n) {
					want[fmt.Sprint("guestRatingMin/", n)]++
				}
			}
		}
		got := map[string]int{}
		for _, f := range out.Facets {
			for _, v := range f.Values {
				if v.Label.Values.Ps == "" {
					t.Errorf("%s/%s has no Pashto label", f.Key, v.Value)
				}
				if v.Count > 0 {
					got[f.Key+"/"+v.Value] = v.Count
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || houses == 0 {
			t.Errorf("%q: (-want +got)\n%s", region, diff)
		}
	}
	w.want(404, "GET", "/search-aggregation/api/v1/facets?country=XX", nil, nil)
	w.want(400, "GET", "/search-aggregation/api/v1/facets", nil, nil)
}

func TestSuggest(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for _, tc := range []struct{ q, kind, want string }{
		{"kab", "city", "Kabul"},
		{"كاب", "city", "Kabul"},
		{"مزار شريف", "city", "Mazar-i-Sharif"},
		{"مزار\u200cشریف", "city", "Mazar-i-Sharif"},
		{"sharif", "city", "Mazar-i-Sharif"},
		{"قندهار", "city", "Kandahar"},
		{"babur", "landmark", "Gardens of Babur"},
		{"razavi", "region", "Razavi Khorasan"},
		{"wien", "city", "Vienna"},
	} {
		var out struct{ Suggestions []suggestion }
		w.want(200, "GET", "/search-aggregation/api/v1/suggest?limit=5&q="+url.QueryEscape(tc.q), nil, &out)
		if len(out.Suggestions) == 0 || out.Suggestions[0].Kind != tc.kind || out.Suggestions[0].Label.Values.En != tc.want {
			t.Errorf("%q: %+v", tc.q, out.Suggestions)
		}
		for _, sg := range out.Suggestions { // whatever is suggested can be searched
			q := kabulQuery()
			q.Geo = Geo{Mode: "city", City: sg.City}
			if sg.Kind == "region" {
				q.Geo = Geo{Mode: "region", Region: sg.Region}
			}
			if len(w.find(&q, testNow)) == 0 {
				t.Errorf("%q suggests %+v, which finds nothing", tc.q, sg)
			}
		}
	}
	p := w.data.byCity["bamyan"][0]
	var out struct{ Suggestions []suggestion }
	w.want(200, "GET", "/search-aggregation/api/v1/suggest?limit=50&q="+url.QueryEscape(p.names.Fa), nil, &out)
	if !slices.ContainsFunc(out.Suggestions, func(s suggestion) bool { return s.PropertyID == p.id }) {
		t.Errorf("%q is not suggested", p.names.Fa)
	}
	w.want(400, "GET", "/search-aggregation/api/v1/suggest", nil, nil)
}

func TestSuspensionReachesSearchLate(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	q := kabulQuery()
	tenantID := w.find(&q, testNow)[0].tenant.id
	listed := func() bool {
		var page searchAnswer
		q.Page = Page{Limit: 200}
		w.want(200, "POST", "/search-aggregation/api/v1/search/listings", q, &page)
		return slices.ContainsFunc(page.Items, func(l Listing) bool { return l.TenantID == tenantID })
	}
	status := func() string {
		var tn Tenant
		w.want(200, "GET", "/tenant/api/v1/tenants/"+tenantID, nil, &tn)
		return tn.Status
	}
	event := func(topic string) {
		w.want(202, "POST", "/_sim/events", map[string]any{"topic": topic, "payload": map[string]string{"tenantId": tenantID}}, nil)
	}
	event("melmastoon.tenant.suspended.v1")
	if status() != "suspended" || !listed() {
		t.Error("the tenant service knows at once, search only later")
	}
	w.clk.Advance(11 * time.Minute)
	if listed() {
		t.Error("the projection never caught up")
	}
	event("melmastoon.tenant.reinstated.v1")
	if status() != "active" || !listed() {
		t.Error("not reinstated")
	}
}

func BenchmarkSearchCity(b *testing.B) {
	s, err := New(Config{Latency: map[string]Latency{}, Now: func() time.Time { return testNow }})
	if err != nil {
		b.Fatal(err)
	}
	q := kabulQuery()
	q.SortKey = "price-asc"
	for b.Loop() {
		s.find(&q, testNow)
	}
}

func BenchmarkSearchPoint(b *testing.B) {
	s, err := New(Config{Latency: map[string]Latency{}, Now: func() time.Time { return testNow }})
	if err != nil {
		b.Fatal(err)
	}
	q := kabulQuery()
	q.Geo = Geo{Mode: "point", Point: &Circle{34.5281, 69.1723, 5}}
	for b.Loop() {
		s.find(&q, testNow)
	}
}

// TestDistanceInEveryMode sorts by distance and says it, from the middle of each
// mode.
func TestDistanceInEveryMode(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for _, geo := range []Geo{
		{Mode: "city", City: "Kabul"},
		{Mode: "region", Region: "Kabul Province"},
		{Mode: "bounding-box", BoundingBox: &BoundingBox{34.4, 69.0, 34.7, 69.4}},
	} {
		q := kabulQuery()
		q.Geo, q.SortKey = geo, "distance-asc"
		var page searchAnswer
		w.want(200, "POST", "/search-aggregation/api/v1/search/listings", q, &page)
		last := 0.0
		for _, l := range page.Items {
			if l.DistanceKm == nil || *l.DistanceKm < last {
				t.Fatalf("%s: distance %v after %v", geo.Mode, l.DistanceKm, last)
			}
			last = *l.DistanceKm
		}
		if last == 0 {
			t.Errorf("%s: no hotel is anywhere", geo.Mode)
		}
	}
}

// TestNamesOfTheCatalogue knows the amenity that the platform's examples name,
// and writes a region as people do.
func TestNamesOfTheCatalogue(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	q := kabulQuery()
	var free, plain searchAnswer
	q.Filters.Amenities = []string{"free_wifi"}
	w.want(200, "POST", "/search-aggregation/api/v1/search/listings", q, &free)
	q.Filters.Amenities = []string{"wifi"}
	w.want(200, "POST", "/search-aggregation/api/v1/search/listings", q, &plain)
	if plain.Total == 0 || plain.Total != free.Total {
		t.Errorf("%d with wifi, %d with free_wifi", plain.Total, free.Total)
	}
	var facets struct{ Region string }
	w.want(200, "GET", "/search-aggregation/api/v1/facets?country=AF&region=kabul+province", nil, &facets)
	if facets.Region != "Kabul Province" {
		t.Errorf("region %q", facets.Region)
	}
}
