package backofficed

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/internal/web"
)

// guarded are routes that need what no route of the API needs yet.
func guarded() []web.Route {
	handle := func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return []web.Route{
		{
			Pattern: "GET " + base + "/for-managers", Handle: handle, Kind: web.PrivateRead, Budget: time.Minute, Limit: "session", Gate: "read",
			Needs: identity.Needs{Roles: []backoffice.Role{backoffice.GeneralManager, backoffice.Owner}},
		},
		{
			Pattern: "GET " + base + "/of-a-house", Handle: handle, Kind: web.PrivateRead, Budget: time.Minute, Limit: "session", Gate: "read",
			Needs: identity.Needs{Property: true},
		},
	}
}

// Each check of the caller, broken by itself, is refused with its code.
func TestEveryCheck(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{minAppVersion: "2.3.1", routes: guarded(), limits: "session=100000"})
	f.employ("opt_hamida", backoffice.Owner)
	suspended := f.employed("opt_tariq", func(m *backoffice.Member) { m.Suspended = true })
	es256, err := desk.NewDevice(desk.ES256, f.clock())
	if err != nil {
		t.Fatal(err)
	}
	stranger := f.sender("opt_parwana")
	claim := func(name string, value any) func(*sender, *request) {
		return func(s *sender, r *request) {
			if s.claims[name] = value; value == nil {
				delete(s.claims, name)
			}
			*r = *s.request(r.method, r.path, r.body)
		}
	}
	header := func(name string, values ...string) func(*sender, *request) {
		return func(_ *sender, r *request) { r.header[name] = values }
	}
	at := func(path string) func(*sender, *request) {
		return func(s *sender, r *request) { *r = *s.request(r.method, base+path, "") }
	}
	now := f.clock()
	for name, test := range map[string]struct {
		by     string
		change func(*sender, *request)
		want   string
	}{
		"nothing":                {"", func(*sender, *request) {}, "OK"},
		"Bearer instead of DPoP": {"", func(_ *sender, r *request) { r.header["Authorization"][0] = "Bearer " + r.proof.AccessToken }, "OK"},
		"an ES256 device":        {"", func(s *sender, r *request) { *r = *s.f.senderAt("opt_parwana", es256).request(r.method, r.path, "") }, "OK"},
		"the other base":         {"", func(s *sender, r *request) { *r = *s.request(r.method, "/api"+base+"/session", "") }, "OK"},
		"did instead of device_id": {"", func(s *sender, r *request) {
			s.claims["did"] = s.claims["device_id"]
			claim("device_id", nil)(s, r)
		}, "OK"},

		// Shape and size.
		"no token":              {"", func(_ *sender, r *request) { delete(r.header, "Authorization") }, "UNAUTHENTICATED"},
		"two tokens":            {"", func(_ *sender, r *request) { r.header.Add("Authorization", r.header.Get("Authorization")) }, "UNAUTHENTICATED"},
		"another scheme":        {"", header("Authorization", "Basic eDp5"), "UNAUTHENTICATED"},
		"a token too long":      {"", header("Authorization", "DPoP "+strings.Repeat("x", 9000)), "UNAUTHENTICATED"},
		"no device":             {"", func(_ *sender, r *request) { delete(r.header, "X-Device-Id") }, "VALIDATION_FAILED"},
		"a device of nonsense":  {"", header("X-Device-Id", "dev_1"), "VALIDATION_FAILED"},
		"two devices":           {"", header("X-Device-Id", stranger.device.ID(), es256.ID()), "VALIDATION_FAILED"},
		"a version of nonsense": {"", header("X-App-Version", "new"), "VALIDATION_FAILED"},
		"an unknown platform":   {"", header("X-App-Platform", "beos"), "VALIDATION_FAILED"},
		"an unknown network":    {"", header("X-Network-Profile", "5G"), "VALIDATION_FAILED"},
		"a property of nothing": {"", header("X-Property-Id", "ppt_1"), "VALIDATION_FAILED"},

		// Token.
		"an unknown key":  {"", func(s *sender, r *request) { s.key = "unpublished"; *r = *s.request(r.method, r.path, "") }, "TOKEN_EXPIRED"},
		"another issuer":  {"", claim("iss", "https://else"), "UNAUTHENTICATED"},
		"another surface": {"", claim("aud", "bff-console"), "SURFACE_MISMATCH"},
		"expired":         {"", claim("exp", now.Unix()), "TOKEN_EXPIRED"},
		"a life too long": {"", func(s *sender, r *request) {
			s.claims["exp"] = now.Add(time.Hour).Unix()
			claim("iat", now.Add(-16*time.Minute).Unix())(s, r)
		}, "TOKEN_EXPIRED"},
		"no tenant":               {"", claim("tid", nil), "UNAUTHENTICATED"},
		"a tenant of nonsense":    {"", claim("tid", "tnt_1"), "UNAUTHENTICATED"},
		"no operator":             {"", claim("sub", nil), "UNAUTHENTICATED"},
		"an operator of nonsense": {"", claim("sub", "a b"), "UNAUTHENTICATED"},
		"not bound to a key":      {"", claim("cnf", nil), "UNAUTHENTICATED"},
		"a token of two devices":  {"", claim("did", es256.ID()), "UNAUTHENTICATED"},

		// Device.
		"another device in the header": {"", header("X-Device-Id", es256.ID()), "DEVICE_MISMATCH"},
		"another device in the token":  {"", claim("device_id", es256.ID()), "DEVICE_MISMATCH"},
		"no device in the token":       {"", claim("device_id", nil), "DEVICE_MISMATCH"},

		// Proof: all that RFC 9449 §4.3 checks is broken in internal/dpop.
		"no proof":            {"", func(_ *sender, r *request) { r.noProof = true }, "DPOP_INVALID"},
		"two proofs":          {"", func(s *sender, r *request) { r.header["Dpop"] = []string{s.f.prove(r), s.f.prove(r)} }, "DPOP_INVALID"},
		"a proof of nonsense": {"", header("Dpop", "x"), "DPOP_INVALID"},
		"for another method":  {"", func(_ *sender, r *request) { r.proof.Method = "POST" }, "DPOP_INVALID"},
		"for another path":    {"", func(_ *sender, r *request) { r.proof.URL = publicURL + base + "/today" }, "DPOP_INVALID"},
		"for another host":    {"", func(_ *sender, r *request) { r.proof.URL = "http://127.0.0.1" + r.path }, "DPOP_INVALID"},
		"for another token":   {"", func(_ *sender, r *request) { r.proof.AccessToken = "another" }, "DPOP_INVALID"},
		"for another tenant's token": {"", func(s *sender, r *request) {
			s.claims["tid"] = bff.NewID(bff.PrefixTenant, now).String()
			r.proof.AccessToken = s.token()
		}, "DPOP_INVALID"},
		"a stolen token without its key": {"", func(_ *sender, r *request) { r.by = stranger.device }, "DPOP_INVALID"},
		"a slow clock":                   {"", func(_ *sender, r *request) { r.proof.At = now.Add(-time.Hour) }, "DPOP_INVALID"},
		"a fast clock":                   {"", func(_ *sender, r *request) { r.proof.At = now.Add(time.Hour) }, "DPOP_INVALID"},
		"a nonce of nobody":              {"", func(_ *sender, r *request) { r.proof.Nonce = "x" }, "DPOP_INVALID"},
		"a changed signature":            {"", func(s *sender, r *request) { r.header["Dpop"] = []string{flipped(s.f.prove(r))} }, "DPOP_INVALID"},
		"a replay":                       {"", func(s *sender, r *request) { s.f.send(0, r) }, "DPOP_REPLAYED"},

		// Session.
		"no member of the tenant": {"opt_nobody", func(*sender, *request) {}, "SESSION_REVOKED"},
		"a suspended tenant":      {suspended, func(*sender, *request) {}, "TENANT_SUSPENDED"},

		// Version.
		"an app too old": {"", header("X-App-Version", "2.3.0"), "APP_VERSION_UNSUPPORTED"},
		"no app version": {"", func(_ *sender, r *request) { delete(r.header, "X-App-Version") }, "APP_VERSION_UNSUPPORTED"},
		"the oldest app": {"", header("X-App-Version", "2.3.1-rc.1"), "OK"},

		// Role.
		"another role":   {"", at("/for-managers"), "ROLE_DENIED"},
		"the right role": {"opt_hamida", at("/for-managers"), "No Content"},

		// Scope.
		"another house":       {"", at("/of-a-house?propertyId=" + other), "PROPERTY_SCOPE_DENIED"},
		"the right house":     {"", at("/of-a-house?propertyId=" + house), "No Content"},
		"no house":            {"", at("/of-a-house"), "VALIDATION_FAILED"},
		"a house of nonsense": {"", at("/of-a-house?propertyId=1"), "VALIDATION_FAILED"},
		"a house in a header": {"", func(s *sender, r *request) { at("/of-a-house")(s, r); r.header["X-Property-Id"] = []string{house} }, "No Content"},
		"two houses": {"", func(s *sender, r *request) {
			at("/of-a-house?propertyId="+house)(s, r)
			r.header["X-Property-Id"] = []string{other}
		}, "VALIDATION_FAILED"},
	} {
		t.Run(name, func(t *testing.T) {
			by := test.by
			if by == "" {
				by = "opt_parwana"
			}
			s := f.sender(by)
			r := s.request(http.MethodGet, base+"/session", "")
			test.change(s, r)
			w := f.send(0, r)
			if got := codeOf(w); got != test.want {
				t.Errorf("%s, want %s: %s", got, test.want, w.Body)
			}
			if w.Code == http.StatusUnauthorized && w.Header().Get("WWW-Authenticate") == "" {
				t.Error("no WWW-Authenticate")
			}
			if w.Header().Get("DPoP-Nonce") == "" {
				t.Error("no nonce is offered")
			}
		})
	}
}

// employed adds an operator.
func (f *front) employed(operator string, change func(*backoffice.Member)) string {
	m := &backoffice.Member{Flags: map[string]bool{}, Roles: []backoffice.Role{}}
	change(m)
	f.staff.set(operator, m)
	return operator
}

// flipped changes the signature of a proof.
func flipped(proof string) string {
	head, signature := proof[:strings.LastIndexByte(proof, '.')+1], proof[strings.LastIndexByte(proof, '.')+1:]
	raw, _ := base64.RawURLEncoding.DecodeString(signature) // as it was just encoded
	raw[0] ^= 1
	return head + base64.RawURLEncoding.EncodeToString(raw)
}

// The checks have an order: a request that breaks all of them is refused for the
// first, and for the next when that is mended.
func TestOrderOfChecks(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{minAppVersion: "2.0", routes: guarded(), limits: "session=1"})
	f.employ("opt_laila", backoffice.Housekeeper)
	s := f.sender("opt_nobody")
	other, err := desk.NewDevice(desk.EdDSA, f.clock())
	if err != nil {
		t.Fatal(err)
	}
	s.claims["aud"] = "bff-console"
	broken := struct{ shape, token, device, proof, replay, session, version bool }{true, true, true, true, true, true, true}
	used := ""
	send := func() string {
		r := s.request(http.MethodGet, base+"/for-managers", "")
		if broken.shape {
			r.header["X-App-Platform"] = []string{"beos"}
		}
		if broken.device {
			r.header["X-Device-Id"] = []string{other.ID()}
		}
		if broken.proof {
			r.proof.Method = "PUT"
		}
		if broken.version {
			r.header["X-App-Version"] = []string{"1.9"}
		}
		if broken.replay && !broken.proof {
			if used == "" {
				r.proof.ID, used = "once", "once"
				f.send(0, r)
			}
			r.proof.ID = used
			r.header.Del("Dpop")
		}
		return codeOf(f.send(0, r))
	}
	for _, step := range []struct {
		want string
		mend func()
	}{
		{"VALIDATION_FAILED", func() { broken.shape = false }},
		{"SURFACE_MISMATCH", func() { s.claims["aud"] = "bff-backoffice" }},
		{"DEVICE_MISMATCH", func() { broken.device = false }},
		{"DPOP_INVALID", func() { broken.proof = false }},
		{"DPOP_REPLAYED", func() { broken.replay = false }},
		{"SESSION_REVOKED", func() { s.claims["sub"] = "opt_laila" }},
		// Beyond its limit of one since the first proof that was good, and told the rest
		// first all the same.
		{"APP_VERSION_UNSUPPORTED", func() { broken.version = false }},
		{"RATE_LIMITED", func() { f.advance(time.Minute) }},
		{"ROLE_DENIED", func() {}},
		{"RATE_LIMITED", func() {}},
	} {
		if got := send(); got != step.want {
			t.Fatalf("%s, want %s", got, step.want)
		}
		step.mend()
	}
}

// A thousand copies of one proof, over three instances: one passes, and the rest is
// reported once.
func TestReplays(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{instances: 3, limits: "off"})
	s := f.sender("opt_parwana")
	s.session()
	r := s.request(http.MethodGet, base+"/session", "")
	proof := f.prove(r)
	var passed, replayed atomic.Int32
	var wg sync.WaitGroup
	for worker := range 10 {
		wg.Go(func() {
			for i := range 100 {
				again := *r
				again.header = r.header.Clone()
				again.header["Dpop"] = []string{proof}
				switch codeOf(f.send((worker+i)%3, &again)) {
				case "OK":
					passed.Add(1)
				case "DPOP_REPLAYED":
					replayed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if passed.Load() != 1 || replayed.Load() != 999 {
		t.Errorf("%d passed and %d were replays of 1000", passed.Load(), replayed.Load())
	}
	f.finish()
	if reports := slices.DeleteFunc(f.outbox.subjects(), func(s string) bool { return s != "dpop.replay_blocked" }); len(reports) == 0 || len(reports) > 3 {
		t.Errorf("%d reports, want one of each instance at most", len(reports))
	}
	// An id is burned for the whole window in which its proof is acceptable: dpop says
	// until when, to the second; half a minute is for a slow machine.
	for _, ahead := range []time.Duration{-time.Minute, 0, time.Minute} {
		r := s.request(http.MethodGet, base+"/session", "")
		r.proof.At, r.proof.ID = f.clock().Add(ahead), "window "+ahead.String()
		if got := codeOf(f.send(0, r)); got != "OK" {
			t.Fatalf("%v ahead: %s", ahead, got)
		}
	}
	for ahead, least := range map[string]time.Duration{"0s": 30 * time.Second, "1m0s": 90 * time.Second} {
		ms, err := f.client.Do(t.Context(), f.client.B().Pttl().Key(f.keys.Proof(s.device.Thumbprint(), "window "+ahead)).Build()).AsInt64()
		if got := time.Duration(ms) * time.Millisecond; err != nil || got < least {
			t.Errorf("a proof that is %s ahead is remembered for %v: %v", ahead, got, err)
		}
	}
}

// A computer with a wrong clock is told so, and recovers with the nonce.
func TestClockSkewIsTold(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	s := f.sender("opt_parwana")
	r := s.request(http.MethodGet, base+"/session", "")
	r.proof.At = f.clock().AddDate(-5, 0, 0)
	w := f.send(0, r)
	var doc struct {
		Error struct {
			Code   string
			Errors []bff.FieldError
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if w.Code != http.StatusUnauthorized || !cmp.Equal(doc.Error.Errors, []bff.FieldError{{Field: "DPoP", Code: "clock_skew"}}) ||
		w.Header().Get("X-Server-Time") != bff.At(f.clock()).String() || !strings.Contains(w.Header().Get("WWW-Authenticate"), "use_dpop_nonce") {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
	r = s.request(http.MethodGet, base+"/session", "")
	r.proof.At, r.proof.Nonce = f.clock().AddDate(-5, 0, 0), w.Header().Get("DPoP-Nonce")
	if got := codeOf(f.send(0, r)); got != "OK" {
		t.Errorf("with the nonce: %s", got)
	}
	again := *r
	if got := codeOf(f.send(0, &again)); got != "DPOP_REPLAYED" {
		t.Errorf("the same proof again: %s", got)
	}
	f.advance(10 * time.Minute)
	r = s.request(http.MethodGet, base+"/session", "")
	r.proof.Nonce = w.Header().Get("DPoP-Nonce")
	if got := codeOf(f.send(0, r)); got != "DPOP_INVALID" {
		t.Errorf("with an old nonce: %s", got)
	}
}

// While the session tier is away everything is refused, also what was let in a
// moment before; and then it is as before.
func TestSessionsAway(t *testing.T) {
	t.Parallel()
	server := testkit.NewRedis(t)
	f := newFront(t, frontConfig{redisURL: server.URL()})
	s := f.sender("opt_parwana")
	s.session()
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*request{
		s.request(http.MethodGet, base+"/session", ""), s.request(http.MethodPost, base+"/auth/sign-out", ""),
		s.request(http.MethodPost, base+"/auth/mfa/step-up", `{"scope":"folio.refund","code":"000000"}`),
	} {
		w := f.send(0, r)
		if got := codeOf(w); got != "SERVICE_UNAVAILABLE" || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s %s: %s", r.method, r.path, got)
		}
	}
	refresh := s.request(http.MethodPost, base+"/auth/refresh", `{"refreshToken":"x"}`)
	refresh.proof.AccessToken = ""
	if got := codeOf(f.send(0, refresh)); got != "SERVICE_UNAVAILABLE" {
		t.Errorf("refresh: %s", got)
	}
}

// While tenant-service is away those are served whose rights are known.
func TestTenantServiceAway(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	f.staff.err = &bff.Error{Code: bff.CodeUpstreamUnavailable}
	if got := codeOf(f.sender("opt_parwana").get("/session")); got != "UPSTREAM_UNAVAILABLE" {
		t.Errorf("%s", got)
	}
}
