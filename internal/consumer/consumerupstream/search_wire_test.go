package consumerupstream_test

import (
	"bytes"
	"io"
	"net/http"
	"reflect"
	"testing"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
)

// bodies keeps the last body that was sent, and answers with no listings.
type bodies struct{ last string }

func (b *bodies) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	b.last = r.Method + " " + r.URL.Path + " " + string(body)
	return &http.Response{
		StatusCode: http.StatusOK, ContentLength: -1, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader([]byte(`{"items":[],"pins":[],"total":0}`))),
	}, err
}

// What search-aggregation is sent, as docs/upstreams.md has it: a change of it
// must be agreed on with that service.
func TestQueryOnTheWire(t *testing.T) {
	t.Parallel()
	var sent bodies
	search := upstreamsOn(t, &sent).Search
	q := consumer.SearchQuery{
		Geo:       consumer.GeoQuery{Mode: consumer.GeoPoint, Point: &consumer.Point{Lat: 34.5, Lng: 69.2, RadiusKm: 30}, Country: "AF"},
		Dates:     bff.StayDates{CheckIn: 20950, CheckOut: 20953},
		Occupancy: bff.Occupancy{Adults: 2, Children: 1, Rooms: 1, ChildrenAges: []int{7}},
		Filters: consumer.Filters{
			PriceRange: &consumer.PriceRange{Min: 20, Max: 80, Currency: bff.USD}, Amenities: []string{"free-wifi", "prayer-room"}, StarRating: []int{3, 4},
			GuestRatingMin: 7.5, PropertyType: []string{"hotel"}, CancellationFlexibility: "free", Neighbourhoods: []string{"shahr-e naw"},
		},
		Sort: consumer.SortPriceAsc, Page: consumer.Page{Limit: 200, Offset: 200}, Locale: bff.LocaleDari, Currency: bff.AFN,
	}
	for member, v := range reflect.ValueOf(q.Filters).Fields() {
		if v.IsZero() {
			t.Errorf("the query has no %s", member.Name)
		}
	}
	if _, err := search.Search(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	const want = `POST /search-aggregation/api/v1/search/listings {"geo":{"mode":"point","point":{"lat":34.5,"lng":69.2,"radiusKm":30},"country":"AF"},"dates":{"checkIn":"2027-05-12","checkOut":"2027-05-15"},"occupancy":{"adults":2,"children":1,"rooms":1,"childrenAges":[7]},"filters":{"priceRange":{"min":20,"max":80,"currency":"USD"},"amenities":["free_wifi","prayer_room"],"starRating":[3,4],"guestRatingMin":7.5,"propertyType":["hotel"],"cancellationFlexibility":"free","neighbourhoods":["shahr-e naw"]},"sortKey":"price-asc","page":{"limit":200,"offset":200},"locale":"fa-AF","currency":"AFN"}`
	if sent.last != want {
		t.Errorf("got  %s\nwant %s", sent.last, want)
	}
}
