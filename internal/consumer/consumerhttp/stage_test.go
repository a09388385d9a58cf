package consumerhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/consumer/consumercache"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerguard"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerhttp"
	"melmastoon.ghasi.io/bff/internal/consumer/consumertest"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	guests "melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/internal/web"
)

const apiBase = "/bff/consumer/v1"

// guestCall is what a guest asks.
type guestCall struct {
	method, path, body string
	header             map[string]string
}

type guestAnswer struct {
	status int
	header http.Header
	body   []byte
}

func (a guestAnswer) String() string { return fmt.Sprintf("%d %s", a.status, a.body) }

// serve has a server answer a call.
func (c guestCall) serve(server http.Handler) guestAnswer {
	r := httptest.NewRequestWithContext(context.Background(), c.method, apiBase+c.path, strings.NewReader(c.body))
	r.Header.Set("Content-Type", "application/json")
	for k, v := range c.header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	server.ServeHTTP(w, r)
	return guestAnswer{w.Code, w.Header(), w.Body.Bytes()}
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

// stage is the surface with its caches over upstreams that do as they are
// told, in synctest's time: minutes pass at once, and to the millisecond.
type stage struct {
	server *web.Server
	*consumertest.Platform
	rung      atomic.Int32 // where the ladder is held; fills of earlier requests still read it
	suspended *consumer.SuspendedTenants
	answers   *consumerhttp.Answers
	sessions  *consumertest.Sessions
	cards     *guests.Cards
	wishes    []consumer.WishlistEntry // of every guest
	changedBy consumer.GuestSession    // whose wishlist was changed last
	journal   journal
	searches  searches
}

// allHotels are the hotels that every search finds.
func allHotels() []int {
	hotels := make([]int, 30)
	for i := range hotels {
		hotels[i] = 10 * (i + 1)
	}
	return hotels
}

// newStage must be called inside a bubble.
func newStage(t *testing.T, guarded ...func(*consumerguard.Config)) *stage {
	t.Helper()
	s := &stage{
		Platform:  &consumertest.Platform{Hotels: allHotels(), Alike: []int{20, 30}, Captured: time.Now},
		suspended: new(consumer.SuspendedTenants), sessions: consumertest.NewSessions(), cards: consumertest.NewCards(1),
	}
	for _, n := range s.Hotels {
		s.MapPins = append(s.MapPins, discovery.MapPin{PropertyID: consumertest.PropertyID(n), TenantID: consumertest.TenantID(n / 10)})
	}
	store, err := cache.NewStore(cache.StoreConfig{})
	if err != nil {
		t.Fatal(err)
	}
	keys := redis.NewKeys("stage", "bff-consumer")
	up := s.Platform
	reads, err := consumercache.New(consumercache.Config{
		Store: store, Keys: keys, Campaign: func() bool { return false }, Search: up, Prices: up, Brands: up, Properties: up, Tenants: up, Searches: &s.searches,
	})
	if err != nil {
		t.Fatal(err)
	}
	answers, err := consumerhttp.NewAnswers(store, keys)
	if err != nil {
		t.Fatal(err)
	}
	s.answers = answers
	background := web.NewBackground(web.BackgroundConfig{})
	api := consumerhttp.New(consumerhttp.Config{
		Finder: discovery.NewFinder(discovery.FinderConfig{
			Search: reads, Prices: reads, Brands: reads, Properties: reads, Suspended: s.suspended,
			Brownout: func() discovery.Rung { return discovery.Rung(s.rung.Load()) },
			Budgets:  discovery.Budgets{Rates: 800 * time.Millisecond, Brand: 600 * time.Millisecond}, Region: consumertest.Region, Regions: reads,
		}),
		Answers: answers, Searches: &s.searches, Trails: &s.searches, Sessions: s.sessions, Cards: s.cards, Wishlists: wishes{stage: s}, Journal: &s.journal,
		Suspicions: &s.journal, Now: time.Now,
		Telemetry: consumer.NewTelemetry("stage", nil), Background: background, Challenge: nothing,
	})
	guard := newGuard(t, func(c *consumerguard.Config) {
		c.Mode, c.Limits.Off, c.Sessions, c.Background, c.Cards = consumerguard.ModeOff, true, s.sessions, background, s.cards
		c.Clients.CountryHeader = "X-Test-Country"
		for _, change := range guarded {
			change(c)
		}
	})
	s.server = web.NewServer(web.Config{
		Codes: consumerhttp.Codes(),
		Log:   slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Namespace: "stage",
		Budget: 25 * time.Second, Now: time.Now,
	})
	routes, err := guard.Protect(api.Routes())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.server.Mount(routes...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(api.Close(context.Background()), background.Close(context.Background()), store.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *stage) hold(r discovery.Rung) { s.rung.Store(int32(r)) } //nolint:gosec // seven rungs

func (s *stage) ask(c guestCall) (guestAnswer, shown) {
	a := c.serve(s.server)
	var got shown
	_ = json.Unmarshal(a.body, &got) // a refusal has none of it
	return a, got
}

// searches is where searches are kept: away, unless it has maps. Guests can look without it.
type searches struct {
	mu     sync.Mutex
	kept   map[bff.ID]consumer.SearchSession
	orders map[consumer.Hash][]bff.ID
}

var errAway = errors.New("away")

func (s *searches) Follow(_ context.Context, steps []guests.Step) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		return errAway
	}
	for _, step := range steps {
		if step.Search != nil {
			s.kept[step.Search.ID] = *step.Search
		}
	}
	return nil
}

func (*searches) FindTrail(context.Context, bff.ID) (guests.Trail, error) {
	return guests.Trail{}, errAway
}

func (s *searches) FindSearch(_ context.Context, id, guest bff.ID, q *consumer.Asked) (consumer.SearchSession, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ss, ok := s.kept[id]
	ok = ok && ss.Guest == guest && ss.Query.ListText == q.ListText
	ss.Query = q
	return ss, ok, nil
}

func (s *searches) SaveOrder(_ context.Context, name consumer.Hash, hotels []bff.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.orders == nil {
		return errAway
	}
	s.orders[name] = hotels
	return nil
}

func (s *searches) FindOrder(_ context.Context, name consumer.Hash) ([]bff.ID, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hotels, ok := s.orders[name]
	return hotels, ok, nil
}

// wishes is a wishlist that is the same for all guests.
type wishes struct {
	guests.Wishlists
	stage *stage
}

func (w wishes) ListWishlist(context.Context, bff.ID) ([]consumer.WishlistEntry, error) {
	return w.stage.wishes, nil
}

func (w wishes) BeginWishlist(context.Context, consumer.Once, time.Time) (guests.WishlistClaim, *consumer.Answer, error) {
	return wishClaim{stage: w.stage}, nil, nil
}

// wishClaim is always won, and keeps for whom.
type wishClaim struct {
	guests.WishlistClaim
	stage *stage
}

func (wishClaim) Release() {}

func (c wishClaim) Remove(_ context.Context, _ bff.ID, by consumer.Announcer) (consumer.Answer, error) {
	c.stage.changedBy = by.Session
	return consumer.Answer{Status: http.StatusNoContent}, nil
}

// journal counts the events that it takes, by subject.
type journal struct {
	mu     sync.Mutex
	events map[string]int // by subject
}

func (j *journal) Record(_ context.Context, events ...bff.Event) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.events == nil {
		j.events = map[string]int{}
	}
	for _, e := range events {
		j.events[e.Envelope.Subject]++
	}
	return nil
}

func (*journal) Suspect(context.Context, bot.BotSuspected, *bff.Event) error { return nil }

func (j *journal) count(subject consumer.Subject) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.events[string(subject)]
}

// stagedCalls are the routes with an answer of their own.
func stagedCalls() map[string]guestCall {
	property := consumertest.PropertyID(10).String()
	return map[string]guestCall{
		"search":       searchCall("Kabul"),
		"map":          {method: http.MethodPost, path: "/search/map", body: query(`"geo":{"mode":"city","city":"Kabul"}`, `"cursor":{"propertyId":"`+property+`"}`)},
		"hotel":        hotelCall(property),
		"availability": hotelCall(property + "/availability?from=2077-03-10&to=2077-03-14"),
		"facets":       {method: http.MethodGet, path: "/facets?country=AF"},
		"suggest":      {method: http.MethodGet, path: "/suggest?q=kab"},
	}
}

// checkPrices wants no price of more than a minute that is not called stale.
func checkPrices(t *testing.T, a guestAnswer, when time.Duration) {
	t.Helper()
	type rate struct {
		CapturedAt time.Time
		IsStale    bool
	}
	var got struct {
		Results              []struct{ RateSnapshot *rate }
		CheapestRateSnapshot *rate
	}
	if err := json.Unmarshal(a.body, &got); err != nil {
		t.Fatal(err)
	}
	rates := []*rate{got.CheapestRateSnapshot}
	for _, r := range got.Results {
		rates = append(rates, r.RateSnapshot)
	}
	for _, r := range rates {
		if r != nil && !r.IsStale && time.Since(r.CapturedAt) > hotel.RateLifetime+time.Second {
			t.Fatalf("after %s: a price of %s is shown as current", when, time.Since(r.CapturedAt))
		}
	}
}

// TestProofPricesAreCurrent reads for five minutes while pricing comes and goes: no
// price is shown as current that is older than a minute.
func TestProofPricesAreCurrent(t *testing.T) {
	t.Parallel()
	for _, route := range []string{"search", "hotel"} {
		t.Run(route, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				call := stagedCalls()[route]
				step := testkit.Proof(time.Second, 250*time.Millisecond)
				second := int(time.Second / step)
				for i := range 300 * second {
					var f consumertest.Failures
					if i%(90*second) > 70*second { // twenty seconds in ninety
						f.Pricing = consumertest.Failure("error")
					}
					s.Fail(f)
					a, _ := s.ask(call)
					if a.status != http.StatusOK {
						t.Fatal(a)
					}
					checkPrices(t, a, time.Duration(i)*step)
					<-time.After(step)
				}
			})
		})
	}
}

// TestProofSteadyState reads over many lifetimes: the projection is asked once a
// minute and no guest ever waits.
func TestProofSteadyState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		minutes := testkit.Proof(5, 20)
		waited := 0
		for range minutes * 60 {
			a, got := s.ask(searchCall("Kabul"))
			if a.status != http.StatusOK || got.Stale {
				t.Fatal(a)
			}
			if a.header.Get("X-Cache") != "HIT" {
				waited++
			}
			<-time.After(time.Second)
		}
		if n := s.Searches(); n > minutes*105/100+1 || waited > 1 {
			t.Errorf("%d searches in %d minutes, %d readers waited; want one a minute, and only the first", n, minutes, waited)
		}
	})
}

// TestPartHeals lets a part fail once: soon after, the answer is whole.
func TestPartHeals(t *testing.T) {
	t.Parallel()
	for part, failed := range map[string]consumertest.Failures{
		"pricing": {Pricing: consumertest.Failure("error")}, "theme": {Theme: consumertest.Failure("error")},
	} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.Fail(failed)
				if _, got := s.ask(searchCall("Kabul")); len(got.Degraded) != 1 {
					t.Fatalf("degraded %+v", got.Degraded)
				}
				s.Fail(consumertest.Failures{})
				<-time.After(4 * time.Second)
				if a, got := s.ask(searchCall("Kabul")); len(got.Degraded) > 0 {
					t.Errorf("X-Cache %s, degraded %+v", a.header.Get("X-Cache"), got.Degraded)
				}
			})
		})
	}
}

// TestBudgetSpent has a fan-out last longer than its route may.
func TestBudgetSpent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.Hang()
		a, got := s.ask(searchCall("Kabul"))
		if a.status != http.StatusGatewayTimeout || got.Error.Code != string(bff.CodeUpstreamBudgetExceeded) {
			t.Error(a)
		}
	})
}
