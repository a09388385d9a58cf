package consumerguard

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// person is a set of headers as a browser sends it, with a way to use it.
type person struct {
	Group, Name, Behaviour string
	Headers                map[string]string
}

// script is a program that is no browser, or pretends.
type script struct {
	Group, Name, Does string
	PerMinute         int
	Minutes           int
	Cookies, Rotates  string
	Headers           map[string]string
}

func readCorpus[T any](t testing.TB, file string) []T {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var all []T
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// trace writes plans.
type trace struct {
	rng  *rand.Rand
	at   time.Duration
	plan []step
}

// between waits for a time between two.
func (tr *trace) between(low, high time.Duration) {
	tr.at += low + time.Duration(tr.rng.Int64N(int64(high-low)+1))
}

func (tr *trace) do(method, path, body string) {
	s := step{at: tr.at, method: method, path: path, body: body}
	if method == http.MethodPost && (path == "/wishlist" || path == "/handoff") {
		s.header = map[string]string{"Idempotency-Key": fmt.Sprint(tr.rng.Uint64())}
	}
	tr.plan = append(tr.plan, s)
}

// People look at much the same: a few cities and weekends, many hotels.
func (tr *trace) search() {
	tr.do(http.MethodPost, "/search", fmt.Sprintf(`{"city":%d,"weekend":%d}`, min(tr.rng.IntN(40), tr.rng.IntN(40)), tr.rng.IntN(12)))
}

func (tr *trace) drag() {
	tr.do(http.MethodPost, "/search/map", fmt.Sprintf(`{"box":%d}`, tr.rng.IntN(5000)))
}

func (tr *trace) suggest() {
	tr.do(http.MethodGet, fmt.Sprintf("/suggest?q=%c%c", 'a'+rune(tr.rng.IntN(26)), 'a'+rune(tr.rng.IntN(26))), "")
}

func (tr *trace) hotel() {
	id := min(tr.rng.IntN(800), tr.rng.IntN(800))
	tr.do(http.MethodGet, fmt.Sprintf("/hotels/h%d", id), "")
	tr.between(50*time.Millisecond, 200*time.Millisecond)
	tr.do(http.MethodGet, fmt.Sprintf("/hotels/h%d/availability?w=%d", id, tr.rng.IntN(12)), "")
	tr.do(http.MethodPost, "/telemetry/page-view", "{}")
}

func (tr *trace) arrive() {
	tr.do(http.MethodGet, "/session", "")
	tr.between(40*ms, 300*ms) // the cookie has to arrive
	tr.do(http.MethodGet, "/facets?country=AF", "")
	tr.between(time.Second, 4*time.Second)
}

func (tr *trace) typing(least, most int) {
	for range least + tr.rng.IntN(most-least+1) {
		tr.suggest()
		tr.between(120*time.Millisecond, 350*time.Millisecond)
	}
}

const ms = time.Millisecond

// behaviours are the ways in which people use the pages, for about as long as
// given.
func (tr *trace) behave(how string, length time.Duration) {
	end := tr.at + length
	unhurried := time.Second
	if how == "slow" || how == "office" {
		unhurried = 2 * time.Second
	}
	if how != "nojs" {
		tr.arrive()
	}
	for tr.at < end {
		switch how {
		case "nojs": // every page is a page
			tr.search()
			tr.between(10*time.Second, 30*time.Second)
			for range 1 + tr.rng.IntN(3) {
				tr.do(http.MethodGet, fmt.Sprintf("/hotels/h%d", tr.rng.IntN(800)), "")
				tr.between(10*time.Second, 40*time.Second)
			}
		case "compare": // a dozen tabs at once, then quiet
			tr.search()
			tr.between(5*time.Second, 10*time.Second)
			for range 6 + tr.rng.IntN(7) {
				tr.hotel()
				tr.between(200*ms, 500*ms)
			}
			tr.between(60*time.Second, 120*time.Second)
		case "drag": // the map, back and forth
			tr.search()
			tr.between(2*time.Second, 5*time.Second)
			for range 12 + tr.rng.IntN(20) {
				tr.drag()
				tr.between(250*ms, 900*ms)
			}
			tr.between(5*time.Second, 20*time.Second)
			tr.hotel()
			tr.between(20*time.Second, 60*time.Second)
		case "type": // who cannot decide where to go
			tr.typing(8, 30)
			tr.between(1*time.Second, 4*time.Second)
			tr.typing(3, 12)
			tr.search()
			tr.between(10*time.Second, 30*time.Second)
		case "tabbing": // focus moves from card to card, and pages are fetched ahead
			tr.search()
			for range 15 + tr.rng.IntN(10) {
				tr.between(700*ms, 2500*ms)
				tr.do(http.MethodGet, fmt.Sprintf("/hotels/h%d", tr.rng.IntN(800)), "")
			}
			tr.between(20*time.Second, 40*time.Second)
		case "book":
			tr.typing(3, 7)
			tr.search()
			tr.between(5*time.Second, 15*time.Second)
			tr.hotel()
			for range 2 + tr.rng.IntN(4) {
				tr.between(2*time.Second, 8*time.Second)
				tr.do(http.MethodGet, fmt.Sprintf("/hotels/h%d/availability?w=%d", tr.rng.IntN(800), tr.rng.IntN(40)), "")
			}
			tr.do(http.MethodPost, "/wishlist", `{"propertyId":"h"}`)
			tr.between(5*time.Second, 20*time.Second)
			tr.do(http.MethodPost, "/handoff", `{"propertyId":"h"}`)
			tr.between(30*time.Second, 90*time.Second)
		default: // browse, slow, office, cookieless
			tr.typing(3, 7)
			tr.search()
			tr.do(http.MethodPost, "/telemetry/page-view", "{}")
			tr.between(5*unhurried, 20*unhurried)
			for range 1 + tr.rng.IntN(4) {
				tr.hotel()
				tr.between(6*unhurried, 40*unhurried)
			}
			if tr.rng.IntN(3) == 0 {
				tr.do(http.MethodPost, "/wishlist", `{"propertyId":"h"}`)
			}
			if tr.rng.IntN(2) == 0 {
				for range 2 + tr.rng.IntN(6) {
					tr.drag()
					tr.between(400*ms, 1500*ms)
				}
			}
		}
	}
}

// screens and zones as pages report them.
var (
	screens = []string{"390x844", "412x915", "360x800", "1920x1080", "1536x864", "414x896"}
	zones   = []string{"Asia/Kabul", "Asia/Kabul", "Asia/Tehran", "Asia/Dubai", "Asia/Karachi", "Europe/Berlin"}
)

// guestOf makes a guest with a browser.
func (p person) actor(n int, group, addr string, start, length time.Duration) *actor {
	rng := rand.New(rand.NewPCG(uint64(n), 20261116))
	tr := &trace{rng: rng, at: start}
	tr.behave(p.Behaviour, length)
	headers := maps.Clone(p.Headers)
	if p.Behaviour != "nojs" {
		headers["X-Client-Screen"], headers["X-Client-Timezone"] = screens[n%len(screens)], zones[n%len(zones)]
	}
	cookies := "keep"
	if p.Behaviour == "cookieless" {
		cookies = "none"
	}
	return &actor{group: group, name: p.Name, headers: headers, addr: addr, cookies: cookies, rng: rng, plan: tr.plan}
}

// people is everybody in people.json, at home, in offices and behind carriers.
func people(t testing.TB) []*actor {
	t.Helper()
	people := readCorpus[person](t, "people.json")
	if len(people) < 200 {
		t.Fatalf("%d sets of headers, want 200", len(people))
	}
	var (
		all    []*actor
		mobile []person
		n      int
	)
	add := func(p person, group, addr string, start, length time.Duration) {
		n++
		all = append(all, p.actor(n, group, addr, start, length))
	}
	for i, p := range people {
		start := time.Duration(i%30) * 7 * time.Second
		if p.Behaviour == "office" { // a dozen colleagues with the same browser behind one proxy
			for k := range 12 {
				add(p, p.Group, fmt.Sprintf("192.0.2.%d", i%250), start+time.Duration(k)*11*time.Second, 5*time.Minute)
			}
			continue
		}
		add(p, p.Group, fmt.Sprintf("203.0.%d.%d", i/250, i%250+1), start, 8*time.Minute)
		if slices.Contains([]string{"chrome-android", "safari-ios", "in-app", "android-others"}, p.Group) {
			mobile = append(mobile, p)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	// A carrier puts three hundred people behind one address.
	for range 300 {
		add(mobile[rng.IntN(len(mobile))], "carrier-nat", "100.64.0.1", time.Duration(rng.Int64N(int64(12*time.Minute))), 150*time.Second)
	}
	// A message to a hundred and fifty of them: all open the same page in a minute.
	for range 150 {
		p := mobile[rng.IntN(len(mobile))]
		n++
		r := rand.New(rand.NewPCG(uint64(n), 3))
		tr := &trace{rng: r, at: time.Duration(r.Int64N(int64(time.Minute)))}
		tr.do(http.MethodGet, "/hotels/h1", "")
		tr.between(100*ms, 300*ms)
		tr.do(http.MethodGet, "/session", "")
		tr.between(40*ms, 300*ms)
		tr.do(http.MethodPost, "/telemetry/page-view", "{}")
		tr.between(5*time.Second, 30*time.Second)
		tr.do(http.MethodGet, "/hotels/h1/availability?w=1", "")
		tr.between(5*time.Second, 60*time.Second)
		tr.search()
		all = append(all, &actor{group: "carrier-nat, a campaign", name: p.Name, headers: p.Headers, addr: "100.64.0.2", cookies: "keep", rng: r, plan: tr.plan})
	}
	// A lecture hall: forty telephones of one model.
	for i := range 40 {
		add(mobile[0], "one model, one address", "100.64.0.3", time.Duration(i)*1500*ms, 3*time.Minute)
	}
	return all
}

// programs is everything in bots.json.
func programs(t testing.TB) []*actor {
	t.Helper()
	bots := readCorpus[script](t, "bots.json")
	if len(bots) < 50 {
		t.Fatalf("%d bots, want 50", len(bots))
	}
	all := make([]*actor, 0, len(bots))
	for i, b := range bots {
		rng := rand.New(rand.NewPCG(uint64(i), 66))
		tr := &trace{rng: rng, at: time.Duration(i) * 100 * ms}
		length := time.Duration(b.Minutes) * time.Minute
		if b.PerMinute >= 300 {
			length = time.Minute
		}
		gap := time.Minute / time.Duration(b.PerMinute)
		for end := tr.at + length; tr.at < end; {
			tr.rob(b.Does)
			tr.between(gap*3/4, gap*5/4)
		}
		all = append(all, &actor{
			group: b.Group, name: b.Name, headers: b.Headers, addr: fmt.Sprintf("198.51.100.%d", i+1), cookies: b.Cookies, rotates: b.Rotates, rng: rng, plan: tr.plan,
			untilCaught: true,
		})
	}
	return all
}

// rob is what programs do: everything once.
func (tr *trace) rob(what string) {
	n := tr.rng.Uint64()
	switch what {
	case "search":
		tr.do(http.MethodPost, "/search", fmt.Sprintf(`{"n":%d}`, n))
	case "map":
		tr.do(http.MethodPost, "/search/map", fmt.Sprintf(`{"n":%d}`, n))
	case "suggest":
		tr.do(http.MethodGet, fmt.Sprintf("/suggest?q=%d", n), "")
	case "hotel":
		tr.do(http.MethodGet, fmt.Sprintf("/hotels/%d", n), "")
	case "availability":
		tr.do(http.MethodGet, fmt.Sprintf("/hotels/%d/availability", n), "")
	case "handoff", "wishlist":
		tr.do(http.MethodPost, "/"+what, fmt.Sprintf(`{"n":%d}`, n))
	case "guess":
		tr.do(http.MethodPost, "/wishlist", fmt.Sprintf(`{"n":%d}`, n))
		tr.plan[len(tr.plan)-1].header["X-Challenge"] = fmt.Sprint(n)
	case "mixed":
		tr.rob([]string{"search", "hotel", "suggest", "handoff"}[n%4])
	}
}

// byGroup sums the tallies.
func byGroup(actors []*actor) (order []string, sums map[string]*groupTally) {
	sums = map[string]*groupTally{}
	for _, a := range actors {
		g := sums[a.group]
		if g == nil {
			g = &groupTally{}
			sums[a.group], order = g, append(order, a.group)
		}
		g.actors++
		g.add(a.tally)
		if a.tally.caught > 0 {
			g.found++
		}
		if a.tally.limited > 0 {
			g.held++
		}
	}
	return order, sums
}

type groupTally struct {
	tally
	actors, found, held int
}

// TestCorpora lets people and programs at the service: people do not notice, and
// programs do. What came of it stands in docs/bots.md.
func TestCorpora(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	share := func(n, of int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(of, 1))) }

	t.Run("people", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			actors := people(t)
			newSimulation(t, nil).play(actors)
			order, groups := byGroup(actors)
			var all tally
			table.WriteString("| People | Guests | Challenged | Blocked | Limited |\n|---|---:|---:|---:|---:|\n")
			for _, name := range order {
				g := groups[name]
				all.add(g.tally)
				fmt.Fprintf(
					&table, "| %s | %d | %s | %s | %s |\n", name, g.actors, share(g.challenged, g.requests), share(g.blocked, g.requests), share(g.limited, g.requests),
				)
			}
			fmt.Fprintf(
				&table, "| **all** | **%d** | **%s** | **%s** | **%s** |\n\n", len(actors), share(all.challenged, all.requests), share(all.blocked, all.requests),
				share(all.limited, all.requests),
			)
			t.Logf(
				"%d people, %d requests: %d challenged, %d blocked, %d limited, %d suspected", len(actors), all.requests, all.challenged, all.blocked, all.limited,
				all.caught,
			)
			if 1000*all.challenged > all.requests || all.blocked > 0 {
				t.Errorf("people are challenged or blocked")
			}
			for _, a := range actors {
				if a.challenged+a.blocked+a.limited+a.caught > 0 {
					t.Logf("%s, %s: %+v", a.group, a.name, a.tally)
				}
			}
		})
	})
	t.Run("programs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			actors := programs(t)
			newSimulation(t, nil).play(actors)
			order, groups := byGroup(actors)
			found := 0
			table.WriteString("| Programs | Scripts | Caught | Only held by limits | Neither |\n|---|---:|---:|---:|---:|\n")
			missed := 0
			for _, a := range actors {
				if a.tally.caught == 0 {
					missed++
					t.Logf("%s, %s was not caught: %+v", a.group, a.name, a.tally)
				} else {
					found++
				}
			}
			sum := [3]int{}
			for _, name := range order {
				g := groups[name]
				held := 0
				for _, a := range actors {
					if a.group == name && a.tally.caught == 0 && a.limited > 0 {
						held++
					}
				}
				sum[0], sum[1], sum[2] = sum[0]+g.found, sum[1]+held, sum[2]+g.actors-g.found-held
				fmt.Fprintf(&table, "| %s | %d | %d | %d | %d |\n", name, g.actors, g.found, held, g.actors-g.found-held)
			}
			fmt.Fprintf(&table, "| **all** | **%d** | **%d** | **%d** | **%d** |\n", len(actors), sum[0], sum[1], sum[2])
			if 100*found < 95*len(actors) {
				t.Errorf("%d of %d programs were caught", found, len(actors))
			}
		})
	})
	checkTable(t, table.String())
}

// checkTable holds the document to what was found; with MELMASTOON_UPDATE=docs
// it is written.
func checkTable(t *testing.T, want string) {
	t.Helper()
	const file, begin, end = "../../../docs/bots.md", "<!-- corpora -->\n", "<!-- /corpora -->"
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), begin)
	got, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", file)
	}
	if got == want {
		return
	}
	if os.Getenv("MELMASTOON_UPDATE") != "docs" {
		t.Errorf("%s is out of date: run with MELMASTOON_UPDATE=docs, or put in\n%s", file, want)
		return
	}
	if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o644); err != nil { //nolint:gosec // a document
		t.Fatal(err)
	}
}
