package backofficehttp_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jws"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/action"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficecache"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficeguard"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficehttp"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficestore"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/backoffice/lock"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/dpop"
	"melmastoon.ghasi.io/bff/internal/issuer"
	"melmastoon.ghasi.io/bff/internal/loadshed"
	"melmastoon.ghasi.io/bff/internal/ratelimit"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/internal/web"
)

const (
	publicURL = "https://staff.example"
	base      = "/bff/backoffice/v1"
)

// front is several instances of the API in one process, over one real Redis; iam,
// tenant-service and the outbox are played in memory.
type front struct {
	tb        testing.TB
	issuer    *signer
	staff     *staffList
	outbox    *outboxFake
	iam       *iamFake
	devices   *deviceFake
	behindUs  *neighbours
	actions   *actionsFake
	syncing   *syncFake
	locks     *lockFake
	client    rueidis.Client
	dials     func() uint64 // of the client
	keys      backofficestore.Keys
	cfg       frontConfig
	prefix    string                    // of the keys
	sessions  *backofficestore.Sessions // of the first instance
	accesses  []*identity.Access
	house     *houseFake
	stores    []*cache.Store
	turns     []*board.Turns
	behind    []*web.Background
	instances []*web.Server
	streams   []*streams
	tenant    bff.ID

	mu       sync.Mutex
	now      time.Time
	switched map[string]bool // the platform's flags
}

// frontConfig is what tests change.
type frontConfig struct {
	instances     int
	limits        string
	minAppVersion string
	redisURL      string
	sharedCache   bool        // between the instances
	sharedLimits  bool        // kept in the session tier, as in production
	upstreams     board.House // in place of the house of the front
	properties    board.Properties
	actions       action.Upstream      // in place of the front's own
	mutations     backoffice.Mutations // of actions, in place of the front's own
	tenant        bff.ID               // in place of one of its own
	routes        []web.Route          // beside those of the API
}

func newFront(tb testing.TB, cfg frontConfig) *front {
	tb.Helper()
	if cfg.redisURL == "" {
		cfg.redisURL = testkit.Redis(tb)
	}
	// All instances that a test starts, one after the other, listen over one client.
	dials := new(atomic.Uint64)
	client, err := redis.Open(redis.Config{URL: cfg.redisURL, Tier: "test", Timeout: time.Minute, MaxConns: 1000, Dialed: func() { dials.Add(1) }})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Close)
	now := time.Now().UTC().Truncate(time.Second)
	f := &front{
		tb: tb, client: client, dials: dials.Load, now: now, tenant: bff.NewID(bff.PrefixTenant, now),
		issuer: newSigner(tb), staff: &staffList{members: map[string]*backoffice.Member{}}, outbox: &outboxFake{tb: tb}, iam: &iamFake{}, house: newHouseFake(),
	}
	f.behindUs, f.actions = newNeighbours(), newActionsFake()
	f.devices = &deviceFake{outbox: f.outbox, offline: map[bff.ID]bool{}}
	f.syncing = newSyncFake(f.outbox)
	f.locks = &lockFake{}
	f.employ("opt_parwana", backoffice.FrontDesk)
	if !cfg.tenant.IsZero() {
		f.tenant = cfg.tenant
	}
	f.cfg, f.prefix = cfg, "test-"+rand.Text()[:8]
	f.keys = backofficestore.NewKeys(redis.NewKeys(f.prefix, "bff-backoffice"))
	for range max(cfg.instances, 1) {
		f.start(client)
	}
	// The tier is older than all tokens of the test. Where it is away, that is what is tested.
	_, _ = f.sessions.Burn(tb.Context(), identity.Proof{Look: true}, now.AddDate(0, 0, -1))
	return f
}

// start adds an instance with its own client and returns its number.
func (f *front) start(client rueidis.Client) int {
	f.tb.Helper()
	f.instances = append(f.instances, f.instance(client))
	return len(f.instances) - 1
}

// instance is one process's part.
func (f *front) instance(client rueidis.Client) *web.Server {
	cfg := f.cfg
	f.tb.Helper()
	must := func(errs ...error) {
		f.tb.Helper()
		if err := errors.Join(errs...); err != nil {
			f.tb.Fatal(err)
		}
	}
	sessions := backofficestore.NewSessions(backofficestore.SessionsConfig{Client: client, Keys: f.keys, Timeout: time.Minute, Dials: f.dials})
	news := backoffice.NewEnvelopes("test")
	access := identity.NewAccess(sessions, f.staff, f.outbox, news)
	access.AnnounceTimeout = time.Minute
	if f.sessions == nil {
		f.sessions = sessions
	}
	streams := f.follow(sessions)
	access.Notices = streams.notices
	syncing, err := device.NewSync(device.SyncConfig{
		Cursors: f.syncing, Mover: f.syncing, Records: f.syncing, Mutations: f.syncing, News: news, Notices: streams.notices, Keys: [][]byte{[]byte(syncKey)},
	})
	must(err)
	f.accesses = append(f.accesses, access)
	tokens, err1 := issuer.NewTokens(&issuer.Keys{URL: "http://iam", Client: &http.Client{Transport: f.issuer}}, "https://iam", "bff-backoffice")
	nonces, err2 := dpop.NewNonces([]byte("the same key everywhere"))
	must(err1, err2)
	proofs, err1 := dpop.New([]string{publicURL}, nonces)
	limits, err2 := backofficehttp.Limits().Override(cfg.limits)
	must(err1, err2)
	source := ratelimit.Source(ratelimit.NewMemory())
	if cfg.sharedLimits {
		source = ratelimit.NewRedis(client, f.keys.Limit)
	}
	limiter, err := ratelimit.New(ratelimit.Config{Limits: limits.Limits(), Source: source, Pepper: []byte("a pepper of some length"), MaxWait: time.Minute})
	must(err)
	ctx, stop := context.WithCancel(f.tb.Context())
	var loop sync.WaitGroup
	loop.Go(func() { _ = limiter.Run(ctx) }) // ends with the context
	background := web.NewBackground(web.BackgroundConfig{})
	f.behind = append(f.behind, background)
	f.tb.Cleanup(func() {
		stop()
		loop.Wait()
		must(background.Close(context.Background()))
	})
	log, metrics := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	guard, err := backofficeguard.New(backofficeguard.Config{
		Tokens: tokens, Proofs: proofs, Access: access, Properties: f.house, Limits: limits, Limiter: limiter, MinAppVersion: cfg.minAppVersion,
		Pepper: []byte("a pepper of some length"), Background: background, Log: log, Metrics: metrics, Namespace: "test",
	})
	must(err)
	turns := board.NewTurns(streams.notices, sessions)
	f.turns = append(f.turns, turns)
	apiConfig := backofficehttp.Config{
		Properties: f.house, Access: access, Attestations: sessions, Streams: streams.Streams, IAM: f.iam, Tokens: tokens, Log: log, Metrics: metrics, Namespace: "test",
		Flags: identity.NewFlags(f), Viewings: board.NewViewings(f.outbox, news), Background: background,
		Turns: turns, Patience: time.Minute,
		Devices: device.NewDevices(f.devices, nil, news), Sync: syncing, SyncBaseURL: "https://sync.example",
	}
	keys := redis.NewKeys(f.prefix, "bff-backoffice")
	storeConfig := cache.StoreConfig{Prefix: keys.Prefix(), ReadTimeout: time.Minute, WriteTimeout: time.Minute}
	if cfg.sharedCache {
		storeConfig.Redis = f.client
	}
	store, err := cache.NewStore(storeConfig)
	must(err)
	f.tb.Cleanup(func() { must(store.Close(context.Background())) })
	f.stores = append(f.stores, store)
	properties, err := backofficecache.NewProperties(store, keys, cmp.Or[board.Properties](cfg.properties, f.house))
	must(err)
	apiConfig.Calendar = board.NewCalendar(properties, 0)
	must(openBoards(cmp.Or[board.House](cfg.upstreams, f.house), patient, store, keys, &apiConfig))
	must(openLists(f.house.ListProperties, f.staff.ListNames, store, keys, &apiConfig))
	must(f.behindUs.open(f, store, news, &apiConfig))
	apiConfig.Locks = lock.NewLocks(lock.LocksConfig{
		Integration: f.locks, Resources: f.actions, Mutations: f.behindUs, Attestations: sessions, News: news, Now: f.clock,
	})
	must(f.behindUs.openActions(f, store, news, streams.notices, &apiConfig))
	api := backofficehttp.New(apiConfig)
	gates, err := loadshed.New(loadshed.Config{Classes: backofficehttp.Gates()})
	must(err)
	routes, err := web.Assemble(append(api.Routes(), cfg.routes...), gates, guard)
	must(err)
	for i := range routes {
		routes[i].Budget = time.Minute // a busy machine does not keep those of production
	}
	server := web.NewServer(web.Config{Log: log, Metrics: metrics, Namespace: "test", Budget: time.Minute, Now: f.clock})
	must(server.Mount(routes...))
	return server
}

// openLists opens what services list of tenants.
func openLists(
	hotels backofficecache.Fetch[[]board.Property], names backofficecache.Fetch[map[string]string], store *cache.Store, keys redis.Keys,
	cfg *backofficehttp.Config,
) error {
	var err1, err2 error
	cfg.Hotels, err1 = backofficecache.NewPropertyLists(store, keys, hotels, time.Now)
	cfg.Names, err2 = backofficecache.NewNames(store, keys, names, time.Now)
	return errors.Join(err1, err2)
}

// openBoards opens dashboards and views over what upstreams know.
func openBoards(house board.House, deadlines board.Deadlines, store *cache.Store, keys redis.Keys, cfg *backofficehttp.Config) error {
	kept, err1 := backofficecache.NewHouse(house, store, keys)
	dashboards, err2 := backofficehttp.NewDashboards(backofficehttp.DashboardsConfig{
		Composer: board.NewComposer(kept, deadlines), Store: store, Keys: keys, Metrics: cfg.Metrics, Namespace: cfg.Namespace,
	})
	views, err3 := backofficehttp.NewViews(board.NewWorkbench(kept, deadlines), store, keys)
	cfg.Dashboards, cfg.Views = dashboards, views
	return errors.Join(err1, err2, err3)
}

// Bools implements identity.Switches.
func (f *front) Bools() map[string]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.switched
}

func (f *front) toggle(flags map[string]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.switched = flags
}

func (f *front) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// finish waits for what is done after the responses, and takes no more of it.
func (f *front) finish() {
	f.tb.Helper()
	for _, b := range f.behind {
		if err := b.Close(testkit.Context(f.tb)); err != nil {
			f.tb.Fatal(err)
		}
	}
}

func (f *front) advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

func (f *front) employ(operator string, roles ...backoffice.Role) {
	f.staff.set(operator, &backoffice.Member{
		DisplayName: "Somebody", Roles: roles, Scope: backoffice.ReadPropertyScope([]string{house}), Flags: map[string]bool{"beta": true, "blackout_desk": true},
	})
}

// Two houses; operators work for the first.
const (
	house = "ppt_01JXG9KMGRC638MD0V7C0ZPD0W"
	other = "ppt_01JXG9KMGRC638MD0V7C0ZPD0X"
)

// sender is an operator at a device with a token.
type sender struct {
	f      *front
	device *desk.Device
	claims map[string]any
	key    string // of the issuer
}

func (f *front) sender(operator string) *sender {
	f.tb.Helper()
	d, err := desk.NewDevice(desk.EdDSA, f.clock())
	if err != nil {
		f.tb.Fatal(err)
	}
	return f.senderAt(operator, d)
}

func (f *front) senderAt(operator string, d *desk.Device) *sender {
	now := f.clock()
	return &sender{f: f, device: d, key: "k1", claims: map[string]any{
		"iss": "https://iam", "aud": "bff-backoffice", "sub": operator, "tid": f.tenant.String(), "device_id": d.ID(), "jti": rand.Text(),
		"iat": now.Unix(), "exp": now.Add(identity.TokenLifetime).Unix(), "cnf": map[string]any{"jkt": d.Thumbprint()},
	}}
}

func (s *sender) token() string { return s.f.issuer.sign(s.f.tb, s.key, s.claims) }

func (s *sender) caller() backoffice.Caller {
	id, err := bff.ParseID(bff.PrefixDevice, s.device.ID())
	if err != nil {
		s.f.tb.Fatal(err)
	}
	operator, _ := s.claims["sub"].(string)
	issued, _ := s.claims["iat"].(int64)
	return backoffice.Caller{Tenant: s.f.tenant, Operator: operator, Device: id, TokenHash: rand.Text(), TokenIssued: time.Unix(issued, 0).UTC()}
}

// request is a call before it is sent; a test breaks what it wants to see refused.
type request struct {
	method, path string
	body         string
	header       http.Header
	proof        desk.Proof
	by           *desk.Device // who signs the proof
	noProof      bool
}

// request is a good one.
func (s *sender) request(method, path, body string) *request {
	token := s.token()
	return &request{
		method: method, path: path, body: body, by: s.device,
		header: http.Header{
			"Authorization": {"DPoP " + token}, "X-Device-Id": {s.device.ID()}, "X-App-Version": {"2.4.0"}, "X-App-Platform": {"linux"},
			"Content-Type": {"application/json"},
		},
		proof: desk.Proof{Method: method, URL: publicURL + path, AccessToken: token, At: s.f.clock()},
	}
}

func (f *front) prove(r *request) string {
	f.tb.Helper()
	proof, err := r.by.Prove(r.proof)
	if err != nil {
		f.tb.Fatal(err)
	}
	return proof
}

// send sends a request to one instance.
func (f *front) send(instance int, r *request) *httptest.ResponseRecorder {
	f.tb.Helper()
	return f.sendWith(f.tb.Context(), instance, r)
}

func (f *front) sendWith(ctx context.Context, instance int, r *request) *httptest.ResponseRecorder {
	f.tb.Helper()
	if r.header["Dpop"] == nil && !r.noProof {
		r.header["Dpop"] = []string{f.prove(r)}
	}
	req := httptest.NewRequestWithContext(ctx, r.method, "http://127.0.0.1"+r.path, strings.NewReader(r.body))
	req.Header = r.header
	w := httptest.NewRecorder()
	f.instances[instance].ServeHTTP(w, req)
	return w
}

// codeOf is the last word of the code of a refusal, or the status of an answer.
func codeOf(w *httptest.ResponseRecorder) string {
	var doc struct {
		Error struct{ Code string }
	}
	if json.Unmarshal(w.Body.Bytes(), &doc) != nil || doc.Error.Code == "" {
		return http.StatusText(w.Code)
	}
	return doc.Error.Code[strings.LastIndexByte(doc.Error.Code, '.')+1:]
}

// from sends to another instance.
func (s *sender) from(instance int, method, path, body string) *httptest.ResponseRecorder {
	s.f.tb.Helper()
	return s.f.send(instance, s.request(method, base+path, body))
}

func (s *sender) get(path string) *httptest.ResponseRecorder {
	s.f.tb.Helper()
	return s.from(0, http.MethodGet, path, "")
}

// session is the id of the sender's session.
func (s *sender) session() string {
	s.f.tb.Helper()
	w := s.get("/session")
	var doc struct{ SessionID string }
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || w.Code != http.StatusOK {
		s.f.tb.Fatalf("GET /session: %d %s", w.Code, w.Body)
	}
	return doc.SessionID
}

// signer is an issuer.
type signer struct {
	keys map[string]jwk.Key
	set  []byte
}

func newSigner(tb testing.TB) *signer {
	tb.Helper()
	s, set := &signer{keys: map[string]jwk.Key{}}, jwk.NewSet()
	for _, id := range []string{"k1", "unpublished"} {
		_, raw, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			tb.Fatal(err)
		}
		key, err := jwk.Import(raw)
		if err != nil {
			tb.Fatal(err)
		}
		public, err := key.PublicKey()
		if err != nil {
			tb.Fatal(err)
		}
		if err := errors.Join(key.Set(jwk.KeyIDKey, id), public.Set(jwk.KeyIDKey, id)); err != nil {
			tb.Fatal(err)
		}
		s.keys[id] = key
		if id != "unpublished" {
			if err := set.AddKey(public); err != nil {
				tb.Fatal(err)
			}
		}
	}
	var err error
	if s.set, err = json.Marshal(set); err != nil {
		tb.Fatal(err)
	}
	return s
}

// RoundTrip answers with the published keys.
func (s *signer) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(s.set))}, nil
}

func (s *signer) sign(tb testing.TB, key string, claims map[string]any) string {
	tb.Helper()
	payload, err := json.Marshal(claims)
	if err != nil {
		tb.Fatal(err)
	}
	signed, err := jws.Sign(payload, jws.WithKey(jwa.EdDSA(), s.keys[key]))
	if err != nil {
		tb.Fatal(err)
	}
	return string(signed)
}

// staffList is tenant-service.
type staffList struct {
	mu      sync.Mutex
	members map[string]*backoffice.Member
	err     error
}

func (l *staffList) set(operator string, m *backoffice.Member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := maps.Clone(l.members)
	next[operator] = m
	l.members = next
}

func (l *staffList) FindMember(_ context.Context, _ bff.ID, operator, _ string) (*backoffice.Member, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	if m := l.members[operator]; m != nil {
		return m, nil
	}
	return nil, backoffice.ErrNoMember
}

// ListNames names the operators.
func (l *staffList) ListNames(context.Context, bff.ID) (map[string]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := map[string]string{}
	for id, m := range l.members {
		names[id] = m.DisplayName
	}
	return names, l.err
}

// outboxFake is the outbox.
type outboxFake struct {
	tb     testing.TB
	mu     sync.Mutex
	events []bff.Event
	did    []backoffice.Activity
	err    error
}

func (o *outboxFake) Record(_ context.Context, did []backoffice.Activity, events ...bff.Event) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return o.err
	}
	if _, measured := o.tb.(*testing.B); measured { // schemas cost more than what is measured
		return nil
	}
	for _, e := range events {
		if err := checkEvent(e); err != nil {
			o.tb.Error(err)
		}
	}
	o.events = append(o.events, events...)
	o.did = append(o.did, did...)
	return nil
}

func (o *outboxFake) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = err
}

// subjects are the last parts of what was published.
func (o *outboxFake) subjects() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []string
	for _, e := range o.events {
		out = append(out, strings.TrimSuffix(strings.TrimPrefix(e.Envelope.Subject, "melmastoon.bff.backoffice."), ".v1"))
	}
	slices.Sort(out)
	return out
}

// iamFake is iam.
type iamFake struct {
	tokens identity.Tokens
	err    error
}

func (i *iamFake) Refresh(context.Context, *identity.Holder, string, string) (identity.Tokens, error) {
	return i.tokens, i.err
}
func (i *iamFake) SignOut(context.Context, *backoffice.Session) error { return i.err }
func (i *iamFake) StepUp(context.Context, *backoffice.Session, backoffice.Use, string) error {
	return i.err
}
