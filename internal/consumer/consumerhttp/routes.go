package consumerhttp

import (
	"strings"
	"time"

	"melmastoon.ghasi.io/bff/internal/loadshed"
	"melmastoon.ghasi.io/bff/internal/ratelimit"
	"melmastoon.ghasi.io/bff/internal/web"
)

// Base is where the public API begins.
const Base = "/bff/consumer/v1"

// Rate-limit classes: what a client may do of each in a minute.
const (
	LimitSearch    web.Limit = "search"
	LimitDetail    web.Limit = "detail"
	LimitHandoff   web.Limit = "handoff"
	LimitWishlist  web.Limit = "wishlist"
	LimitSession   web.Limit = "session"
	LimitTelemetry web.Limit = "telemetry"
	// LimitChallenge counts challenges and, against the address, their solutions.
	LimitChallenge web.Limit = "challenge"
)

// Load gates, in the order in which they are served when not everything can be: a
// guest on the way to a hotel before one who looks around before telemetry.
const (
	gateHandoff   web.Gate = "handoff"
	gateHotel     web.Gate = "hotel"
	gateSearch    web.Gate = "search"
	gateTelemetry web.Gate = "telemetry"
)

// Gates lists the load gates that the routes name. A process certainly can hold
// 1,500 requests of a gate that wait for the same fill: below that many it stays
// open, however slow an upstream is.
func Gates() []loadshed.Class {
	const least, most = 1500, 4000
	return []loadshed.Class{
		{Name: string(gateHandoff), Rank: 0, Min: least, Max: most},
		{Name: string(gateHotel), Rank: 1, Min: least, Max: most},
		{Name: string(gateSearch), Rank: 2, Min: least, Max: most},
		{Name: string(gateTelemetry), Rank: 3, Min: least, Max: most},
	}
}

// Limits are those of the specification; the session's own are generous, because
// pages ask for it by themselves.
func Limits() ratelimit.Classes {
	return ratelimit.Classes{PerMinute: map[string]int{
		string(LimitSearch): 60, string(LimitDetail): 120, string(LimitHandoff): 10, string(LimitWishlist): 30,
		string(LimitSession): 60, string(LimitTelemetry): 240, string(LimitChallenge): 60,
	}, IP: 5, Fingerprint: 5}
}

// Budgets, far below the edge's 25 seconds.
const (
	readBudget    = 4 * time.Second
	handoffBudget = 3 * time.Second
	consumeBudget = 3 * time.Second
	sessionBudget = time.Second
	clearBudget   = 5 * time.Second // it deletes in two stores, and is worth waiting for
	// wishlistBudget covers a turn behind the guest's other changes.
	wishlistBudget = 4 * time.Second
	// telemetryBudget covers one commit on a busy database.
	telemetryBudget = 2 * time.Second
)

const kib = 1 << 10

// Routes is the public API. Bodies may be several times what honest clients send.
func (a *API) Routes() []web.Route {
	mint := counted(a.counters.mint, a.mint)
	routes := []web.Route{
		{Pattern: "POST /search", Handle: a.search, Kind: web.PublicRead, Budget: readBudget, Body: 16 * kib, Limit: LimitSearch, Gate: gateSearch},
		{
			Pattern: "POST /search/map", Handle: a.searchMap, Kind: web.PublicRead, Budget: readBudget, Body: 16 * kib, Limit: LimitSearch, Gate: gateSearch,
			Repeats: true,
		},
		{Pattern: "GET /suggest", Handle: a.suggest, Kind: web.PublicRead, Budget: readBudget, Limit: LimitSearch, Gate: gateSearch, Repeats: true},
		{Pattern: "GET /facets", Handle: a.facets, Kind: web.PublicRead, Budget: readBudget, Limit: LimitSearch, Gate: gateSearch, CDN: true},
		{
			Pattern: "GET /hotels/{propertyId}", Handle: a.hotel, Kind: web.PublicRead, Budget: readBudget, Limit: LimitDetail, Gate: gateHotel, CDN: true,
			Previews: true,
		},
		{Pattern: "GET /hotels/{propertyId}/availability", Handle: a.availability, Kind: web.PublicRead, Budget: readBudget, Limit: LimitDetail, Gate: gateHotel},
		{Pattern: "POST /handoff", Handle: mint, Kind: web.Change, Budget: handoffBudget, Body: 4 * kib, Limit: LimitHandoff, Gate: gateHandoff, KeepsAnswers: true},
		{Pattern: "GET /wishlist", Handle: a.wishlist, Kind: web.PrivateRead, Budget: wishlistBudget, Limit: LimitWishlist, Gate: gateHandoff},
		// A note has 280 characters, escaped.
		{
			Pattern: "POST /wishlist", Handle: a.addWish, Kind: web.Change, Budget: wishlistBudget, Body: 4 * kib, Limit: LimitWishlist, Gate: gateHandoff,
			KeepsAnswers: true,
		},
		{
			Pattern: "DELETE /wishlist/{propertyId}", Handle: a.removeWish, Kind: web.Change, Budget: wishlistBudget, Limit: LimitWishlist, Gate: gateHandoff,
			KeepsAnswers: true,
		},
		{Pattern: "GET /session", Handle: a.session, Kind: web.PrivateRead, Budget: sessionBudget, Limit: LimitSession, Gate: gateHandoff},
		{Pattern: "POST /session/locale", Handle: a.setLocale, Kind: web.Change, Budget: sessionBudget, Body: kib, Limit: LimitSession, Gate: gateHandoff},
		{Pattern: "POST /session/currency", Handle: a.setCurrency, Kind: web.Change, Budget: sessionBudget, Body: kib, Limit: LimitSession, Gate: gateHandoff},
		{Pattern: "POST /session/consent", Handle: a.setConsent, Kind: web.Change, Budget: sessionBudget, Body: kib, Limit: LimitSession, Gate: gateHandoff},
		{Pattern: "POST /session/clear", Handle: a.clearSession, Kind: web.Change, Budget: clearBudget, Body: web.NoBody, Limit: LimitSession, Gate: gateHandoff},
		// Metadata has sixteen members.
		{Pattern: "POST /telemetry/click", Handle: a.click, Kind: web.Telemetry, Budget: telemetryBudget, Body: 4 * kib, Limit: LimitTelemetry, Gate: gateTelemetry},
		{
			Pattern: "POST /telemetry/page-view", Handle: a.pageView, Kind: web.Telemetry, Budget: telemetryBudget, Body: 4 * kib, Limit: LimitTelemetry,
			Gate: gateTelemetry,
		},
		{
			Pattern: "POST /telemetry/funnel", Handle: a.funnel, Kind: web.Telemetry, Budget: telemetryBudget, Body: 4 * kib, Limit: LimitTelemetry,
			Gate: gateTelemetry,
		},
		{Pattern: "GET /challenge", Handle: a.cfg.Challenge, Kind: web.Challenge, Budget: sessionBudget, Limit: LimitChallenge, Gate: gateSearch},
	}
	for i := range routes {
		routes[i].Pattern = under(Base, routes[i].Pattern)
	}
	return routes
}

// InternalRoutes are those that only other services may reach.
func (a *API) InternalRoutes() []web.Route {
	consume := counted(a.counters.consume, a.consume)
	return []web.Route{
		{Pattern: "POST /internal/handoff/{id}/consume", Handle: consume, Kind: web.Internal, Budget: consumeBudget, Body: 4 * kib},
	}
}

// under puts a pattern's path below a base.
func under(base, pattern string) string {
	method, path, _ := strings.Cut(pattern, " ")
	return method + " " + base + path
}
