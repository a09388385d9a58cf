package sim

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jwt"
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

func TestRefreshRotatesAndDetectsReuse(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	public, _, _ := deviceKey(t)
	tn := w.data.tenants[0]
	const device = "dev_01H8YN7QV4D8KZ4F8Y5CK4MV3D"
	signIn := func() Tokens {
		tokens, err := w.SignIn(SignIn{tn.id, tn.operators[0].id, device, public})
		if err != nil {
			t.Fatal(err)
		}
		return tokens
	}
	refresh := func(want int, token, device string) Tokens {
		t.Helper()
		var out Tokens
		w.want(want, "POST", "/iam/api/v1/auth/refresh", map[string]string{"refreshToken": token, "deviceId": device}, &out)
		return out
	}
	first := signIn()
	second := refresh(200, first.RefreshToken, device)
	if second.RefreshToken == first.RefreshToken || second.AccessToken == first.AccessToken {
		t.Error("nothing rotated")
	}
	third := refresh(200, second.RefreshToken, device)
	refresh(401, first.RefreshToken, device) // a copy shows itself
	refresh(401, third.RefreshToken, device) // and ends the family

	other := signIn()
	refresh(401, other.RefreshToken, "dev_elsewhere")
	refresh(401, other.RefreshToken, device)

	late := signIn()
	w.clk.Advance(31 * 24 * time.Hour)
	refresh(401, late.RefreshToken, device)
	refresh(400, "", device)

	revoked := signIn()
	w.RevokeDevice(device)
	refresh(401, revoked.RefreshToken, device)
}

func TestStepUp(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	body := map[string]string{"operatorId": "opt_x", "deviceId": "dev_x", "scope": "lock.revoke", "code": "000000"}
	var out struct {
		Attested bool
		Method   string
	}
	w.want(200, "POST", "/iam/api/v1/auth/step-up", body, &out)
	if !out.Attested || out.Method != "totp" {
		t.Errorf("%+v", out)
	}
	body["code"] = "123456"
	w.want(401, "POST", "/iam/api/v1/auth/step-up", body, nil)
	delete(body, "scope")
	w.want(400, "POST", "/iam/api/v1/auth/step-up", body, nil)
}
