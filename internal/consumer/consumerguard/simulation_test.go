package consumerguard

import (
	"bytes"
	"container/heap"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/challenge"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/consumer/consumertest"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/ratelimit"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/internal/useragent"
	"melmastoon.ghasi.io/bff/internal/web"
)

const base = "/bff/consumer/v1"

// limits are those of the specification.
func limits() ratelimit.Classes {
	return ratelimit.Classes{PerMinute: map[string]int{
		"search": 60, "detail": 120, "handoff": 10, "wishlist": 30, "session": 60, "telemetry": 240, "challenge": 60,
	}, IP: 5, Fingerprint: 5}
}

// table is an API with routes of every kind.
func table() []web.Route {
	routes := []web.Route{
		{Pattern: "POST /search", Kind: web.PublicRead, Body: 1 << 10, Limit: "search"},
		{Pattern: "POST /search/map", Kind: web.PublicRead, Body: 1 << 10, Limit: "search", Repeats: true},
		{Pattern: "GET /suggest", Kind: web.PublicRead, Limit: "search", Repeats: true},
		{Pattern: "GET /facets", Kind: web.PublicRead, Limit: "search", CDN: true},
		{Pattern: "GET /hotels/{propertyId}", Kind: web.PublicRead, Limit: "detail", CDN: true, Previews: true},
		{Pattern: "GET /hotels/{propertyId}/availability", Kind: web.PublicRead, Limit: "detail"},
		{Pattern: "POST /handoff", Kind: web.Change, Body: 1 << 10, Limit: "handoff", KeepsAnswers: true},
		{Pattern: "GET /wishlist", Kind: web.PrivateRead, Limit: "wishlist"},
		{Pattern: "POST /wishlist", Kind: web.Change, Body: 1 << 10, Limit: "wishlist", KeepsAnswers: true},
		{Pattern: "GET /session", Kind: web.PrivateRead, Limit: "session"},
		{Pattern: "POST /session/locale", Kind: web.Change, Body: 1 << 10, Limit: "session"},
		{Pattern: "POST /telemetry/page-view", Kind: web.Telemetry, Body: 1 << 10, Limit: "telemetry"},
		{Pattern: "GET /challenge", Kind: web.Challenge, Limit: "challenge"},
	}
	for i := range routes {
		method, path, _ := strings.Cut(routes[i].Pattern, " ")
		routes[i].Pattern, routes[i].Budget, routes[i].Gate = method+" "+base+path, time.Second, "any"
	}
	return routes
}

// simulation is the guard in front of routes that answer at once, in synctest's
// time: an hour of traffic passes in seconds, to the millisecond.
type simulation struct {
	t        testing.TB
	guard    *Guard
	server   *web.Server
	memory   *botMemory
	sessions *sessions

	mu     sync.Mutex
	cached map[string]bool
	caught bool // whether the last request was one of a suspect
	fills  int
	kept   map[string]bool // changes whose answer is kept
	served map[string]int  // requests that reached their handler, by pattern
}

// newSimulation must be called inside a bubble.
func newSimulation(t testing.TB, change func(*Config), more ...web.Route) *simulation {
	t.Helper()
	a := &simulation{
		t: t, cached: map[string]bool{}, kept: map[string]bool{}, served: map[string]int{}, memory: newBotMemory(),
		sessions: &sessions{at: map[bff.ID]time.Time{}},
	}
	cfg := Config{
		Clients: Clients{Pepper: []byte("pepper")},
		Limits:  limits(), Mode: ModeOn, Policy: bot.DefaultPolicy(), Memory: a.memory, Sessions: a.sessions, Cards: consumertest.NewCards(1),
		ChallengePath: base + "/challenge",
		Telemetry:     consumer.NewTelemetry("simulation", nil), Background: web.NewBackground(web.BackgroundConfig{}),
		Ration: bot.NewRation(), Log: slog.New(slog.DiscardHandler), Now: time.Now, Metrics: prometheus.NewRegistry(),
	}
	if change != nil {
		change(&cfg)
	}
	var errs [5]error
	cfg.Limiter, errs[0] = ratelimit.New(ratelimit.Config{
		Limits: cfg.Limits.Limits(), Source: ratelimit.NewMemory(), Pepper: []byte("pepper of sixteen"), Instances: 1,
	})
	cfg.UserAgents, errs[1] = useragent.New(useragent.Config{Apps: []string{"Melmastoon/"}})
	cfg.Verifier, errs[2] = useragent.NewVerifier(useragent.VerifierConfig{Resolver: resolver{}})
	cfg.Challenger, errs[3] = challenge.New(challenge.Config{Keys: [][]byte{bytes.Repeat([]byte{7}, 32)}, Burner: a.memory, Easy: 50, Hard: 100})
	a.guard, errs[4] = New(cfg)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	a.server = web.NewServer(web.Config{
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Namespace: "simulation",
		Budget: 25 * time.Second, Now: time.Now,
	})
	routes := append(table(), more...)
	for i := range routes {
		if routes[i].Handle == nil {
			routes[i].Handle = a.answer(routes[i])
		}
		if routes[i].Kind == web.Challenge {
			routes[i].Handle = a.guard.Challenge
		}
	}
	routes, err := a.guard.Protect(routes)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.server.Mount(routes...); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = cfg.Limiter.Run(ctx) })
	wg.Go(func() { _ = a.guard.Run(ctx) })
	t.Cleanup(func() {
		if err := errors.Join(a.guard.Close(context.Background()), cfg.Background.Close(context.Background())); err != nil {
			t.Error(err)
		}
		cancel()
		wg.Wait()
	})
	return a
}

// costlyReport is the last part of a telemetry route that calls an upstream.
const costlyReport = "costly"

// unknownHotel is the body of a change that is answered 404.
const unknownHotel = `{"propertyId":"unknown"}`

// answer stands for the handlers: what was filled once is there from then on.
func (a *simulation) answer(rt web.Route) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		v, _ := web.From(r.Context()).Local.(*consumer.Visit)
		a.mu.Lock()
		a.served[rt.Pattern]++
		a.mu.Unlock()
		if rt.Kind == web.PublicRead {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			key := rt.Pattern + " " + r.RequestURI + " " + string(body)
			a.mu.Lock()
			defer a.mu.Unlock()
			if v.CacheOnly {
				a.caught = bff.CodeOf(v.Refusal) == bff.CodeSuspectedBot
				if !a.cached[key] {
					return v.Refusal
				}
			} else if !a.cached[key] {
				v.Spend()
				a.cached[key] = true
				a.fills++
			}
		}
		if strings.HasSuffix(rt.Pattern, costlyReport) {
			v.Spend()
		}
		if rt.KeepsAnswers {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			if string(body) == unknownHotel {
				return &bff.Error{Code: bff.CodeResourceNotFound}
			}
			key := v.SessionID.String() + " " + idempotencyKey(r.Header) + " " + r.RequestURI + " " + string(body)
			a.mu.Lock()
			if a.kept[key] {
				w.Header().Set(consumer.ReplayedHeader, "true")
			}
			a.kept[key] = true
			a.mu.Unlock()
		}
		if v.SessionID.IsZero() && !v.Untracked && !rt.CDN && rt.Kind != web.Telemetry && rt.Kind != web.Challenge {
			if v.NoSession {
				return &bff.Error{Code: bff.CodeRateLimited}
			}
			v.Open()
			id := a.sessions.open()
			for name, value := range map[string]string{consumer.SessionCookie: id.String(), consumer.CardCookie: a.card(id)} {
				http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode})
			}
		}
		return web.WriteBytes(w, http.StatusOK, []byte(`{"ok":true}`))
	}
}

// sent is a request of an actor and what became of it.
type sent struct {
	status int
	code   bff.Code
	caught bool
	header http.Header
	body   []byte
}

// newCall is a request as a server has it. httptest writes one down and reads it
// again, which a simulation has no time for.
func newCall(method, path, body, addr string, header map[string]string) (*http.Request, *httptest.ResponseRecorder) {
	r, err := http.NewRequestWithContext(context.Background(), method, base+path, strings.NewReader(body))
	if err != nil {
		panic(err) // as httptest does: it is the test's own
	}
	r.RequestURI, r.Host, r.RemoteAddr = base+path, "example.com", net.JoinHostPort(addr, "4711")
	for k, v := range header {
		if v == "" {
			r.Header.Del(k)
			continue
		}
		r.Header.Set(k, v)
	}
	return r, httptest.NewRecorder()
}

func (a *simulation) send(method, path, body, addr string, header map[string]string) sent {
	a.t.Helper()
	r, w := newCall(method, path, body, addr, header)
	a.caught = false
	a.server.ServeHTTP(w, r)
	out := sent{status: w.Code, header: w.Header(), body: w.Body.Bytes(), caught: a.caught}
	if w.Code >= http.StatusBadRequest {
		var doc struct{ Error struct{ Code bff.Code } }
		if err := json.Unmarshal(out.body, &doc); err != nil {
			a.t.Fatal(err)
		}
		out.code = doc.Error.Code
	}
	out.caught = out.caught || out.code == bff.CodeSuspectedBot || out.code == bff.CodeChallengeInvalid
	return out
}

// sessions are those that were opened here.
type sessions struct {
	guest.Sessions

	mu    sync.Mutex
	at    map[bff.ID]time.Time
	finds int
}

// looked returns how often a session was looked for.
func (o *sessions) looked() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.finds
}

func (o *sessions) open() bff.ID {
	o.mu.Lock()
	defer o.mu.Unlock()
	id := bff.NewID(bff.PrefixGuestSession, time.Now())
	o.at[id] = time.Now()
	return id
}

func (o *sessions) FindSession(_ context.Context, id bff.ID) (consumer.GuestSession, bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finds++
	at, ok := o.at[id]
	return consumer.GuestSession{ID: id, CreatedAt: at, Consent: consumer.Consent{Telemetry: true}}, ok, nil
}

func (*sessions) FindRefusal(context.Context, bff.ID) (guest.Refusal, error) {
	return guest.Refusal{}, nil
}

// resolver knows Google's address and no other.
type resolver struct{}

const googleAddr = "66.249.66.1"

func (resolver) LookupAddr(_ context.Context, addr string) ([]string, error) {
	if addr == googleAddr {
		return []string{"crawl-66-249-66-1.googlebot.com."}, nil
	}
	return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
}

func (resolver) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr(googleAddr)}, nil
}

// botMemory is a BotMemory for one process.
type botMemory struct {
	mu      sync.Mutex
	burnt   map[string]bool
	solved  map[uint64]time.Time
	blocked map[uint64]time.Time
	logged  []bot.BotSuspected
	events  int
	penalty float64
	// Of every busy client other instances counted so many requests; told is what they were told.
	elsewhere, told int
}

func newBotMemory() *botMemory {
	return &botMemory{burnt: map[string]bool{}, solved: map[uint64]time.Time{}, blocked: map[uint64]time.Time{}}
}

func (m *botMemory) Burn(_ context.Context, id string, _ time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fresh := !m.burnt[id]
	m.burnt[id] = true
	return fresh, nil
}

func (m *botMemory) Solved(_ context.Context, visitor uint64, until time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.solved[visitor] = until
	return nil
}

func (m *botMemory) FindReputation(_ context.Context, visitor uint64) (bot.Reputation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bot.Reputation{SolvedUntil: m.solved[visitor]}, nil
}

func (m *botMemory) Block(_ context.Context, visitor uint64, until time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blocked[visitor] = until
	return nil
}

func (m *botMemory) Blocked(_ context.Context, now time.Time) (map[uint64]time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[uint64]time.Time{}
	for v, until := range m.blocked {
		if until.After(now) {
			out[v] = until
		}
	}
	return out, nil
}

func (m *botMemory) ExchangePaces(_ context.Context, paces []bot.Pace, _ time.Time) ([]int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	others := make([]int, len(paces))
	for i, p := range paces {
		m.told += p.Requests
		others[i] = m.elsewhere
	}
	return others, nil
}

func (m *botMemory) Collide(context.Context, uint64, uint64, time.Time) (int, error) { return 0, nil }

func (m *botMemory) Penalty(context.Context, consumer.Hash, time.Time) (float64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.penalty, nil
}

func (m *botMemory) LogVerdict(_ context.Context, b bot.BotSuspected, e *bff.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.logged = append(m.logged, b)
	if e != nil {
		m.events++
	}
	return nil
}

// actor is a client with headers, an address, a way with cookies and a plan.
type actor struct {
	group, name string
	headers     map[string]string
	addr        string
	cookies     string // keep, none, invent
	rotates     string // agent, address
	plan        []step
	untilCaught bool // it stops when it was caught enoughCaught times
	rng         *rand.Rand

	next   int
	cookie string
	card   string
	tally
}

type step struct {
	at           time.Duration
	method, path string
	body         string
	header       map[string]string
}

// tally is what became of an actor's requests.
type tally struct{ requests, challenged, blocked, limited, caught int }

func (t *tally) add(o tally) {
	t.requests += o.requests
	t.challenged += o.challenged
	t.blocked += o.blocked
	t.limited += o.limited
	t.caught += o.caught
}

// queue holds actors by the time of their next step.
type queue []*actor

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].plan[q[i].next].at < q[j].plan[q[j].next].at }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(*actor)) } //nolint:forcetypeassert // ours
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// enoughCaught is how many requests of a caught program still weigh on limits that it
// shares with others.
const enoughCaught = 100

// pass lets the bubble's time pass.
func pass(d time.Duration) { <-time.After(d) }

// play runs all plans, in order of time.
func (a *simulation) play(actors []*actor) {
	begin := time.Now()
	q := queue{}
	for _, who := range actors {
		if len(who.plan) > 0 {
			q = append(q, who)
		}
	}
	heap.Init(&q)
	for len(q) > 0 {
		who := q[0]
		s := who.plan[who.next]
		pass(time.Until(begin.Add(s.at)))
		synctest.Wait() // what was to happen after the responses has happened
		a.act(who, s)
		if who.next++; who.next == len(who.plan) || who.untilCaught && who.caught > enoughCaught {
			heap.Pop(&q)
		} else {
			heap.Fix(&q, 0)
		}
	}
}

func (a *simulation) act(who *actor, s step) {
	h := map[string]string{"Content-Type": "application/json"}
	maps.Copy(h, who.headers)
	maps.Copy(h, s.header)
	addr := who.addr
	switch who.rotates {
	case "agent":
		h["User-Agent"] = fmt.Sprintf(
			"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0.%d.0 Safari/537.36", 100+who.rng.IntN(42),
			who.rng.IntN(9000),
		)
		h["Accept-Language"] = []string{"en", "en-US", "de", "fr", "ar", "fa"}[who.rng.IntN(6)] + fmt.Sprintf(";q=0.%d", who.rng.IntN(10))
	case "address":
		addr = fmt.Sprintf("198.%d.%d.%d", 18+who.rng.IntN(2), who.rng.IntN(256), who.rng.IntN(256))
	}
	switch who.cookies {
	case "keep":
		if who.cookie != "" {
			h["Cookie"] = testkit.CookieHeader(who.cookie, who.card)
		}
	case "invent":
		h["Cookie"] = consumer.SessionCookie + "=" + bff.NewID(bff.PrefixGuestSession, time.Now()).String()
	}
	got := a.send(s.method, s.path, s.body, addr, h)
	who.requests++
	testkit.TakeCookies(got.header, &who.cookie, &who.card)
	if got.caught {
		who.caught++
	}
	switch {
	case got.code == bff.CodeSuspectedBot && got.header.Get("Link") == "":
		who.blocked++
	case got.code == bff.CodeSuspectedBot, got.code == bff.CodeChallengeInvalid:
		who.challenged++
	case got.code == bff.CodeRateLimited:
		who.limited++
	case got.status != http.StatusOK && got.status != http.StatusServiceUnavailable:
		a.t.Fatalf("%s, %s: %s %s: %d %s", who.group, who.name, s.method, s.path, got.status, got.body)
	}
}
