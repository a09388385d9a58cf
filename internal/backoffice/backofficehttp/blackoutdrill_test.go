package backofficehttp_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"log/slog"
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

// TestProofBlackout runs random schedules of a hotel whose line is cut: two desks that take down what is done, and a colleague who is
// online, at one house, about the same guests, rooms and folios. Lines are cut before, during and after each step, for up to 72 hours;
// clocks are wrong by years, and are corrected; desks and service crash; rights and the tenant's access go and come back; services behind
// hang, forget keys after a day, and do what they do not answer. In the end every entry has the verdict that follows from what has
// happened, nothing was done twice and nothing was lost, and the house's book is that of a sequential model.
func TestProofBlackout(t *testing.T) {
	t.Parallel()
	schedules := testkit.Proof(60, 10_000)
	first := rand.Uint64N(1 << 40) //nolint:gosec // a seed
	if *blackoutSeed != 0 {
		first, schedules = *blackoutSeed, 1
	}
	t.Logf("seeds %d and the %d that follow; one of them: -blackout.seed", first, schedules-1)
	said := map[string]int{}
	run := func(seed uint64) string {
		var d *blackout
		defer func() { // a schedule that fails ends the test
			if t.Failed() {
				t.Logf("failed with -blackout.seed=%d:\n%s", seed, strings.Join(d.trace, "\n"))
			}
		}()
		synctest.Test(t, func(t *testing.T) {
			d = newBlackout(t, seed)
			d.run()
		})
		for verdict, n := range d.said {
			said[verdict] += n
		}
		return strings.Join(d.trace, "\n")
	}
	repeated, other := 0, 0
	for i := range schedules {
		seed := first + uint64(i) //nolint:gosec // not negative
		if trace := run(seed); i%(schedules/10+1) == 0 {
			repeated++
			if run(seed) != trace {
				other++
			}
		}
	}
	// What is told of two resources at the very same moment has no order, and the one that a cut line spares is told again: few schedules have such a moment.
	if other > (repeated+3)/4 {
		t.Errorf("%d of %d schedules did not repeat what happened", other, repeated)
	}
	t.Log(said)
	for v := range strings.FieldsSeq("done already_done done_by_other not_possible needs_second_factor expired unknown") {
		if said[v] == 0 && *blackoutSeed == 0 {
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
	house    *drillHouse
	at       board.Place
	zone     board.Zone
	targets  []target
	desks    []*drillDesk

	mu      sync.Mutex
	seq     int  // of what has happened so far
	calm    bool // services behind are well
	life    int  // of the service
	down    time.Time
	killed  int                  // when the service died last
	rights  map[string][]rights  // by operator
	ends    map[string]time.Time // of the last call, by its name
	calls   map[string]int
	known   map[string]time.Time // keys at services behind: when they were first seen
	entries map[string]*drillEntry
	served  []served
	sending chan struct{} // closed when the first desk sends what it has taken down
	trace   []string
	said    map[string]int
}

// served is what a service behind was asked to do, in the order in which it was.
type served struct {
	seq  int
	key  string
	done bool
}

// rights are an operator's from a moment on.
type rights struct {
	seq     int
	at      time.Time
	roles   []backoffice.Role
	refused bff.Code
}

// happens gives what happens its place in the order of everything. The caller holds the lock.
func (d *blackout) happens(what ...any) int {
	d.seq++
	if len(what) > 0 {
		d.trace = append(d.trace, fmt.Sprint(append(what, " at ", time.Now().UnixNano())...))
	}
	return d.seq
}

// target is something to do.
type target struct {
	path, body string
	minor      int64 // of a charge
}

func newBlackout(t *testing.T, seed uint64) *blackout {
	t.Helper()
	start := time.Now() // for the house the time stands still: nothing happens there by itself
	platform, err := sim.New(sim.Config{Latency: map[string]sim.Latency{}, HouseTime: 13 * time.Hour, Now: func() time.Time { return start }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(platform.Close)
	d := &blackout{
		t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 7)), platform: platform, calm: true, //nolint:gosec // repeatable
		rights: map[string][]rights{}, ends: map[string]time.Time{}, calls: map[string]int{}, known: map[string]time.Time{},
		entries: map[string]*drillEntry{}, said: map[string]int{}, sending: make(chan struct{}),
	}
	d.ledger = &drillLedger{d: d, claims: map[string]*drillClaim{}, counted: map[string]action.Charged{}}
	hotels := platform.Catalog().Properties
	hotel := hotels[slices.IndexFunc(hotels, func(p sim.CatalogProperty) bool { return p.Country == "AF" })]
	if d.zone, err = board.ReadZone("Asia/Kabul", ""); err != nil {
		t.Fatal(err)
	}
	d.at = board.Place{Tenant: bff.MustParseID(bff.PrefixTenant, hotel.TenantID), Property: bff.MustParseID(bff.PrefixProperty, hotel.PropertyID)}
	d.at.Day = d.zone.Today(start)
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
		Journal: outbox, Upstream: up.Actions, Mutations: d.ledger, Attestations: attested{}, Thresholds: thresholds, Charges: d.ledger, Traces: d.ledger,
		Today: func(_ context.Context, _, _ bff.ID, now time.Time) (bff.Date, error) {
			return d.zone.Today(now).Date, nil
		},
		Notifier: noNotifier{}, News: news, Now: time.Now,
	})
	api := backofficehttp.New(backofficehttp.Config{
		Proxy: proxy, Replays: action.NewReplays(action.ReplaysConfig{Proxy: proxy, Again: d.again, Traces: d.ledger, Now: time.Now}),
		Flags: identity.NewFlags(streams), Names: noNames{}, Log: log, Metrics: metrics, Namespace: "drill",
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

	read := func(from board.Source) any {
		r, err := up.House.Read(d.t.Context(), from, d.at)
		if err != nil {
			d.t.Fatal(err)
		}
		return r.Value
	}
	d.house = newDrillHouse(d.at.Date, read)
	d.targets = append(d.house.targets(), target{path: "/maintenance/work-orders", body: `{"title":"Lamp","severity":"low"}`}, target{
		path: "/folios/" + bff.IDFromBytes(bff.PrefixFolio, [16]byte{1}).String() + "/refunds", body: `{"amount":{"minor":"1","currency":"AFN"}}`,
	}, target{path: "/alerts/alr_1/acknowledge"}, target{path: "/reservations/" + bff.IDFromBytes(bff.PrefixReservation, [16]byte{1}).String() + "/check-in"})
	for _, t := range d.targets {
		if id := (&drillEntry{target: t}).resource(); d.house.folios[id] != "" {
			d.house.sums[id] = d.ask(id).Charged.AmountMinor
		}
	}
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

// caller is who sends a request, and the life of the service that answers it.
type caller struct {
	visit *backoffice.Visit
	name  string
	life  int
}

type callerKey struct{}

func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// guard admits whom the request's context names, with the rights of now.
func (d *blackout) guard(next web.Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		v, err := d.again(r.Context(), callerOf(r.Context()).visit, time.Now())
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
	all := d.rights[v.Session.Operator]
	now := all[len(all)-1]
	if now.refused != "" {
		return nil, bff.Errorf(now.refused, "not now")
	}
	again := *v
	again.Member = &backoffice.Member{Roles: now.roles}
	return &again, nil
}

// dead reports whether the process has died that a call is of.
func (d *blackout) dead(ctx context.Context) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := callerOf(ctx)
	return c.visit != nil && c.life != d.life
}

// kill ends the process, which has begun anew a little later. What it has sent is on its way.
func (d *blackout) kill(away time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.life++
	d.down, d.killed = time.Now().Add(away), d.happens("killed")
}

// RoundTrip is the way to a service behind: slow, cut before or after the service does it, or
// hanging. Which it is follows from the seed and the call, whatever else is under way.
func (d *blackout) RoundTrip(r *http.Request) (*http.Response, error) {
	dead := d.dead(r.Context())
	key := cmp.Or(r.Header.Get("Idempotency-Key"), r.Header.Get("X-Idempotency-Key"))
	if id, err := bff.IDFromUUID(bff.PrefixRequest, key); err == nil {
		key = id.ULID()
	}
	d.mu.Lock()
	e := d.entries[key]
	name := fmt.Sprint(r.Method, r.URL.Path, callerOf(r.Context()).name)
	if e != nil {
		name += e.name
	}
	d.calls[name]++
	sum := fnv.New64a()
	_, _ = fmt.Fprint(sum, name, d.calls[name]) // never fails
	calm, again := d.calm, d.ends[name]
	chance := rand.New(rand.NewPCG(d.seed, sum.Sum64())) //nolint:gosec // repeatable
	if _, seen := d.known[key]; !seen {
		d.known[key] = time.Now()
	}
	if key != "" && time.Since(d.known[key]) >= 24*time.Hour { // it would do it again
		d.t.Errorf("%s: a service behind is asked with a key of %s ago", name, time.Since(d.known[key]))
	}
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.ends[name] = time.Now()
	}()
	fate := chance.IntN(100)
	if calm {
		fate = 100
	}
	wait := func(t time.Duration) error {
		pause.For(r.Context(), t)
		return r.Context().Err()
	}
	// No two things happen at one moment, and a call that is repeated after a time that is nowhere written comes at one that follows from the seed.
	took := time.Duration(1+chance.IntN(60))*time.Millisecond + time.Duration(chance.IntN(1e6))
	if err := wait(max(0, time.Until(again.Add(40*time.Millisecond))) + took); err != nil {
		return nil, err
	}
	if dead || fate < 3 {
		return nil, errors.New("cut on the way there")
	}
	if fate < 5 {
		return nil, wait(time.Hour)
	}
	w := d.serve(r, key, e)
	switch {
	case fate < 9:
		return nil, errors.New("cut on the way back")
	case fate < 12:
		return nil, wait(time.Hour)
	}
	return w.Result(), nil
}

// serve has a service behind do what it is asked to, one after the other, and compares what it
// does with the model.
func (d *blackout) serve(r *http.Request, key string, e *drillEntry) *httptest.ResponseRecorder {
	r = r.Clone(r.Context())
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.platform.Handler().ServeHTTP(w, r)
	if r.Method != http.MethodPost {
		return w
	}
	if e == nil {
		d.t.Errorf("%s with a key that no entry has", r.URL.Path)
		return w
	}
	done := w.Code < 300
	before := d.times(key, d.seq) > 0
	if can := before || d.house.carry(e); can != done {
		d.t.Errorf("%s of %s: %d, by the model it can be done: %v", e.path, e.name, w.Code, can)
	}
	if at := d.happens(e.name, e.path, w.Code); !before { // else it is answered as it was
		d.served = append(d.served, served{at, key, done})
	}
	return w
}

// times is how often a key was carried out until then. The caller holds the lock.
func (d *blackout) times(key string, until int) (n int) {
	for _, s := range d.served {
		if s.key == key && s.done && s.seq <= until {
			n++
		}
	}
	return n
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
			pause.For(context.Background(), cut/5+time.Duration(online.rand.Int64N(4e9)))
			online.live(online.press(), false)
		}
	})
	if d.rand.IntN(3) == 0 { // access goes, and comes back
		chance := rand.New(rand.NewPCG(d.seed, 8)) //nolint:gosec // repeatable
		world.Go(func() { d.shake(cut, chance) })
	}
	if d.rand.IntN(3) == 0 {
		late, away := time.Duration(d.rand.Int64N(3e9)), time.Duration(d.rand.Int64N(3e9))
		world.Go(func() { // the service dies, with all that is under way
			pause.For(context.Background(), cut+late)
			d.kill(away)
		})
	}
	world.Wait()
	pause.For(context.Background(), 10*time.Second) // what is under way comes to its end
	d.mu.Lock()
	d.calm = true
	d.mu.Unlock()
	for range 6 { // quiet: longer than a dead process's claim, and than a new key waits
		for _, k := range d.desks {
			k.replay(false, 0)
		}
		pause.For(context.Background(), 90*time.Second)
	}
	d.compare()
}

// shake takes a role, the scope, a membership or the tenant's access away and gives it back; a role may stay away.
func (d *blackout) shake(cut time.Duration, chance *rand.Rand) {
	if chance.IntN(2) == 0 {
		pause.For(context.Background(), cut)
	} else {
		<-d.sending
	}
	pause.For(context.Background(), time.Duration(chance.Int64N(2e9)))
	which, back := chance.IntN(4), chance.IntN(2) == 0
	given := []rights{
		{roles: []backoffice.Role{backoffice.Finance}},
		{refused: bff.CodePropertyScopeDenied},
		{refused: bff.CodeSessionRevoked},
		{refused: bff.CodeStaffTenantSuspended},
	}[which]
	of := []string{"opt_a"}
	if which == 3 {
		of = []string{"opt_a", "opt_b", "opt_c"}
	}
	d.give(given, of...)
	pause.For(context.Background(), time.Duration(chance.Int64N(3e9)))
	if back || which > 0 {
		d.give(rights{roles: backoffice.Roles()}, of...)
	}
}

// give has operators have rights from now on.
func (d *blackout) give(r rights, operators ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r.seq, r.at = d.happens("rights", r.roles, r.refused, operators), time.Now()
	for _, operator := range operators {
		d.rights[operator] = append(d.rights[operator], r)
	}
}

// allowed reports whether an operator may begin an action, or might have a moment ago. The
// caller holds the lock.
func (d *blackout) allowed(operator string, a *backoffice.Action) bool {
	all := d.rights[operator]
	for i, has := range all {
		member := backoffice.Member{Roles: has.roles}
		if over := i+1 < len(all) && time.Since(all[i+1].at) > 5*time.Millisecond; !over && has.refused == "" && member.HasAny(a.Roles) {
			return true
		}
	}
	return false
}

// compare holds what desks have kept to what was done, and the house to the model.
func (d *blackout) compare() {
	for _, k := range d.desks {
		for _, e := range k.entries {
			n := 0
			for _, key := range e.keys {
				n += d.times(key, d.seq)
			}
			if !e.settled() || n > 1 {
				d.t.Errorf("%s of %s with %v: %s, carried out %d times", e.path, e.name, e.keys, words(e.verdict), n)
			}
			if n != e.done && !(e.twice && e.verdict.Reason == string(action.WhyRole)) && !e.open {
				d.t.Errorf("%s of %s: carried out %d times, and %d when it was told %s", e.path, e.name, n, e.done, words(e.verdict))
			}
		}
	}
	d.compareOrder()
	d.compareCharges()
	d.compareHouse()
}
