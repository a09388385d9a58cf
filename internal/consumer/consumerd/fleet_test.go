package consumerd_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/local/sim"
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

func newFleet(t testing.TB, nodes int) *fleet {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 2000, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	f := &fleet{World: testkit.NewWorld(t, nil), client: &http.Client{Transport: transport}, t: t}
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
	return slices.DeleteFunc(slices.Clone(c.Properties), func(p sim.CatalogProperty) bool { return !active[p.TenantID] })
}

// awaitReady also starts an instance again whose port was taken by something else,
// such as one of our own connections, before it could listen. An instance is ready
// without Redis: what it fills until then is not shared, and old once it is there.
func (f *fleet) awaitReady(node int) {
	f.t.Helper()
	for attempt := range 3 {
		err := f.nodes[node].AwaitReady(testkit.Context(f.t))
		if err == nil {
			f.awaitRedis(node)
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

// awaitRedis waits until an instance shares what it fills.
func (f *fleet) awaitRedis(node int) {
	f.t.Helper()
	until(f.t, "Redis", func() bool { return f.metric(node, "bff_consumer_cache_redis_up ") == 1 })
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
	var a guestAnswer
	testkit.Retry(f.t, c.method+" "+c.path+" within the budgets of upstreams", func() bool {
		a = f.ask(c)
		return !testkit.TooSlow(a.status, a.body)
	})
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
	return f.scrape(node).sum(prefix)
}

// series are the metrics of an instance at one moment, as text.
type series struct {
	t     testing.TB
	lines []string
}

func (f *fleet) scrape(node int) series {
	f.t.Helper()
	return series{f.t, f.metricLines(node)}
}

func (s series) sum(prefix string) (sum float64) {
	s.t.Helper()
	for _, line := range s.lines {
		if strings.HasPrefix(line, prefix) {
			v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			if err != nil {
				s.t.Fatal(err)
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
		now := f.scrape(i)
		sum += now.sum("bff_consumer_cache_lease_takeover_total") + now.sum("bff_consumer_cache_redis_errors_total") + now.lateCalls()
	}
	return int64(sum)
}

// lateCalls counts the calls to upstreams that were tried again, hedged or lost.
func (f *fleet) lateCalls() int64 {
	f.t.Helper()
	sum := 0.0
	for i := range f.nodes {
		sum += f.scrape(i).lateCalls()
	}
	return int64(sum)
}

// lateCalls takes all from one moment: a call that ended between two looks would be
// none of them.
func (s series) lateCalls() float64 {
	s.t.Helper()
	return s.sum("bff_consumer_upstream_retries_total") + s.sum("bff_consumer_upstream_hedges_total") +
		s.sum("bff_consumer_upstream_calls_total{") - s.sum("bff_consumer_upstream_calls_total{outcome=\"ok\"")
}

var until = testkit.Until
