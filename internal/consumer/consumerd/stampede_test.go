package consumerd_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
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

const (
	apiBase = "/bff/consumer/v1"

	callListings = "search-aggregation POST /api/v1/search/listings"
	callResolve  = "search-aggregation GET /api/v1/properties/{propertyId}"
	callSimilar  = "search-aggregation GET /api/v1/properties/{propertyId}/similar"
	callPreview  = "pricing POST /v1/pricing/quotes/preview"
	callDescribe = "property GET /api/v1/properties/{propertyId}"
	callBrands   = "theme-config POST /api/v1/brand-peeks/batch"
	callTenant   = "tenant GET /api/v1/tenants/{tenantId}"
)

// fleet is a world with some instances of the service and a crowd of guests in
// front of them.
type fleet struct {
	*testkit.World
	nodes    []*platform.Process
	settings map[string]string // of instances that have any of their own
	client   *http.Client
	t        testing.TB
}

func newFleet(t testing.TB, nodes int, change func(*platform.Places)) *fleet {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 2000, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	f := &fleet{World: testkit.NewWorld(t, change), client: &http.Client{Transport: transport}, t: t}
	for range nodes {
		f.nodes = append(f.nodes, f.launch(nil))
	}
	for i := range f.nodes {
		f.awaitReady(i)
	}
	return f
}

// launch starts an instance that believes X-Forwarded-For, so that each guest
// has an address of their own and limits on one never speak for the crowd.
func (f *fleet) launch(settings map[string]string) *platform.Process {
	f.t.Helper()
	env := map[string]string{"BFF_CONSUMER_TRUSTED_PROXIES": "127.0.0.0/8", "MELMASTOON_LOG_LEVEL": "error"}
	maps.Copy(env, settings)
	return f.Launch("bff-consumer", env)
}

// hotels are those that guests can see: of tenants that are not suspended.
func (f *fleet) hotels() []sim.CatalogProperty {
	c := f.Sim.Catalog()
	active := map[string]bool{}
	for _, t := range c.Tenants {
		active[t.TenantID] = t.Status == "active"
	}
	return slices.DeleteFunc(c.Properties, func(p sim.CatalogProperty) bool { return !active[p.TenantID] })
}

// awaitReady also starts an instance again whose port was taken by something else,
// such as one of our own connections, before it could listen.
func (f *fleet) awaitReady(node int) {
	f.t.Helper()
	for attempt := range 3 {
		err := f.nodes[node].AwaitReady(testkit.Context(f.t))
		if err == nil {
			return
		}
		select {
		case <-f.nodes[node].Done():
		default:
			f.t.Fatal(err)
		}
		if attempt == 2 {
			f.t.Fatal(err)
		}
		f.nodes[node] = f.launch(f.settings)
	}
}

// guestCall is what a guest asks of an instance.
type guestCall struct {
	node, guest  int
	method, path string
	body         string
	header       map[string]string
}

type guestAnswer struct {
	status int
	header http.Header
	body   []byte
}

func (a guestAnswer) String() string { return fmt.Sprintf("%d %s", a.status, a.body) }

func (f *fleet) try(ctx context.Context, c guestCall) (guestAnswer, error) {
	req, err := http.NewRequestWithContext(ctx, c.method, "http://"+f.nodes[c.node].Public+apiBase+c.path, strings.NewReader(c.body))
	if err != nil {
		return guestAnswer{}, err
	}
	for k, v := range map[string]string{
		"User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
		"Accept":     "application/json", "Accept-Language": "en", "Content-Type": "application/json",
		"X-Forwarded-For":   fmt.Sprintf("10.%d.%d.%d", c.guest>>16&255, c.guest>>8&255, c.guest&255),
		"X-Client-Timezone": "Etc/Guest-" + strconv.Itoa(c.guest),
	} {
		req.Header.Set(k, v)
	}
	for k, v := range c.header {
		req.Header.Set(k, v)
	}
	res, err := f.client.Do(req)
	if err != nil {
		return guestAnswer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return guestAnswer{res.StatusCode, res.Header, body}, err
}

// ask returns whatever the instance answers.
func (f *fleet) ask(c guestCall) guestAnswer {
	f.t.Helper()
	a, err := f.try(testkit.Context(f.t), c)
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

// get wants a 200.
func (f *fleet) get(c guestCall) guestAnswer {
	f.t.Helper()
	a := f.ask(c)
	if a.status != http.StatusOK {
		f.t.Fatalf("%s %s: %.500s", c.method, c.path, a)
	}
	return a
}

// searchCall is a search; members replace or add to those of a plain one.
func searchCall(city string, members ...string) guestCall {
	return guestCall{method: http.MethodPost, path: "/search", body: query(`"geo":{"mode":"city","city":"`+city+`"}`, members...)}
}

func query(geo string, members ...string) string {
	all := append([]string{
		geo, `"dates":{"checkIn":"2077-03-10","checkOut":"2077-03-12"}`, `"occupancy":{"adults":2,"children":0,"rooms":1}`,
	}, members...)
	return "{" + strings.Join(all, ",") + "}"
}

func hotelCall(id string) guestCall { return guestCall{method: http.MethodGet, path: "/hotels/" + id} }

// crowd has n guests ask the same of all instances at the same moment and
// returns the distinct answers, with how often each was given.
func (f *fleet) crowd(n int, c guestCall) map[string]int {
	f.t.Helper()
	ctx := testkit.Context(f.t)
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		start = make(chan struct{})
		got   = map[string]int{}
	)
	for i := range n {
		wg.Go(func() {
			c := c
			c.node, c.guest = i%len(f.nodes), i
			<-start
			a, err := f.try(ctx, c)
			what := a.String()
			if err != nil {
				what = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			got[what]++
		})
	}
	close(start)
	wg.Wait()
	return got
}

// calls returns how often each upstream route was called since the last look.
func (f *fleet) calls() map[string]int64 {
	out := f.peekCalls()
	f.Sim.ResetCalls()
	return out
}

// guestCalls counts the calls since the last time that guests caused: the status of
// tenants is asked for at intervals, too, whatever guests do.
func (f *fleet) guestCalls() (sum int64) {
	for call, n := range f.calls() {
		if call != callTenant {
			sum += n
		}
	}
	return sum
}

func (f *fleet) peekCalls() map[string]int64 {
	out := map[string]int64{}
	for upstream, routes := range f.Sim.Calls() {
		for route, n := range routes {
			out[upstream+" "+route] = n
		}
	}
	return out
}

// metric sums the series of an instance whose text begins so.
func (f *fleet) metric(node int, prefix string) float64 {
	f.t.Helper()
	sum := 0.0
	for _, line := range f.metricLines(node) {
		if strings.HasPrefix(line, prefix) {
			v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			if err != nil {
				f.t.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}

func (f *fleet) metricLines(node int) (lines []string) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(testkit.Context(f.t), http.MethodGet, "http://"+f.nodes[node].Admin+"/metrics", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	res, err := f.client.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer res.Body.Close()
	scan := bufio.NewScanner(res.Body)
	for scan.Scan() {
		lines = append(lines, scan.Text())
	}
	if err := scan.Err(); err != nil {
		f.t.Fatal(err)
	}
	return lines
}

// extraCalls counts what makes an instance call an upstream once more by design:
// a lease that expired because its holder was starved of CPU, a Redis or an
// upstream too slow to be waited for. On a machine with nothing else to do
// there are none.
func (f *fleet) extraCalls() int64 {
	f.t.Helper()
	sum := 0.0
	for i := range f.nodes {
		for _, m := range []string{
			"bff_consumer_cache_lease_takeover_total", "bff_consumer_cache_redis_errors_total",
			"bff_consumer_upstream_retries_total", "bff_consumer_upstream_hedges_total",
		} {
			sum += f.metric(i, m)
		}
		sum += f.metric(i, "bff_consumer_upstream_calls_total{") - f.metric(i, "bff_consumer_upstream_calls_total{outcome=\"ok\"")
	}
	return int64(sum)
}

// until polls a condition, which must come true before the test's time is up.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	ctx := testkit.Context(t)
	for tick := time.NewTicker(10 * time.Millisecond); ; {
		if done() {
			tick.Stop()
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain: %s", what)
		case <-tick.C:
		}
	}
}

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
			for a := range got {
				if excused == 0 && !strings.HasPrefix(a, "200 ") {
					t.Errorf("%s: %.500s", tt.name, a)
				}
			}
			if excused == 0 && len(got) > 1 {
				t.Errorf("%s: %d different bodies, want 1", tt.name, len(got))
			}
			for call, n := range calls {
				want := tt.want[call]
				if call == callTenant { // each tenant on the page once, for hours
					want = tenantsOn(got)
				}
				// Instances that cannot reach Redis in time ask for themselves.
				if n > want && (excused == 0 || n > int64(len(f.nodes))*want+excused) {
					t.Errorf("%s: %d calls of %s, want %d", tt.name, n, call, want)
				}
			}
			if excused == 0 {
				break
			}
			t.Logf("%s: the machine was too busy %d times, calls %v; once more", tt.name, excused, calls)
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
			searchCall("mazar e sharif", `"filters":{"propertyType":["guesthouse","hotel","hotel"],"starRating":[4,3,3],"amenities":["parking","FREE_WIFI"],"cancellationFlexibility":"any"}`),
			searchCall("  MAZAR-E   SHARIF ", `"sortKey":"recommended","filters":{"amenities":["parking","free-wifi"],"propertyType":["guesthouse","hotel"],"starRating":[4,3]},"page":{"limit":20,"offset":0}`),
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
			first := f.get(tt.spellings[0])
			f.calls()
			// The first instance shares it behind its answer: once another has it, that is done.
			other := tt.spellings[0]
			other.node, other.guest = len(f.nodes)-1, 20
			f.get(other)
			for i, again := range tt.spellings[1:] {
				again.node, again.guest = i%len(f.nodes), 10+i
				if a := f.get(again); !cached(a) || string(a.body) != string(first.body) {
					t.Errorf("spelling %d: %s, same bytes %v", i+1, a.header.Get("Cache-Status"), string(a.body) == string(first.body))
				}
			}
			if calls := f.calls(); len(calls) > 0 {
				t.Errorf("upstream calls %v, want none", calls)
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
		until(t, "followers", func() bool { return waiting()-had >= followers })
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

// TestRedisKilled takes Redis away from warm instances: no read fails.
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
	cookies := make([]string, len(f.nodes))
	for i := range f.nodes {
		for _, c := range warm {
			c.node, c.guest = i, i
			if sent := cookieHeader(f.get(c)); sent != "" {
				cookies[i] = sent
			}
		}
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	f.calls()
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		failed []string
		stale  int
	)
	for round := range 10 {
		for i := range f.nodes {
			for n, c := range warm {
				wg.Go(func() {
					c.node, c.guest = i, i
					if round%2 == 0 { // a guest whose session is away with Redis
						c.header = map[string]string{"Cookie": cookies[i]}
					} else { // a newcomer
						c.guest = 1000*round + 10*n + i
					}
					a, err := f.try(testkit.Context(t), c)
					mu.Lock()
					defer mu.Unlock()
					if err != nil || a.status != http.StatusOK {
						failed = append(failed, fmt.Sprintf("%s %s: %v %.200s", c.method, c.path, err, a))
					} else if a.header.Get("X-Cache") != "HIT" {
						stale++
					}
				})
			}
		}
	}
	wg.Wait()
	slices.Sort(failed)
	if len(failed) > 0 {
		t.Errorf("%d reads failed, such as %s", len(failed), failed[0])
	}
	if stale > 0 || len(f.calls()) > 0 {
		t.Errorf("%d warm reads were no hits; upstream calls %v", stale, f.calls())
	}
	// What was not asked for yet comes from upstream, without Redis.
	for i := range f.nodes {
		cold := searchCall("Jalalabad")
		cold.node = i
		f.get(cold)
	}
	if n := f.peekCalls()[callListings]; n != int64(len(f.nodes)) {
		t.Errorf("%d calls for a cold query, want one of each instance", n)
	}
}
