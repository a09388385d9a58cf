package consumerhttp_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/local/sim"
)

// What a neutral brand looks like.
const neutralColor = "#6b7280"

// discoveryRoutes are the routes of discovery.
var discoveryRoutes = []string{"hotel", "search", "map", "availability", "facets", "suggest"}

// shown is as much of any answer as the promisedAnswers speak of.
type shown struct {
	Results []struct {
		BrandPeek    brandShown
		RateSnapshot *struct{ IsStale bool }
	}
	Pins []struct {
		BrandColor           string
		CheapestNightlyMinor *string
	}
	Rooms                []json.RawMessage
	BrandPeek            *brandShown
	CheapestRateSnapshot *struct{ IsStale bool }
	Days                 []json.RawMessage
	Facets               []json.RawMessage
	Suggestions          []json.RawMessage
	Degraded             []struct {
		Part, Reason string
		AgeMs        int64
		Affected     int
	}
	Stale bool
	Error struct {
		Code       string
		RetryAfter *int
	}
}

type brandShown struct{ PrimaryColor, LogoURL string }

func (b brandShown) neutral() bool { return b.PrimaryColor == neutralColor && b.LogoURL == "" }

// promisedAnswer is what a route owes its guests while something fails.
type promisedAnswer struct {
	status int
	code   bff.Code
	parts  []string // that the answer calls degraded
	// What is missing must look so, and what is not must be there.
	noRates, noBrand, noRooms bool
}

var (
	whole = promisedAnswer{status: http.StatusOK}
	down  = promisedAnswer{status: http.StatusServiceUnavailable, code: bff.CodeUpstreamUnavailable}
)

// promisedAnswers by upstream and route; a route that is not named is whole.
var promisedAnswers = map[string]map[string]promisedAnswer{
	// Without the projection there is nothing to list. A hotel's page still has
	// what property-service knows of it.
	"search-aggregation": {
		"search": down, "map": down, "availability": down, "facets": down, "suggest": down,
		"hotel": {status: http.StatusOK, parts: []string{"popularity", "rates", "calendar", "brand", "similar"}, noRates: true, noBrand: true},
	},
	"pricing": {
		"search": {status: http.StatusOK, parts: []string{"rates"}, noRates: true},
		"map":    {status: http.StatusOK, parts: []string{"mapPrice"}, noRates: true},
		"hotel":  {status: http.StatusOK, parts: []string{"rates", "calendar"}, noRates: true},
	},
	"property": {"hotel": {status: http.StatusOK, parts: []string{"property"}, noRooms: true}},
	"theme-config": {
		"search": {status: http.StatusOK, parts: []string{"brand"}, noBrand: true},
		"map":    {status: http.StatusOK, parts: []string{"brand"}, noBrand: true},
		"hotel":  {status: http.StatusOK, parts: []string{"brand"}, noBrand: true},
	},
	"tenant": {},
	"*":      {"search": down, "map": down, "availability": down, "facets": down, "suggest": down, "hotel": down},
}

type faultKind struct {
	name   string
	fault  sim.Fault
	reason string // that the answer gives
	// slow faults hold each call for as long as its budget lasts, so that the
	// routes are asked at once.
	slow bool
}

var faultKinds = []faultKind{
	{name: "error", fault: sim.Fault{Status: http.StatusInternalServerError}, reason: "error"},
	{name: "garbage", fault: sim.Fault{Garbage: true}, reason: "error"},
	{name: "refusing", fault: sim.Fault{Status: http.StatusTooManyRequests}, reason: "shed"},
	{name: "slow", fault: sim.Fault{LatencyMs: 5000}, reason: "timeout", slow: true},
	{name: "hang", fault: sim.Fault{Hang: true}, reason: "timeout", slow: true},
}

// promised is what a route owes its guests while an upstream fails.
func promised(upstream, route string) promisedAnswer {
	if want, broken := promisedAnswers[upstream][route]; broken {
		return want
	}
	return whole
}

// lateButInTime is no fault.
var lateButInTime = sim.Fault{Upstream: "*", LatencyMs: 100}

// TestUpstreamFaults breaks each upstream in each way and asks every route of
// discovery: the answer has what the other upstreams bring and says what is
// missing and why, or it is a coded refusal. Each row has clients and caches of its
// own, because breakers remember, and a clock of its own: budgets are those of
// production, whatever the machine has to do.
func TestUpstreamFaults(t *testing.T) {
	t.Parallel()
	healthy, err := sim.New(sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	hotels, hotel := roomyHotels(t, healthy), healthy.Catalog().Properties[0]
	ask := func(t *testing.T, fault sim.Fault, atOnce bool) map[string]guestAnswer {
		t.Helper()
		upstreams, err := sim.New(sim.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(upstreams.Close)
		if err := upstreams.SetFault(fault); err != nil {
			t.Fatal(err)
		}
		server := overUpstreams(t, handled{upstreams.Handler()}, hotel, func(*consumer.Visit) {})
		return askAll(hotels, atOnce, func(c guestCall) guestAnswer { return c.serve(server) })
	}
	for _, upstream := range slices.Sorted(maps.Keys(promisedAnswers)) {
		for _, kind := range faultKinds {
			t.Run(upstream+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					kind.fault.Upstream = upstream
					for route, got := range ask(t, kind.fault, kind.slow) {
						check(t, route, got, promised(upstream, route), kind.reason)
					}
				})
			})
		}
	}
	t.Run("late but in time", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			for route, got := range ask(t, lateButInTime, false) {
				check(t, route, got, whole, "")
			}
		})
	})
}

// handled is a way to upstreams without a network.
type handled struct{ http.Handler }

func (h handled) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	in.Host = r.URL.Host
	if in.Body == nil { // as a server would have it
		in.Body = http.NoBody
	}
	w, done := httptest.NewRecorder(), make(chan struct{})
	go func() {
		defer close(done)
		h.ServeHTTP(w, in)
	}()
	select {
	case <-done:
		return w.Result(), nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// roomyHotels have a room on the test's nights, each of another tenant. The projection
// itself is asked, so that no cache hears of it.
func roomyHotels(t *testing.T, upstreams *sim.Sim) (hotels []string) {
	t.Helper()
	w := httptest.NewRecorder()
	upstreams.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/search-aggregation/api/v1/search/map",
		strings.NewReader(query(`"geo":{"mode":"city","city":"Kabul"}`))))
	var found struct {
		Pins []struct{ PropertyID, TenantID string }
	}
	if err := json.NewDecoder(w.Body).Decode(&found); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, p := range found.Pins {
		if !seen[p.TenantID] {
			seen[p.TenantID] = true
			hotels = append(hotels, p.PropertyID)
		}
	}
	if len(hotels) < 2 {
		t.Fatalf("only %d hotels", len(hotels))
	}
	return hotels
}

func faultCall(hotels []string, route string) guestCall {
	const nights = "?checkIn=2077-03-10&checkOut=2077-03-12"
	switch route {
	case "search":
		return searchCall("Herat")
	case "map":
		return guestCall{method: http.MethodPost, path: "/search/map", body: query(`"geo":{"mode":"city","city":"Kabul"}`, `"cursor":{"propertyId":"`+hotels[0]+`"}`)}
	case "hotel":
		return hotelCall(hotels[0] + nights)
	case "availability":
		return hotelCall(hotels[1] + "/availability?from=2077-03-10&to=2077-03-14")
	case "facets":
		return guestCall{method: http.MethodGet, path: "/facets?country=AF"}
	default:
		return guestCall{method: http.MethodGet, path: "/suggest?q=kab"}
	}
}

// askAll asks every route. While calls hang, the routes are asked at once: each
// costs the time that its upstream has. Otherwise one after the other, and the
// one that must name a reason first: a breaker may open on the way, and the
// routes that find it open owe the same answer.
func askAll(hotels []string, atOnce bool, ask func(guestCall) guestAnswer) map[string]guestAnswer {
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		out = map[string]guestAnswer{}
	)
	for _, route := range discoveryRoutes {
		wg.Go(func() {
			a := ask(faultCall(hotels, route))
			mu.Lock()
			defer mu.Unlock()
			out[route] = a
		})
		if !atOnce {
			wg.Wait()
		}
	}
	wg.Wait()
	return out
}

func check(t *testing.T, what string, a guestAnswer, want promisedAnswer, reason string) {
	t.Helper()
	var got shown
	if err := json.Unmarshal(a.body, &got); err != nil {
		t.Errorf("%s: %v: %.300s", what, err, a)
		return
	}
	if a.status != want.status || got.Error.Code != string(want.code) {
		t.Errorf("%s: %d %s, want %d %s: %.500s", what, a.status, got.Error.Code, want.status, want.code, a)
		return
	}
	if want.code != "" {
		if got.Error.RetryAfter == nil || a.header.Get("Retry-After") == "" || a.header.Get("Cache-Control") != "private, no-store" {
			t.Errorf("%s: no word of when to come again, or cacheable: %v", what, a.header)
		}
		return
	}
	var parts []string
	for _, d := range got.Degraded {
		parts = append(parts, d.Part)
		if d.Reason != reason || d.Affected < 1 {
			t.Errorf("%s: degraded %+v, want reason %s", what, d, reason)
		}
	}
	slices.Sort(parts)
	if diff := cmp.Diff(slices.Sorted(slices.Values(want.parts)), parts); diff != "" {
		t.Errorf("%s: degraded parts (-want +got):\n%s", what, diff)
	}
	checkParts(t, what, got, want)
}

func checkParts(t *testing.T, what string, got shown, want promisedAnswer) {
	t.Helper()
	switch {
	case got.Results != nil:
		for _, r := range got.Results {
			if (r.RateSnapshot == nil) != want.noRates || r.BrandPeek.neutral() != want.noBrand {
				t.Errorf("%s: %+v", what, r)
			}
		}
	case got.Pins != nil:
		prices, neutral := 0, 0
		for _, p := range got.Pins {
			if p.CheapestNightlyMinor != nil {
				prices++
			}
			if p.BrandColor == neutralColor {
				neutral++
			}
		}
		if (prices == 0) != want.noRates || prices > 1 || (neutral == len(got.Pins)) != want.noBrand {
			t.Errorf("%s: %d pins, %d prices, %d neutral brands", what, len(got.Pins), prices, neutral)
		}
	case got.BrandPeek != nil:
		if (got.CheapestRateSnapshot == nil) != want.noRates || got.BrandPeek.neutral() != want.noBrand || (len(got.Rooms) == 0) != want.noRooms {
			t.Errorf("%s: rate %+v, brand %+v, %d rooms", what, got.CheapestRateSnapshot, got.BrandPeek, len(got.Rooms))
		}
	case len(got.Days)+len(got.Facets)+len(got.Suggestions) == 0:
		t.Errorf("%s: nothing in the answer", what)
	}
}
