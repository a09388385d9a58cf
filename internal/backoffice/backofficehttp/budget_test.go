package backofficehttp_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/action"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficecache"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficehttp"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficetest"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficeupstream"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/backoffice/inbox"
	"melmastoon.ghasi.io/bff/internal/backoffice/lock"
	"melmastoon.ghasi.io/bff/internal/backoffice/stream"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/internal/web"
)

// untimed are the routes that call one upstream at most, or none, and why.
func untimed() map[string]string {
	return map[string]string{
		"POST /auth/refresh": "iam, once", "POST /auth/sign-out": "iam, once", "POST /auth/mfa/step-up": "iam, once",
		"GET /session": "property, not waited for", "GET /sse/stream": "none", "POST /sse/reauth": "none", "GET /activity": "tenant, not waited for",
		"POST /devices/{deviceId}/heartbeat": "none", "POST /devices/{deviceId}/offline-hints": "none",
		"POST /sync/handshake": "sync, once", "GET /sync/cursor": "sync, once", "POST /sync/cursor": "sync, once",
	}
}

// TestBudgetsCoverUpstreams lets every upstream take nearly as long as its client waits,
// and Postgres as long as it may on a busy day, and asks each route with cold caches: the
// answer must come before the route's budget is used up, and no call may be cut short by
// it.
func TestBudgetsCoverUpstreams(t *testing.T) {
	t.Parallel()
	platform, err := sim.New(sim.Config{Latency: map[string]sim.Latency{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(platform.Close)
	skipped := untimed()
	for pattern, rt := range routeTable() {
		if skipped[pattern] != "" {
			delete(skipped, pattern)
			continue
		}
		t.Run(pattern, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSlowService(t, platform, rt)
				began := time.Now()
				w := httptest.NewRecorder()
				s.server.ServeHTTP(w, s.request(pattern))
				took := time.Since(began)
				calls := s.upstreams.Calls() // names are still asked for
				t.Logf("%d after %s of %s, %d calls", w.Code, took, rt.Budget, calls)
				if code := codeOf(w); w.Code >= http.StatusInternalServerError || w.Code == http.StatusUnauthorized || w.Code == http.StatusBadRequest || calls == 0 {
					t.Errorf("%d %s after %d calls, want an answer of an upstream", w.Code, code, calls)
				}
				if took >= rt.Budget {
					t.Errorf("took %s, the budget is %s", took, rt.Budget)
				}
			})
		})
	}
	for pattern := range skipped {
		t.Errorf("there is no route %s", pattern)
	}
}

// slowService is the API over real clients of slow upstreams.
type slowService struct {
	t         *testing.T
	upstreams *testkit.SlowTransport
	server    *web.Server
	at        board.Place
	device    bff.ID
}

// resource is the path of one that an action is about.
var resource = regexp.MustCompile(`/api/v1/(reservations|tasks|work-orders|folios)/[^/]+$`)

// knowing has a platform know every resource that an action can be about, as one of the property.
func knowing(platform http.Handler, property bff.ID) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !resource.MatchString(r.URL.Path) {
			platform.ServeHTTP(w, r)
			return
		}
		id := property.String()
		if strings.HasPrefix(r.URL.Path, "/maintenance") || strings.HasPrefix(r.URL.Path, "/billing") {
			id = property.UUID()
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"propertyId":"` + id + `"}`)) // it never fails
	})
}

// newSlowService is one route without the guard, which has asked tenant-service for the
// operator and, for a route of a property, property-service before.
func newSlowService(t *testing.T, platform *sim.Sim, rt web.Route) *slowService {
	t.Helper()
	hotel := platform.Catalog().Properties[0]
	tenant, property := bff.MustParseID(bff.PrefixTenant, hotel.TenantID), bff.MustParseID(bff.PrefixProperty, hotel.PropertyID)
	s := &slowService{t: t, at: board.Place{Tenant: tenant, Property: property}}
	s.upstreams = &testkit.SlowTransport{TB: t, Platform: knowing(platform.Handler(), property), Until: time.Now().Add(rt.Budget)}
	log, metrics := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	up, err := backofficeupstream.New(backofficeupstream.Config{
		URLs: backofficetest.UpstreamURLs("http://platform.test"), Transport: s.upstreams,
		Metrics: metrics, Namespace: "up", Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	store, err := cache.NewStore(cache.StoreConfig{})
	if err != nil {
		t.Fatal(err)
	}
	background := web.NewBackground(web.BackgroundConfig{})
	t.Cleanup(func() {
		if err := background.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	keys, news, outbox, streams := redis.NewKeys("slow", "bff-backoffice"), backoffice.NewEnvelopes("slow"), &outboxFake{tb: t}, noStreams{}
	kept := slowStore{newNeighbours()}
	kept.events = func(...bff.Event) error { return nil }
	properties, err := backofficecache.NewProperties(store, keys, up.Property)
	if err != nil {
		t.Fatal(err)
	}
	session := backoffice.Session{
		ID: bff.NewID(bff.PrefixBackofficeLogin, time.Now()), Tenant: tenant, Operator: "opt_1", Device: bff.NewID(bff.PrefixDevice, time.Now()),
	}
	s.device = session.Device
	factor := attested{Attestation: backoffice.Attestation{
		Tenant: tenant, Operator: session.Operator, Device: session.Device, Session: session.ID, Scope: backoffice.ScopeRefund, ExpiresAt: time.Now().Add(time.Hour),
	}}
	if strings.Contains(rt.Pattern, "revoke-key") {
		factor.Scope = backoffice.ScopeLockRevoke
	}
	cfg := backofficehttp.Config{
		Properties: properties, Attestations: factor, Calendar: board.NewCalendar(properties, 0), Turns: board.NewTurns(streams, streams),
		Flags: identity.NewFlags(streams), Viewings: board.NewViewings(outbox, news), Background: background, Log: log, Metrics: metrics, Namespace: "slow",
	}
	mirrors, err1 := backofficecache.NewInboxes(store, keys, up.Inboxes, time.Now)
	reader, err2 := backofficecache.NewPreferences(backofficecache.PreferencesConfig{Store: store, Keys: keys, Source: up.Tenant, Copies: kept, Log: log})
	shortcuts, err3 := backofficecache.NewShortcuts(store, keys, up.Theme)
	thresholds, err4 := action.ReadThresholds("AFN=100")
	err6 := openLists(up.Property.ListProperties, up.Tenant.ListNames, store, keys, &cfg)
	err5 := openBoards(up.House, board.Deadlines{Widget: 450 * time.Millisecond, Whole: 550 * time.Millisecond}, store, keys, &cfg)
	for _, err := range []error{err1, err2, err3, err4, err5, err6} {
		if err != nil {
			t.Fatal(err)
		}
	}
	notifier := stream.NewChangeNotifier(backofficecache.NewInvalidator(store), streams)
	cfg.Inboxes, cfg.Shortcuts = inbox.NewInboxes(mirrors, kept), shortcuts
	cfg.InboxActions = inbox.NewActions(inbox.ActionsConfig{Mirrors: mirrors, Finder: up.Inboxes, Mutations: kept, Notices: streams, News: news, Now: time.Now})
	cfg.Settings = device.NewSettings(device.SettingsConfig{Reader: reader, Writer: up.Tenant, Mutations: kept, News: news, Notices: streams, Now: time.Now})
	cfg.Proxy = action.NewProxy(action.ProxyConfig{
		Journal: outbox, Upstream: up.Actions, Mutations: kept, Attestations: factor, Thresholds: thresholds, Charges: kept,
		Traces: kept, Today: cfg.Calendar.Date, Notifier: notifier, News: news, Now: time.Now,
	})
	cfg.Replays = action.NewReplays(action.ReplaysConfig{
		Proxy: cfg.Proxy, Traces: kept, Now: time.Now,
		Again: func(_ context.Context, v *backoffice.Visit, _ time.Time) (*backoffice.Visit, error) {
			return v, nil
		},
	})
	cfg.Locks = lock.NewLocks(lock.LocksConfig{Integration: up.Lock, Resources: up.Actions, Mutations: kept, Attestations: factor, News: news, Now: time.Now})
	var routes []web.Route
	for _, one := range backofficehttp.New(cfg).Routes() {
		if one.Pattern != rt.Pattern {
			continue
		}
		handle, needs := one.Handle, one.Needs.(identity.Needs)
		one.Handle = func(w http.ResponseWriter, r *http.Request) error {
			<-time.After(backoffice.UpstreamTenant.Timeout())
			v := &backoffice.Visit{
				Caller: backoffice.Caller{Tenant: tenant, Operator: "opt_1"}, Session: session, Sent: time.Now(),
				Member: &backoffice.Member{
					Roles: backoffice.Roles(), Scope: backoffice.ReadPropertyScope([]string{"*"}), Flags: map[string]bool{string(backoffice.FeatureBlackout): true},
				},
			}
			if needs.Property {
				<-time.After(backoffice.UpstreamProperty.Timeout())
				v.Property = property
			}
			web.From(r.Context()).Local = v
			return handle(w, r)
		}
		routes = append(routes, one)
	}
	s.server = web.NewServer(web.Config{Log: log, Metrics: metrics, Namespace: "web", Budget: time.Minute, Now: time.Now})
	if err := s.server.Mount(routes...); err != nil {
		t.Fatal(err)
	}
	return s
}

// request is one that is read in full. Its resource is made up: the service that is asked
// to act on it refuses, as late as it may.
func (s *slowService) request(pattern string) *http.Request {
	s.t.Helper()
	now := time.Now()
	id := func(p bff.Prefix) string { return bff.NewID(p, now).String() }
	method, path, _ := strings.Cut(pattern, " ")
	path = strings.NewReplacer(
		"{suggestionId}", id("sug"), "{alertId}", id("alr"), "{reservationId}", id(bff.PrefixReservation), "{taskId}", id(backoffice.PrefixTask),
		"{workOrderId}", id(backoffice.PrefixWorkOrder), "{folioId}", id(bff.PrefixFolio), "{transition}", "start", "{deviceId}", s.device.String(),
	).Replace(path)
	var entries []string
	for range action.MaxEntries { // each about another party
		entries = append(entries, `{"key":"`+bff.NewID(bff.PrefixRequest, now).ULID()+`","path":"/reservations/`+id(bff.PrefixReservation)+`/check-in","pressedAt":"`+bff.At(now).String()+`"}`)
	}
	body := map[string]string{
		"POST /devices/{deviceId}/replay":            `{"entries":[` + strings.Join(entries, ",") + `]}`,
		"POST /ai/suggestions/{suggestionId}/decide": `{"outcome":"accepted"}`, "POST /alerts/{alertId}/acknowledge": `{}`, "PUT /preferences": `{"payload":{}}`,
		"POST /maintenance/work-orders":  `{"title":"Lamp","severity":"low"}`,
		"POST /folios/{folioId}/charges": `{"amount":{"minor":"100","currency":"AFN"}}`,
		"POST /folios/{folioId}/refunds": `{"amount":{"minor":"100","currency":"AFN"}}`,
	}[pattern]
	r := httptest.NewRequestWithContext(s.t.Context(), method, base+path+"?propertyId="+s.at.Property.String(), strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Idempotency-Key", bff.NewID(bff.PrefixRequest, now).ULID())
	r.Header.Set("X-Mfa-Attestation", id(bff.PrefixMFA))
	r.Header.Set("If-Match", `"1"`)
	return r
}

// slowStore commits as slowly as Postgres may on a busy day.
type slowStore struct{ *neighbours }

func commit() { <-time.After(750 * time.Millisecond) }

// BeginMutation implements backoffice.Mutations.
func (s slowStore) BeginMutation(ctx context.Context, a backoffice.Attempt) (backoffice.Mutation, *backoffice.Answer, error) {
	commit()
	m, earlier, err := s.neighbours.BeginMutation(ctx, a)
	return slowMutation{m}, earlier, err
}

// CountCharge implements action.Charges.
func (s slowStore) CountCharge(ctx context.Context, c action.Charged, within func(action.Sums) bool) (bool, error) {
	commit()
	return s.neighbours.CountCharge(ctx, c, within)
}

type slowMutation struct{ backoffice.Mutation }

// Finish implements backoffice.Mutation.
func (m slowMutation) Finish(ctx context.Context, f backoffice.Finished) (backoffice.Answer, error) {
	commit()
	return m.Mutation.Finish(ctx, f)
}

// attested has an attestation for everything of a scope.
type attested struct {
	backoffice.Attestations
	backoffice.Attestation
}

// FindAttestation implements backoffice.Attestations.
func (a attested) FindAttestation(context.Context, bff.ID, bff.ID) (backoffice.Attestation, error) {
	return a.Attestation, nil
}

// UseAttestation implements backoffice.Attestations.
func (attested) UseAttestation(context.Context, backoffice.Attestation, string) (bool, error) {
	return true, nil
}

// noStreams has none to tell, and no flags.
type noStreams struct{}

func (noStreams) Notify(context.Context, backoffice.Notice) error        { return nil }
func (noStreams) FirstToTell(context.Context, board.Place) (bool, error) { return false, nil }
func (noStreams) Bools() map[string]bool                                 { return nil }
