package consumerd_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/local/stack"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// TestStampede has a thousand guests ask the same at once, of three cold
// instances: each upstream is called once, and all get the same bytes. It is
// not parallel: it wants the machine for itself.
func TestStampede(t *testing.T) {
	f := newFleet(t, 3, nil)
	const guests = 1000
	f.crowd(guests, guestCall{method: http.MethodGet, path: "/facets?country=AF"}) // opens the connections
	hotels := f.hotels()
	for _, tt := range []struct {
		name string
		ask  func(attempt int) guestCall
		want map[string]int64
	}{
		{
			"search", func(i int) guestCall { return searchCall([]string{"Kabul", "Herat", "Kandahar"}[i]) },
			map[string]int64{callListings: 1, callPreview: 1, callBrands: 1},
		},
		{
			"hotel", func(i int) guestCall { return hotelCall(hotels[700*i].PropertyID) },
			// The second price and brand are those of the similar hotels.
			map[string]int64{callResolve: 1, callSimilar: 1, callDescribe: 1, callPreview: 2, callBrands: 2},
		},
	} {
		for attempt := range 3 {
			before, asked := f.extraCalls(), f.reconciled()
			f.calls()
			got := f.crowd(guests, tt.ask(attempt))
			calls, excused := f.calls(), f.extraCalls()-before
			if f.reconciled() != asked { // it asks for all tenants, whatever guests do
				delete(calls, callTenant)
			}
			var odd []string
			for a := range got {
				if !strings.HasPrefix(a, "200 ") {
					odd = append(odd, fmt.Sprintf("%.500s", a))
				}
			}
			if len(got) > 1 {
				odd = append(odd, fmt.Sprintf("%d different bodies, want 1", len(got)))
			}
			for call, n := range calls {
				want := tt.want[call]
				if call == callTenant { // each tenant on the page once, for hours
					want = tenantsOn(got)
				}
				if n > want {
					odd = append(odd, fmt.Sprintf("%d calls of %s, want %d", n, call, want))
				}
				// Instances that cannot reach Redis in time ask for themselves.
				if excused > 0 && n > int64(len(f.nodes))*want+excused {
					t.Errorf("%s: %d calls of %s, want %d", tt.name, n, call, want)
				}
			}
			if len(odd) == 0 {
				break
			}
			if excused == 0 {
				t.Errorf("%s: %s", tt.name, strings.Join(odd, "; "))
				break
			}
			t.Logf("%s: the machine was too busy %d times, once more: %.300s", tt.name, excused, strings.Join(odd, "; "))
		}
	}
}

// reconciled is when the status of all tenants was last asked for.
func (f *fleet) reconciled() int {
	f.t.Helper()
	return rows(f.t, f.PostgresURL, `SELECT coalesce(extract(epoch FROM max(ended_at)) * 1000, 0)::bigint FROM bff_consumer.job_runs WHERE job = 'tenant-status'`)
}

// tenantsOn counts the tenants that answers show.
func tenantsOn(answers map[string]int) int64 {
	tenants := map[string]bool{}
	for a := range answers {
		for _, id := range tenantPattern.FindAllString(a, -1) {
			tenants[id] = true
		}
	}
	return int64(len(tenants))
}

var tenantPattern = regexp.MustCompile(`"tenantId":"tnt_[0-9A-Z]{26}"`)

// TestOneEntryPerAnswer asks in many spellings: what must give another answer
// never shares an entry, what must give the same always does.
func TestOneEntryPerAnswer(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, nil)
	cached := func(a guestAnswer) bool { return a.header.Get("X-Cache") == "HIT" }

	t.Run("apart", func(t *testing.T) {
		hotel := f.hotels()[3].PropertyID
		bodies, tags := map[string]string{}, map[string]string{}
		for _, tt := range []struct {
			name string
			guestCall
		}{
			{"plain", searchCall("Herat")},
			{"another currency", searchCall("Herat", `"currency":"USD"`)},
			{"another locale", searchCall("Herat", `"locale":"fa-AF"`)},
			{"another party", searchCall("Herat", `"occupancy":{"adults":1,"children":0,"rooms":1}`)},
			{"another order", searchCall("Herat", `"sortKey":"price-asc"`)},
			{"another page", searchCall("Herat", `"page":{"limit":5}`)},
			{"hotel", hotelCall(hotel)},
			{"hotel in another currency", guestCall{method: http.MethodGet, path: "/hotels/" + hotel, header: map[string]string{"X-Currency": "EUR"}}},
			{"hotel in another locale", guestCall{method: http.MethodGet, path: "/hotels/" + hotel, header: map[string]string{"Accept-Language": "ps-AF"}}},
			{"hotel on other nights", hotelCall(hotel + "?checkIn=2077-08-01&checkOut=2077-08-09")},
			{"hotel with children", hotelCall(hotel + "?children=2&childrenAges=3,9")},
		} {
			a := f.get(tt.guestCall)
			if cached(a) {
				t.Errorf("%s: from the cache", tt.name)
			}
			if other, dup := bodies[string(a.body)]; dup {
				t.Errorf("%s: the same bytes as %s", tt.name, other)
			}
			bodies[string(a.body)] = tt.name
			if tag := a.header.Get("ETag"); tag != "" {
				if other, dup := tags[tag]; dup {
					t.Errorf("%s: the ETag of %s", tt.name, other)
				}
				tags[tag] = tt.name
			}
		}
		if len(tags) == 0 {
			t.Error("no answer has an ETag")
		}
	})

	point := func(lat, lng, radius string, members ...string) guestCall {
		return guestCall{method: http.MethodPost, path: "/search", body: query(
			`"geo":{"mode":"point","point":{"lat":`+lat+`,"lng":`+lng+`,"radiusKm":`+radius+`}}`, members...)}
	}
	for _, tt := range []struct {
		name      string
		spellings []guestCall
	}{
		{"jittered coordinates", []guestCall{
			point("34.5281", "69.1724", "5"), point("34.52811", "69.17239", "4.7"), point("34.52786", "69.172049", "4.001"),
		}},
		{"shuffled filters", []guestCall{
			searchCall("Mazar-e Sharif", `"filters":{"amenities":["free-wifi","parking"],"starRating":[3,4],"propertyType":["hotel","guesthouse"]}`),
			searchCall(
				"mazar e sharif",
				`"filters":{"propertyType":["guesthouse","hotel","hotel"],"starRating":[4,3,3],"amenities":["parking","FREE_WIFI"],"cancellationFlexibility":"any"}`,
			),
			searchCall(
				"  MAZAR-E   SHARIF ",
				`"sortKey":"recommended","filters":{"amenities":["parking","free-wifi"],"propertyType":["guesthouse","hotel"],"starRating":[4,3]},"page":{"limit":20,"offset":0}`,
			),
		}},
		{"another spelling of the letters", []guestCall{
			searchCall("کابل"), searchCall("كابل"), searchCall("کـابل"),
		}},
		{"children in another order", []guestCall{
			searchCall("Kandahar", `"occupancy":{"adults":2,"children":2,"rooms":1,"childrenAges":[9,4]}`),
			searchCall("Kandahar", `"occupancy":{"adults":2,"children":2,"rooms":1,"childrenAges":[4,9]}`),
		}},
		{"what nobody reads", []guestCall{
			searchCall("Bamyan"), searchCall("Bamyan", `"nonce":"1"`, `"page":{"limit":20,"x":1}`, `"filters":{}`),
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// Once more, for other nights, if Redis or an upstream was too slow: instances that
			// asked for themselves keep their own answers.
			for day := 12; ; day++ {
				before := f.extraCalls()
				spellings := slices.Clone(tt.spellings)
				for i := range spellings {
					spellings[i].body = strings.Replace(spellings[i].body, "2077-03-12", fmt.Sprintf("2077-03-%d", day), 1)
				}
				first := f.whole(spellings[0])
				f.calls()
				// The first instance shares it after its response: once another has it, that is done.
				other := spellings[0]
				other.node, other.guest = len(f.nodes)-1, 20
				f.get(other)
				var odd []string
				for i, again := range spellings[1:] {
					again.node, again.guest = i%len(f.nodes), 10+i
					if a := f.get(again); !cached(a) || string(a.body) != string(first.body) {
						odd = append(odd, fmt.Sprintf("spelling %d: %s, same bytes %v", i+1, a.header.Get("Cache-Status"), string(a.body) == string(first.body)))
					}
				}
				if calls := f.guestCalls(); calls > 0 {
					odd = append(odd, fmt.Sprintf("%d upstream calls, want none", calls))
				}
				if len(odd) == 0 {
					return
				}
				if f.extraCalls() == before {
					t.Fatal(odd)
				}
				t.Log("the machine was too busy, once more:", odd)
			}
		})
	}
}

// TestHolderKilledMidFill kills the instance that fills an entry while others
// wait for it: one of them takes over, none fails, and the upstream is called
// once more and no oftener.
func TestHolderKilledMidFill(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, nil)
	ctx := testkit.Context(t)
	cities := []string{"Kabul", "Herat", "Kandahar", "Jalalabad", "Bamyan"}
	for attempt, city := range cities {
		// The holder is one more instance, which does not live long.
		f.nodes = append(f.nodes[:2:2], f.launch(nil))
		f.awaitReady(2)
		f.calls()
		if err := f.Sim.SetFault(sim.Fault{Upstream: "search-aggregation", Route: "POST /api/v1/search/listings", Hang: true}); err != nil {
			t.Fatal(err)
		}
		lost := make(chan error, 1)
		go func() {
			c := searchCall(city)
			c.node, c.guest = 2, 999
			a, err := f.try(ctx, c)
			if err == nil {
				err = fmt.Errorf("answered %s", a)
			}
			lost <- err
		}()
		until(t, "the holder's call", func() bool { return f.peekCalls()[callListings] > 0 })

		const followers = 50
		waiting := func() (n float64) {
			for i := range 2 {
				n += f.metric(i, `bff_consumer_singleflight_followers_total{cache="search-list"`)
			}
			return n
		}
		had := waiting()
		answers := make(chan string, followers)
		for i := range followers {
			go func() {
				c := searchCall(city)
				c.node, c.guest = i%2, i
				a, err := f.try(ctx, c)
				if err != nil {
					a.body = []byte(err.Error())
				}
				answers <- a.String()
			}()
		}
		// Each instance follows the holder; its other guests follow its flight.
		until(t, "followers", func() bool { return waiting()-had >= followers || len(lost) > 0 })
		hedged := int64(f.metric(2, "bff_consumer_upstream_hedges_total"))
		f.nodes[2].Kill()
		before := f.peekCalls()[callListings]
		f.Sim.ClearFaults()

		if err := <-lost; strings.HasPrefix(err.Error(), "answered") && attempt < len(cities)-1 {
			t.Logf("the holder gave up before it could be killed, once more: %.200v", err)
			for range followers {
				<-answers
			}
			continue
		}
		got := map[string]int{}
		for range followers {
			got[<-answers]++
		}
		for a := range got {
			if !strings.HasPrefix(a, "200 ") {
				t.Errorf("%d × %.500s", got[a], a)
			}
		}
		after := f.calls()[callListings]
		if before == 2+hedged && attempt < len(cities)-1 {
			t.Log("a hedge was perhaps sent between the look and the kill, once more")
			continue
		}
		if before > 1+hedged || after > before+1 {
			t.Errorf("%d calls before the kill, %d in all; want 1 and 2", before, after)
		}
		return
	}
}

// TestRedisKilled takes Redis away from warm instances: no read fails, and what was
// warm is a hit.
func TestRedisKilled(t *testing.T) {
	t.Parallel()
	var server *stack.Redis
	f := newFleet(t, 3, func(p *platform.Places) {
		server = testkit.NewRedis(t)
		p.RedisURL = server.URL()
	})
	hotels := f.hotels()
	warm := []guestCall{
		searchCall("Kabul"), searchCall("Herat"),
		{method: http.MethodPost, path: "/search/map", body: query(`"geo":{"mode":"city","city":"Kabul"}`)},
		hotelCall(hotels[0].PropertyID), hotelCall(hotels[1].PropertyID),
		{method: http.MethodGet, path: "/hotels/" + hotels[0].PropertyID + "/availability?from=2077-03-10&to=2077-03-20"},
		{method: http.MethodGet, path: "/facets?country=AF"},
		{method: http.MethodGet, path: "/suggest?q=kab"},
	}
	for {
		late := f.lateCalls()
		cookies, expires := f.warm(warm)
		hedged := f.lateCalls() > late // a call that was given up may arrive yet
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		f.calls()
		failed, cold := f.again(warm, cookies)
		if len(failed) > 0 {
			t.Errorf("%d reads failed, such as %s", len(failed), failed[0])
		}
		calls := f.calls()
		delete(calls, callTenant) // asked for at intervals, too, whatever guests do
		if len(cold) == 0 && len(calls) == 0 {
			break
		}
		if time.Now().Before(expires) && (len(cold) > 0 || !hedged) {
			t.Fatalf("%d warm reads were no hits, and there were the upstream calls %v:\n%s", len(cold), calls, strings.Join(cold, "\n"))
		}
		t.Log("the machine was too busy, once more:", calls, cold)
		if err := server.Start(testkit.Context(t)); err != nil {
			t.Fatal(err)
		}
	}
	// What was not asked for yet comes from upstream, without Redis.
	late := f.lateCalls()
	for i := range f.nodes {
		cold := searchCall("Jalalabad")
		cold.node = i
		f.get(cold)
	}
	n, each := f.peekCalls()[callListings], int64(len(f.nodes))
	if n < each || n > each+f.lateCalls()-late {
		t.Errorf("%d calls for a cold query, want one of each instance", n)
	}
}

// warm asks all instances until each has whole answers in its memory: those of a busy
// machine, from which something is missing, live for seconds only. It returns the
// cookies of a guest of each instance, and when the first answer may be renewed.
func (f *fleet) warm(calls []guestCall) (cookies []string, expires time.Time) {
	f.t.Helper()
	const left, sooner = 30, 3 // seconds of freshness, and how long before their end it is renewed
	cookies = make([]string, len(f.nodes))
	for i := range f.nodes {
		f.awaitRedis(i)
		for _, c := range calls {
			c.node, c.guest = i, i
			if sent := cookieHeader(f.get(c)); sent != "" {
				cookies[i] = sent
			}
			f.asking(c, "a whole answer from memory", func(a guestAnswer) bool {
				ttl, ok := strings.CutPrefix(hitPattern.FindString(a.header.Get("Cache-Status")), "; hit; ttl=")
				seconds, err := strconv.Atoi(ttl)
				if !ok || err != nil || seconds < left || !a.whole() {
					return false
				}
				if end := time.Now().Add(time.Duration(seconds-sooner) * time.Second); expires.IsZero() || end.Before(expires) {
					expires = end
				}
				return true
			})
		}
	}
	return cookies, expires
}

// hitPattern is the Cache-Status of an answer from memory.
var hitPattern = regexp.MustCompile(`; hit; ttl=[0-9]+$`)

// again asks all instances ten times at once, for guests whose session is away with
// Redis and for newcomers. It tells the reads that failed, and those that were no hits.
func (f *fleet) again(calls []guestCall, cookies []string) (failed, cold []string) {
	ctx := testkit.Context(f.t)
	var (
		wg sync.WaitGroup
		mu sync.Mutex
	)
	for round := range 10 {
		for i := range f.nodes {
			for n, c := range calls {
				wg.Go(func() {
					c.node, c.guest = i, i
					if round%2 == 0 {
						c.header = map[string]string{"Cookie": cookies[i]}
					} else {
						c.guest = 1000*round + 10*n + i
					}
					a, err := f.try(ctx, c)
					mu.Lock()
					defer mu.Unlock()
					if err != nil || a.status != http.StatusOK {
						failed = append(failed, fmt.Sprintf("%s %s: %v %.200s", c.method, c.path, err, a))
					} else if a.header.Get("X-Cache") != "HIT" {
						cold = append(cold, fmt.Sprintf("%s %s of instance %d: %s, age %s", c.method, c.path, i, a.header.Get("Cache-Status"), a.header.Get("Age")))
					}
				})
			}
		}
	}
	wg.Wait()
	slices.Sort(failed)
	slices.Sort(cold)
	return failed, cold
}
