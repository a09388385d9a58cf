package consumerhttp_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// TestMutationsWhileRedisHangs: the first change waits for one timeout, and those
// after it, and reads, make no call to Redis at all. How long the first waits is a matter of the
// breaker (redis.TestTiersWaitOnce); here is that nothing goes around it.
func TestMutationsWhileRedisHangs(t *testing.T) {
	t.Parallel()
	server := testkit.NewRedis(t)
	// Without Redis an instance grants its share of a limit: here all of it.
	s := newSite(t, 1, map[string]string{"BFF_CONSUMER_INSTANCES": "1"}, func(p *platform.Places) { p.RedisURL = server.URL() })
	g := s.guest()
	g.must(http.StatusOK, "GET", "/session", nil)
	g.must(http.StatusCreated, "POST", "/handoff", s.stay(0), once()...)
	g.must(http.StatusCreated, "POST", "/wishlist", s.wish(0), once()...)
	g.must(http.StatusOK, "POST", "/search", search())

	pid := redisProcess(t, server.URL())
	signal := func(sig syscall.Signal) {
		t.Helper()
		if err := syscall.Kill(pid, sig); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	t.Cleanup(func() { signal(syscall.SIGCONT) }) // one that is stopped does not end

	g.must(http.StatusCreated, "POST", "/handoff", s.stay(1), once()...)
	tiers := []string{"session", "cache"}
	for _, tier := range tiers {
		s.until("the breaker of "+tier+" did not open", func() bool { return s.metric("bff_consumer_redis_away", tier) == 1 })
	}
	made := func() (n float64) {
		for _, tier := range tiers {
			n += s.metric("bff_consumer_redis_calls_total", "made", tier)
		}
		return n
	}
	before := made()
	for n := range 3 {
		g.must(http.StatusCreated, "POST", "/handoff", s.stay(2+n), once()...)
		g.must(http.StatusCreated, "POST", "/wishlist", s.wish(2+n), once()...)
	}
	// Reads go on: what was warm from memory, what was not from upstream.
	if a := g.must(http.StatusOK, "POST", "/search", search()); a.header.Get("X-Cache") == "MISS" {
		t.Error("what was warm was asked for again")
	}
	hotel, _ := s.hotel(9)
	g.must(http.StatusOK, "GET", "/hotels/"+hotel, nil)
	if n := made() - before; n != 0 {
		t.Errorf("%v calls to a Redis that hangs, beyond its first timeout", n)
	}
	if n := s.metric("bff_consumer_redis_calls_total", "refused", "session"); n == 0 {
		t.Error("no call was refused: what is counted here is not what changes ask")
	}

	signal(syscall.SIGCONT)
	for _, tier := range tiers {
		s.until("the breaker of "+tier+" did not close", func() bool { return s.metric("bff_consumer_redis_away", tier) == 0 })
	}
	g.must(http.StatusOK, "GET", "/session", nil)
}

// TestRequestsWhilePostgresHangs: changes and reports fail as those of a store do, lists
// say what they lack, and once Postgres is known to hang nothing waits for it.
func TestRequestsWhilePostgresHangs(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0, nil, nil)
	line := testkit.NewLine(t, s.PostgresURL)
	s.PostgresURL = line.URL
	s.start(nil)
	g := s.guest()
	g.must(http.StatusOK, "GET", "/session", nil)
	_, tenant := s.hotel(0)
	click := map[string]any{"kind": "brand-peek", "tenantId": tenant}
	g.must(http.StatusAccepted, "POST", "/telemetry/click", click)

	line.Hang()
	newcomer := s.guest() // of whose wishes Redis has no mirror
	newcomer.must(http.StatusOK, "GET", "/session", nil)
	refused := func(a answer) {
		t.Helper()
		if a.status != http.StatusServiceUnavailable || !strings.Contains(string(a.body), string(bff.CodeServiceUnavailable)) {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	unread := func() {
		t.Helper()
		s.until("the list is not read", func() bool {
			a := newcomer.must(http.StatusOK, "GET", "/wishlist", nil)
			return strings.Contains(string(a.body), `"degraded":[{"part":"wishlist","reason":"error","affected":0}]`) && strings.Contains(string(a.body), `"items":[]`)
		})
	}
	refused(g.ask("POST", "/telemetry/click", click))
	s.until("the breaker did not open", func() bool { return s.metric("bff_consumer_postgres_away") == 1 })
	refused(g.ask("POST", "/telemetry/click", click))
	refused(g.ask("POST", "/wishlist", s.wish(0), once()...))
	unread()

	line.Resume()
	s.until("the breaker did not close", func() bool { return s.metric("bff_consumer_postgres_away") == 0 })
	g.must(http.StatusAccepted, "POST", "/telemetry/click", click)
	g.must(http.StatusCreated, "POST", "/wishlist", s.wish(0), once()...)
	a := newcomer.must(http.StatusOK, "GET", "/wishlist", nil)
	if !strings.Contains(string(a.body), `"degraded":[]`) {
		t.Errorf("read again: %s", a.body)
	}
}

// redisProcess returns the process of a server.
func redisProcess(t *testing.T, url string) int {
	t.Helper()
	c := redisClient(t, url)
	defer c.Close()
	info, err := c.Do(testkit.Context(t), c.B().Info().Section("server").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "process_id:")
	pid, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// metric reads a metric of the first process by its name and its labels' values.
func (s *site) metric(name string, values ...string) float64 {
	s.t.Helper()
	a, err := do(testkit.Context(s.t), http.MethodGet, "http://"+s.procs[0].Admin+"/metrics", nil, nil)
	if err != nil {
		s.t.Fatal(err)
	}
lines:
	for line := range strings.Lines(string(a.body)) {
		if !strings.HasPrefix(line, name) {
			continue
		}
		for _, v := range values {
			if !strings.Contains(line, fmt.Sprintf("=%q", v)) {
				continue lines
			}
		}
		f := strings.Fields(line)
		n, err := strconv.ParseFloat(f[len(f)-1], 64)
		if err != nil {
			s.t.Fatal(err)
		}
		return n
	}
	s.t.Fatalf("no metric %s with %v", name, values)
	return 0
}
