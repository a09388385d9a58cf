package consumerhttp_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer/consumertest"
)

// refusal is a problem document.
type refusal struct {
	Error struct {
		Code   bff.Code
		Status int
		Errors []bff.FieldError
	}
}

// TestSearchInput breaks each rule of DOMAIN_MODEL §2.2 and wants its error,
// with the field that it is about.
func TestSearchInput(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const (
		geo       = `"geo":{"mode":"city","city":"Kabul"}`
		dates     = `"dates":{"checkIn":"2077-03-10","checkOut":"2077-03-12"}`
		occupancy = `"occupancy":{"adults":2,"children":0,"rooms":1}`
	)
	with := func(member string) string {
		members := []string{member}
		for _, usual := range []string{geo, dates, occupancy} {
			if name, _, _ := strings.Cut(usual, ":"); !strings.Contains(member, name+":") {
				members = append(members, usual)
			}
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	for _, tt := range []struct {
		name, body string
		header     map[string]string
		wantCode   bff.Code
		want       map[string]string // code by field
	}{
		{name: "nothing", body: `{}`, want: map[string]string{"geo": "required", "dates": "required", "occupancy": "required"}},
		{name: "empty", body: ``, want: map[string]string{"body": "required"}},
		{name: "no object", body: `[1]`, want: map[string]string{"body": "type"}},
		{name: "no JSON", body: `{"geo":`, want: map[string]string{"body": "format"}},
		{name: "two objects", body: `{}{}`, want: map[string]string{"body": "format"}},
		{name: "no UTF-8", body: "{\"geo\":\"\xff\"}", want: map[string]string{"body": "format"}},
		{name: "another type", body: with(`"geo":7,"dates":"x","occupancy":[]`), want: map[string]string{"geo": "type", "dates": "type", "occupancy": "type"}},

		// dates.checkIn < dates.checkOut
		{name: "no nights", body: with(`"dates":{"checkIn":"2077-03-10","checkOut":"2077-03-10"}`), want: map[string]string{"dates.checkOut": "order"}},
		{name: "backwards", body: with(`"dates":{"checkIn":"2077-03-10","checkOut":"2077-03-09"}`), want: map[string]string{"dates.checkOut": "order"}},
		{name: "for ever", body: with(`"dates":{"checkIn":"2077-03-10","checkOut":"2079-03-10"}`), want: map[string]string{"dates.checkOut": "range"}},
		{name: "no dates", body: with(`"dates":{}`), want: map[string]string{"dates.checkIn": "required", "dates.checkOut": "required"}},
		{
			name: "no such day", body: with(`"dates":{"checkIn":"2077-02-30","checkOut":"2077-3-1"}`),
			want: map[string]string{"dates.checkIn": "format", "dates.checkOut": "format"},
		},
		{
			name: "moments", body: with(`"dates":{"checkIn":"2077-03-10T00:00:00Z","checkOut":20770312}`),
			want: map[string]string{"dates.checkIn": "format", "dates.checkOut": "type"},
		},

		// a stay that can still begin
		{name: "the past", body: with(`"dates":{"checkIn":"2020-03-10","checkOut":"2020-03-12"}`), want: map[string]string{"dates.checkIn": "past"}},
		{
			name: "the past, backwards", body: with(`"dates":{"checkIn":"2020-03-10","checkOut":"2020-03-09"}`),
			want: map[string]string{"dates.checkIn": "past", "dates.checkOut": "order"},
		},

		// adults ≥ 1, rooms ≥ 1
		{name: "nobody", body: with(`"occupancy":{"adults":0,"children":0,"rooms":1}`), want: map[string]string{"occupancy.adults": "range"}},
		{name: "no room", body: with(`"occupancy":{"adults":1,"children":0,"rooms":0}`), want: map[string]string{"occupancy.rooms": "range"}},
		{
			name: "an army", body: with(`"occupancy":{"adults":31,"children":21,"rooms":16}`),
			want: map[string]string{"occupancy.adults": "range", "occupancy.children": "range", "occupancy.rooms": "range"},
		},
		{name: "half a child", body: with(`"occupancy":{"adults":1,"children":1.5,"rooms":1}`), want: map[string]string{"occupancy.children": "type"}},
		{
			name: "a child without age", body: with(`"occupancy":{"adults":1,"children":2,"rooms":1,"childrenAges":[4]}`),
			want: map[string]string{"occupancy.childrenAges": "count"},
		},
		{
			name: "a grown child", body: with(`"occupancy":{"adults":1,"children":1,"rooms":1,"childrenAges":[18]}`),
			want: map[string]string{"occupancy.childrenAges[0]": "range"},
		},
		{name: "nobody said", body: with(`"occupancy":{}`), want: map[string]string{"occupancy.adults": "required", "occupancy.rooms": "required"}},

		// geo: exactly one mode
		{name: "no mode", body: with(`"geo":{"city":"Kabul"}`), want: map[string]string{"geo.mode": "required"}},
		{name: "another mode", body: with(`"geo":{"mode":"galaxy"}`), want: map[string]string{"geo.mode": "unsupported"}},
		{name: "a mode without its part", body: with(`"geo":{"mode":"point"}`), want: map[string]string{"geo.point": "required"}},
		{
			name: "two places", body: with(`"geo":{"mode":"city","city":"Kabul","point":{"lat":1,"lng":1,"radiusKm":1}}`),
			want: map[string]string{"geo.point": "conflict"},
		},
		{
			name: "four places",
			body: with(`"geo":{"mode":"region","city":"Kabul","region":"Kabul","point":{"lat":1,"lng":1,"radiusKm":1},"boundingBox":{"swLat":1,"swLng":1,"neLat":2,"neLng":2}}`),
			want: map[string]string{"geo.city": "conflict", "geo.point": "conflict", "geo.boundingBox": "conflict"},
		},
		{
			name: "off the globe", body: with(`"geo":{"mode":"point","point":{"lat":91,"lng":-181,"radiusKm":0}}`),
			want: map[string]string{"geo.point.lat": "range", "geo.point.lng": "range", "geo.point.radiusKm": "range"},
		},
		{
			name: "half the globe", body: with(`"geo":{"mode":"point","point":{"lat":0,"lng":0,"radiusKm":9000}}`),
			want: map[string]string{"geo.point.radiusKm": "range"},
		},
		{
			name: "half a point", body: with(`"geo":{"mode":"point","point":{"lat":0}}`),
			want: map[string]string{"geo.point.lng": "required", "geo.point.radiusKm": "required"},
		},
		{
			name: "beyond numbers", body: with(`"geo":{"mode":"point","point":{"lat":1e999,"lng":"1","radiusKm":1}}`),
			want: map[string]string{"geo.point.lat": "format", "geo.point.lng": "type"},
		},
		{
			name: "upside down", body: with(`"geo":{"mode":"bounding-box","boundingBox":{"swLat":2,"swLng":1,"neLat":1,"neLng":2}}`),
			want: map[string]string{"geo.boundingBox.neLat": "order"},
		},
		{name: "a long name", body: with(`"geo":{"mode":"city","city":"` + strings.Repeat("ک", 101) + `"}`), want: map[string]string{"geo.city": "length"}},
		{name: "a name that is none", body: with(`"geo":{"mode":"city","city":"a\u0000b"}`), want: map[string]string{"geo.city": "format"}},
		// A name without a letter or digit, and one that grows as it is folded.
		{name: "a blank", body: with(`"geo":{"mode":"city","city":"  "}`), want: map[string]string{"geo.city": "format"}},
		{name: "a joiner", body: with(`"geo":{"mode":"city","city":"\u200c"}`), want: map[string]string{"geo.city": "format"}},
		{name: "a kashida", body: with(`"geo":{"mode":"city","city":"ـ"}`), want: map[string]string{"geo.city": "format"}},
		{name: "dots", body: with(`"geo":{"mode":"city","city":"…"}`), want: map[string]string{"geo.city": "format"}},
		{name: "what could not be read", body: with(`"geo":{"mode":"city","city":"\ufffd"}`), want: map[string]string{"geo.city": "format"}},
		{name: "a name that grows", body: with(`"geo":{"mode":"city","city":"` + strings.Repeat("ﷺ", 60) + `"}`), want: map[string]string{"geo.city": "length"}},
		{name: "a region of nothing", body: with(`"geo":{"mode":"region","region":" - "}`), want: map[string]string{"geo.region": "format"}},
		{
			name: "quarters of nothing", body: with(`"filters":{"neighbourhoods":["Karte Se","…","` + strings.Repeat("ﷺ", 60) + `"]}`),
			want: map[string]string{"filters.neighbourhoods[1]": "format", "filters.neighbourhoods[2]": "length"},
		},
		{name: "no country", body: with(`"geo":{"mode":"city","city":"Kabul","country":"A1"}`), want: map[string]string{"geo.country": "format"}},

		// the rest of the query
		{name: "another order", body: with(`"sortKey":"cheapest"`), want: map[string]string{"sortKey": "unsupported"}},
		{name: "no page", body: with(`"page":{"limit":0,"offset":-1}`), want: map[string]string{"page.limit": "range", "page.offset": "range"}},
		{name: "a book", body: with(`"page":{"limit":51,"offset":100000}`), want: map[string]string{"page.limit": "range", "page.offset": "range"}},
		{
			name: "a price range backwards", body: with(`"filters":{"priceRange":{"min":2,"max":1,"currency":"USD"}}`),
			want: map[string]string{"filters.priceRange.max": "order"},
		},
		{
			name: "a price of nothing", body: with(`"filters":{"priceRange":{"min":-1}}`),
			want: map[string]string{"filters.priceRange.min": "range", "filters.priceRange.max": "required", "filters.priceRange.currency": "required"},
		},
		{
			name: "six stars", body: with(`"filters":{"starRating":[6,0],"guestRatingMin":11}`),
			want: map[string]string{"filters.starRating[0]": "range", "filters.starRating[1]": "range", "filters.guestRatingMin": "range"},
		},
		{
			name: "another house", body: with(`"filters":{"propertyType":["hotel","palace"],"cancellationFlexibility":"never"}`),
			want: map[string]string{"filters.propertyType[1]": "unsupported", "filters.cancellationFlexibility": "unsupported"},
		},
		{
			name: "too much to wish for", body: with(`"filters":{"amenities":[` + strings.Repeat(`"a",`, 30) + `"a"]}`),
			want: map[string]string{"filters.amenities": "count"},
		},
		{
			name: "a wish that is none", body: with(`"filters":{"amenities":[7],"neighbourhoods":["` + strings.Repeat("n", 101) + `"]}`),
			want: map[string]string{"filters.amenities[0]": "type", "filters.neighbourhoods[0]": "length"},
		},

		// locale and currency
		{name: "another language", body: with(`"locale":"xx-XX"`), wantCode: bff.CodeLocaleNotSupported, want: map[string]string{"locale": "unsupported"}},
		{name: "no language", body: with(`"locale":"not a tag"`), wantCode: bff.CodeLocaleNotSupported, want: map[string]string{"locale": "unsupported"}},
		{name: "another currency", body: with(`"currency":"XAU"`), wantCode: bff.CodeCurrencyNotSupported, want: map[string]string{"currency": "unsupported"}},
		{
			name: "another currency for this request", body: with(`"x":1`), header: map[string]string{"X-Currency": "doubloons"},
			wantCode: bff.CodeCurrencyNotSupported, want: map[string]string{"X-Currency": "unsupported"},
		},
		{name: "both and more", body: with(`"locale":"xx","currency":"XAU"`), want: map[string]string{"locale": "unsupported", "currency": "unsupported"}},
		{
			name: "another's search", body: with(`"x":1`), header: map[string]string{"X-Search-Session": "srs_nonsense"},
			want: map[string]string{"X-Search-Session": "format"},
		},

		// what is no search at all
		{name: "too large", body: with(`"x":"` + strings.Repeat("x", 17<<10) + `"`), wantCode: bff.CodePayloadTooLarge},
		{name: "another content type", body: with(`"x":1`), header: map[string]string{"Content-Type": "text/xml"}, wantCode: bff.CodeUnsupportedMediaType},
		{name: "credentials", body: with(`"x":1`), header: map[string]string{"Authorization": "Bearer x"}, wantCode: bff.CodeSurfaceMismatch},
	} {
		for _, path := range []string{"/search", "/search/map"} {
			t.Run(tt.name+path, func(t *testing.T) {
				if path == "/search/map" && tt.name == "another's search" {
					return // a map belongs to no session of pages
				}
				a, _ := s.ask(guestCall{method: http.MethodPost, path: path, body: tt.body, header: tt.header})
				want := maps.Clone(tt.want)
				if path == "/search/map" && strings.Contains(tt.body, `"mode":"region"`) {
					want["geo.mode"] = "unsupported"
				}
				checkRefusal(t, a, tt.wantCode, want)
			})
		}
	}
	if n := s.Searches(); n > 0 {
		t.Errorf("%d refused queries reached an upstream", n)
	}
}

func checkRefusal(t *testing.T, a guestAnswer, code bff.Code, want map[string]string) {
	t.Helper()
	if code == "" {
		code = bff.CodeValidationFailed
	}
	var got refusal
	if err := json.Unmarshal(a.body, &got); err != nil {
		t.Fatalf("%v: %.200s", err, a)
	}
	fields := map[string]string{}
	for _, e := range got.Error.Errors {
		if had, twice := fields[e.Field]; twice {
			t.Errorf("%s is refused twice: %s and %s", e.Field, had, e.Code)
		}
		fields[e.Field] = e.Code
	}
	if got.Error.Code != code || a.status != code.Info().Status || a.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%.400s, want %s", a, code)
	}
	if want == nil {
		want = map[string]string{}
	}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("refused fields (-want +got):\n%s", diff)
	}
}

// TestReadInput is the same for the routes that read a URL.
func TestReadInput(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	hotel := "/hotels/" + consumertest.PropertyID(10).String()
	for _, tt := range []struct {
		path     string
		header   map[string]string
		wantCode bff.Code
		want     map[string]string
	}{
		{path: "/hotels/ppt_nonsense", want: map[string]string{"propertyId": "format"}},
		{path: "/hotels/" + consumertest.TenantID(1).String(), want: map[string]string{"propertyId": "format"}},
		{path: hotel + "?checkIn=2077-03-10", want: map[string]string{"checkOut": "required"}},
		{path: hotel + "?checkIn=2077-03-10&checkOut=2077-03-10", want: map[string]string{"checkOut": "order"}},
		{path: hotel + "?adults=0&rooms=0&children=x", want: map[string]string{"adults": "range", "rooms": "range", "children": "format"}},
		{path: hotel + "?children=1&childrenAges=4,5", want: map[string]string{"childrenAges": "count"}},
		{path: hotel + "?children=2&childrenAges=4,", want: map[string]string{"childrenAges[1]": "type", "childrenAges": "count"}},
		{path: hotel + "?adults=1&adults=2", want: map[string]string{"adults": "conflict"}},
		{path: hotel + "?%zz", want: map[string]string{"query": "format"}},
		{path: hotel, header: map[string]string{"X-Currency": "XAU"}, wantCode: bff.CodeCurrencyNotSupported, want: map[string]string{"X-Currency": "unsupported"}},
		{path: hotel + "?locale=tlh", wantCode: bff.CodeLocaleNotSupported, want: map[string]string{"locale": "unsupported"}},
		{path: "/facets?country=AF&locale=tlh", wantCode: bff.CodeLocaleNotSupported, want: map[string]string{"locale": "unsupported"}},
		{path: hotel + "/availability", want: map[string]string{"from": "required", "to": "required"}},
		{path: hotel + "/availability?from=2077-03-10&to=2077-03-10", want: map[string]string{"to": "order"}},
		{path: hotel + "/availability?from=2077-03-10&to=2077-05-12", want: map[string]string{"to": "range"}},
		{path: hotel + "/availability?from=x&to=2077-13-12", want: map[string]string{"from": "format", "to": "format"}},
		{path: "/facets", want: map[string]string{"country": "required"}},
		{path: "/facets?country=AFG", want: map[string]string{"country": "length"}},
		{path: "/facets?country=A1&region=" + strings.Repeat("r", 101), want: map[string]string{"country": "format", "region": "length"}},
		{path: "/suggest", want: map[string]string{"q": "required"}},
		{path: "/suggest?q=" + strings.Repeat("q", 65), want: map[string]string{"q": "length"}},
		{path: "/suggest?q=kab&limit=21", want: map[string]string{"limit": "range"}},
		{path: "/suggest?q=kab%00", want: map[string]string{"q": "format"}},
		{path: "/suggest?q=%20", want: map[string]string{"q": "format"}},
		{path: "/suggest?q=%E2%80%8C", want: map[string]string{"q": "format"}},                          // a joiner
		{path: "/suggest?q=" + strings.Repeat("%EF%B7%BA", 50), want: map[string]string{"q": "length"}}, // ﷺ
		{path: "/facets?country=AF&region=" + strings.Repeat("%EF%B7%BA", 60), want: map[string]string{"region": "length"}},
		{path: "/facets?country=AF&region=%E2%80%A6", want: map[string]string{"region": "format"}}, // …
	} {
		t.Run(tt.path, func(t *testing.T) {
			a, _ := s.ask(guestCall{method: http.MethodGet, path: tt.path, header: tt.header})
			checkRefusal(t, a, tt.wantCode, tt.want)
		})
	}
}

// TestTelemetryNamesEveryBadField sends much that is wrong at once.
func TestTelemetryNamesEveryBadField(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	report := func(path, body string, want int) (fields []string) {
		t.Helper()
		a, _ := s.ask(guestCall{method: http.MethodPost, path: "/telemetry/" + path, body: body})
		var doc struct {
			Error struct{ Errors []bff.FieldError }
		}
		if err := json.Unmarshal(a.body, &doc); err != nil || a.status != want {
			t.Errorf("%s %.100s: %s, want %d", path, body, a, want)
		}
		for _, f := range doc.Error.Errors {
			fields = append(fields, f.Field)
		}
		return slices.Sorted(slices.Values(fields))
	}
	many := `{"k0":0`
	for i := range 16 {
		many += fmt.Sprintf(`,"k%d":1`, i+1)
	}
	for _, tc := range []struct {
		path, body string
		want       []string
	}{
		{"click", `{}`, []string{"kind", "tenantId", "propertyId"}},
		{
			"click", `{"kind":"nothing","tenantId":"x","propertyId":7,"searchSessionId":"gms_1","position":0,"page":1.5,"sortKey":"best"}`,
			[]string{"kind", "tenantId", "propertyId", "searchSessionId", "position", "page", "sortKey"},
		},
		{"page-view", `{"referer":"javascript:alert(1)","tenantId":[]}`, []string{"path", "referer", "tenantId"}},
		{"page-view", `{"path":"search"}`, []string{"path"}},
		{"page-view", `{"path":"//elsewhere.example/x"}`, []string{"path"}},
		{"page-view", `{"path":"/users/somebody@example.com"}`, []string{"path"}},
		{"page-view", `{"path":"/users/somebody%40example.com"}`, []string{"path"}},
		{"page-view", `{"path":"` + strings.Repeat("/a", 300) + `"}`, []string{"path"}},
		{
			"funnel", `{"step":"paid","metadata":{"mail":"a@b.example","list":[1],"null":null,"big":1e300,"long":"` + strings.Repeat("x", 65) + `"}}`,
			[]string{"step", "metadata.mail", "metadata.list", "metadata.null", "metadata.big", "metadata.long"},
		},
		{"funnel", `{"step":"map.opened","metadata":{"white space":1}}`, []string{"metadata"}},
		{"funnel", `{"step":"map.opened","metadata":[]}`, []string{"metadata"}},
	} {
		if got, want := report(tc.path, tc.body, http.StatusBadRequest), slices.Sorted(slices.Values(tc.want)); !slices.Equal(got, want) {
			t.Errorf("%s %s: refused %v, want %v", tc.path, tc.body, got, want)
		}
	}
	report("funnel", `{"step":"map.opened","metadata":`+many+`}}`, http.StatusBadRequest)
	report("funnel", `{"x":"`+strings.Repeat("x", 5000)+`"}`, http.StatusRequestEntityTooLarge)
}
