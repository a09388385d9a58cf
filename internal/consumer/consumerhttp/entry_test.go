package consumerhttp_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"melmastoon.ghasi.io/bff/internal/consumer"
)

// TestOneEntryPerAnswer asks in many spellings: what must give another answer never
// shares an entry, what must give the same always does. Each filter is among them.
func TestOneEntryPerAnswer(t *testing.T) {
	t.Parallel()
	hotel := stagedCalls()["hotel"].path
	page := func(query string, header ...string) guestCall {
		c := guestCall{method: http.MethodGet, path: hotel + query, header: map[string]string{}}
		for i := 0; i+1 < len(header); i += 2 {
			c.header[header[i]] = header[i+1]
		}
		return c
	}
	point := func(lat, lng, radius string) guestCall {
		return guestCall{method: http.MethodPost, path: "/search", body: query(`"geo":{"mode":"point","point":{"lat":` + lat + `,"lng":` + lng + `,"radiusKm":` + radius + `}}`)}
	}
	// Each list is one answer in several spellings, and another answer than every other list.
	var sent strings.Builder
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		for n, spellings := range [][]guestCall{
			{searchCall("Herat")},
			{searchCall("Herat", `"currency":"USD"`)},
			{searchCall("Herat", `"locale":"fa-AF"`)},
			{searchCall("Herat", `"occupancy":{"adults":1,"children":0,"rooms":1}`)},
			{searchCall("Herat", `"sortKey":"price-asc"`)},
			{searchCall("Herat", `"page":{"limit":5}`)},
			{page("")},
			{page("", "X-Currency", "EUR")},
			{page("", "Accept-Language", "ps-AF"), page("?locale=ps-AF", "Accept-Language", "ru")},
			{page("?checkIn=2077-08-01&checkOut=2077-08-09")},
			{page("?children=2&childrenAges=3,9")},
			// Jittered coordinates.
			{point("34.5281", "69.1724", "5"), point("34.52811", "69.17239", "4.7"), point("34.52786", "69.172049", "4.001")},
			// Shuffled filters.
			{
				searchCall("Mazar-e Sharif", `"filters":{"amenities":["free-wifi","parking"],"starRating":[3,4],"propertyType":["hotel","guesthouse"]}`),
				searchCall(
					"mazar e sharif",
					`"filters":{"propertyType":["guesthouse","hotel","hotel"],"starRating":[4,3,3],"amenities":["parking","FREE_WIFI"],"cancellationFlexibility":"any"}`,
				),
				searchCall(
					"  MAZAR-E   SHARIF ",
					`"sortKey":"recommended","filters":{"amenities":["parking","free-wifi"],"propertyType":["guesthouse","hotel"],"starRating":[4,3]},"page":{"limit":20,"offset":0}`,
				),
			},
			{
				searchCall("Ghazni", `"filters":{"priceRange":{"min":1,"max":9,"currency":"USD"},"guestRatingMin":7,"neighbourhoods":["Shahr-e Naw"]}`),
				searchCall("Ghazni", `"filters":{"neighbourhoods":["SHAHR E NAW"],"guestRatingMin":7.0,"priceRange":{"currency":"USD","max":9.0,"min":1}}`),
			},
			// Another spelling of the letters.
			{searchCall("کابل"), searchCall("كابل"), searchCall("کـابل")},
			// Children in another order.
			{
				searchCall("Kandahar", `"occupancy":{"adults":2,"children":2,"rooms":1,"childrenAges":[9,4]}`),
				searchCall("Kandahar", `"occupancy":{"adults":2,"children":2,"rooms":1,"childrenAges":[4,9]}`),
			},
			// What is not read.
			{searchCall("Bamyan"), searchCall("Bamyan", `"nonce":"1"`, `"page":{"limit":20,"x":1}`, `"filters":{}`)},
		} {
			for i, call := range spellings {
				a, _ := s.ask(call)
				sent.WriteString(call.body)
				if hit := a.header.Get("X-Cache") == "HIT"; a.status != http.StatusOK || hit != (i > 0) {
					t.Errorf("answer %d, spelling %d: %d, X-Cache %s", n, i, a.status, a.header.Get("X-Cache"))
				}
			}
		}
	})
	for f := range reflect.TypeFor[consumer.Filters]().Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); !strings.Contains(sent.String(), `"`+name+`":`) {
			t.Errorf("no search has the filter %s: how else can it be spelled, and which filter can say the same?", name)
		}
	}
}
