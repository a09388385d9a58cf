package consumerd_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/pause"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// promises are what clients were told: the ids of events that may not be lost.
type promises struct {
	mu   sync.Mutex
	made map[string]promise // by id
}

type promise struct{ what, requestID string }

// refusals are the guests who were told that their refusal of telemetry is kept.
type refusals struct {
	mu     sync.Mutex
	guests map[string]bool
}

func (r *refusals) add(guest string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.guests[guest] = true
}

func (p *promises) add(id string, made promise) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made[id] = made
}

func (p *promises) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.made)
}

// broken are the promises that none of the received events keeps.
func (p *promises) broken(events []received) map[string]promise {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := maps.Clone(p.made)
	for _, e := range events {
		delete(left, e.Envelope.EventID)
		for _, name := range []string{"id", "handoffId", "wishlistId"} {
			if id, ok := e.Payload[name].(string); ok {
				delete(left, id)
			}
		}
	}
	return left
}

// TestProofNothingIsLost kills processes under load, again and again, and
// compares what clients were told with what subscribers received: a 202 or 201
// is a promise that the event arrives, and that hand-off and wish are kept; a
// guest who refused telemetry is not told of again. Meanwhile Redis forgets
// everything, Postgres' sessions are cut, and one of its backends is killed so
// that it recovers. With MELMASTOON_PROOF=long it kills 200 processes, and
// Postgres and Redis among them.
func TestProofNothingIsLost(t *testing.T) {
	t.Parallel()
	kills := testkit.Proof(4, 200) // four have Redis forget and Postgres cut and killed
	pg, rd := testkit.NewPostgres(t, true), testkit.NewRedis(t)
	w := testkit.NewWorld(t, func(p *platform.Places) { p.PostgresURL, p.RedisURL = pg.URL(), rd.URL() })
	events := listen(t, w)
	crew := &crew{world: w, log: filepath.Join(t.TempDir(), "log")}
	processes := []*platform.Process{crew.start(t, nil), crew.start(t, nil)}

	ctx, stop := context.WithCancel(t.Context())
	told, refused := &promises{made: map[string]promise{}}, &refusals{guests: map[string]bool{}}
	var load sync.WaitGroup
	defer load.Wait()
	defer stop()
	for i := range 6 {
		g := &loadGuest{
			world: w, told: told, refused: refused, rnd: mathrand.New(mathrand.NewPCG(uint64(i), 1)),
			base: "http://" + processes[i%len(processes)].Public,
		}
		load.Go(func() { g.visit(ctx) })
	}

	rnd := mathrand.New(mathrand.NewPCG(1, 2))
	for kill := range kills {
		awaitPromises(t, told, told.len()+20) // under load, not in an empty house
		i := rnd.IntN(len(processes))
		processes[i].Kill()
		switch kill % 5 {
		case 1:
			flush(t, rd.URL())
		case 2:
			cutSessions(t, w.PostgresURL)
		}
		if kill%50 == 3 {
			killBackend(t, w.PostgresURL)
		}
		if testkit.LongProof() && kill%20 == 10 {
			restart(t, "Postgres", pg.Kill, pg.Start)
		}
		if testkit.LongProof() && kill%20 == 0 {
			restart(t, "Redis", rd.Kill, rd.Start)
		}
		processes[i] = crew.start(t, &processes[i].Service)
	}
	stop()
	load.Wait()

	late := testkit.Context(t)
	for left := told.broken(events.all()); len(left) > 0; left = told.broken(events.all()) {
		select {
		case <-events.changed:
		case <-late.Done():
			for id, p := range left {
				t.Errorf("lost: %s %s of request %s", p.what, id, p.requestID)
			}
			t.Fatalf("%d of %d promised events did not arrive", len(left), told.len())
		}
	}
	distinct := map[string]bool{}
	for _, e := range events.all() {
		distinct[e.Envelope.EventID] = true
		if refused.guests[e.session()] && !strings.HasSuffix(e.Envelope.Subject, "session.started.v1") {
			t.Errorf("%s of a guest who refused", e.Envelope.Subject)
		}
	}
	told.kept(t, w.PostgresURL)
	t.Logf("%d kills; %d promises kept; %d events received, %d of them more than once; %d guests refused",
		kills, told.len(), len(distinct), len(events.all())-len(distinct), len(refused.guests))
}

// crew starts processes that write one log.
type crew struct {
	world *testkit.World
	log   string
}

func (f *crew) start(t *testing.T, again *platform.Service) *platform.Process {
	t.Helper()
	svc, err := platform.NewService("bff-consumer", false)
	if err != nil {
		t.Fatal(err)
	}
	if again != nil {
		svc = *again
	}
	log, err := os.OpenFile(f.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the process has its own
	var p *platform.Process
	testkit.Retry(t, "a process on the ports of the one before", func() bool {
		p, err = svc.Start([]string{testkit.Binary(t, svc.Name), "serve"}, platform.Pairs(f.world.Env(), map[string]string{
			"BFF_CONSUMER_TRUSTED_PROXIES": "127.0.0.0/8",
		}), log)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		if err = p.AwaitReady(testkit.Context(t)); err == nil {
			return true
		}
		// A connection of another process may have a port for a while.
		if said, _ := os.ReadFile(f.log); !bytes.Contains(said, []byte(syscall.EADDRINUSE.Error())) {
			t.Fatal(err)
		}
		return false
	})
	return p
}

func awaitPromises(t *testing.T, told *promises, n int) {
	t.Helper()
	until(t, fmt.Sprintf("%d promises are made", n), func() bool { return told.len() >= n })
}

func restart(t *testing.T, name string, kill func() error, start func(context.Context) error) {
	t.Helper()
	if err := kill(); err != nil {
		t.Fatalf("kill %s: %v", name, err)
	}
	if err := start(testkit.Context(t)); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
}

// loadGuest visits with changing headers.
type loadGuest struct {
	world   *testkit.World
	told    *promises
	refused *refusals
	rnd     *mathrand.Rand
	base    string
	v       *visitor
	left    int  // visits in this coat
	quiet   bool // refused telemetry in this coat
}

// downPause is how long a guest waits whose request no process took.
const downPause = 20 * time.Millisecond

func (g *loadGuest) visit(ctx context.Context) {
	for ctx.Err() == nil {
		if g.left == 0 {
			g.v = &visitor{base: g.base, header: map[string]string{
				"X-Forwarded-For":   fmt.Sprintf("198.51.%d.%d", g.rnd.IntN(256), g.rnd.IntN(256)),
				"X-Client-Timezone": rand.Text(), "Accept-Language": "ps-AF",
			}}
			g.left, g.quiet = 8, false
			// Reports open no session, and without one they are dropped.
			if !g.open(ctx) || g.rnd.IntN(4) == 0 && !g.refuse(ctx) {
				g.left = 0
				g.wait(ctx)
				continue
			}
		}
		g.left--
		if made := g.once(ctx); !made || !testkit.LongProof() { // short proofs share the machine with other tests
			g.wait(ctx)
		}
	}
}

// wait lets a process that was killed come back.
func (g *loadGuest) wait(ctx context.Context) {
	pause.For(ctx, downPause)
}

// open begins a session and reports whether there is one.
func (g *loadGuest) open(ctx context.Context) bool {
	a, err := g.v.try(ctx, http.MethodGet, "/session", nil, nil)
	return err == nil && a.status == http.StatusOK
}

// once does one of the things that end in a promise and reports whether it was
// made.
func (g *loadGuest) once(ctx context.Context) bool {
	hotels := g.world.Sim.Catalog().Properties
	hotel := hotels[g.rnd.IntN(len(hotels))]
	type action struct {
		what, method, path string
		body               any
		want               int
		id                 string
	}
	actions := []action{
		{"wish", http.MethodPost, "/wishlist", map[string]any{"propertyId": hotel.PropertyID, "source": "list"}, http.StatusCreated, "wishlistId"},
		{"hand-off", http.MethodPost, "/handoff", handoffTo(hotel.PropertyID, hotel.TenantID), http.StatusCreated, "handoffId"},
	}
	for _, r := range reports(hotel) {
		actions = append(actions, action{r.path, http.MethodPost, r.path, r.body, http.StatusAccepted, "id"})
	}
	todo := actions[g.rnd.IntN(len(actions))]
	header := map[string]string{"Idempotency-Key": rand.Text()}
	a, err := g.v.try(ctx, todo.method, todo.path, header, todo.body)
	id := a.field(todo.id)
	if err != nil || a.status != todo.want || id == "" {
		return false
	}
	if !g.quiet {
		g.told.add(id, promise{todo.what, a.header.Get("X-Request-Id")})
	}
	return true
}

// refuse begins the visit with a refusal and reports whether it was taken.
func (g *loadGuest) refuse(ctx context.Context) bool {
	a, err := g.v.try(ctx, http.MethodPost, "/session/consent", nil, map[string]bool{"telemetry": false})
	if err != nil || a.status != http.StatusOK {
		return false
	}
	g.quiet = true
	g.refused.add(a.field("sessionId"))
	return true
}

// kept compares the promised hand-offs and wishes with the tables.
func (p *promises) kept(t *testing.T, url string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	ids := map[string][]string{}
	for id, made := range p.made {
		ids[made.what] = append(ids[made.what], id)
	}
	db := connect(t, url)
	for what, table := range map[string]string{"hand-off": "handoff_replay_log", "wish": "wishlist_anonymous"} {
		var n int
		if err := db.QueryRow(testkit.Context(t), `SELECT count(*) FROM bff_consumer.`+table+` WHERE id = ANY($1)`, ids[what]).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n != len(ids[what]) {
			t.Errorf("%s has %d of %d promised rows", table, n, len(ids[what]))
		}
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	db, err := pgx.Connect(testkit.Context(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	return db
}

// flush has Redis forget everything.
func flush(t *testing.T, url string) {
	t.Helper()
	c, err := redis.Open(redis.Config{URL: url, Tier: "test", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Do(testkit.Context(t), c.B().Flushall().Build()).Error(); err != nil {
		t.Fatal(err)
	}
}

// backends are the server processes of the service's connections.
const backends = `FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'`

func cutSessions(t *testing.T, url string) {
	t.Helper()
	db := connect(t, url)
	if _, err := db.Exec(testkit.Context(t), `SELECT pg_terminate_backend(pid) `+backends); err != nil {
		t.Fatal(err)
	}
}

// killBackend kills one server process: Postgres ends all others and recovers.
func killBackend(t *testing.T, url string) {
	t.Helper()
	db := connect(t, url)
	var pid int
	if err := db.QueryRow(testkit.Context(t), `SELECT pid `+backends+` LIMIT 1`).Scan(&pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ctx := testkit.Context(t)
	until(t, "this session has ended, too", func() bool { return db.Ping(ctx) != nil })
	until(t, "Postgres has recovered", func() bool { // a process that starts migrates, and cannot before
		again, err := pgx.Connect(ctx, url)
		if err == nil {
			_ = again.Close(ctx)
		}
		return err == nil
	})
}
