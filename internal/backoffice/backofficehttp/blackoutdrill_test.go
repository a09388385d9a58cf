package backofficehttp_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/action"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficehttp"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficeupstream"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/pause"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/internal/web"
)

var blackoutSeed = flag.Uint64("blackout.seed", 0, "run one schedule of TestProofBlackout")

// TestProofBlackout runs random schedules of a hotel whose line is cut: two desks that take down
// what is done, and a colleague who is online, at one house, about the same guests, rooms and
// folios. Lines are cut before, during and after each step, for up to 72 hours; clocks are wrong
// by years, and are corrected; desks and service crash; roles and the tenant's access go and come
// back; services behind hang, forget keys after a day, and do what they do not answer. In the end
// every entry has one verdict, nothing was done twice and nothing was lost, and the house's
// book is what a sequential model of the verdicts allows.
func TestProofBlackout(t *testing.T) {
	t.Parallel()
	schedules := testkit.Proof(60, 10_000)
	first := rand.Uint64N(1 << 40) //nolint:gosec // a seed
	if *blackoutSeed != 0 {
		first, schedules = *blackoutSeed, 1
	}
	t.Logf("seeds %d and the %d that follow; one of them: -blackout.seed", first, schedules-1)
	said := map[string]int{}
	for i := range schedules {
		seed := first + uint64(i) //nolint:gosec // not negative
		synctest.Test(t, func(t *testing.T) {
			d := newBlackout(t, seed)
			d.run()
			for verdict, n := range d.said {
				said[verdict] += n
			}
		})
		if t.Failed() {
			t.Fatalf("failed with -blackout.seed=%d", seed)
		}
	}
	t.Log(said)
	for _, v := range []action.Verdict{action.Carried, action.AlreadyDone, action.DoneByOther, action.NotPossible, action.NeedsSecondFactor, action.Expired,
		action.Undecided} {
		if said[string(v)] == 0 && *blackoutSeed == 0 {
			t.Errorf("no entry was ever %s: %v", v, said)
		}
	}
}

// blackout is one schedule.
type blackout struct {
	t        *testing.T
	seed     uint64
	rand     *rand.Rand
	platform *sim.Sim
	service  http.Handler
	ledger   *drillLedger
	at       board.Place
	currency bff.Currency
	targets  []target
	desks    []*drillDesk

	mu      sync.Mutex
	calm    bool // services behind are well
	members map[string]*backoffice.Member
	shut    bool // the tenant is suspended
	calls   map[string]int
	known   map[string]time.Time // keys at services behind: when they were first seen
	said    map[string]int
}

// target is something to do.
type target struct{ path, body string }

func newBlackout(t *testing.T, seed uint64) *blackout {
	t.Helper()
	platform, err := sim.New(sim.Config{Latency: map[string]sim.Latency{}, HouseTime: 13 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(platform.Close)
	d := &blackout{
		t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 7)), platform: platform, calm: true, members: map[string]*backoffice.Member{}, //nolint:gosec // repeatable
		calls: map[string]int{}, known: map[string]time.Time{}, said: map[string]int{},
	}
	d.ledger = &drillLedger{claims: map[string]*drillClaim{}}
	hotels := platform.Catalog().Properties
	hotel := hotels[slices.IndexFunc(hotels, func(p sim.CatalogProperty) bool { return p.Country == "AF" })]
	d.currency = bff.AFN
	zone, err := board.ReadZone("Asia/Kabul", "")
	if err != nil {
		t.Fatal(err)
	}
	d.at = board.Place{Tenant: bff.MustParseID(bff.PrefixTenant, hotel.TenantID), Property: bff.MustParseID(bff.PrefixProperty, hotel.PropertyID),
		Day: zone.Today(time.Now())}
	d.open()
	return d
}

// open starts the service over real clients of the simulated platform.
func (d *blackout) open() {
	urls := map[backoffice.Upstream]string{}
	for _, u := range backoffice.Upstreams() {
		urls[u] = "http://platform.test/" + string(u)
	}
	log, metrics := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	up, err1 := backofficeupstream.New(backofficeupstream.Config{URLs: urls, Transport: d, Metrics: metrics, Namespace: "up", Log: log})
	thresholds, err2 := action.ReadThresholds("AFN=1000")
	if err := errors.Join(err1, err2); err != nil {
		d.t.Fatal(err)
	}
	news, outbox, streams := backoffice.NewEnvelopes("drill"), &outboxFake{tb: d.t}, noStreams{}
	proxy := action.NewProxy(action.ProxyConfig{
		Journal: outbox, Upstream: up.Actions, Mutations: d.ledger, Attestations: attested{}, Thresholds: thresholds, Charges: newNeighbours(), Traces: d.ledger,
		Today: func(context.Context, bff.ID, bff.ID, time.Time) (bff.Date, error) { return d.at.Date, nil }, Notifier: noNotifier{}, News: news, Now: time.Now,
	})
	api := backofficehttp.New(backofficehttp.Config{
		Proxy: proxy, Replays: action.NewReplays(action.ReplaysConfig{Proxy: proxy, Again: d.again, Traces: d.ledger, Now: time.Now}),
		Flags: identity.NewFlags(streams),
		Names: noNames{}, Log: log, Metrics: metrics, Namespace: "drill",
	})
	var routes []web.Route
	for _, rt := range api.Routes() {
		if needs, _ := rt.Needs.(identity.Needs); rt.Kind == web.Change && needs.Property && strings.Contains(rt.Pattern, " "+base) {
			rt.Handle = d.guard(rt.Handle)
			routes = append(routes, rt)
		}
	}
	server := web.NewServer(web.Config{Log: log, Metrics: metrics, Namespace: "web", Budget: time.Minute, Now: time.Now})
	if err := server.Mount(routes...); err != nil {
		d.t.Fatal(err)
	}
	d.service = server

	add := func(from board.Source, most int, targets func(any, int) []target) {
		r, err := up.House.Read(d.t.Context(), from, d.at)
		if err != nil {
			d.t.Fatal(err)
		}
		for i := range most {
			d.targets = append(d.targets, targets(r.Value, i)...)
		}
	}
	stays := func(status string, paths ...string) func(any, int) []target {
		return func(v any, i int) (out []target) {
			all := slices.DeleteFunc(slices.Clone(v.([]board.Stay)), func(s board.Stay) bool { return s.Status != status })
			if i >= len(all) {
				return nil
			}
			for _, path := range paths {
				body := ""
				if strings.HasSuffix(path, "charges") {
					body = `{"amount":{"minor":"%d","currency":"` + string(d.currency) + `"}}`
				}
				out = append(out, target{strings.NewReplacer("{rsv}", all[i].ReservationID, "{fol}", all[i].FolioID).Replace(path), body})
			}
			return out
		}
	}
	add(board.SourceArrivals, 2, stays("confirmed", "/reservations/{rsv}/check-in", "/reservations/{rsv}/check-out", "/folios/{fol}/charges"))
	add(board.SourceInHouse, 2, stays("checked_in", "/folios/{fol}/charges", "/reservations/{rsv}/check-out"))
	add(board.SourceTasks, 3, func(v any, i int) (out []target) {
		if all := v.([]board.Task); i < len(all) {
			for _, verb := range []string{"start", "complete", "inspect", "reopen"} {
				out = append(out, target{"/housekeeping/tasks/" + all[i].TaskID + "/" + verb, ""})
			}
		}
		return out
	})
	add(board.SourceWorkOrders, 2, func(v any, i int) (out []target) {
		if all := v.([]board.WorkOrder); i < len(all) {
			for _, verb := range []string{"start", "resolve", "close"} {
				out = append(out, target{"/maintenance/work-orders/" + all[i].WorkOrderID + "/" + verb, ""})
			}
		}
		return out
	})
	d.targets = append(d.targets, target{"/maintenance/work-orders", `{"title":"Lamp","severity":"low"}`}, target{
		"/folios/" + bff.NewID(bff.PrefixFolio, time.Now()).String() + "/refunds",
		`{"amount":{"minor":"1","currency":"AFN"}}`,
	}, target{"/alerts/alr_1/acknowledge", ""})
}

// noNotifier notifies of nothing; noNames knows none.
type (
	noNotifier struct{}
	noNames    struct{}
)

func (noNotifier) Changed(context.Context, *backoffice.Visit, string, time.Time) {}
func (noNames) List(context.Context, bff.ID) (backoffice.Listed[map[string]string], error) {
	return backoffice.Listed[map[string]string]{}, nil
}

type visitKey struct{}

// guard admits whom the request's context names, with the rights of now.
func (d *blackout) guard(next web.Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		v, err := d.again(r.Context(), r.Context().Value(visitKey{}).(*backoffice.Visit), time.Now())
		if err != nil {
			return err
		}
		web.From(r.Context()).Local = v
		return next(w, r)
	}
}

func (d *blackout) again(_ context.Context, v *backoffice.Visit, _ time.Time) (*backoffice.Visit, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.members[v.Session.Operator]
	switch {
	case d.shut:
		return nil, bff.Errorf(bff.CodeStaffTenantSuspended, "this tenant is suspended")
	case m == nil:
		return nil, bff.Errorf(bff.CodeSessionRevoked, "this session was ended")
	}
	again := *v
	again.Member = m
	return &again, nil
}

// RoundTrip is the way to a service behind: slow, cut before or after the service does it, or
// hanging. Which it is follows from the seed and the call, whatever else is under way.
func (d *blackout) RoundTrip(r *http.Request) (*http.Response, error) {
	name := r.Method + r.URL.Path + cmp.Or(r.Header.Get("Idempotency-Key"), r.Header.Get("X-Idempotency-Key"))
	d.mu.Lock()
	d.calls[name]++
	sum := fnv.New64a()
	_, _ = fmt.Fprint(sum, name, d.calls[name]) // never fails
	calm := d.calm
	chance := rand.New(rand.NewPCG(d.seed, sum.Sum64())) //nolint:gosec // repeatable
	// A service knows a key for a day, and does it again after that.
	for _, header := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		key := r.Header.Get(header)
		if key == "" {
			continue
		}
		if _, seen := d.known[key]; !seen {
			d.known[key] = time.Now()
		}
		if time.Since(d.known[key]) >= 24*time.Hour {
			d.t.Errorf("%s: a service behind is asked with a key of %s ago", name, time.Since(d.known[key]))
		}
	}
	d.mu.Unlock()
	fate := chance.IntN(100)
	if calm {
		fate = 100
	}
	pause := func(t time.Duration) error {
		select {
		case <-time.After(t):
			return nil
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
	if err := pause(time.Duration(1+chance.IntN(60)) * time.Millisecond); err != nil {
		return nil, err
	}
	if fate < 3 {
		return nil, errors.New("cut on the way there")
	}
	if fate < 5 {
		return nil, pause(time.Hour)
	}
	r = r.Clone(r.Context())
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	d.platform.Handler().ServeHTTP(w, r)
	switch {
	case fate < 9:
		return nil, errors.New("cut on the way back")
	case fate < 12:
		return nil, pause(time.Hour)
	}
	return w.Result(), nil
}

// run is the schedule.
func (d *blackout) run() {
	a, b, online := d.desk("opt_a"), d.desk("opt_b"), d.desk("opt_c")
	d.mu.Lock()
	d.calm = false
	d.mu.Unlock()
	cut := []time.Duration{0, time.Minute, time.Hour, 20 * time.Hour, 26 * time.Hour, 48 * time.Hour, 72 * time.Hour}[d.rand.IntN(7)]
	if d.rand.IntN(3) == 0 {
		cut = 0
	}
	var world sync.WaitGroup
	for _, k := range []*drillDesk{a, b} {
		k.queues = true
		world.Go(func() { k.offline(cut) })
	}
	world.Go(func() {
		for range 2 + online.rand.IntN(4) {
			pause.For(context.Background(), cut/5+time.Duration(online.rand.IntN(4000))*time.Millisecond)
			online.live(online.press(), false)
		}
	})
	if d.rand.IntN(3) == 0 { // access goes, and comes back
		chance := rand.New(rand.NewPCG(d.seed, 8)) //nolint:gosec // repeatable
		world.Go(func() { d.shake(cut, chance) })
	}
	if d.rand.IntN(3) == 0 {
		late := time.Duration(d.rand.IntN(3000)) * time.Millisecond
		world.Go(func() { // the service dies, with all that is under way
			pause.For(context.Background(), cut+late)
			d.ledger.kill()
		})
	}
	world.Wait()
	d.mu.Lock()
	d.calm, d.shut = true, false
	for _, operator := range []string{"opt_a", "opt_b", "opt_c"} {
		if d.members[operator] == nil {
			d.members[operator] = &backoffice.Member{Roles: backoffice.Roles()}
		}
	}
	d.mu.Unlock()
	for range 6 { // quiet: longer than a dead process's claim, and than a new key waits
		for _, k := range d.desks {
			k.replay(false, 0)
		}
		pause.For(context.Background(), 90*time.Second)
	}
	d.compare()
}

// shake takes a role, a membership or the tenant's access away and gives it back, or not.
func (d *blackout) shake(cut time.Duration, chance *rand.Rand) {
	pause.For(context.Background(), cut+time.Duration(chance.IntN(2000))*time.Millisecond)
	which, back := chance.IntN(3), chance.IntN(2) == 0
	d.mu.Lock()
	was := d.members["opt_a"]
	switch which {
	case 0:
		d.members["opt_a"] = &backoffice.Member{Roles: []backoffice.Role{backoffice.Finance}}
	case 1:
		d.members["opt_a"] = nil
	default:
		d.shut = true
	}
	d.mu.Unlock()
	pause.For(context.Background(), time.Duration(chance.IntN(3000))*time.Millisecond)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shut = false; back || which > 0 {
		d.members["opt_a"] = was
	}
}

// compare holds verdicts to the house's book, and the book to what is possible one after the other.
func (d *blackout) compare() {
	book := d.platform.Book()
	times := map[string]int{}
	for _, x := range book {
		times[x.Key]++
	}
	order := map[string][]string{} // of keys, by desk and resource, as pressed
	for _, k := range d.desks {
		for _, e := range k.entries {
			n := 0
			for _, key := range e.keys {
				n += times[key]
			}
			known := backoffice.NoTrace
			if e.verdict.Known != nil {
				known = e.verdict.Known.Outcome
			}
			may := map[action.Verdict]string{
				action.Carried: "1", action.AlreadyDone: "01", action.DoneByOther: "0", action.NotPossible: "0", action.NeedsSecondFactor: "0",
				action.Expired: map[string]string{backoffice.NoTrace: "01", "success": "1", "failure": "0", "denied": "0", "unknown": "01"}[known],
			}[e.verdict.Verdict]
			if e.verdict.Verdict == action.NotPossible && (known == string(backoffice.Unknown) || e.twice && e.verdict.Reason == string(action.WhyRole)) {
				may = "01"
			}
			if !strings.Contains(may, fmt.Sprint(n)) || may == "" {
				d.t.Errorf("%s of %s with %v: %s (%s), carried out %d times", e.path, e.operator, e.keys, says(e.verdict), known, n)
			}
			if e.verdict.Verdict == action.Carried && k.queues {
				resource := e.path[:strings.LastIndexByte(e.path, '/')]
				order[e.operator+resource] = append(order[e.operator+resource], e.key)
			}
		}
	}
	d.ordered(book, order)
	d.model(book)
}

// ordered wants what one desk did to one resource in the order in which it did it.
func (d *blackout) ordered(book []sim.Execution, order map[string][]string) {
	place := map[string]int{}
	for i, x := range book {
		place[x.Key] = i
	}
	for of, keys := range order {
		if strings.HasSuffix(of, "/maintenance") { // each makes a work order of its own
			continue
		}
		if !slices.IsSortedFunc(keys, func(a, b string) int { return place[a] - place[b] }) {
			d.t.Errorf("%s: carried out in another order than %v", of, keys)
		}
	}
}

// model carries the book out once more, one after the other: each step must be possible where
// the ones before have led.
func (d *blackout) model(book []sim.Execution) {
	from := map[string][]string{}
	to := map[string]string{}
	for _, a := range backoffice.Actions() {
		if len(a.From) > 0 {
			from[a.Kind+a.Verb()] = a.From
		}
	}
	maps.Copy(to, map[string]string{
		"reservationcheck-in": "checked_in", "reservationcheck-out": "checked_out", "taskstart": "in_progress", "taskcomplete": "done", "taskinspect": "inspected",
		"taskreopen": "pending", "work_orderstart": "in_progress", "work_orderresolve": "resolved", "work_orderclose": "closed",
	})
	kinds := map[string]string{"reservations": "reservation", "tasks": "task", "work-orders": "work_order"}
	stands := map[string]string{}
	for _, x := range book {
		parts := strings.Split(x.Path, "/")
		kind, ok := kinds[parts[len(parts)-3]]
		if !ok {
			continue
		}
		id, verb := parts[len(parts)-2], kind+parts[len(parts)-1]
		if was, moved := stands[id]; moved && !slices.Contains(from[verb], was) && !(kind == "task" && was == "in_progress" && verb == "taskstart") {
			d.t.Errorf("%s from %s is not possible, and stands in the house's book", x.Path, was)
		}
		stands[id] = to[verb]
	}
}
