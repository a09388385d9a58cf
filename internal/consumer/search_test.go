package consumer_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/consumer/telemetry"
)

// anyQuery draws a query as a client may send it.
func anyQuery(t *rapid.T) consumer.SearchQuery {
	words := rapid.SampledFrom([]string{"free-wifi", "prayer-room", "halal_kitchen", "Parking", "  pool", "", "سونا"})
	names := rapid.SampledFrom([]string{"Kabul", "kabul", "کابل", "كابل", "Mazar-e Sharif", "mazar e  sharif", "Herāt", "ﻫﺮات"})
	q := consumer.SearchQuery{
		Dates:     bff.StayDates{CheckIn: bff.Date(rapid.IntRange(0, 60000).Draw(t, "checkIn"))},
		Occupancy: bff.Occupancy{Adults: rapid.IntRange(1, 30).Draw(t, "adults"), Rooms: rapid.IntRange(1, 15).Draw(t, "rooms")},
		Sort:      rapid.SampledFrom([]consumer.SortKey{"", consumer.SortRecommended, consumer.SortPriceAsc}).Draw(t, "sort"),
		Page:      consumer.Page{Limit: rapid.IntRange(0, 50).Draw(t, "limit"), Offset: rapid.IntRange(0, 5000).Draw(t, "offset")},
		Locale:    rapid.SampledFrom(bff.Locales()).Draw(t, "locale"),
		Currency:  rapid.SampledFrom(bff.Currencies()).Draw(t, "currency"),
	}
	q.Dates.CheckOut = q.Dates.CheckIn + bff.Date(rapid.IntRange(1, 30).Draw(t, "nights"))
	q.Occupancy.ChildrenAges = rapid.SliceOfN(rapid.IntRange(0, 17), 0, 5).Draw(t, "ages")
	q.Occupancy.Children = len(q.Occupancy.ChildrenAges)
	switch q.Geo.Mode = rapid.SampledFrom([]consumer.GeoMode{
		consumer.GeoPoint, consumer.GeoBoundingBox, consumer.GeoCity, consumer.GeoRegion,
	}).Draw(t, "mode"); q.Geo.Mode {
	case consumer.GeoPoint:
		q.Geo.Point = &consumer.Point{
			Lat: rapid.Float64Range(-90, 90).Draw(t, "lat"), Lng: rapid.Float64Range(-180, 180).Draw(t, "lng"),
			RadiusKm: rapid.Float64Range(0.1, consumer.MaxRadiusKm).Draw(t, "radius"),
		}
	case consumer.GeoBoundingBox:
		south, west := rapid.Float64Range(-90, 89).Draw(t, "south"), rapid.Float64Range(-180, 180).Draw(t, "west")
		q.Geo.BoundingBox = &consumer.BoundingBox{
			SwLat: south, SwLng: west, NeLat: rapid.Float64Range(south, 90).Draw(t, "north"), NeLng: rapid.Float64Range(-180, 180).Draw(t, "east"),
		}
	case consumer.GeoCity:
		q.Geo.City = names.Draw(t, "city")
	default:
		q.Geo.Region = names.Draw(t, "region")
	}
	q.Geo.Country = rapid.SampledFrom([]string{"", "AF", "af"}).Draw(t, "country")
	q.Filters = consumer.Filters{
		Amenities: rapid.SliceOfN(words, 0, 6).Draw(t, "amenities"), PropertyType: rapid.SliceOfN(words, 0, 3).Draw(t, "types"),
		Neighbourhoods: rapid.SliceOfN(names, 0, 3).Draw(t, "neighbourhoods"), StarRating: rapid.SliceOfN(rapid.IntRange(1, 5), 0, 5).Draw(t, "stars"),
		GuestRatingMin:          rapid.Float64Range(0, 10).Draw(t, "rating"),
		CancellationFlexibility: rapid.SampledFrom([]string{"", "any", "free"}).Draw(t, "cancellation"),
	}
	return q
}

func TestNormaliseIsOneForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := anyQuery(t)
		before := clone(q)
		once := q.Normalise()
		if diff := cmp.Diff(before, q); diff != "" {
			t.Fatalf("the query itself was changed:\n%s", diff)
		}
		if diff := cmp.Diff(once, once.Normalise()); diff != "" {
			t.Fatalf("the second time changes more:\n%s", diff)
		}
		// What a client may write in another way means the same.
		other := clone(q)
		shuffle(t, other.Filters.Amenities)
		shuffle(t, other.Filters.PropertyType)
		shuffle(t, other.Filters.Neighbourhoods)
		shuffle(t, other.Filters.StarRating)
		shuffle(t, other.Occupancy.ChildrenAges)
		other.Filters.Amenities = slices.Concat(other.Filters.Amenities, other.Filters.Amenities)
		other.Filters.StarRating = slices.Concat(other.Filters.StarRating, other.Filters.StarRating)
		for i, a := range other.Filters.Amenities {
			other.Filters.Amenities[i] = " " + strings.ToUpper(strings.ReplaceAll(a, "-", "_"))
		}
		other.Geo.City = strings.ToUpper(other.Geo.City) + " "
		other.Geo.Region = strings.ReplaceAll(other.Geo.Region, " ", "\t ")
		if other.Sort == consumer.SortRecommended {
			other.Sort = ""
		}
		if other.Page.Limit == consumer.DefaultPageLimit {
			other.Page.Limit = 0
		}
		if q.Geo.City == "" {
			other.Geo.City = ""
		}
		if got := other.Normalise(); got.CacheKey() != once.CacheKey() {
			t.Fatalf("another spelling has another key:\n%s", cmp.Diff(once, got))
		}
	})
}

func shuffle[E any](t *rapid.T, s []E) {
	copy(s, rapid.Permutation(s).Draw(t, "order"))
}

func clone(q consumer.SearchQuery) consumer.SearchQuery {
	if q.Geo.Point != nil {
		p := *q.Geo.Point
		q.Geo.Point = &p
	}
	if q.Geo.BoundingBox != nil {
		b := *q.Geo.BoundingBox
		q.Geo.BoundingBox = &b
	}
	q.Filters.Amenities = slices.Clone(q.Filters.Amenities)
	q.Filters.PropertyType = slices.Clone(q.Filters.PropertyType)
	q.Filters.Neighbourhoods = slices.Clone(q.Filters.Neighbourhoods)
	q.Filters.StarRating = slices.Clone(q.Filters.StarRating)
	q.Occupancy.ChildrenAges = slices.Clone(q.Occupancy.ChildrenAges)
	return q
}

// TestNormalisePlaces wants jitter gone and nothing of a box lost.
func TestNormalisePlaces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := anyQuery(t)
		n := q.Normalise()
		if p := q.Geo.Point; p != nil {
			if math.Abs(n.Geo.Point.Lat-p.Lat) > 0.0006 || math.Abs(n.Geo.Point.Lng-p.Lng) > 0.0006 {
				t.Fatalf("%+v moved to %+v", p, n.Geo.Point)
			}
			if n.Geo.Point.RadiusKm < p.RadiusKm || n.Geo.Point.RadiusKm > p.RadiusKm+1 {
				t.Fatalf("a radius of %v became %v", p.RadiusKm, n.Geo.Point.RadiusKm)
			}
		}
		if b := q.Geo.BoundingBox; b != nil {
			const least = 1e-7 // about a centimetre: what decimals cannot hold
			g := n.Geo.BoundingBox
			if g.SwLat > b.SwLat+least || g.SwLng > b.SwLng+least || g.NeLat < b.NeLat-least || g.NeLng < b.NeLng-least {
				t.Fatalf("%+v does not lie within %+v", b, g)
			}
		}
	})
}

func TestKeysTellApart(t *testing.T) {
	t.Parallel()
	plain := consumer.SearchQuery{
		Geo: consumer.GeoQuery{Mode: consumer.GeoCity, City: "Kabul"}, Dates: bff.StayDates{CheckIn: 20000, CheckOut: 20002},
		Occupancy: bff.Occupancy{Adults: 2, Children: 1, Rooms: 1, ChildrenAges: []int{4}}, Locale: bff.LocaleEnglish, Currency: bff.AFN,
	}
	for _, tt := range []struct {
		name   string
		change func(*consumer.SearchQuery)
		// An answer may be presented otherwise and still be to the same question.
		sameHash bool
	}{
		{name: "locale", change: func(q *consumer.SearchQuery) { q.Locale = bff.LocaleDari }, sameHash: true},
		{name: "currency", change: func(q *consumer.SearchQuery) { q.Currency = bff.USD }, sameHash: true},
		{name: "order", change: func(q *consumer.SearchQuery) { q.Sort = consumer.SortPriceAsc }, sameHash: true},
		{name: "limit", change: func(q *consumer.SearchQuery) { q.Page.Limit = 10 }, sameHash: true},
		{name: "offset", change: func(q *consumer.SearchQuery) { q.Page.Offset = 20 }, sameHash: true},
		{name: "city", change: func(q *consumer.SearchQuery) { q.Geo.City = "Herat" }},
		{name: "country", change: func(q *consumer.SearchQuery) { q.Geo.Country = "AF" }},
		{name: "a city is no region", change: func(q *consumer.SearchQuery) {
			q.Geo = consumer.GeoQuery{Mode: consumer.GeoRegion, Region: "Kabul"}
		}},
		{name: "nights", change: func(q *consumer.SearchQuery) { q.Dates.CheckOut++ }},
		{name: "party", change: func(q *consumer.SearchQuery) { q.Occupancy.Adults++ }},
		{name: "rooms", change: func(q *consumer.SearchQuery) { q.Occupancy.Rooms++ }},
		{name: "age", change: func(q *consumer.SearchQuery) { q.Occupancy.ChildrenAges = []int{5} }},
		{name: "no age", change: func(q *consumer.SearchQuery) { q.Occupancy.ChildrenAges = nil }},
		{name: "stars", change: func(q *consumer.SearchQuery) { q.Filters.StarRating = []int{4} }},
		{name: "amenity", change: func(q *consumer.SearchQuery) { q.Filters.Amenities = []string{"pool"} }},
		{name: "neighbourhood", change: func(q *consumer.SearchQuery) { q.Filters.Neighbourhoods = []string{"pool"} }},
		{name: "type", change: func(q *consumer.SearchQuery) { q.Filters.PropertyType = []string{"pool"} }},
		{name: "price", change: func(q *consumer.SearchQuery) {
			q.Filters.PriceRange = &consumer.PriceRange{Max: 10, Currency: bff.AFN}
		}},
		{name: "rating", change: func(q *consumer.SearchQuery) { q.Filters.GuestRatingMin = 8 }},
		{name: "cancellation", change: func(q *consumer.SearchQuery) { q.Filters.CancellationFlexibility = "free" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			other := clone(plain)
			tt.change(&other)
			a, b := plain.Normalise(), other.Normalise()
			if a.CacheKey() == b.CacheKey() {
				t.Error("two answers share a key")
			}
			if same := a.Hash() == b.Hash(); same != tt.sameHash {
				t.Errorf("the same question: %v, want %v", same, tt.sameHash)
			}
		})
	}
}

// TestNamesAsWritten folds names for machines and gives them back to people as
// they wrote them.
func TestNamesAsWritten(t *testing.T) {
	t.Parallel()
	query := consumer.SearchQuery{Geo: consumer.GeoQuery{Mode: consumer.GeoCity, City: " Mazar-e  Sharif", Region: "Balkh Province"}}
	asked := query.Ask()
	query.Geo.City = "mazar e sharif"
	if same := query.Ask(); same.Answer != asked.Answer || asked.Geo.City != "mazar e sharif" {
		t.Errorf("two spellings are two searches: %q", asked.Geo.City)
	}
	ss := consumer.SearchSession{Query: asked}
	for what, got := range map[string]consumer.GeoQuery{
		"history": guest.HistoryOf(ss).Geo,
		"event":   telemetry.NewSearchExecuted(asked, consumer.GuestSession{}, telemetry.SearchOutcome{ResultCount: 1}).Geo,
	} {
		if got.City != "Mazar-e Sharif" || got.Region != "Balkh Province" {
			t.Errorf("%s: %+v", what, got)
		}
	}
	if kept := guest.EncodeHistory(ss); !strings.Contains(kept, `"city":"Mazar-e Sharif","region":"Balkh Province"`) {
		t.Error(kept)
	}
}
