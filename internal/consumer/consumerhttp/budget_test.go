package consumerhttp_test

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/handoff"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/booking"
	"melmastoon.ghasi.io/bff/internal/consumer/consumercache"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerguard"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerhttp"
	"melmastoon.ghasi.io/bff/internal/consumer/consumertest"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerupstream"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	guests "melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/internal/web"
)

// routes are the public routes of the table, by pattern without the base.
func routes() map[string]web.Route {
	out := map[string]web.Route{}
	for _, rt := range consumerhttp.New(consumerhttp.Config{Now: time.Now}).Routes() {
		out[strings.Replace(rt.Pattern, consumerhttp.Base, "", 1)] = rt
	}
	return out
}

// goodRequests has a request of every public route that makes it do its work.
func goodRequests(hotel sim.CatalogProperty) map[string]guestCall {
	get := func(path string) guestCall { return guestCall{method: http.MethodGet, path: path} }
	post := func(path, body string) guestCall {
		return guestCall{method: http.MethodPost, path: path, body: body, header: map[string]string{"Idempotency-Key": path}}
	}
	property, tenant := `"propertyId":"`+hotel.PropertyID+`"`, `"tenantId":"`+hotel.TenantID+`"`
	shown := `"shown":{"minor":"100","currency":"AFN","capturedAt":"2026-11-16T01:58:12Z"}`
	return map[string]guestCall{
		"POST /search":                          searchCall("Kabul"),
		"POST /search/map":                      post("/search/map", searchCall("Kabul").body),
		"GET /suggest":                          get("/suggest?q=kab"),
		"GET /facets":                           get("/facets?country=AF"),
		"GET /hotels/{propertyId}":              get("/hotels/" + hotel.PropertyID),
		"GET /hotels/{propertyId}/availability": get("/hotels/" + hotel.PropertyID + "/availability?from=2077-05-12&to=2077-05-15"),
		"POST /handoff":                         post("/handoff", query(property, tenant, shown)),
		"GET /wishlist":                         get("/wishlist"),
		"POST /wishlist":                        post("/wishlist", `{`+property+`,"source":"list"}`),
		"DELETE /wishlist/{propertyId}": {
			method: http.MethodDelete, path: "/wishlist/" + hotel.PropertyID, header: map[string]string{"Idempotency-Key": "x"},
		},
		"GET /session":              get("/session"),
		"POST /session/locale":      post("/session/locale", `{"locale":"en"}`),
		"POST /session/currency":    post("/session/currency", `{"currency":"USD"}`),
		"POST /session/consent":     post("/session/consent", `{"telemetry":true}`),
		"POST /session/clear":       {method: http.MethodPost, path: "/session/clear"},
		"GET /challenge":            get("/challenge"),
		"POST /telemetry/click":     post("/telemetry/click", `{"kind":"listing-card",`+property+`,`+tenant+`}`),
		"POST /telemetry/page-view": post("/telemetry/page-view", `{"path":"/search"}`),
		"POST /telemetry/funnel":    post("/telemetry/funnel", `{"step":"map.opened"}`),
	}
}

// TestBudgetsCoverUpstreams lets every upstream take nearly as long as its client
// waits, and asks each route with cold caches: the answer must come before the
// route's budget is used up, and no call may be cut short by it. A route that
// calls upstreams one after the other needs the sum of their timeouts, and the time of
// its commits. What is asked of an upstream for a client's sake is said so.
func TestBudgetsCoverUpstreams(t *testing.T) {
	t.Parallel()
	platform, err := sim.New(sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	hotel := platform.Catalog().Properties[0]
	requests := goodRequests(hotel)
	for pattern, rt := range routes() {
		call, ok := requests[pattern]
		if !ok {
			t.Errorf("%s has no row in goodRequests: its budget is not tested", pattern)
			continue
		}
		t.Run(pattern, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				up := &testkit.SlowTransport{TB: t, Platform: platform.Handler(), Until: time.Now().Add(rt.Budget)}
				var visit *consumer.Visit
				server := overUpstreams(t, up, hotel, func(v *consumer.Visit) { visit = v })
				began := time.Now()
				if call.header == nil {
					call.header = map[string]string{}
				}
				call.header["Cookie"] = "gms_id=" + bff.NewID(bff.PrefixGuestSession, began).String()
				a := call.serve(server)
				took := time.Since(began)
				t.Logf("%d after %s of %s, %d calls", a.status, took, rt.Budget, up.Calls())
				if a.status >= http.StatusBadRequest && rt.Kind != web.Challenge { // nothing is challenged here
					t.Errorf("%s, want a good answer", a)
				}
				if took >= rt.Budget {
					t.Errorf("took %s, the budget is %s", took, rt.Budget)
				}
				// Others count towards their client's pace by their kind.
				if free := rt.Kind == web.PublicRead || rt.Kind == web.Telemetry; free && up.Calls() > 0 && !visit.Costly() {
					t.Errorf("%d calls, and the handler does not say so with Spend: they do not count towards the client's pace", up.Calls())
				}
			})
		})
	}
}

// TestHotelsOfSuspendedTenantsAreNowhere: a route that is asked about one does not know it.
func TestHotelsOfSuspendedTenantsAreNowhere(t *testing.T) {
	t.Parallel()
	platform, err := sim.New(sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	hotel := platform.Catalog().Properties[0]
	served := map[string]int{
		"DELETE /wishlist/{propertyId}": http.StatusNoContent, // a guest gets rid of it
		"POST /telemetry/click":         http.StatusAccepted,  // what was clicked on was shown
		"POST /handoff":                 http.StatusCreated,   // asks tenant-service itself: there the tenant is active
	}
	for pattern, call := range goodRequests(hotel) {
		if !strings.Contains(call.path+call.body, hotel.PropertyID) {
			continue
		}
		t.Run(pattern, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				up := &testkit.SlowTransport{TB: t, Platform: platform.Handler(), Until: time.Now().Add(time.Hour)}
				server := overUpstreams(t, up, hotel, func(*consumer.Visit) {}, bff.MustParseID(bff.PrefixTenant, hotel.TenantID))
				if a := call.serve(server); a.status != cmp.Or(served[pattern], http.StatusNotFound) {
					t.Errorf("%s, want %d", a, cmp.Or(served[pattern], http.StatusNotFound))
				}
			})
		})
	}
}

// overUpstreams is the surface over real clients of the upstreams, with stores in
// memory that answer at once, but for commits. Seen is given the visit of each request.
func overUpstreams(t *testing.T, transport http.RoundTripper, hotel sim.CatalogProperty, seen func(*consumer.Visit), suspended ...bff.ID) *web.Server {
	t.Helper()
	away := new(consumer.SuspendedTenants)
	for _, tenant := range suspended {
		away.Suspend(tenant)
	}
	const base = "http://platform.test"
	up, err := consumerupstream.New(consumerupstream.Config{
		SearchURL: base + "/search-aggregation", PricingURL: base + "/pricing", PropertyURL: base + "/property",
		ThemeURL: base + "/theme-config", TenantURL: base + "/tenant", Log: slog.New(slog.DiscardHandler), Transport: transport,
	})
	if err != nil {
		t.Fatal(err)
	}
	store, err := cache.NewStore(cache.StoreConfig{})
	if err != nil {
		t.Fatal(err)
	}
	stores := memoryStores{wished: consumer.WishlistEntry{
		PropertyID: bff.MustParseID(bff.PrefixProperty, hotel.PropertyID), TenantID: bff.MustParseID(bff.PrefixTenant, hotel.TenantID),
	}}
	keys := redis.NewKeys("slow", "bff-consumer")
	reads, err := consumercache.New(consumercache.Config{
		Store: store, Keys: keys, Campaign: func() bool { return false }, Search: up.Search, Prices: up.Pricing, Brands: up.Theme, Properties: up.Property,
		Tenants: up.Tenant, Searches: stores,
	})
	if err != nil {
		t.Fatal(err)
	}
	answers, err := consumerhttp.NewAnswers(store, keys)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := handoff.NewKeySet("k1", []byte(strings.Repeat("s", 32)), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	background := web.NewBackground(web.BackgroundConfig{})
	api := consumerhttp.New(consumerhttp.Config{
		Finder: discovery.NewFinder(discovery.FinderConfig{
			Search: reads, Prices: reads, Brands: reads, Properties: reads, Suspended: away,
			Budgets: discovery.Budgets{Rates: 850 * time.Millisecond, Brand: 600 * time.Millisecond}, Region: consumertest.Region, Regions: reads,
		}),
		Desk: booking.NewHandoffDesk(booking.HandoffDeskConfig{
			Search: reads, Tenants: up.Tenant, Prices: up.Pricing, Keys: handoff.NewKeyring(ring), RedirectTemplate: "https://{tenantSlug}.example.com/book?h={token}",
		}),
		Answers: answers, Searches: stores, Trails: stores, Sessions: stores, Cards: consumertest.NewCards(1), Wishlists: stores, Ledger: stores, Journal: stores,
		Now:       time.Now,
		Telemetry: consumer.NewTelemetry("slow", nil), Background: background, Challenge: nothing,
	})
	guard := newGuard(t, func(c *consumerguard.Config) {
		c.Mode, c.Limits.Off, c.Sessions, c.Background, c.Cardless = consumerguard.ModeOff, true, stores, background, consumer.Cardless{Always: true}
	})
	table := api.Routes()
	for i, rt := range table {
		table[i].Handle = func(w http.ResponseWriter, r *http.Request) error {
			v, _ := web.From(r.Context()).Local.(*consumer.Visit)
			seen(v)
			return rt.Handle(w, r)
		}
	}
	routes, err := guard.Protect(table)
	if err != nil {
		t.Fatal(err)
	}
	server := web.NewServer(web.Config{
		Codes: consumerhttp.Codes(),
		Log:   slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Namespace: "slow",
		Budget: 25 * time.Second, Now: time.Now,
	})
	if err := server.Mount(routes...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := background.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return server
}

// commit takes as long as Postgres may on a busy day.
func commit() { <-time.After(550 * time.Millisecond) }

// memoryStores have a session for every guest, one wish, and claims that are
// always won.
type memoryStores struct {
	guests.Sessions
	consumer.Searches
	guests.Trails
	guests.Wishlists
	booking.Ledger
	consumer.Journal

	wished consumer.WishlistEntry
}

func (memoryStores) FindSession(context.Context, bff.ID) (consumer.GuestSession, bool, error) {
	return consumer.GuestSession{}, false, nil
}

func (memoryStores) FindSessions(_ context.Context, ids []bff.ID) []guests.FoundSession {
	var out []guests.FoundSession
	for _, id := range ids {
		out = append(out, guests.FoundSession{Found: true, GuestSession: consumer.GuestSession{
			ID: id, CreatedAt: time.Now(), LastSeenAt: time.Now(), Locale: "en", Currency: "USD", Consent: consumer.Consent{Telemetry: true},
			Chosen: true, CookieAt: time.Now(),
		}})
	}
	return out
}

func (memoryStores) FindRefusal(context.Context, bff.ID) (guests.Refusal, error) {
	return guests.Refusal{}, nil
}

func (memoryStores) KnowsSession(context.Context, bff.ID) (bool, error) { return true, nil }

func (memoryStores) AddRefusal(context.Context, consumer.GuestSession, time.Time) error {
	commit()
	return nil
}

func (memoryStores) RemoveRefusal(context.Context, bff.ID) error {
	commit()
	return nil
}

func (memoryStores) RenewSession(context.Context, consumer.GuestSession, time.Time) error { return nil }

func (memoryStores) SaveSession(context.Context, consumer.GuestSession) error { return nil }
func (memoryStores) UpdateSession(context.Context, bff.ID, consumer.SessionChange) (bool, error) {
	return true, nil
}

func (memoryStores) PurgeSession(context.Context, bff.ID, *bff.Event) error {
	commit()
	return nil
}

func (memoryStores) Record(context.Context, ...bff.Event) error {
	commit()
	return nil
}
func (memoryStores) Follow(context.Context, []guests.Step) error              { return nil }
func (memoryStores) SaveOrder(context.Context, consumer.Hash, []bff.ID) error { return nil }
func (memoryStores) FindTrail(context.Context, bff.ID) (guests.Trail, error) {
	return guests.Trail{}, nil
}

func (s memoryStores) ListWishlist(context.Context, bff.ID) ([]consumer.WishlistEntry, error) {
	return []consumer.WishlistEntry{s.wished}, nil
}

func (memoryStores) BeginWishlist(context.Context, consumer.Once, time.Time) (guests.WishlistClaim, *consumer.Answer, error) {
	commit()
	return wonClaim{}, nil, nil
}

func (memoryStores) BeginMint(context.Context, consumer.Once, time.Time) (booking.MintClaim, *consumer.Answer, error) {
	commit()
	return wonClaim{}, nil, nil
}

type wonClaim struct{}

func (wonClaim) Release() {}
func (wonClaim) Mint(context.Context, booking.Mint) (consumer.Answer, error) {
	commit()
	return consumer.Answer{Status: http.StatusCreated, Body: []byte("{}")}, nil
}

func (wonClaim) Add(context.Context, consumer.WishlistEntry, consumer.Announcer) (consumer.Answer, error) {
	commit()
	return consumer.Answer{Status: http.StatusCreated, Body: []byte("{}")}, nil
}

func (wonClaim) Remove(context.Context, bff.ID, consumer.Announcer) (consumer.Answer, error) {
	commit()
	return consumer.Answer{Status: http.StatusNoContent}, nil
}
