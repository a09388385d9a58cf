package backofficehttp

import (
	"slices"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/backoffice/lock"
	"melmastoon.ghasi.io/bff/internal/loadshed"
	"melmastoon.ghasi.io/bff/internal/ratelimit"
	"melmastoon.ghasi.io/bff/internal/web"
)

// Bases are the two places where the API begins; both serve the same.
func Bases() []string { return []string{"/bff/backoffice/v1", "/api/bff/backoffice/v1"} }

// Classes of rate limits: how often one device may ask.
const (
	LimitSession web.Limit = "session"
	LimitAuth    web.Limit = "auth"
	LimitStepUp  web.Limit = "step-up"
	LimitDevice  web.Limit = "device"
	LimitRead    web.Limit = "read"
	LimitStream  web.Limit = "stream"
	LimitChange  web.Limit = "change"
	LimitReplay  web.Limit = "replay"
)

// Limits are the requests per minute of one device. A hotel's computers share one
// address, and an operator may use several.
func Limits() ratelimit.Classes {
	return ratelimit.Classes{
		PerMinute: map[string]int{
			string(LimitSession): 120, string(LimitAuth): 20, string(LimitStepUp): 10, string(LimitDevice): 120,
			string(LimitRead): 240, string(LimitChange): 60, string(LimitStream): 30, string(LimitReplay): 10,
		},
		IP: 50, Fingerprint: 5,
	}
}

const (
	gateAuth   web.Gate = "auth"
	gateRead   web.Gate = "read"
	gateChange web.Gate = "change"
	gateDevice web.Gate = "device" // what a device does without its operator: it can wait
	// gateStream is apart: over HTTP/2 the request lasts as long as the stream, which
	// says nothing about load. Streams have a cap of their own.
	gateStream web.Gate = "stream"
)

// Gates are the load gates of the routes.
func Gates() []loadshed.Class {
	const (
		least   = 32      // requests under way that any machine of ours can bear
		streams = 1 << 20 // more than there can be
	)
	return []loadshed.Class{
		{Name: string(gateAuth), Rank: 0, Min: least},
		{Name: string(gateChange), Rank: 1, Min: least},
		{Name: string(gateRead), Rank: 1, Min: least},
		{Name: string(gateDevice), Rank: 2, Min: least},
		{Name: string(gateStream), Rank: 3, Min: streams},
	}
}

const (
	kib = 1 << 10

	// refreshBudget leaves iam its 600 ms.
	refreshBudget = 2 * time.Second
	authBudget    = 3 * time.Second
	sessionBudget = 2 * time.Second
	deviceBudget  = 3 * time.Second
	// readBudget is more than a view or a dashboard waits for its upstreams.
	readBudget = 3 * time.Second
	// blackoutBudget leaves the ledger its time besides.
	blackoutBudget = 5 * time.Second
	// streamBudget is that of opening one.
	streamBudget = 3 * time.Second
	// inboxBudget leaves the AI orchestrator its 1.2 s, our own log its half second and
	// a long list a second page.
	inboxBudget = 4 * time.Second
	// listBudget leaves property-service several pages.
	listBudget = 4 * time.Second
	// activityBudget is more than Postgres may take for a page.
	activityBudget = 4 * time.Second
	// preferencesBudget leaves tenant-service its 500 ms and our copy its second;
	// a change also has two commits.
	preferencesBudget = 4 * time.Second
	changeBudget      = 8 * time.Second
	moveBudget        = 8 * time.Second // with the commits before and after the call
	// lockBudget leaves lock-integration its 1.2 s, with the commits before and after.
	lockBudget = 8 * time.Second
	// actionBudget leaves the service that has the resource a look at it and the
	// mutation, beside both commits; markBudget leaves the inbox its time.
	actionBudget = 8 * time.Second
	markBudget   = 8 * time.Second
	// replayBudget is a little less than the edge waits: what is under way when no further
	// entry is begun has its time.
	replayBudget = 24 * time.Second
)

// Routes is the table of the public API: what a route is, and what it needs of its
// caller, is said here and nowhere else.
func (a *API) Routes() []web.Route {
	anyone, ofProperty := identity.Needs{}, identity.Needs{Property: true}
	table := []web.Route{
		{
			Pattern: "POST /auth/refresh", Handle: a.refresh, Kind: web.Change, Budget: refreshBudget, Body: 8 * kib,
			Limit: LimitAuth, Gate: gateAuth, Needs: identity.Needs{ProofOnly: true},
		},
		{
			Pattern: "POST /auth/sign-out", Handle: a.signOut, Kind: web.Change, Budget: authBudget, Body: web.NoBody,
			Limit: LimitAuth, Gate: gateAuth, Needs: anyone,
		},
		{
			Pattern: "POST /auth/mfa/step-up", Handle: a.stepUp, Kind: web.Change, Budget: authBudget, Body: kib,
			Limit: LimitStepUp, Gate: gateAuth, Needs: anyone,
		},
		{
			Pattern: "GET /session", Handle: a.session, Kind: web.PrivateRead, Budget: sessionBudget,
			Limit: LimitSession, Gate: gateRead, Needs: anyone,
		},
		{
			Pattern: "GET /properties", Handle: a.properties, Kind: web.PrivateRead, Budget: listBudget,
			Limit: LimitRead, Gate: gateRead, Needs: anyone,
		},
		{
			Pattern: "GET /dashboard", Handle: a.dashboard, Kind: web.PrivateRead, Budget: readBudget,
			Limit: LimitRead, Gate: gateRead, Needs: ofProperty,
		},
		{
			Pattern: "POST /devices/{deviceId}/heartbeat", Handle: a.heartbeat, Kind: web.Change, Budget: deviceBudget, Body: 2 * kib,
			Limit: LimitDevice, Gate: gateDevice, Needs: anyone,
		},
		{
			Pattern: "POST /devices/{deviceId}/offline-hints", Handle: a.offlineHints, Kind: web.Change, Budget: deviceBudget, Body: 32 * kib,
			Limit: LimitDevice, Gate: gateDevice, Needs: anyone, KeepsAnswers: true,
		},
		{
			Pattern: "POST /devices/{deviceId}/replay", Handle: a.replay, Kind: web.Change, Budget: replayBudget, Body: 160 * kib,
			Limit: LimitReplay, Gate: gateChange, Needs: ofProperty,
		},
		{
			Pattern: "POST /sync/handshake", Handle: a.handshake, Kind: web.Change, Budget: deviceBudget, Body: web.NoBody,
			Limit: LimitDevice, Gate: gateDevice, Needs: anyone,
		},
		{
			Pattern: "GET /sse/stream", Handle: a.stream, Kind: web.PrivateRead, Budget: streamBudget,
			Limit: LimitStream, Gate: gateStream, Needs: anyone,
		},
		{
			Pattern: "POST /sse/reauth", Handle: a.reauth, Kind: web.Change, Budget: sessionBudget, Body: web.NoBody,
			Limit: LimitAuth, Gate: gateAuth, Needs: anyone,
		},
		{
			Pattern: "GET /ai/suggestions", Handle: a.suggestions, Kind: web.PrivateRead, Budget: inboxBudget,
			Limit: LimitRead, Gate: gateRead, Needs: identity.Needs{OwnProperty: true},
		},
		{
			Pattern: "GET /alerts", Handle: a.alerts, Kind: web.PrivateRead, Budget: inboxBudget,
			Limit: LimitRead, Gate: gateRead, Needs: identity.Needs{OwnProperty: true},
		},
		{
			Pattern: "GET /activity", Handle: a.activity, Kind: web.PrivateRead, Budget: activityBudget,
			Limit: LimitRead, Gate: gateRead, Needs: identity.Needs{Property: true, Roles: audit.ActivityRoles()},
		},
		{
			Pattern: "GET /preferences", Handle: a.preferences, Kind: web.PrivateRead, Budget: preferencesBudget,
			Limit: LimitRead, Gate: gateRead, Needs: identity.Needs{OwnProperty: true},
		},
		{
			Pattern: "PUT /preferences", Handle: a.putPreferences, Kind: web.Change, Budget: changeBudget, Body: device.MaxPreferences,
			Limit: LimitChange, Gate: gateChange, Needs: identity.Needs{OwnProperty: true}, KeepsAnswers: true,
		},
		{
			Pattern: "GET /keyboard-shortcuts", Handle: a.shortcuts, Kind: web.PrivateRead, Budget: preferencesBudget,
			Limit: LimitRead, Gate: gateRead, Needs: anyone,
		},
		{
			Pattern: "GET /sync/cursor", Handle: a.cursor, Kind: web.PrivateRead, Budget: deviceBudget,
			Limit: LimitDevice, Gate: gateDevice, Needs: anyone,
		},
		{
			Pattern: "POST /sync/cursor", Handle: a.moveCursor, Kind: web.Change, Budget: moveBudget, Body: 2 * kib,
			Limit: LimitDevice, Gate: gateDevice, Needs: anyone, KeepsAnswers: true,
		},
	}
	table = append(table, web.Route{
		Pattern: "GET /blackout", Handle: a.blackoutPack, Kind: web.PrivateRead, Budget: blackoutBudget,
		Limit: LimitRead, Gate: gateRead, Needs: ofProperty,
	})
	for _, view := range []struct {
		path string
		part backoffice.Part
	}{
		{"/today", backoffice.PartToday},
		{"/arrivals", backoffice.PartArrivals},
		{"/departures", backoffice.PartDepartures},
		{"/in-house", backoffice.PartInHouse},
		{"/housekeeping/board", backoffice.PartHousekeeping},
		{"/maintenance/board", backoffice.PartMaintenance},
	} {
		table = append(table, web.Route{
			Pattern: "GET " + view.path, Handle: a.view(view.part), Kind: web.PrivateRead, Budget: readBudget,
			Limit: LimitRead, Gate: gateRead, Needs: ofProperty,
		})
	}
	for _, action := range lock.LockActions() {
		table = append(table, web.Route{
			Pattern: "POST /locks/{reservationId}/" + string(action) + "-key", Handle: a.lockAction(action), Kind: web.Change, Budget: lockBudget, Body: kib,
			Limit: LimitChange, Gate: gateChange, Needs: identity.Needs{Property: true, Roles: backoffice.LockRoles()}, KeepsAnswers: true,
		})
	}
	table = append(table, a.markRoutes()...)
	for _, rt := range actionRoutes() {
		table = append(table, a.actionRoute(rt))
	}
	var routes []web.Route
	for _, base := range Bases() {
		for _, rt := range slices.Clone(table) {
			method, path, _ := strings.Cut(rt.Pattern, " ")
			rt.Pattern = method + " " + base + path
			routes = append(routes, rt)
		}
	}
	return routes
}

// markRoutes are what operators do about entries of their inboxes.
func (a *API) markRoutes() []web.Route {
	mark := func(pattern string, h web.Handler) web.Route {
		return web.Route{
			Pattern: pattern, Handle: h, Kind: web.Change, Budget: markBudget, Body: 16 * kib,
			Limit: LimitChange, Gate: gateChange, Needs: identity.Needs{Property: true}, KeepsAnswers: true,
		}
	}
	return []web.Route{
		mark("POST /ai/suggestions/{suggestionId}/decide", a.decide),
		mark("POST /alerts/{alertId}/acknowledge", a.acknowledge),
	}
}

// Headers are those of the service's own, for pages of other origins.
func Headers() web.Headers {
	return web.Headers{
		Read: []string{
			"Authorization", "DPoP", "X-Device-Id", "X-App-Version", "X-App-Platform", "X-Network-Profile", "X-Property-Id",
			"X-Idempotency-Key", "Idempotency-Key", "X-Mfa-Attestation", "Accept-Language", "If-Match", "If-None-Match", "Last-Event-ID",
		},
		Written: []string{"ETag", "DPoP-Nonce", "WWW-Authenticate", "X-Server-Time", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"},
	}
}
