package consumerupstream_test

import (
	"encoding/json"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	"melmastoon.ghasi.io/bff/internal/local/sim"
)

var noon = time.Date(2027, 3, 10, 12, 0, 0, 0, time.UTC)

// simulated is the platform at noon, for ever.
func simulated(tb testing.TB) (*sim.Sim, inMemory) {
	tb.Helper()
	sim, err := sim.New(sim.Config{
		Latency: map[string]sim.Latency{}, PublicURL: "https://media.melmastoon.test?a=1&b=<2>", Now: func() time.Time { return noon },
	})
	if err != nil {
		tb.Fatal(err)
	}
	return sim, inMemory{sim.Handler()}
}

// A hotel's page is, to the byte, what decoding by reflection makes of the same
// answers: for every seventh hotel, which is some of each kind, city and tenant.
func TestDetailIsPlain(t *testing.T) {
	t.Parallel()
	sim, platform := simulated(t)
	reference := plainly{platform: platform}
	ours, plain := finderOn(t, platform), finderOf(reference, reference, reference, reference)
	locales := bff.Locales()
	hotels := sim.Catalog().Properties
	for i := 0; i < len(hotels); i += 35 {
		hotel := hotels[i]
		req := discovery.DetailRequest{
			PropertyID: bff.MustParseID(bff.PrefixProperty, hotel.PropertyID), Stay: discovery.DefaultStay(noon),
			Locale: locales[i%len(locales)], Currency: bff.Currencies()[i/7%7],
		}
		req.Stay.Occupancy.Children, req.Stay.Occupancy.ChildrenAges = 2, []int{3, 11}
		want, wantErr := plain.Detail(t.Context(), req, noon)
		got, err := ours.Detail(t.Context(), req, noon)
		if bff.CodeOf(err) != bff.CodeOf(wantErr) || (err != nil) != (wantErr != nil) {
			t.Fatalf("%s: %v, want %v", hotel.PropertyID, err, wantErr)
		}
		wantJSON, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		gotJSON, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if string(gotJSON) != string(wantJSON) {
			t.Fatalf("%s got\n%s\nwant\n%s", hotel.PropertyID, gotJSON, wantJSON)
		}
		var again discovery.HotelDetail
		if err := json.Unmarshal(gotJSON, &again); err != nil || again.Property.PropertyID != req.PropertyID {
			t.Errorf("%s cannot be read again: %v", hotel.PropertyID, err)
		}
	}
}

// So is every page of a search.
func TestSearchIsPlain(t *testing.T) {
	t.Parallel()
	_, platform := simulated(t)
	ours := finderOn(t, platform)
	reference := plainly{platform: platform}
	plain := finderOf(reference, reference, reference, reference)
	for _, q := range []consumer.SearchQuery{
		{Geo: consumer.GeoQuery{Mode: consumer.GeoCity, City: "Kabul"}, Locale: bff.LocaleDari},
		{
			Geo: consumer.GeoQuery{Mode: consumer.GeoPoint, Point: &consumer.Point{Lat: 34.5, Lng: 69.2, RadiusKm: 30}}, Sort: consumer.SortDistanceAsc,
			Locale: bff.LocaleEnglish,
		},
		{Geo: consumer.GeoQuery{Mode: consumer.GeoCity, City: "Nowhere"}, Locale: bff.LocalePashto},
	} {
		q.Dates, q.Occupancy, q.Currency = discovery.DefaultStay(noon).Dates, bff.DefaultOccupancy(), bff.AFN
		q.Page.Limit = consumer.MaxPageLimit
		want, wantErr := plain.Find(t.Context(), q, noon)
		got, err := ours.Find(t.Context(), q, noon)
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("%v, want %v", err, wantErr)
		}
		wantJSON, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		gotJSON, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if string(gotJSON) != string(wantJSON) {
			t.Errorf("%+v got\n%s\nwant\n%s", q.Geo, gotJSON, wantJSON)
		}
	}
}
