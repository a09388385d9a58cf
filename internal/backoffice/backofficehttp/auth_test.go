package backofficehttp_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// refreshRequest proves the key and carries no access token.
func (s *sender) refreshRequest(body string) *request {
	r := s.request(http.MethodPost, base+"/auth/refresh", body)
	r.proof.AccessToken = ""
	delete(r.header, "Authorization")
	return r
}

func TestRefresh(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{limits: "auth=1000"})
	s, thief := f.sender("opt_parwana"), f.sender("opt_parwana")
	good := identity.Tokens{AccessToken: s.token(), RefreshToken: "rft_2", ExpiresIn: 900}
	for name, test := range map[string]struct {
		tokens identity.Tokens
		err    error
		body   string
		change func(*request)
		want   string
	}{
		"good":                  {good, nil, `{"refreshToken":"rft_1"}`, nil, "OK"},
		"a proof as for others": {good, nil, `{"refreshToken":"rft_1"}`, func(r *request) { r.proof.AccessToken = s.token() }, "OK"}, // with ath
		"no token":              {good, nil, `{}`, nil, "VALIDATION_FAILED"},
		"no JSON":               {good, nil, `x`, nil, "VALIDATION_FAILED"},
		"a long key": {
			good, nil, `{"refreshToken":"rft_1"}`, func(r *request) { r.header.Set("X-Idempotency-Key", strings.Repeat("k", 129)) }, "VALIDATION_FAILED",
		},
		"reused":      {good, &bff.Error{Code: bff.CodeSessionRevoked}, `{"refreshToken":"rft_1"}`, nil, "SESSION_REVOKED"},
		"iam is away": {good, &bff.Error{Code: bff.CodeUpstreamTimeout}, `{"refreshToken":"rft_1"}`, nil, "UPSTREAM_TIMEOUT"},
		// What iam would give to another key or device stays here.
		"for another key":    {good, nil, `{"refreshToken":"rft_1"}`, func(r *request) { r.by = thief.device }, "DEVICE_MISMATCH"},
		"for another device": {good, nil, `{"refreshToken":"rft_1"}`, func(r *request) { r.header.Set("X-Device-Id", thief.device.ID()) }, "DEVICE_MISMATCH"},
		"no token of iam's":  {identity.Tokens{AccessToken: "x"}, nil, `{"refreshToken":"rft_1"}`, nil, "UPSTREAM_UNAVAILABLE"},
	} {
		f.iam.tokens, f.iam.err = test.tokens, test.err
		r := s.refreshRequest(test.body)
		if test.change != nil {
			test.change(r)
		}
		w := f.send(0, r)
		if got := codeOf(w); got != test.want {
			t.Errorf("%s: %s, want %s: %s", name, got, test.want, w.Body)
		}
		var got identity.Tokens
		if test.want == "OK" && (json.Unmarshal(w.Body.Bytes(), &got) != nil || got != good) {
			t.Errorf("%s: %s", name, w.Body)
		}
	}
	if got := f.lasting(); len(got) != 0 {
		t.Errorf("a refresh opened %v", got)
	}
	// What iam has vouched for counts for the device.
	f = newFront(t, frontConfig{limits: "auth=2"})
	s = f.sender("opt_parwana")
	f.iam.tokens = identity.Tokens{AccessToken: s.token()}
	for _, want := range []string{"OK", "OK"} {
		if got := codeOf(f.send(0, s.refreshRequest(`{"refreshToken":"rft_1"}`))); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := codeOf(s.from(0, http.MethodPost, "/auth/sign-out", "")); got != "RATE_LIMITED" {
		t.Errorf("what iam vouched for does not count for the device: %s", got)
	}
}

// A second factor that iam refuses is in the ledger.
func TestRefusedStepUp(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	f.iam.err = &bff.Error{Code: bff.CodeMFAAttestationInvalid}
	s := f.sender("opt_parwana")
	if got := codeOf(s.from(0, http.MethodPost, "/auth/mfa/step-up", `{"scope":"lock.revoke","code":"111111"}`)); got != "MFA_ATTESTATION_INVALID" {
		t.Error(got)
	}
	if did := f.outbox.did[len(f.outbox.did)-1]; did.Category != "mfa" || did.Outcome != backoffice.Denied {
		t.Errorf("%+v", did)
	}
}

// An attestation is for one action in one session: of a hundred requests that use it
// at once, one passes, and a caller whom it is not for cannot use it up.
func TestAttestations(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	ctx, now := testkit.Context(t), f.clock()
	device, err := desk.NewDevice(desk.EdDSA, now)
	if err != nil {
		t.Fatal(err)
	}
	visit := func() *backoffice.Visit {
		c := f.senderAt("opt_parwana", device).caller()
		return &backoffice.Visit{Caller: c, Session: backoffice.Session{
			ID: bff.NewID(bff.PrefixBackofficeLogin, now), Tenant: c.Tenant, Operator: c.Operator, Device: c.Device,
		}}
	}
	v, use := visit(), backoffice.Use{Scope: backoffice.ScopeRefund, Resource: "fol_1"}
	a, err := f.accesses[0].Attest(ctx, f.sessions, v, use, now)
	if err != nil {
		t.Fatal(err)
	}
	id := a.ID.String()
	consume := func(v *backoffice.Visit, id string, use backoffice.Use, at time.Time) bff.Code {
		if err := backoffice.ConsumeAttestation(ctx, f.sessions, v, id, use, at); err != nil {
			return bff.CodeOf(err)
		}
		return ""
	}
	with := func(change func(*backoffice.Session)) *backoffice.Visit {
		other := *v
		change(&other.Session)
		return &other
	}
	for name, test := range map[string]struct {
		v    *backoffice.Visit
		id   string
		use  backoffice.Use
		at   time.Time
		want bff.Code
	}{
		"none":             {v, "", use, now, bff.CodeMFARequired},
		"nonsense":         {v, "mfa_1", use, now, bff.CodeMFAAttestationInvalid},
		"an unknown one":   {v, bff.NewID(bff.PrefixMFA, now).String(), use, now, bff.CodeMFAAttestationInvalid},
		"another tenant":   {with(func(s *backoffice.Session) { s.Tenant = bff.NewID(bff.PrefixTenant, now) }), id, use, now, bff.CodeMFAAttestationInvalid},
		"another operator": {with(func(s *backoffice.Session) { s.Operator = "opt_karim" }), id, use, now, bff.CodeMFAAttestationInvalid},
		"another device":   {with(func(s *backoffice.Session) { s.Device = bff.NewID(bff.PrefixDevice, now) }), id, use, now, bff.CodeMFAAttestationInvalid},
		"another session":  {visit(), id, use, now, bff.CodeMFAAttestationInvalid},
		"another scope":    {v, id, backoffice.Use{Scope: backoffice.ScopeLockRevoke, Resource: "fol_1"}, now, bff.CodeMFAAttestationInvalid},
		"another resource": {v, id, backoffice.Use{Scope: backoffice.ScopeRefund, Resource: "fol_2"}, now, bff.CodeMFAAttestationInvalid},
		"too late":         {v, id, use, now.Add(backoffice.AttestationLifetime), bff.CodeMFAAttestationInvalid},
	} {
		if got := consume(test.v, test.id, test.use, test.at); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	var passed atomic.Int32
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			use := use
			use.Once = backoffice.Once{Key: "mutation", Digest: [32]byte{byte(i)}}
			switch got := consume(v, id, use, now); got {
			case "":
				passed.Add(1)
			case bff.CodeMFAAttestationInvalid:
			default:
				t.Errorf("%s", got)
			}
		})
	}
	wg.Wait()
	if passed.Load() != 1 {
		t.Errorf("%d of 100 passed", passed.Load())
	}
	wide, err := f.accesses[0].Attest(ctx, f.sessions, v, backoffice.Use{Scope: backoffice.ScopeRefund}, now)
	if err != nil {
		t.Fatal(err)
	}
	// A cut-off attempt at the same mutation is repeated with it, also later.
	for range 2 {
		if got := consume(v, wide.ID.String(), use, now); got != "" {
			t.Errorf("an attestation for any resource: %s", got)
		}
		now = now.Add(backoffice.AttestationLifetime)
	}
	use.Once.Key = "another mutation"
	if got := consume(v, wide.ID.String(), use, f.clock()); got != bff.CodeMFAAttestationInvalid {
		t.Errorf("used for another mutation: %s", got)
	}
}
