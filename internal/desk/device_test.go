package desk_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jws"

	"melmastoon.ghasi.io/bff/internal/desk"
)

var noon = time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)

func newDevice(t *testing.T, alg desk.Algorithm) *desk.Device {
	t.Helper()
	d, err := desk.NewDevice(alg, noon)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// claimsOf verifies a proof with the key in its own header, as a server does.
func claimsOf(t *testing.T, proof string) (jws.Headers, map[string]any) {
	t.Helper()
	m, err := jws.ParseString(proof)
	if err != nil {
		t.Fatal(err)
	}
	h := m.Signatures()[0].ProtectedHeaders()
	key, _ := h.JWK()
	alg, _ := h.Algorithm()
	payload, err := jws.Verify([]byte(proof), jws.WithKey(alg, key))
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	return h, claims
}

func TestProve(t *testing.T) {
	t.Parallel()
	for _, alg := range []desk.Algorithm{desk.EdDSA, desk.ES256} {
		t.Run(string(alg), func(t *testing.T) {
			t.Parallel()
			d := newDevice(t, alg)
			proof, err := d.Prove(desk.Proof{
				Method: "GET", URL: "http://127.0.0.1:8083/bff/backoffice/v1/today?propertyId=ppt_1#x", AccessToken: "token", Nonce: "n", ID: "one", At: noon,
			})
			if err != nil {
				t.Fatal(err)
			}
			h, got := claimsOf(t, proof)
			want := map[string]any{
				"htm": "GET", "htu": "http://127.0.0.1:8083/bff/backoffice/v1/today", "iat": float64(noon.Unix()), "jti": "one", "nonce": "n",
				"ath": "PEaenWxYddN6Q_NT1PiOYfz4EsZu7jRXRlpAsNpBU-A", // the SHA-256 of "token"
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			typ, _ := h.Type()
			name, _ := h.Algorithm()
			key, _ := h.JWK()
			if private, err := jwk.IsPrivateKey(key); typ != "dpop+jwt" || name.String() != string(alg) || err != nil || private {
				t.Errorf("typ %s, alg %s, private %v, %v", typ, name, private, err)
			}

			bare, err := d.Prove(desk.Proof{Method: "POST", URL: "http://x/y", At: noon})
			if err != nil {
				t.Fatal(err)
			}
			_, claims := claimsOf(t, bare)
			if id, _ := claims["jti"].(string); id == "" || claims["ath"] != nil || claims["nonce"] != nil {
				t.Errorf("a proof without token: %v", claims)
			}
		})
	}
}

func TestDeviceOnDisk(t *testing.T) {
	t.Parallel()
	for _, alg := range []desk.Algorithm{desk.EdDSA, desk.ES256} {
		d := newDevice(t, alg)
		if !strings.HasPrefix(d.ID(), "dev_") {
			t.Errorf("id %s", d.ID())
		}
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var again desk.Device
		if err := json.Unmarshal(b, &again); err != nil {
			t.Fatal(err)
		}
		if again.ID() != d.ID() || again.Thumbprint() != d.Thumbprint() {
			t.Errorf("%s: another device came back", alg)
		}
		proof, err := again.Prove(desk.Proof{Method: "GET", URL: "http://x/y", At: noon})
		if err != nil {
			t.Fatal(err)
		}
		claimsOf(t, proof)
	}
	if _, err := desk.NewDevice("RS256", noon); err == nil {
		t.Error("an RSA device was made")
	}
	public, err := newDevice(t, desk.EdDSA).PublicJWK()
	if err != nil {
		t.Fatal(err)
	}
	file := `{"id":"dev_01H8YN7QV4D8KZ4F8Y5CK4MV3D","algorithm":"EdDSA","key":` + string(public) + `}`
	if err := json.Unmarshal([]byte(file), new(desk.Device)); err == nil {
		t.Error("a device without its private key was read")
	}
}
