package sim

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jwt"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/desk"
)

// deviceKey returns a key pair's two JWKs and the public one's thumbprint.
func deviceKey(t *testing.T) (public, private json.RawMessage, jkt string) {
	t.Helper()
	raw, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := jwk.Import(raw)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	sum, err := pub.Thumbprint(crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	if public, err = json.Marshal(pub); err != nil {
		t.Fatal(err)
	}
	if private, err = json.Marshal(key); err != nil {
		t.Fatal(err)
	}
	return public, private, base64.RawURLEncoding.EncodeToString(sum)
}

func TestSignInVerifiesAgainstJWKS(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	public, private, jkt := deviceKey(t)
	tn := w.data.tenants[0]
	req := SignIn{TenantID: tn.id, OperatorID: tn.operators[2].id, DeviceID: "dev_01H8YN7QV4D8KZ4F8Y5CK4MV3D", JWK: public}
	var tokens Tokens
	w.want(200, "POST", "/iam/api/v1/auth/sign-in", req, &tokens)

	var keys json.RawMessage
	w.want(200, "GET", "/iam/.well-known/jwks.json", nil, &keys)
	set, err := jwk.Parse(keys)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Parse([]byte(tokens.AccessToken), jwt.WithKeySet(set), jwt.WithClock(jwt.ClockFunc(w.clk.Now)),
		jwt.WithIssuer(w.cfg.Issuer), jwt.WithAudience("bff-backoffice"), jwt.WithSubject(req.OperatorID))
	if err != nil {
		t.Fatal(err)
	}
	var tid, device string
	var cnf map[string]any
	for name, dst := range map[string]any{"tid": &tid, "device_id": &device, "cnf": &cnf} {
		if err := token.Get(name, dst); err != nil {
			t.Error(err)
		}
	}
	exp, _ := token.Expiration()
	if tid != tn.id || device != req.DeviceID || cnf["jkt"] != jkt || !exp.Equal(testNow.Add(15*time.Minute)) || tokens.ExpiresIn != 900 {
		t.Errorf("tid %s, device %s, cnf %v, exp %v", tid, device, cnf, exp)
	}
	for name, edit := range map[string]func(*SignIn){
		"private key": func(r *SignIn) { r.JWK = private },
		"shared key":  func(r *SignIn) { r.JWK = json.RawMessage(`{"kty":"oct","k":"AAAA"}`) },
		"no key":      func(r *SignIn) { r.JWK = nil },
		"no device":   func(r *SignIn) { r.DeviceID = "" },
	} {
		bad := req
		edit(&bad)
		if got, err := w.do(t.Context(), "POST", "/iam/api/v1/auth/sign-in", bad, nil); got != 400 || err != nil {
			t.Errorf("%s: %d %v", name, got, err)
		}
	}
	stranger := req
	stranger.OperatorID = w.data.tenants[1].operators[0].id
	w.want(401, "POST", "/iam/api/v1/auth/sign-in", stranger, nil)
}

// front is where the staff service, which passes refreshes on, is reached.
const front = "https://staff.example/bff/backoffice/v1"

// computer is a device that signs in and refreshes.
type computer struct {
	*desk.Device
	w *fixture
}

func (w *fixture) computer() *computer {
	w.t.Helper()
	d, err := desk.NewDevice(desk.ES256, testNow)
	if err != nil {
		w.t.Fatal(err)
	}
	return &computer{d, w}
}

func (d *computer) prove(p desk.Proof) string {
	d.w.t.Helper()
	proof, err := d.Prove(p)
	if err != nil {
		d.w.t.Fatal(err)
	}
	return proof
}

// signIn signs parwana in.
func (d *computer) signIn() Tokens {
	d.w.t.Helper()
	jwk, err := d.PublicJWK()
	if err != nil {
		d.w.t.Fatal(err)
	}
	tokens, err := d.w.SignIn(SignIn{Username: "parwana", DeviceID: d.ID(), JWK: jwk})
	if err != nil {
		d.w.t.Fatal(err)
	}
	return tokens
}

// postWith sends a body to a route of iam with headers, and returns the answer's
// headers, its body and the code of its error.
func (w *fixture) postWith(path string, body any, with map[string]string) (b []byte, code string) {
	w.t.Helper()
	in, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url+path, strings.NewReader(string(in)))
	if err != nil {
		w.t.Fatal(err)
	}
	for k, v := range with {
		req.Header.Set(k, v)
	}
	res, err := w.web.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if b, err = io.ReadAll(res.Body); err != nil {
		w.t.Fatal(err)
	}
	var p problem
	_ = json.Unmarshal(b, &p) // a success has no code
	return b, p.Error.Code
}

const refreshPath = "/iam/api/v1/auth/refresh"

// refresh passes a refresh on as the staff service does; wantCode is empty for a
// success.
func (d *computer) refresh(wantCode, token string) Tokens {
	d.w.t.Helper()
	h := map[string]string{"DPoP": d.prove(desk.Proof{Method: "POST", URL: front + "/auth/refresh", At: d.w.clk.Now()})}
	b, code := d.w.postWith(refreshPath, map[string]string{"refreshToken": token, "deviceId": d.ID()}, h)
	if code != wantCode {
		d.w.t.Fatalf("refresh: %s, want code %q", b, wantCode)
	}
	var out Tokens
	if err := json.Unmarshal(b, &out); err != nil {
		d.w.t.Fatal(err)
	}
	return out
}

// events keeps what the simulator published.
type events struct {
	mu       sync.Mutex
	topics   []string
	payloads []json.RawMessage
}

func (e *events) Publish(_ context.Context, topic string, data []byte, _ string) error {
	var ev bff.Event
	if err := json.Unmarshal(data, &ev); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.topics, e.payloads = append(e.topics, topic), append(e.payloads, ev.Payload)
	return nil
}

func TestRefreshRotatesAndDetectsReuse(t *testing.T) {
	t.Parallel()
	var sent events
	w := newFixture(t, func(c *Config) { c.Publisher = &sent })
	d := w.computer()
	first := d.signIn()
	second := d.refresh("", first.RefreshToken)
	if second.RefreshToken == first.RefreshToken || second.AccessToken == first.AccessToken {
		t.Error("nothing rotated")
	}
	third := d.refresh("", second.RefreshToken)
	if len(sent.topics) != 0 {
		t.Fatalf("%v was published without a reason", sent.topics)
	}
	d.refresh("REFRESH_REUSED", first.RefreshToken)  // a copy shows itself
	d.refresh("UNAUTHENTICATED", third.RefreshToken) // and ends the family
	var got Revocation
	if len(sent.topics) != 1 || sent.topics[0] != "melmastoon.iam.session.revoked.v1" || json.Unmarshal(sent.payloads[0], &got) != nil {
		t.Fatalf("published: %v", sent.topics)
	}
	p := w.data.cast.find("parwana")
	if want := (Revocation{p.tenants[0].id, p.id, d.ID(), "refresh_token_reuse", bff.At(testNow)}); got != want {
		t.Errorf("revocation %+v, want %+v", got, want)
	}

	late := d.signIn()
	w.clk.Advance(31 * 24 * time.Hour)
	d.refresh("UNAUTHENTICATED", late.RefreshToken)
	d.refresh("INVALID_ARGUMENT", "")
}

func TestKeysRotateWithOverlap(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	d := w.computer()
	verify := func(token string) error {
		var keys json.RawMessage
		w.want(200, "GET", "/iam/.well-known/jwks.json", nil, &keys)
		set, err := jwk.Parse(keys)
		if err != nil {
			t.Fatal(err)
		}
		_, err = jwt.Parse([]byte(token), jwt.WithKeySet(set), jwt.WithValidate(false))
		return err
	}
	first := d.signIn().AccessToken
	w.want(201, "POST", "/_sim/iam/keys", `{"alg":"ES256"}`, nil)
	second := d.signIn().AccessToken
	if err := verify(first); err != nil {
		t.Errorf("during the overlap: %v", err)
	}
	if err := verify(second); err != nil {
		t.Errorf("signed with ES256: %v", err)
	}
	w.clk.Advance(keyOverlap + time.Second)
	if err := verify(first); err == nil {
		t.Error("the old key is still published after the overlap")
	}
	w.want(201, "POST", "/_sim/iam/keys", `{"dropOld":true}`, nil)
	if err := verify(second); err == nil {
		t.Error("a dropped key is still published")
	}
	if err := verify(d.signIn().AccessToken); err != nil {
		t.Error(err)
	}
	w.want(400, "POST", "/_sim/iam/keys", `{"alg":"RS256"}`, nil)
}

// Each event of iam and of the tenant service acts where it is said to.
func TestStaffEvents(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	p := w.data.cast.find("parwana")
	tenant := p.tenants[0].id
	d := w.computer()
	emit := func(topic string, payload map[string]any) {
		t.Helper()
		w.want(202, "POST", "/_sim/events", map[string]any{"topic": "melmastoon." + topic + ".v1", "payload": payload}, nil)
	}
	signInCode := func() string {
		jwk, err := d.PublicJWK()
		if err != nil {
			t.Fatal(err)
		}
		_, code := w.postWith("/iam/api/v1/auth/sign-in", SignIn{Username: "parwana", DeviceID: d.ID(), JWK: jwk}, nil)
		return code
	}
	for name, c := range map[string]map[string]any{
		"device":   {"tenantId": tenant, "operatorId": p.id, "deviceId": d.ID()},
		"operator": {"tenantId": tenant, "operatorId": p.id},
		"tenant":   {"tenantId": tenant},
	} {
		token := d.signIn().RefreshToken
		emit("iam.session.revoked", map[string]any{"tenantId": tenant, "operatorId": "opt_other"})
		token = d.refresh("", token).RefreshToken
		emit("iam.session.revoked", c)
		if d.refresh("UNAUTHENTICATED", token); signInCode() != "" {
			t.Errorf("%s: a revoked operator may sign in again", name)
		}
	}

	token := d.signIn().RefreshToken
	emit("iam.user.locked", map[string]any{"tenantId": tenant, "operatorId": p.id})
	if d.refresh("UNAUTHENTICATED", token); signInCode() != "USER_LOCKED" || !w.Cast()[2].Locked {
		t.Error("a locked operator signs in")
	}
	emit("iam.user.unlocked", map[string]any{"tenantId": tenant, "operatorId": p.id})

	token = d.signIn().RefreshToken
	emit("iam.device.revoked", map[string]any{"tenantId": tenant, "deviceId": d.ID()})
	if d.refresh("UNAUTHENTICATED", token); signInCode() != "DEVICE_REVOKED" {
		t.Error("a revoked device signs in")
	}
	emit("iam.device.trusted", map[string]any{"tenantId": tenant, "deviceId": d.ID()})

	path := "/tenant/api/v1/tenants/" + tenant + "/operators/" + p.id
	var o Operator
	emit("tenant.membership.changed", map[string]any{"tenantId": tenant, "operatorId": p.id, "roles": []string{"finance"}})
	if w.want(200, "GET", path, nil, &o); len(o.Roles) != 1 || o.Roles[0] != "finance" || len(o.PropertyScope) != 1 || o.DisplayName != "Parwana Wardak" {
		t.Errorf("after a change of roles: %+v", o)
	}
	token = d.signIn().RefreshToken
	emit("tenant.membership.removed", map[string]any{"tenantId": tenant, "operatorId": p.id})
	w.want(404, "GET", path, nil, nil)
	if d.refresh("UNAUTHENTICATED", token); signInCode() != "UNAUTHENTICATED" {
		t.Error("a former colleague signs in")
	}
	emit("tenant.membership.added", map[string]any{
		"tenantId": tenant, "operatorId": p.id, "roles": []string{"owner"}, "propertyScope": []string{"*"}, "displayName": "Parwana W.",
	})
	if w.want(200, "GET", path, nil, &o); o.Roles[0] != "owner" || o.PropertyScope[0] != "*" || o.DisplayName != "Parwana W." {
		t.Errorf("after coming back: %+v", o)
	}

	emit("tenant.feature_flag.toggled", map[string]any{"tenantId": tenant, "flag": "beta_dashboard", "enabled": true})
	var tn Tenant
	if w.want(200, "GET", "/tenant/api/v1/tenants/"+tenant, nil, &tn); !tn.Flags["beta_dashboard"] || !tn.Flags["digital_keys"] {
		t.Errorf("flags %v", tn.Flags)
	}
}
