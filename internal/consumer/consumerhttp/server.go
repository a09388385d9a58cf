// Package consumerhttp is the anonymous service's HTTP surface: the public API
// under /bff/consumer/v1 and the internal consume call. It reads requests,
// asks the domain and writes answers.
package consumerhttp

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/handoff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/loadshed"
	"melmastoon.ghasi.io/bff/internal/web"
)

// Base is where the public API begins.
const Base = "/bff/consumer/v1"

// Config is what the surface stands on.
type Config struct {
	Finder    *consumer.Finder
	Answers   *Answers
	Searches  consumer.Searches
	Desk      *consumer.HandoffDesk
	Sessions  consumer.Sessions
	Trails    consumer.Trails
	Wishlists consumer.Wishlists
	Ledger    consumer.Ledger
	// Suspicions keeps replays and borrowed cookies.
	Suspicions consumer.Suspicions
	Journal    consumer.Journal
	Keys       *handoff.Keyring
	// RefreshKeys looks for newer keys at once and reports whether there are any;
	// nil = there never are.
	RefreshKeys func(ctx context.Context) bool
	Visitors    Visitors
	Caller      CallerAuth // who may consume
	Instance    string     // of this process, in envelopes
	// Sampling is the share of an event's kind that leaves, asked for each event;
	// nil = consumer.DefaultRate.
	Sampling func(consumer.Subject) float64
	// Gates refuse what cannot be served in time; nil = everything is let in.
	Gates *loadshed.Shedder
	// Defence limits callers and judges whether they are people; nil = it does not.
	Defence *Defence
	Now     func() time.Time
	// Metrics take the surface's own counters; nil in tests.
	Metrics prometheus.Registerer
}

// API answers requests.
type API struct {
	cfg       Config
	visitors  reader
	telemetry *consumer.Telemetry
	// bodies are searches that were understood before, and questions those that a
	// session completed.
	bodies    *memo[bodyKey, *searchRequest]
	questions *memo[question, *consumer.Asked]
	// pages are hotel pages that were asked for before.
	pages *memo[pageAsked, *page]
	// latest and viewing are what guests asked for and saw last.
	latest  *memo[[16]byte, latestSearch]
	viewing *memo[[16]byte, latestView]
	// background does what a guest need not wait for, and recorder remembers.
	background *background
	recorder   *recorder
	counters   counters
}

// New returns the surface.
func New(cfg Config) *API {
	a := &API{
		cfg: cfg, counters: newCounters(cfg.Metrics), visitors: newReader(cfg.Visitors),
		telemetry: consumer.NewTelemetry(cfg.Instance, cfg.Sampling), background: newBackground(cfg.Metrics),
		bodies: newMemo[bodyKey, *searchRequest](knownBodies), questions: newMemo[question, *consumer.Asked](knownBodies),
		pages:  newMemo[pageAsked, *page](knownPages),
		latest: newMemo[[16]byte, latestSearch](knownSearches), viewing: newMemo[[16]byte, latestView](knownSearches),
	}
	a.recorder = newRecorder(a, a.background.dropped)
	return a
}

// Budgets per route, far below the edge's 25 seconds.
const (
	searchBudget  = 4 * time.Second
	handoffBudget = 3 * time.Second
	consumeBudget = 3 * time.Second
	sessionBudget = time.Second
	clearBudget   = 5 * time.Second // it deletes in two stores, and is worth waiting for
	// wishlistBudget covers a turn behind the guest's other changes.
	wishlistBudget = 4 * time.Second
	// telemetryBudget covers one commit on a busy database.
	telemetryBudget = 2 * time.Second
)

// Limits of bodies, several times what honest clients send.
const (
	searchBody  = 16 << 10
	handoffBody = 4 << 10
	consumeBody = 4 << 10
	sessionBody = 1 << 10
	// wishlistBody holds a note of 280 characters, escaped.
	wishlistBody = 4 << 10
	// telemetryBody holds sixteen members of metadata.
	telemetryBody = 4 << 10
)

// Mount adds the public routes to a server.
func (a *API) Mount(s *web.Server) {
	for _, rt := range []web.Route{
		{Pattern: "POST " + Base + "/search", Handle: a.search, Budget: searchBudget},
		{Pattern: "POST " + Base + "/search/map", Handle: a.searchMap, Budget: searchBudget},
		{Pattern: "GET " + Base + "/suggest", Handle: a.suggest, Budget: searchBudget},
		{Pattern: "GET " + Base + "/facets", Handle: a.facets, Budget: searchBudget},
		{Pattern: "GET " + Base + "/hotels/{propertyId}", Handle: a.hotel, Budget: searchBudget},
		{Pattern: "GET " + Base + "/hotels/{propertyId}/availability", Handle: a.availability, Budget: searchBudget},
		{Pattern: "POST " + Base + "/handoff", Handle: counted(a.counters.mint, a.mint), Budget: handoffBudget},
		{Pattern: "GET " + Base + "/wishlist", Handle: a.wishlist, Budget: wishlistBudget},
		{Pattern: "POST " + Base + "/wishlist", Handle: a.addWish, Budget: wishlistBudget},
		{Pattern: "DELETE " + Base + "/wishlist/{propertyId}", Handle: a.removeWish, Budget: wishlistBudget},
		{Pattern: "GET " + Base + "/session", Handle: a.session, Budget: sessionBudget},
		{Pattern: "POST " + Base + "/session/locale", Handle: a.setLocale, Budget: sessionBudget},
		{Pattern: "POST " + Base + "/session/currency", Handle: a.setCurrency, Budget: sessionBudget},
		{Pattern: "POST " + Base + "/session/consent", Handle: a.setConsent, Budget: sessionBudget},
		{Pattern: "POST " + Base + "/session/clear", Handle: a.clearSession, Budget: clearBudget},
		{Pattern: "POST " + Base + "/telemetry/click", Handle: a.click, Budget: telemetryBudget},
		{Pattern: "POST " + Base + "/telemetry/page-view", Handle: a.pageView, Budget: telemetryBudget},
		{Pattern: "POST " + Base + "/telemetry/funnel", Handle: a.funnel, Budget: telemetryBudget},
		{Pattern: "GET " + Base + "/challenge", Handle: a.challenge, Budget: sessionBudget},
	} {
		rt.Handle = anonymous(a.defended(rt.Pattern, a.gated(rt.Pattern, rt.Handle)))
		s.Handle(rt)
	}
}

// MountInternal adds the routes that only other services may reach.
func (a *API) MountInternal(s *web.Server) {
	s.Handle(web.Route{Pattern: "POST /internal/handoff/{id}/consume", Handle: counted(a.counters.consume, a.consume), Budget: consumeBudget})
}

// anonymous refuses credentials: this surface has none to check, and a token
// that strays here must be noticed rather than ignored.
func anonymous(next web.Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if len(r.Header.Values("Authorization")) > 0 {
			return bff.Errorf(bff.CodeSurfaceMismatch, "this surface is anonymous: send no Authorization header")
		}
		return next(w, r)
	}
}
