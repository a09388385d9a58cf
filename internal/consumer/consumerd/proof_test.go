package consumerd_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// promises are what clients were told: the ids of events that may not be lost.
type promises struct {
	mu   sync.Mutex
	made map[string]promise // by id
}

type promise struct{ what, requestID string }

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
// is a promise that the event arrives. With MELMASTOON_PROOF=long it kills 200
// processes, and Postgres and Redis among them.
func TestProofNothingIsLost(t *testing.T) {
	t.Parallel()
	kills, long := 10, os.Getenv("MELMASTOON_PROOF") == "long"
	if long {
		kills = 200
	}
	pg, rd := testkit.NewPostgres(t, true), testkit.NewRedis(t)
	w := testkit.NewWorld(t, func(p *platform.Places) { p.PostgresURL, p.RedisURL = pg.URL(), rd.URL() })
	events := listen(t, w)
	crew := &crew{world: w, log: filepath.Join(t.TempDir(), "log")}
	processes := []*platform.Process{crew.start(t, nil), crew.start(t, nil)}

	ctx, stop := context.WithCancel(t.Context())
	told := &promises{made: map[string]promise{}}
	var load sync.WaitGroup
	defer load.Wait()
	defer stop()
	for i := range 6 {
		g := &regular{
			world: w, told: told, rnd: mathrand.New(mathrand.NewPCG(uint64(i), 1)),
			base: "http://" + processes[i%len(processes)].Public,
		}
		load.Go(func() { g.visit(ctx) })
	}

	rnd := mathrand.New(mathrand.NewPCG(1, 2))
	for kill := range kills {
		awaitPromises(t, told, told.len()+20) // under load, not in an empty house
		i := rnd.IntN(len(processes))
		processes[i].Kill()
		if long && kill%20 == 10 {
			restart(t, "Postgres", pg.Kill, pg.Start)
		}
		if long && kill%20 == 0 {
			restart(t, "Redis", rd.Kill, rd.Start)
		}
		processes[i] = crew.start(t, &processes[i].Service)
	}
	stop()
	load.Wait()

	silent := crew.silent(t)
	late := testkit.Context(t)
	for left := told.broken(events.all()); len(left) > 0; left = told.broken(events.all()) {
		maps.DeleteFunc(left, func(_ string, p promise) bool { return silent[p.requestID] })
		if len(left) == 0 {
			break
		}
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
	}
	t.Logf("%d kills; %d promises kept; %d events received, %d of them more than once; %d requests without a session store",
		kills, told.len(), len(distinct), len(events.all())-len(distinct), len(silent))
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
	p, err := svc.Start([]string{testkit.Binary(t, svc.Name), "serve"}, platform.Pairs(f.world.Env(), map[string]string{
		"BFF_CONSUMER_TRUSTED_PROXIES": "127.0.0.0/8",
	}), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	if err := p.AwaitReady(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	return p
}

// silent are the requests that could not read their session in time. Nobody
// knows whether those guests agreed to be heard: a hand-off or a wish is still
// theirs, and nothing is told of it.
func (f *crew) silent(t *testing.T) map[string]bool {
	t.Helper()
	file, err := os.Open(f.log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	requests := map[string]bool{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l struct{ RequestID, SessionStore string }
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.SessionStore == "unavailable" {
			requests[strings.TrimPrefix(l.RequestID, "req_")] = true
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return requests
}

func awaitPromises(t *testing.T, told *promises, n int) {
	t.Helper()
	ctx := testkit.Context(t)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for told.len() < n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("only %d promises were made, want %d", told.len(), n)
		}
	}
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

// regular is a guest who never tires and changes coats.
type regular struct {
	world *testkit.World
	told  *promises
	rnd   *mathrand.Rand
	base  string
	v     *visitor
	left  int // visits in this coat
}

// downPause is how long a guest waits whose request nobody took.
const downPause = 20 * time.Millisecond

func (g *regular) visit(ctx context.Context) {
	for ctx.Err() == nil {
		if g.left == 0 {
			g.v = &visitor{base: g.base, header: map[string]string{
				"X-Forwarded-For":   fmt.Sprintf("198.51.%d.%d", g.rnd.IntN(256), g.rnd.IntN(256)),
				"X-Client-Timezone": rand.Text(), "Accept-Language": "ps-AF",
			}}
			g.left = 8
		}
		g.left--
		if !g.once(ctx) {
			select {
			case <-ctx.Done():
			case <-time.After(downPause):
			}
		}
	}
}

// once does one of the things that end in a promise and reports whether it was
// made.
func (g *regular) once(ctx context.Context) bool {
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
	if err != nil || a.status != todo.want {
		return false
	}
	id := a.field(todo.id)
	if id == "" {
		return false
	}
	g.told.add(id, promise{todo.what, a.header.Get("X-Request-Id")})
	return true
}
