package sim

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
)

type searchAnswer struct {
	Items            []Listing                   `json:"items"`
	Total            int                         `json:"total"`
	AIProvenance     json.RawMessage             `json:"aiProvenance"`
	QueryRewriteHint struct{ DidYouMean string } `json:"queryRewriteHint"`
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

// TestSearchFindsWhatWasAskedFor compares what each filter and each form of a place find with
// what the listings themselves say, among the houses that are free.
func TestSearchFindsWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	kabul := w.data.byCity["kabul"][0].city
	everywhere := Geo{Mode: "bounding-box", BoundingBox: &BoundingBox{-90, -180, 90, 180}}
	hood := kabul.neighbourhoods[0]
	for name, c := range map[string]struct {
		edit  func(*Query)
		holds func(Listing, hit) bool
	}{
		"city":    {func(q *Query) { q.Geo = Geo{Mode: "city", City: kabul.names.Ps} }, func(_ Listing, h hit) bool { return h.city == kabul }},
		"region":  {func(q *Query) { q.Geo = Geo{Mode: "region", Region: kabul.region.Fa} }, func(_ Listing, h hit) bool { return h.city.region == kabul.region }},
		"country": {func(q *Query) { q.Geo.Country = "AF" }, func(l Listing, _ hit) bool { return l.Country == "AF" }},
		"point": {
			func(q *Query) { q.Geo = Geo{Mode: "point", Point: &Circle{kabul.centre.Lat, kabul.centre.Lng, 3}} },
			func(l Listing, _ hit) bool { return distanceKm(l.Geo, kabul.centre) <= 3 },
		},
		"box over the antimeridian": {
			func(q *Query) { q.Geo.BoundingBox = &BoundingBox{10, kabul.centre.Lng, 60, -170} },
			func(l Listing, _ hit) bool {
				return l.Geo.Lat >= 10 && l.Geo.Lat <= 60 && (l.Geo.Lng >= kabul.centre.Lng || l.Geo.Lng <= -170)
			},
		},
		"amenities": {
			func(q *Query) { q.Filters.Amenities = []string{"parking", "wifi"} },
			func(l Listing, _ hit) bool {
				return slices.Contains(l.Amenities, "parking") && slices.Contains(l.Amenities, "free_wifi")
			},
		},
		"stars":  {func(q *Query) { q.Filters.StarRating = []int{4, 2} }, func(l Listing, _ hit) bool { return l.StarRating == 2 || l.StarRating == 4 }},
		"rating": {func(q *Query) { q.Filters.GuestRatingMin = 8.5 }, func(l Listing, _ hit) bool { return l.GuestRating != nil && l.GuestRating.Value >= 8.5 }},
		"type":   {func(q *Query) { q.Filters.PropertyType = []string{"hostel"} }, func(l Listing, _ hit) bool { return l.PropertyType == "hostel" }},
		"free cancellation": {
			func(q *Query) { q.Filters.CancellationFlexibility = "free" },
			func(l Listing, _ hit) bool { return l.CancellationFlexibility == "free" },
		},
		"some cancellation": {
			func(q *Query) { q.Filters.CancellationFlexibility = "partial" },
			func(l Listing, _ hit) bool { return l.CancellationFlexibility != "none" },
		},
		"neighbourhood": {
			func(q *Query) { q.Filters.Neighbourhoods = []string{hood.Fa} },
			func(_ Listing, h hit) bool { return h.neighbourhood.Fa == hood.Fa },
		},
		"price": {
			func(q *Query) { q.Filters.PriceRange = &PriceRange{Min: 50, Max: new(80.0), Currency: "USD"} },
			func(_ Listing, h hit) bool { return h.cents >= 5000 && h.cents <= 8000 },
		},
	} {
		q := kabulQuery()
		q.Geo, q.SortKey = everywhere, "price-asc"
		free := w.find(&q, testNow)
		c.edit(&q)
		var got, want []string
		for _, h := range w.find(&q, testNow) {
			got = append(got, h.id)
		}
		for _, h := range free {
			if c.holds(w.listing(h.property, ""), h) {
				want = append(want, h.id)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 || len(want) == len(free) {
			t.Errorf("%s: %d of %d houses (-want +got):\n%s", name, len(want), len(free), diff)
		}
	}
	for order, of := range map[string]func(hit) float64{
		"price-desc":   func(h hit) float64 { return -float64(h.cents) },
		"rating-desc":  func(h hit) float64 { return -float64(h.ratingTenths) },
		"distance-asc": func(h hit) float64 { return distanceKm(h.geo, kabul.centre) },
		"recommended":  func(h hit) float64 { return -float64(h.score) },
	} {
		q := kabulQuery()
		q.SortKey = order
		if !slices.IsSortedFunc(w.find(&q, testNow), func(a, b hit) int { return int(math.Round(1e6 * (of(a) - of(b)))) }) {
			t.Errorf("%s: not in this order", order)
		}
	}
	// Houses that are full, or too small for a party, are not found.
	q := kabulQuery()
	all := len(w.data.byCity["kabul"])
	free := len(w.find(&q, testNow))
	q.Occupancy = bff.Occupancy{Adults: 6, Rooms: 2}
	if large := len(w.find(&q, testNow)); large >= free || free >= all {
		t.Errorf("%d houses, %d are free, %d for a large party", all, free, large)
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

// A city is found by its name in each of the seven languages, as the edge sends
// it, and Tajik ones without the letters that Russian keyboards lack.
func TestCitiesInEveryLanguage(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	russian := strings.NewReplacer("ӣ", "и", "ӯ", "у", "қ", "к", "Қ", "К", "ғ", "г", "Ғ", "Г", "ҳ", "х", "Ҳ", "Х", "ҷ", "ч", "Ҷ", "Ч")
	for i := range w.data.cities {
		c := &w.data.cities[i]
		names := c.spellings()
		for _, n := range append(names.all(), russian.Replace(names.Tg)) {
			typed := bff.FoldPlace(n)
			if len(typed) == 0 {
				t.Errorf("%s has no name in one of the languages: %+v", c.names.En, names)
				continue
			}
			var out struct{ Suggestions []suggestion }
			w.want(200, "GET", "/search-aggregation/api/v1/suggest?limit=1&q="+url.QueryEscape(typed), nil, &out)
			if len(out.Suggestions) != 1 || out.Suggestions[0].City != c.names.En || out.Suggestions[0].Label.Values != names {
				t.Errorf("%q: %+v, want %s", n, out.Suggestions, c.names.En)
			}
			found := w.data.byCity[foldKey(typed)]
			if len(found) != c.properties || found[0].city != c {
				t.Errorf("a search in %q has %d houses, want the %d of %s", n, len(found), c.properties, c.names.En)
			}
		}
	}
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
