// Package consumerhttp is the anonymous service's HTTP surface: the public API
// under /bff/consumer/v1 and the internal consume call. It reads requests,
// asks the domain and writes answers. Which client sent a request, and how much
// may be done for it, it is told by a [consumer.Visit].
package consumerhttp

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff/handoff"
	"melmastoon.ghasi.io/bff/internal/callers"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/booking"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerhttp/visits"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/memo"
	"melmastoon.ghasi.io/bff/internal/web"
)

// Config is what the API works with.
type Config struct {
	Finder    *discovery.Finder
	Answers   *Answers
	Searches  consumer.Searches
	Desk      *booking.HandoffDesk
	Sessions  guest.Sessions
	Cards     *guest.Cards // makes the cards of guests
	Trails    guest.Trails
	Wishlists guest.Wishlists
	Ledger    booking.Ledger
	// Suspicions keeps replays and borrowed cookies.
	Suspicions bot.Suspicions
	Journal    consumer.Journal
	Keys       *handoff.Keyring
	// RefreshKeys looks for newer keys at once and reports whether there are any;
	// nil = there never are.
	RefreshKeys func(ctx context.Context) bool
	Caller      callers.Auth // which services may consume
	// Challenge gives a refused client the means to prove itself.
	Challenge web.Handler
	Telemetry *consumer.Telemetry
	// Ration bounds how many borrowed cookies are logged, together with the
	// guard's verdicts; nil = apart from them.
	Ration *bot.Ration
	// Background takes the bookkeeping that no client waits for.
	Background *web.Background
	Now        func() time.Time
	// PlainCookies has browsers take and send the session's cookie over plain http, for
	// development.
	PlainCookies bool
	// Metrics take the API's own counters; nil in tests.
	Metrics   prometheus.Registerer
	Namespace string
}

// API answers requests.
type API struct {
	cfg      Config
	answers  answerer
	guests   *guests
	recorder *visits.Recorder
	counters counters
	// bodies are searches that were understood before, and questions those that a
	// session completed.
	bodies    *memo.Memo[bodyKey, *searchRequest]
	questions *memo.Memo[question, *askedFor]
	// pages are hotel pages that were asked for before.
	pages *memo.Memo[pageAsked, *page]
}

// New returns the API. What it keeps in memory is bounded.
func New(cfg Config) *API {
	if cfg.Ration == nil {
		cfg.Ration = bot.NewRation()
	}
	recorder := visits.New(visits.Config{
		Sessions: cfg.Sessions, Trails: cfg.Trails, Journal: cfg.Journal, Telemetry: cfg.Telemetry, Background: cfg.Background,
	})
	answers := answerer{now: cfg.Now}
	if cfg.Finder != nil {
		answers.suspended = cfg.Finder.Suspended()
	}
	return &API{
		cfg: cfg, answers: answers, recorder: recorder, guests: newGuests(cfg, recorder), counters: newCounters(cfg.Metrics, cfg.Namespace),
		bodies: memo.New[bodyKey, *searchRequest](knownBodies), questions: memo.New[question, *askedFor](knownBodies),
		pages: memo.New[pageAsked, *page](knownPages),
	}
}

// Close finishes recording the answers already given.
func (a *API) Close(ctx context.Context) error { return a.recorder.Close(ctx) }

// visitOf returns the visit that the guard made of a request. A request that did
// not pass the guard panics, and is answered with 500: nothing is known of its
// client.
func visitOf(r *http.Request) *consumer.Visit {
	v, ok := web.From(r.Context()).Local.(*consumer.Visit)
	if !ok {
		panic("a request reached its handler without passing the guard")
	}
	return v
}
