package backofficeguard_test

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
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jws"
	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficeguard"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/dpop"
	"melmastoon.ghasi.io/bff/internal/issuer"
	"melmastoon.ghasi.io/bff/internal/ratelimit"
	"melmastoon.ghasi.io/bff/internal/web"
)

const publicURL = "https://staff.example"

var (
	tenant = bff.MustParseID(bff.PrefixTenant, "tnt_01H8YN7QV4D8KZ4F8Y5CK4MV3A")
	// house is in the operator's scope by its name; sister is another one of the tenant's.
	house  = bff.MustParseID(bff.PrefixProperty, "ppt_01JXG9KMGRC638MD0V7C0ZPD0W")
	sister = bff.MustParseID(bff.PrefixProperty, "ppt_01JXG9KMGRC638MD0V7C0ZPD0X")
	alien  = bff.MustParseID(bff.PrefixProperty, "ppt_01JXG9KMGRC638MD0V7C0ZPD0Y")
)

// fixture is a guard in front of some routes. The session tier, tenant-service, the ledger
// and property-service are played by the fixture itself; tokens and proofs are real.
type fixture struct {
	identity.Sessions

	t      *testing.T
	cfg    backofficeguard.Config
	counts *prometheus.Registry
	server *web.Server
	behind *web.Background
	key    jwk.Key
	keySet []byte
	device *desk.Device

	mu       sync.Mutex
	now      time.Time
	member   *backoffice.Member
	state    identity.AccessState
	keysDown bool
	used     map[string]bool // proofs
	proof    identity.Proof  // the last one
	opened   []backoffice.Session
	asked    []bff.ID // property-service, about what
	did      []backoffice.Activity
	events   []bff.Event
	// unrecorded is what the ledger fails with.
	unrecorded error
	visits     []*backoffice.Visit
	holders    []*identity.Holder
}

func newFixture(t *testing.T, limits string, change func(*backofficeguard.Config)) *fixture {
	t.Helper()
	f := &fixture{
		t: t, now: time.Date(2026, 11, 17, 10, 0, 0, 0, time.UTC), used: map[string]bool{},
		member: &backoffice.Member{Roles: []backoffice.Role{backoffice.FrontDesk}, Scope: backoffice.ReadPropertyScope([]string{house.String()})},
	}
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	_, raw, err := ed25519.GenerateKey(rand.Reader)
	must(err)
	f.key, err = jwk.Import(raw)
	must(err, f.key.Set(jwk.KeyIDKey, "k1"))
	public, err := f.key.PublicKey()
	must(err)
	set := jwk.NewSet()
	must(set.AddKey(public))
	f.keySet, err = json.Marshal(set)
	must(err)
	f.device, err = desk.NewDevice(desk.EdDSA, f.now)
	must(err)

	tokens, err1 := issuer.NewTokens(&issuer.Keys{URL: "http://iam", Client: &http.Client{Transport: f}}, "https://iam", "bff-backoffice")
	nonces, err2 := dpop.NewNonces([]byte("a key of some length"))
	must(err1, err2)
	proofs, err1 := dpop.New([]string{publicURL}, nonces)
	classes, err2 := ratelimit.Classes{PerMinute: map[string]int{"all": 1000}, IP: 50, Fingerprint: 5}.Override(limits)
	must(err1, err2)
	limiter, err := ratelimit.New(ratelimit.Config{
		Limits: classes.Limits(), Source: ratelimit.NewMemory(), Pepper: []byte("a pepper of some length"), MaxWait: time.Minute,
	})
	must(err)
	ctx, stop := context.WithCancel(t.Context())
	var loop sync.WaitGroup
	loop.Go(func() { _ = limiter.Run(ctx) }) // ends with the context
	f.behind = web.NewBackground(web.BackgroundConfig{Budget: time.Minute})
	t.Cleanup(func() {
		stop()
		loop.Wait()
		must(f.behind.Close(context.Background()))
	})
	f.counts = prometheus.NewRegistry()
	f.cfg = backofficeguard.Config{
		Tokens: tokens, Proofs: proofs, Access: identity.NewAccess(f, f, f, backoffice.NewEnvelopes("test")), Properties: f, Limits: classes, Limiter: limiter,
		Pepper: []byte("a pepper"), Background: f.behind, Log: slog.New(slog.DiscardHandler), Metrics: f.counts, Namespace: "test",
	}
	if change != nil {
		change(&f.cfg)
	}
	guard, err := backofficeguard.New(f.cfg)
	must(err)
	routes, err := guard.Protect([]web.Route{
		f.route("GET /any", identity.Needs{}),
		f.route("GET /managers", identity.Needs{Roles: []backoffice.Role{backoffice.GeneralManager}}),
		f.route("GET /managers-of-a-house", identity.Needs{Roles: []backoffice.Role{backoffice.GeneralManager}, Property: true}),
		f.route("GET /of-a-house", identity.Needs{Property: true}),
		f.route("GET /own", identity.Needs{OwnProperty: true}),
		f.route("GET /bare", identity.Needs{ProofOnly: true}),
	})
	must(err)
	f.server = web.NewServer(web.Config{Log: f.cfg.Log, Metrics: prometheus.NewRegistry(), Namespace: "test", Budget: time.Minute, Now: f.clock})
	must(f.server.Mount(routes...))
	return f
}

// route remembers for whom it was called.
func (f *fixture) route(pattern string, needs identity.Needs) web.Route {
	return web.Route{
		Pattern: pattern, Kind: web.PrivateRead, Budget: time.Minute, Limit: "all", Gate: "read", Needs: needs,
		Handle: func(w http.ResponseWriter, r *http.Request) error {
			switch who := web.From(r.Context()).Local.(type) {
			case *backoffice.Visit:
				f.visits = append(f.visits, who)
			case *identity.Holder:
				f.holders = append(f.holders, who)
			}
			w.WriteHeader(http.StatusNoContent)
			return nil
		},
	}
}

func (f *fixture) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fixture) advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

// RoundTrip answers with iam's published keys.
func (f *fixture) RoundTrip(*http.Request) (*http.Response, error) {
	if f.keysDown {
		return nil, errors.New("away")
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(f.keySet))}, nil
}

// Enter implements identity.Sessions.
func (f *fixture) Enter(ctx context.Context, _ backoffice.Caller, p identity.Proof, now time.Time) (identity.AccessState, error) {
	return f.Burn(ctx, p, now)
}

// Burn implements identity.Sessions.
func (f *fixture) Burn(_ context.Context, p identity.Proof, _ time.Time) (identity.AccessState, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.proof = p
	st := f.state
	st.Replayed = f.used[p.ID]
	if !p.Look {
		f.used[p.ID] = true
	}
	return st, nil
}

// OpenSession implements identity.Sessions.
func (f *fixture) OpenSession(_ context.Context, _ backoffice.Caller, fresh backoffice.Session, _ *backoffice.Session) (backoffice.Session, error) {
	fresh.Announced = true
	f.opened = append(f.opened, fresh)
	return fresh, nil
}

// FindMember implements backoffice.Members.
func (f *fixture) FindMember(context.Context, bff.ID, string, string) (*backoffice.Member, error) {
	if f.member == nil {
		return nil, backoffice.ErrNoMember
	}
	return f.member, nil
}

// Record implements backoffice.Journal.
func (f *fixture) Record(_ context.Context, did []backoffice.Activity, events ...bff.Event) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did, f.events = append(f.did, did...), append(f.events, events...)
	return f.unrecorded
}

// FindProperty implements board.Properties.
func (f *fixture) FindProperty(_ context.Context, _, property bff.ID) (board.Property, error) {
	f.asked = append(f.asked, property)
	if property == alien {
		return board.Property{}, bff.Errorf(bff.CodeResourceNotFound, "there is no such property")
	}
	return board.Property{}, nil
}

// call is a good request; a test breaks what it wants to see refused.
type call struct {
	path    string // with its query
	scheme  string // of the token
	claims  map[string]any
	header  http.Header
	proof   desk.Proof
	by      *desk.Device
	from    string // address
	noProof bool
}

func (f *fixture) call(path string) *call {
	now := f.clock()
	return &call{
		path: path, scheme: "DPoP", by: f.device, from: "203.0.113.7:5000",
		claims: map[string]any{
			"iss": "https://iam", "aud": "bff-backoffice", "sub": "opt_1", "tid": tenant.String(), "device_id": f.device.ID(), "jti": rand.Text(),
			"iat": now.Unix(), "exp": now.Add(identity.TokenLifetime).Unix(), "cnf": map[string]any{"jkt": f.device.Thumbprint()},
		},
		header: http.Header{"X-Device-Id": {f.device.ID()}, "X-App-Version": {"2.4.0"}, "X-App-Platform": {"linux"}, "User-Agent": {"the app"}},
		proof:  desk.Proof{Method: http.MethodGet, URL: publicURL + path, At: now, ID: rand.Text()},
	}
}

// send sends a call and returns the answer with the code of its refusal, "" if it has none.
func (f *fixture) send(c *call) (*httptest.ResponseRecorder, bff.Code) {
	f.t.Helper()
	if c.claims != nil && c.header["Authorization"] == nil {
		payload, err := json.Marshal(c.claims)
		if err != nil {
			f.t.Fatal(err)
		}
		token, err := jws.Sign(payload, jws.WithKey(jwa.EdDSA(), f.key))
		if err != nil {
			f.t.Fatal(err)
		}
		c.header["Authorization"] = []string{c.scheme + " " + string(token)}
		c.proof.AccessToken = cmp.Or(c.proof.AccessToken, string(token))
	}
	if c.header["Dpop"] == nil && !c.noProof {
		proof, err := c.by.Prove(c.proof)
		if err != nil {
			f.t.Fatal(err)
		}
		c.header["Dpop"] = []string{proof}
	}
	r := httptest.NewRequestWithContext(f.t.Context(), http.MethodGet, "http://127.0.0.1"+c.path, http.NoBody)
	r.Header, r.RemoteAddr = c.header, c.from
	w := httptest.NewRecorder()
	f.server.ServeHTTP(w, r)
	var doc struct {
		Error struct{ Code bff.Code }
	}
	_ = json.Unmarshal(w.Body.Bytes(), &doc) // what is answered has no body
	return w, doc.Error.Code
}

// counted is the sum of a counter's series.
func (f *fixture) counted(name string) (sum float64) {
	f.t.Helper()
	families, err := f.counts.Gather()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "test_"+name {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// settle waits for what is done after the responses.
func (f *fixture) settle() {
	f.t.Helper()
	if err := f.behind.Close(context.WithoutCancel(f.t.Context())); err != nil {
		f.t.Fatal(err)
	}
}
