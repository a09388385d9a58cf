package consumer_test

import (
	"reflect"
	"testing"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
)

// The forms of two queries, one with every member and one with those that are
// required. A change of a name voids every cached answer and every live search
// session; a change of the stored form shows only to support.
func TestFormsOfAQuery(t *testing.T) {
	t.Parallel()
	stay := bff.StayDates{CheckIn: 20950, CheckOut: 20953}
	for _, tt := range []struct {
		name                           string
		query                          consumer.SearchQuery
		wantHash, wantAnswer, wantList string
		wantStored                     string
	}{
		{
			name: "every member",
			query: consumer.SearchQuery{
				Geo: consumer.GeoQuery{
					Mode: consumer.GeoPoint, Point: &consumer.Point{Lat: 34.5, Lng: 69.2, RadiusKm: 30},
					BoundingBox: &consumer.BoundingBox{SwLat: 1, SwLng: 2, NeLat: 3, NeLng: 4}, City: "Kabul", Region: "Kabul Province", Country: "AF",
				},
				Dates: stay, Occupancy: bff.Occupancy{Adults: 2, Children: 1, Rooms: 1, ChildrenAges: []int{7}},
				Filters: consumer.Filters{
					PriceRange: &consumer.PriceRange{Min: 20, Max: 80, Currency: bff.USD}, Amenities: []string{"free-wifi"}, StarRating: []int{3, 4},
					GuestRatingMin: 7.5, PropertyType: []string{"hotel"}, CancellationFlexibility: "free", Neighbourhoods: []string{"Shahr-e Naw"},
				},
				Sort: consumer.SortPriceAsc, Page: consumer.Page{Limit: 10, Offset: 30}, Locale: bff.LocaleDari, Currency: bff.AFN,
			},
			wantHash: "sha256:eea516f2749bab691d44e3e7ebc07e40c7614dadfafa4ecafc771d24a4d86cc1", wantAnswer: "sha256:4c142052c191fead1a5751450a64a8b3704c4f600d747259433f7480cdfef966", wantList: "sha256:648ccc85cf73fcc62bfeec8273c9fb4e544633f456ca8f5abf5353ac4befb60e", wantStored: `{"geo":{"mode":"point","point":{"lat":34.5,"lng":69.2,"radiusKm":30},"boundingBox":{"swLat":1,"swLng":2,"neLat":3,"neLng":4},"city":"kabul","region":"kabul province","country":"AF"},"dates":{"checkIn":"2027-05-12","checkOut":"2027-05-15"},"occupancy":{"adults":2,"children":1,"rooms":1,"childrenAges":[7]},"filters":{"priceRange":{"min":20,"max":80,"currency":"USD"},"amenities":["free-wifi"],"starRating":[3,4],"guestRatingMin":7.5,"propertyType":["hotel"],"cancellationFlexibility":"free","neighbourhoods":["shahr e naw"]},"sortKey":"price-asc","page":{"limit":10,"offset":30},"locale":"fa-AF","currency":"AFN"}`,
		},
		{
			name: "required members",
			query: consumer.SearchQuery{
				Geo: consumer.GeoQuery{Mode: consumer.GeoCity, City: "Kabul"}, Dates: stay, Occupancy: bff.DefaultOccupancy(),
				Locale: bff.LocaleEnglish, Currency: bff.USD,
			},
			wantHash: "sha256:873310f68646519c76af31e2afbd98c94b3cbaa8ceecd591d1a0f55cfa1cda5e", wantAnswer: "sha256:7d8315f87a094cb01bc8ca7d5b889b28ccd776e5e55707644c2523b9cf333a7a", wantList: "sha256:b69a53a8a390e523e61ed74294dd0195d1bfb26f77275e6cf1a4c3f945376aa8", wantStored: `{"geo":{"mode":"city","city":"kabul"},"dates":{"checkIn":"2027-05-12","checkOut":"2027-05-15"},"occupancy":{"adults":2,"children":0,"rooms":1},"filters":{},"sortKey":"recommended","page":{"limit":20,"offset":0},"locale":"en","currency":"USD"}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for member, v := range reflect.ValueOf(tt.query.Filters).Fields() {
				if v.IsZero() && tt.name == "every member" {
					t.Errorf("the query has no %s", member.Name)
				}
			}
			asked := tt.query.Ask()
			for _, form := range []struct{ what, got, want string }{
				{"hash", asked.What.String(), tt.wantHash},
				{"name of the answer", asked.Answer.String(), tt.wantAnswer},
				{"name of the list", asked.ListText, tt.wantList},
				{"stored form", asked.Encoded, tt.wantStored},
			} {
				if form.got != form.want {
					t.Errorf("%s: got %s, want %s", form.what, form.got, form.want)
				}
			}
		})
	}
}
