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
	"melmastoon.ghasi.io/bff/internal/callers"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/loadshed"
	"melmastoon.ghasi.io/bff/internal/web"
)

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
	Caller      callers.Auth // which services may consume
	Instance    string       // of this process, in envelopes
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

// Protected returns the public routes behind the defence and the load gates.
func (a *API) Protected() ([]web.Route, error) {
	routes, err := web.Gated(a.cfg.Gates, a.Routes())
	if err != nil {
		return nil, err
	}
	for i := range routes {
		if routes[i].Handle, err = a.defended(routes[i]); err != nil {
			return nil, err
		}
		routes[i].Handle = anonymous(routes[i].Handle)
	}
	return routes, nil
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
