package consumerd_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// walker asks one instance, as one guest after the other, for everything that
// the contract describes. The client underneath holds each exchange to it.
type walker struct {
	t        *testing.T
	w        *testkit.World
	p        *platform.Process
	contract *testkit.OpenAPI
	client   *http.Client
	cookie   string // the session's id
	card     string
}

const walkerAgent = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"

// headers of one request; a name may be there twice.
type headers = http.Header

type exchange struct {
	header http.Header
	body   []byte
}

func (x exchange) field(t *testing.T, name string) string {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal(x.body, &members); err != nil {
		t.Fatal(err)
	}
	s, _ := members[name].(string)
	return s
}

// ask sends a request and wants a status. A string or bytes are sent as they
// are, anything else as JSON.
func (k *walker) ask(want int, method, path string, h headers, body any) exchange {
	k.t.Helper()
	return k.send(want, method, "http://"+k.p.Public+"/bff/consumer/v1"+path, h, body)
}

func (k *walker) send(want int, method, to string, h headers, body any) exchange {
	k.t.Helper()
	var raw []byte
	switch b := body.(type) {
	case nil:
	case string:
		raw = []byte(b)
	default:
		var err error
		if raw, err = json.Marshal(b); err != nil {
			k.t.Fatal(err)
		}
	}
	var x exchange
	status := 0
	testkit.Retry(k.t, method+" "+to+" while the service is busy", func() bool {
		status, x = k.once(method, to, h, raw)
		return status == want || !busy(status, x.body)
	})
	if status != want {
		k.t.Errorf("%s %s: %d, want %d: %.400s", method, to, status, want, x.body)
	}
	return x
}

// once sends a request, without a body if there is none, and keeps the cookies.
func (k *walker) once(method, to string, h headers, raw []byte) (int, exchange) {
	k.t.Helper()
	req, err := http.NewRequestWithContext(testkit.Context(k.t), method, to, bytes.NewReader(raw))
	if err != nil {
		k.t.Fatal(err)
	}
	req.Header.Set("User-Agent", walkerAgent)
	req.Header.Set("Accept-Language", "en")
	if raw != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if sent := testkit.CookieHeader(k.cookie, k.card); sent != "" {
		req.Header.Set("Cookie", sent)
	}
	maps.Copy(req.Header, h)
	res, err := k.client.Do(req)
	if err != nil {
		k.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		k.t.Fatal(err)
	}
	testkit.TakeCookies(res.Header, &k.cookie, &k.card)
	return res.StatusCode, exchange{res.Header, got}
}

// TestContract walks every operation of the published contract, with requests
// that are right and requests that are wrong, through a client that holds both
// sides to it: once with the HTTP/1.1 fast path and once with net/http alone.
func TestContract(t *testing.T) {
	t.Parallel()
	for name, off := range map[string]string{"fast path": "false", "net/http": "true"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := patient()
			settings["MELMASTOON_NO_FAST_PATH"] = off
			walkContract(t, settings)
		})
	}
}

func walkContract(t *testing.T, settings map[string]string) {
	t.Helper()
	w := testkit.NewWorld(t, nil)
	contract := testkit.Contract(t)
	k := &walker{t: t, w: w, p: w.Start("bff-consumer", settings), contract: contract, client: contract.Client(nil)}
	for _, leg := range []func(){
		k.elsewhere, k.search, k.labels, k.searchMap, k.suggest, k.facets, k.hotel, k.availability,
		k.wishlist, k.handoffs, k.session, k.telemetry, k.challenge, k.withoutUpstreams,
	} {
		k.cookie, k.card = "", ""
		leg()
	}
	contract.Sends(map[string]string{
		"while a part is away or old": "Availability/days/items/isStale Availability/stale Degradation/ageMs FacetCatalog/stale Suggestions/stale",
		"of other locales": `LocaleInfo/plurals/few LocaleInfo/plurals/many LocaleInfo/plurals/two LocaleInfo/plurals/zero
			MonthNames/standalone`,
		"of other searches than this guest made": "SearchResult/queryRewriteHint SearchedPlace/country SearchedPlace/region",
	})
	// What can be had only by breaking the service, or by waiting.
	rare := []string{"403", "429", "500", "503", "504"}
	races := []string{"addToWishlist 409", "removeFromWishlist 409", "mintHandoff 410"}
	for _, unseen := range contract.Unseen() {
		_, status, _ := strings.Cut(unseen, " ")
		if !slices.Contains(rare, status) && !slices.Contains(races, unseen) {
			t.Errorf("%s: no request reached it", unseen)
		}
	}
}

type members = map[string]any

// query is a search with the given members on top.
func (k *walker) query(change members) members {
	q := members{
		"geo":   members{"mode": "city", "city": "Kabul"},
		"dates": members{"checkIn": "2077-05-12", "checkOut": "2077-05-15"}, "occupancy": members{"adults": 2, "rooms": 1},
	}
	maps.Copy(q, change)
	return q
}

func (k *walker) elsewhere() {
	k.ask(404, "GET", "/nowhere", nil, nil)
	k.ask(404, "GET", "/hotels", nil, nil)
	k.ask(405, "GET", "/search", nil, nil)
	k.ask(405, "PUT", "/wishlist", nil, members{})
	k.ask(405, "POST", "/hotels/ppt_01JXG9KMGRC638MD0V7C0ZPD0W", nil, members{})
	k.ask(405, "OPTIONS", "/search", nil, nil)
	k.ask(403, "OPTIONS", "/search", headers{"Origin": {"https://hotel.example"}, "Access-Control-Request-Method": {"POST"}}, nil)
	k.ask(400, "GET", "/nowhere", headers{"X-Request-Id": {"not one"}}, nil)
	k.send(404, "POST", "http://"+k.p.Public+"/internal/handoff/bhd_01M7H171SJSMVD891RBXMF12X2/consume", nil, members{})
	k.send(404, "GET", "http://"+k.p.Public+"/metrics", nil, nil)
}

// misbehave sends what no route takes.
func (k *walker) misbehave(method, path string, good members) {
	k.t.Helper()
	key := headers{"Idempotency-Key": {"misbehave"}}
	with := func(name, value string) headers {
		h := key.Clone()
		h.Set(name, value)
		return h
	}
	body := func() any {
		if good == nil {
			return nil
		}
		return good
	}
	k.ask(400, method, path, with("Authorization", "Bearer x"), body())
	k.ask(400, method, path, with("X-Request-Id", "'; drop table"), body())
	if method == http.MethodGet {
		k.ask(200, method, path, with("Sec-Fetch-Site", "same-site"), nil)
		return
	}
	k.ask(403, method, path, with("Sec-Fetch-Site", "same-site"), body())
	k.ask(403, method, path, with("Origin", "https://hotel.example"), body())
	k.ask(415, method, path, with("Content-Type", "text/plain"), "{}")
	if good == nil {
		return
	}
	k.ask(400, method, path, key, `{"geo":`)
	k.ask(400, method, path, key, `[]`)
	k.ask(400, method, path, key, "\"\xff\"")
	k.ask(400, method, path, key, ``)
	k.ask(413, method, path, key, `{"pad":"`+strings.Repeat("x", 1<<16)+`"}`)
}

// cookies sends what no guest has: it counts as absent.
func (k *walker) cookies(want int, method, path string, good any) {
	k.t.Helper()
	for _, bad := range []string{
		"gms_id=nonsense", "gms_id=gms_01M7H171SJSMVD891RBXMF12X2; gms_id=gms_01M7H171SJSMVD891RBXMF12X3",
		"gms_id=gms_01M7H171SJSMVD891RBXMF12X2; __Host-gms_card=nonsense",
	} {
		k.ask(want, method, path, headers{"Cookie": {bad}, "Idempotency-Key": {"cookies"}}, good)
		if k.cookie == "gms_01M7H171SJSMVD891RBXMF12X2" || k.cookie == "gms_01M7H171SJSMVD891RBXMF12X3" {
			k.t.Errorf("%s %s: %s was adopted", method, path, k.cookie)
		}
	}
	k.cookie, k.card = "", ""
}

func (k *walker) search() {
	first := k.ask(200, "POST", "/search", nil, k.query(nil))
	if k.cookie == "" {
		k.t.Error("no session was opened")
	}
	// What a busy machine did not bring in time is missing, and the answer kept for a moment only.
	until(k.t, "a whole answer", func() bool {
		return k.t.Failed() || bytes.Contains(k.ask(200, "POST", "/search", nil, k.query(nil)).body, []byte(`"degraded":[]`))
	})
	k.ask(200, "POST", "/search", headers{
		"X-Search-Session": first.header["X-Search-Session"], "Accept-Encoding": {"zstd"},
	}, k.query(members{"page": members{"limit": 50, "offset": 20}}))
	again := k.ask(200, "POST", "/search", headers{"Accept-Encoding": {"gzip"}}, k.query(nil))
	if got := again.header.Get("X-Cache"); got != "HIT" {
		k.t.Errorf("X-Cache = %q, want HIT", got)
	}
	if got := again.header.Get("X-Content-Type-Options"); got != "nosniff" {
		k.t.Errorf("X-Content-Type-Options = %q: a browser may guess what it is", got)
	}
	for _, change := range []members{
		{"geo": members{"mode": "point", "point": members{"lat": 34.5281, "lng": 69.1723, "radiusKm": 5}}, "sortKey": "distance-asc"},
		{"geo": members{"mode": "bounding-box", "boundingBox": members{"swLat": 34.4, "swLng": 69, "neLat": 34.7, "neLng": 69.4}}},
		{"geo": members{"mode": "region", "region": "Herat Province", "country": "af"}, "currency": "USD", "locale": "prs"},
		{"geo": members{"mode": "city", "city": "Qom"}, "currency": "EUR", "locale": "fa-IR", "sortKey": "price-asc", "unknown": true},
		{"geo": members{"mode": "city", "city": "Atlantis"}},
		{"occupancy": members{"adults": 2, "children": 2, "childrenAges": []int{5, 8}, "rooms": 1}, "filters": members{
			"priceRange": members{"min": 20, "max": 80, "currency": "USD"}, "amenities": []string{"free-wifi"}, "starRating": []int{3, 4, 5},
			"guestRatingMin": 7.5, "propertyType": []string{"hotel"}, "cancellationFlexibility": "free", "neighbourhoods": []string{"Shahr-e Naw"},
		}},
	} {
		k.ask(200, "POST", "/search", nil, k.query(change))
	}
	k.ask(200, "POST", "/search?utm_source=poster", headers{"X-Campaign-Name": {"nawruz"}, "X-Currency": {"PKR"}, "Dnt": {"1"}}, k.query(nil))
	for _, change := range []members{
		{"geo": nil, "dates": nil, "occupancy": nil},
		{"geo": members{"mode": "city", "city": "Kabul", "region": "Kabul"}},
		{"geo": members{"mode": "planet"}},
		{"geo": "Kabul"},
		{"dates": members{"checkIn": "2077-05-15", "checkOut": "2077-05-12"}},
		{"occupancy": members{"adults": 0, "rooms": 99, "children": 1, "childrenAges": []int{5, 40}}},
		{"filters": members{"priceRange": members{"min": 9, "max": 1}, "propertyType": []string{"castle"}, "amenities": "wifi"}},
		{"dates": members{"checkIn": "2020-05-12", "checkOut": "2020-05-15"}},
		{"page": members{"limit": 0, "offset": 1e9}},
		{"locale": "xx", "currency": "JPY"},
	} {
		k.ask(400, "POST", "/search", nil, k.query(change))
	}
	k.ask(400, "POST", "/search", headers{"X-Search-Session": {"srs_1"}}, k.query(nil))
	k.ask(422, "POST", "/search", nil, k.query(members{"locale": "xx"}))
	k.ask(422, "POST", "/search", nil, k.query(members{"currency": "JPY"}))
	k.ask(422, "POST", "/search", headers{"X-Currency": {"JPY"}}, k.query(nil))
	k.misbehave("POST", "/search", k.query(nil))
	k.cookies(200, "POST", "/search", k.query(nil))
}

// labels reads places in a guest's own language, wherever they are named. A search takes them in any.
func (k *walker) labels() {
	k.t.Helper()
	dari := headers{"Accept-Language": {"prs"}}
	hotels := k.w.Sim.Catalog().Properties
	i := slices.IndexFunc(hotels, func(p sim.CatalogProperty) bool { return p.City == "Herat" })
	wish := members{"propertyId": hotels[i].PropertyID, "source": "list"}
	k.ask(201, "POST", "/wishlist", headers{"Accept-Language": {"prs"}, "Idempotency-Key": {"label"}}, wish)
	for name, x := range map[string]exchange{
		"search":   k.ask(200, "POST", "/search", dari, k.query(members{"geo": members{"mode": "city", "city": "هرات"}})),
		"wishlist": k.ask(200, "GET", "/wishlist", dari, nil),
		"suggest":  k.ask(200, "GET", "/suggest?q=herat", dari, nil),
		"hotel":    k.ask(200, "GET", "/hotels/"+hotels[i].PropertyID, dari, nil),
	} {
		if !bytes.Contains(x.body, []byte(`"city":"Herat","cityLabel":"هرات"`)) {
			k.t.Errorf("%s: %.300s", name, x.body)
		}
		if named := bytes.Contains(x.body, []byte(`"region":"Herat Province","regionLabel":"ولایت هرات"`)); named != (name == "suggest" || name == "hotel") {
			k.t.Errorf("%s: the region is named: %t", name, named)
		}
	}
	x := k.ask(200, "GET", "/facets?country=af&region="+url.QueryEscape("ولایت هرات"), dari, nil)
	if !bytes.Contains(x.body, []byte(`"region":"Herat Province","regionLabel":"ولایت هرات"`)) ||
		!bytes.Contains(x.body, []byte(`"value":"Herat","label":"هرات"`)) {
		k.t.Errorf("facets: %.300s", x.body)
	}
}

func (k *walker) searchMap() {
	hotel := k.w.Sim.Catalog().Properties[0]
	box := members{"mode": "bounding-box", "boundingBox": members{
		"swLat": hotel.Geo.Lat - .1, "swLng": hotel.Geo.Lng - .1, "neLat": hotel.Geo.Lat + .1, "neLng": hotel.Geo.Lng + .1,
	}}
	x := k.ask(200, "POST", "/search/map", nil, k.query(members{"geo": box, "cursor": members{"propertyId": hotel.PropertyID}}))
	if !bytes.Contains(x.body, []byte(`"cheapestNightlyMinor"`)) {
		k.t.Errorf("no pin has a price: %.300s", x.body)
	}
	k.ask(200, "POST", "/search/map", nil, k.query(nil))
	k.ask(200, "POST", "/search/map", nil, k.query(members{"geo": members{"mode": "bounding-box", "boundingBox": members{
		"swLat": 20, "swLng": 40, "neLat": 50, "neLng": 80,
	}}}))
	k.ask(400, "POST", "/search/map", nil, k.query(members{"geo": members{"mode": "region", "region": "Kabul Province"}}))
	k.ask(400, "POST", "/search/map", nil, k.query(members{"cursor": members{"propertyId": "ppt_1"}}))
	k.ask(422, "POST", "/search/map", nil, k.query(members{"locale": "xx"}))
	k.misbehave("POST", "/search/map", k.query(nil))
	k.cookies(200, "POST", "/search/map", k.query(nil))
}

// shared asks for an answer that guests share, in several ways.
func (k *walker) shared(path string) {
	k.t.Helper()
	x := k.ask(200, "GET", path, headers{"Accept-Encoding": {"identity"}}, nil)
	for _, name := range []string{"Etag", "Vary"} {
		if x.header.Get(name) == "" {
			k.t.Errorf("%s: no %s", path, name)
		}
	}
	k.ask(304, "GET", path, headers{"Accept-Encoding": {"identity"}, "If-None-Match": x.header["Etag"]}, nil)
	k.ask(200, "HEAD", path, nil, nil)
	k.ask(200, "GET", path, headers{"Accept-Language": {"prs, en;q=0.5"}, "X-Currency": {"USD"}, "Accept-Encoding": {"gzip"}}, nil)
	k.ask(200, "GET", path, headers{"Accept-Language": {"tg"}, "Accept-Encoding": {"zstd, gzip"}}, nil)
	k.ask(422, "GET", path, headers{"X-Currency": {"JPY"}}, nil)
	k.misbehave("GET", path, nil)
	if k.cookie != "" {
		k.t.Errorf("%s: a shared answer opened a session", path)
	}
}

func (k *walker) suggest() {
	k.shared("/suggest?q=kab&limit=5")
	k.ask(200, "GET", "/suggest?q="+url.QueryEscape("كابل"), nil, nil)
	k.ask(200, "GET", "/suggest?q=hotel&limit=20", nil, nil)
	k.ask(200, "GET", "/suggest?q=zzzzzz", nil, nil)
	k.ask(400, "GET", "/suggest", nil, nil)
	k.ask(400, "GET", "/suggest?q=kab&limit=21", nil, nil)
	k.ask(400, "GET", "/suggest?q=kab&q=her", nil, nil)
}

func (k *walker) facets() {
	k.shared("/facets?country=AF")
	k.ask(200, "GET", "/facets?country=af&region="+url.QueryEscape("Kabul Province"), nil, nil)
	k.ask(404, "GET", "/facets?country=ZZ", nil, nil)
	k.ask(400, "GET", "/facets", nil, nil)
	k.ask(400, "GET", "/facets?country=AFG", nil, nil)
	k.ask(400, "GET", "/facets?country=A1", nil, nil)
}

const noHotel = "ppt_01M7H171SJSMVD891RBXMF12X2"

func (k *walker) hotel() {
	hotels := k.w.Sim.Catalog().Properties
	k.shared("/hotels/" + hotels[0].PropertyID)
	for _, h := range hotels[1:12] {
		k.ask(200, "GET", "/hotels/"+h.PropertyID+"?checkIn=2077-05-12&checkOut=2077-05-15&adults=2&children=2&childrenAges=5,8&rooms=1", nil, nil)
	}
	path := "/hotels/" + hotels[0].PropertyID
	k.ask(404, "GET", "/hotels/"+noHotel, nil, nil)
	k.ask(400, "GET", "/hotels/"+hotels[0].TenantID, nil, nil)
	k.ask(400, "GET", path+"?checkIn=2077-05-12", nil, nil)
	k.ask(400, "GET", path+"?checkIn=2077-05-12&checkOut=tomorrow", nil, nil)
	k.ask(400, "GET", path+"?children=2&childrenAges=5", nil, nil)
	k.ask(400, "GET", path+"?adults=none", nil, nil)
}

func (k *walker) availability() {
	hotels := k.w.Sim.Catalog().Properties
	path := "/hotels/" + hotels[0].PropertyID + "/availability"
	k.shared(path + "?from=2077-05-12&to=2077-06-12&adults=2&children=1&childrenAges=4&rooms=1")
	k.ask(200, "GET", path+"?from=2077-05-12&to=2077-07-13&rooms=15", nil, nil)
	k.ask(404, "GET", "/hotels/"+noHotel+"/availability?from=2077-05-12&to=2077-05-15", nil, nil)
	k.ask(400, "GET", path, nil, nil)
	k.ask(400, "GET", path+"?from=2077-05-12&to=2077-05-12", nil, nil)
	k.ask(400, "GET", path+"?from=2077-05-12&to=2078-05-12", nil, nil)
	k.ask(400, "GET", "/hotels/none/availability?from=2077-05-12&to=2077-05-15", nil, nil)
}

func (k *walker) wishlist() {
	hotels := k.w.Sim.Catalog().Properties
	key := func(name string) headers { return headers{"Idempotency-Key": {name}} }
	wish := func(i int) members {
		return members{"propertyId": hotels[i].PropertyID, "source": "detail", "note": "هوټل"}
	}
	k.ask(200, "GET", "/wishlist", nil, nil)
	k.ask(201, "POST", "/wishlist", key("a"), wish(0))
	replay := k.ask(201, "POST", "/wishlist", headers{"X-Idempotency-Key": {"a"}}, wish(0))
	if replay.header.Get("Idempotency-Replayed") != "true" {
		k.t.Error("a replay does not say so")
	}
	k.ask(200, "POST", "/wishlist", key("b"), wish(0))
	k.ask(201, "POST", "/wishlist", key("c"), members{"propertyId": hotels[1].PropertyID, "source": "list"})
	k.ask(422, "POST", "/wishlist", key("a"), wish(2))
	k.ask(428, "POST", "/wishlist", nil, wish(2))
	k.ask(404, "POST", "/wishlist", key("d"), members{"propertyId": noHotel, "source": "map"})
	k.ask(400, "POST", "/wishlist", headers{"Idempotency-Key": {"e"}, "X-Idempotency-Key": {"f"}}, wish(2))
	k.ask(400, "POST", "/wishlist", key(strings.Repeat("k", 129)), wish(2))
	k.ask(400, "POST", "/wishlist", key("g"), members{"propertyId": 7, "source": "elsewhere", "note": strings.Repeat("x", 281)})
	k.ask(200, "GET", "/wishlist", nil, nil)
	k.ask(204, "DELETE", "/wishlist/"+hotels[0].PropertyID, key("h"), nil)
	k.ask(204, "DELETE", "/wishlist/"+hotels[0].PropertyID, key("h"), nil)
	k.ask(204, "DELETE", "/wishlist/"+noHotel, key("i"), nil)
	k.ask(422, "DELETE", "/wishlist/"+hotels[1].PropertyID, key("h"), nil)
	k.ask(428, "DELETE", "/wishlist/"+hotels[1].PropertyID, nil, nil)
	k.ask(400, "DELETE", "/wishlist/none", key("j"), nil)
	k.misbehave("GET", "/wishlist", nil)
	k.misbehave("POST", "/wishlist", wish(3))
	k.misbehave("DELETE", "/wishlist/"+noHotel, nil)
	k.cookies(200, "GET", "/wishlist", nil)
	k.cookies(201, "POST", "/wishlist", wish(3))
	k.cookies(204, "DELETE", "/wishlist/"+noHotel, nil)
}

func (k *walker) session() {
	k.ask(200, "GET", "/session?utm_source=poster&utm_medium=wall&utm_campaign=nawruz", nil, nil)
	k.ask(200, "POST", "/session/locale", nil, members{"locale": "prs-AF"})
	k.ask(200, "POST", "/session/currency", nil, members{"currency": "IRR"})
	k.ask(200, "POST", "/session/consent", nil, members{"telemetry": true, "marketing": true})
	k.ask(200, "POST", "/session/consent", nil, members{"marketing": false})
	k.ask(422, "POST", "/session/locale", nil, members{"locale": "xx"})
	k.ask(422, "POST", "/session/currency", nil, members{"currency": "JPY"})
	k.ask(400, "POST", "/session/locale", nil, members{})
	k.ask(400, "POST", "/session/currency", nil, members{"currency": 7})
	k.ask(400, "POST", "/session/consent", nil, members{"telemetry": "yes"})
	// Something to remember.
	hotel := k.w.Sim.Catalog().Properties[0]
	k.ask(200, "POST", "/search", nil, k.query(nil))
	k.ask(200, "POST", "/search", nil, k.query(members{"geo": members{"mode": "point", "point": members{"lat": 34.5, "lng": 69.1, "radiusKm": 3}}}))
	k.ask(200, "POST", "/search", nil, k.query(members{"geo": members{"mode": "bounding-box", "boundingBox": members{
		"swLat": 34.4, "swLng": 69, "neLat": 34.7, "neLng": 69.4,
	}}, "occupancy": members{"adults": 1, "rooms": 1, "children": 1, "childrenAges": []int{0}}}))
	k.ask(200, "GET", "/hotels/"+hotel.PropertyID, headers{"X-View-Source": {"search-list"}}, nil)
	k.ask(201, "POST", "/wishlist", headers{"Idempotency-Key": {"s"}}, members{"propertyId": hotel.PropertyID, "source": "recently-viewed"})
	until(k.t, "what was seen is remembered, after the response", func() bool {
		x := k.ask(200, "GET", "/session", nil, nil)
		return k.t.Failed() || (bytes.Contains(x.body, []byte(hotel.PropertyID)) && bytes.Count(x.body, []byte("queryHash")) == 3)
	})
	for path, good := range map[string]members{
		"/session/locale": {"locale": "en"}, "/session/currency": {"currency": "AFN"}, "/session/consent": {"telemetry": true},
	} {
		k.misbehave("POST", path, good)
	}
	k.misbehave("GET", "/session", nil)
	k.misbehave("POST", "/session/clear", nil)
	k.ask(204, "POST", "/session/clear", nil, nil)
	k.ask(204, "POST", "/session/clear", nil, nil)
	k.cookies(200, "GET", "/session", nil)
	k.cookies(200, "POST", "/session/locale", members{"locale": "en"})
	k.cookies(204, "POST", "/session/clear", nil)
}

func (k *walker) telemetry() {
	hotel := k.w.Sim.Catalog().Properties[0]
	for _, r := range reports(hotel) {
		k.ask(202, "POST", r.path, nil, r.body)
		k.ask(400, "POST", r.path, nil, members{"tenantId": "nobody", "kind": "glance", "path": "search", "step": "none", "metadata": members{"1": nil}})
		k.misbehave("POST", r.path, r.body)
		k.cookies(202, "POST", r.path, r.body)
	}
	k.ask(202, "POST", "/telemetry/click", nil, members{"kind": "brand-peek", "tenantId": hotel.TenantID})
	k.ask(200, "POST", "/session/consent", nil, members{"telemetry": false})
	for _, r := range reports(hotel) {
		k.ask(202, "POST", r.path, nil, r.body)
	}
}

func (k *walker) challenge() {
	k.ask(200, "GET", "/challenge", nil, nil)
	k.misbehave("GET", "/challenge", nil)
	k.ask(200, "GET", "/session", nil, nil) // of whom it is held against
	k.ask(403, "GET", "/session", headers{"X-Challenge": {"nonsense"}}, nil)
	k.ask(403, "POST", "/telemetry/click", headers{"X-Recaptcha-Token": {"nonsense"}}, members{})
	k.ask(403, "GET", "/session", headers{"X-Challenge": {"nonsense"}}, nil)
	k.ask(429, "GET", "/session", nil, nil) // three are enough
}

// withoutUpstreams breaks one service after the other: what is missing is said,
// and what cannot be had is refused, in the words of the contract.
func (k *walker) withoutUpstreams() {
	hotels := k.w.Sim.Catalog().Properties
	for i, upstream := range []string{"pricing", "theme-config", "property", "tenant", "search-aggregation"} {
		if err := k.w.Sim.SetFault(sim.Fault{Upstream: upstream, Status: http.StatusInternalServerError}); err != nil {
			k.t.Fatal(err)
		}
		status, key := 200, headers{"Idempotency-Key": {upstream}}
		minted := 201
		if upstream == "search-aggregation" {
			status, minted = 503, 503
		}
		hotel := hotels[20+i]
		city := k.query(members{"geo": members{"mode": "city", "city": []string{"Herat", "Ghazni", "Kunduz", "Khost", "Balkh"}[i]}})
		k.ask(status, "POST", "/search", nil, city)
		k.ask(status, "POST", "/search/map", nil, city)
		k.ask(200, "GET", "/hotels/"+hotel.PropertyID, nil, nil)
		k.ask(status, "GET", "/hotels/"+hotel.PropertyID+"/availability?from=2077-05-12&to=2077-05-15", nil, nil)
		k.ask(status, "GET", "/suggest?q=her&limit="+strconv.Itoa(i+1), nil, nil)
		k.ask(status, "GET", "/facets?country=IR&region="+strconv.Itoa(i), nil, nil)
		k.ask(minted, "POST", "/wishlist", key, members{"propertyId": hotel.PropertyID, "source": "map"})
		k.ask(200, "GET", "/wishlist", nil, nil)
		k.ask(minted, "POST", "/handoff", key, members{
			"propertyId": hotel.PropertyID, "tenantId": hotel.TenantID,
			"dates": members{"checkIn": "2077-05-12", "checkOut": "2077-05-15"}, "occupancy": members{"adults": 1, "rooms": 1},
			"shown": members{"minor": "100", "currency": "AFN", "capturedAt": "2026-11-16T01:58:12Z"},
		})
		k.w.Sim.ClearFaults()
	}
}
