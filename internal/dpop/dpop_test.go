package dpop_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jws"

	"melmastoon.ghasi.io/bff/internal/dpop"
)

var noon = time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)

type object = map[string]any

// device has a key.
type device struct {
	alg jwa.SignatureAlgorithm
	key jwk.Key
	jkt string
}

func newDevice(tb testing.TB, alg jwa.SignatureAlgorithm, raw any) device {
	tb.Helper()
	key, err := jwk.Import(raw)
	if err != nil {
		tb.Fatal(err)
	}
	sum, err := key.Thumbprint(crypto.SHA256)
	if err != nil {
		tb.Fatal(err)
	}
	return device{alg, key, base64.RawURLEncoding.EncodeToString(sum)}
}

func edDevice(tb testing.TB) device {
	tb.Helper()
	_, raw, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return newDevice(tb, jwa.EdDSA(), raw)
}

func ecDevice(tb testing.TB, curve elliptic.Curve, alg jwa.SignatureAlgorithm) device {
	tb.Helper()
	raw, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return newDevice(tb, alg, raw)
}

// prove signs a good proof after a change of header and claims.
func (d device) prove(tb testing.TB, change func(header, claims object)) string {
	tb.Helper()
	public, err := d.key.PublicKey()
	if err != nil {
		tb.Fatal(err)
	}
	header := object{"typ": "dpop+jwt", "jwk": members(tb, public)}
	body := object{"jti": rand.Text(), "htm": "POST", "htu": "https://staff.example/a/b", "iat": noon.Unix(), "ath": "hash"}
	if change != nil {
		change(header, body)
	}
	return d.sign(tb, header, body)
}

// sign writes the JWS by hand, so that nothing corrects a broken header.
func (d device) sign(tb testing.TB, header, body object) string {
	tb.Helper()
	if header["alg"] == nil {
		header["alg"] = d.alg.String()
	}
	signer, err := jws.SignerFor(d.alg)
	if err != nil {
		tb.Fatal(err)
	}
	var raw any
	if err := jwk.Export(d.key, &raw); err != nil {
		tb.Fatal(err)
	}
	head, payload := encode(tb, header), encode(tb, body)
	signature, err := signer.Sign(raw, []byte(head+"."+payload))
	if err != nil {
		tb.Fatal(err)
	}
	return head + "." + payload + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func encode(tb testing.TB, v any) string {
	tb.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func members(tb testing.TB, key jwk.Key) object {
	tb.Helper()
	b, err := json.Marshal(key)
	if err != nil {
		tb.Fatal(err)
	}
	var m object
	if err := json.Unmarshal(b, &m); err != nil {
		tb.Fatal(err)
	}
	return m
}

func newVerifier(tb testing.TB) (*dpop.Verifier, *dpop.Nonces) {
	tb.Helper()
	nonces, err := dpop.NewNonces([]byte("a key of sixteen bytes"))
	if err != nil {
		tb.Fatal(err)
	}
	v, err := dpop.New([]string{"https://staff.example", "http://127.0.0.1:8083/"}, nonces)
	if err != nil {
		tb.Fatal(err)
	}
	return v, nonces
}

// Every check of RFC 9449 §4.3, broken by itself.
func TestVerify(t *testing.T) {
	t.Parallel()
	ed, p256, p384 := edDevice(t), ecDevice(t, elliptic.P256(), jwa.ES256()), ecDevice(t, elliptic.P384(), jwa.ES384())
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	rs := newDevice(t, jwa.RS256(), rsaKey)
	good := ed.prove(t, nil)
	parts := strings.Split(good, ".")
	claim := func(name string, value any) string {
		return ed.prove(t, func(_, claims object) { claims[name] = value })
	}
	without := func(name string) string {
		return ed.prove(t, func(_, claims object) { delete(claims, name) })
	}
	header := func(name string, value any) string {
		return ed.prove(t, func(header, _ object) { header[name] = value })
	}
	keyWith := func(d device, name string, value any) string {
		return d.prove(t, func(header, _ object) {
			key, _ := header["jwk"].(object)
			key[name] = value
		})
	}
	const ok = dpop.Reason("")
	for name, test := range map[string]struct {
		proof string
		by    device
		want  dpop.Reason
	}{
		"EdDSA":            {good, ed, ok},
		"ES256":            {p256.prove(t, nil), p256, ok},
		"the other URL":    {claim("htu", "http://127.0.0.1:8083/a/b"), ed, ok},
		"query, fragment":  {claim("htu", "https://staff.example/a/b?x=1#y"), ed, ok},
		"letters and port": {claim("htu", "HTTPS://Staff.Example:443/a/b"), ed, ok},
		"a little early":   {claim("iat", noon.Add(-dpop.Skew).Unix()), ed, ok},
		"a little late":    {claim("iat", noon.Add(dpop.Skew).Unix()), ed, ok},
		"a fraction":       {claim("iat", float64(noon.Unix())+0.25), ed, ok},

		"no proof":              {"", ed, dpop.ReasonMissing},
		"too long":              {strings.Repeat("x", dpop.MaxProof+1), ed, dpop.ReasonMalformed},
		"two parts":             {parts[0] + "." + parts[1], ed, dpop.ReasonMalformed},
		"four parts":            {good + ".x", ed, dpop.ReasonMalformed},
		"no signature":          {parts[0] + "." + parts[1] + ".", ed, dpop.ReasonMalformed},
		"header no base64":      {"!." + parts[1] + "." + parts[2], ed, dpop.ReasonMalformed},
		"header no JSON":        {"eA." + parts[1] + "." + parts[2], ed, dpop.ReasonMalformed},
		"payload no base64":     {parts[0] + ".!." + parts[2], ed, dpop.ReasonMalformed},
		"payload no JSON":       {parts[0] + ".eA." + parts[2], ed, dpop.ReasonMalformed},
		"something critical":    {header("crit", []string{"exp"}), ed, dpop.ReasonMalformed},
		"no jti":                {without("jti"), ed, dpop.ReasonMalformed},
		"a long jti":            {claim("jti", strings.Repeat("j", 129)), ed, dpop.ReasonMalformed},
		"no htm":                {without("htm"), ed, dpop.ReasonMalformed},
		"no htu":                {without("htu"), ed, dpop.ReasonMalformed},
		"no iat":                {without("iat"), ed, dpop.ReasonMalformed},
		"iat beyond reason":     {claim("iat", 1e18), ed, dpop.ReasonMalformed},
		"a token's type":        {header("typ", "JWT"), ed, dpop.ReasonType},
		"no algorithm":          {header("alg", "none"), ed, dpop.ReasonAlgorithm},
		"a symmetric algorithm": {header("alg", "HS256"), ed, dpop.ReasonAlgorithm},
		"RS256":                 {rs.prove(t, nil), rs, dpop.ReasonAlgorithm},
		"ES384":                 {p384.prove(t, nil), p384, dpop.ReasonAlgorithm},
		"no key":                {ed.prove(t, func(header, _ object) { delete(header, "jwk") }), ed, dpop.ReasonKey},
		"a key of another kind": {header("alg", "ES256"), ed, dpop.ReasonKey},
		"a wrong curve":         {p384.prove(t, func(header, _ object) { header["alg"] = "ES256" }), p384, dpop.ReasonKey},
		"a point off the curve": {keyWith(p256, "x", base64.RawURLEncoding.EncodeToString(make([]byte, 32))), p256, dpop.ReasonKey},
		"a private key":         {ed.prove(t, func(header, _ object) { header["jwk"] = members(t, ed.key) }), ed, dpop.ReasonPrivateKey},
		"a private EC key":      {p256.prove(t, func(header, _ object) { header["jwk"] = members(t, p256.key) }), p256, dpop.ReasonPrivateKey},
		"a shared key":          {header("jwk", object{"kty": "oct", "k": "c2VjcmV0"}), ed, dpop.ReasonPrivateKey},
		"another method":        {claim("htm", "GET"), ed, dpop.ReasonMethod},
		"method in small":       {claim("htm", "post"), ed, dpop.ReasonMethod},
		"another host":          {claim("htu", "https://evil.example/a/b"), ed, dpop.ReasonURL},
		"another scheme":        {claim("htu", "http://staff.example/a/b"), ed, dpop.ReasonURL},
		"another port":          {claim("htu", "https://staff.example:8443/a/b"), ed, dpop.ReasonURL},
		"another path":          {claim("htu", "https://staff.example/a/c"), ed, dpop.ReasonURL},
		"a longer path":         {claim("htu", "https://staff.example/a/b/"), ed, dpop.ReasonURL},
		"no URL":                {claim("htu", "/a/b"), ed, dpop.ReasonURL},
		"a user in the URL":     {claim("htu", "https://x@staff.example/a/b"), ed, dpop.ReasonURL},
		"no token hash":         {without("ath"), ed, dpop.ReasonTokenHash},
		"another token":         {claim("ath", "other"), ed, dpop.ReasonTokenHash},
		"another key":           {p256.prove(t, nil), ed, dpop.ReasonBinding},
		"a foreign nonce":       {claim("nonce", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"), ed, dpop.ReasonNonce},
		"a nonce of nonsense":   {claim("nonce", "x"), ed, dpop.ReasonNonce},
		"too early":             {claim("iat", noon.Add(-dpop.Skew-time.Second).Unix()), ed, dpop.ReasonClockSkew},
		"too late":              {claim("iat", noon.Add(dpop.Skew+time.Second).Unix()), ed, dpop.ReasonClockSkew},
		"another's signature":   {parts[0] + "." + parts[1] + "." + strings.Split(edDevice(t).prove(t, nil), ".")[2], ed, dpop.ReasonSignature},
		"a changed claim":       {parts[0] + "." + strings.Split(ed.prove(t, nil), ".")[1] + "." + parts[2], ed, dpop.ReasonSignature},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, _ := newVerifier(t)
			for range 2 { // the key is known the second time
				got, err := v.Verify(test.proof, dpop.Request{Method: "POST", Path: "/a/b", TokenHash: "hash", KeyPrint: test.by.jkt}, noon)
				refused, _ := errors.AsType[*dpop.Error](err)
				switch {
				case test.want == ok && (err != nil || got.KeyPrint != test.by.jkt || got.ID == "" || !got.Until.After(noon)):
					t.Errorf("%+v, %v", got, err)
				case test.want != ok && (refused == nil || refused.Reason != test.want):
					t.Errorf("%v, want %s", err, test.want)
				}
			}
		})
	}
}

// Without a token, as at a refresh, a proof has any key, and a hash of the old token is
// passed over: libraries add one to every proof.
func TestVerifyWithoutToken(t *testing.T) {
	t.Parallel()
	v, _ := newVerifier(t)
	d := edDevice(t)
	got, err := v.Verify(d.prove(t, func(_, c object) { delete(c, "ath") }), dpop.Request{Method: "POST", Path: "/a/b"}, noon)
	if err != nil || got.KeyPrint != d.jkt {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := v.Verify(d.prove(t, nil), dpop.Request{Method: "POST", Path: "/a/b"}, noon); err != nil {
		t.Errorf("with the hash of an old token: %v", err)
	}
}

// A computer with a wrong clock recovers with the server's nonce.
func TestClockSkewRecovery(t *testing.T) {
	t.Parallel()
	v, _ := newVerifier(t)
	d := edDevice(t)
	want := dpop.Request{Method: "POST", Path: "/a/b", TokenHash: "hash", KeyPrint: d.jkt}
	years := noon.AddDate(-10, 0, 0)
	_, err := v.Verify(d.prove(t, func(_, c object) { c["iat"] = years.Unix() }), want, noon)
	refused, ok := errors.AsType[*dpop.Error](err)
	if !ok || refused.Reason != dpop.ReasonClockSkew || !refused.WantsNonce() || refused.Ahead != years.Sub(noon) {
		t.Fatalf("%v", err)
	}
	nonce := v.Nonce(noon)
	if nonce != v.Nonce(noon.Add(time.Second-1)) {
		t.Error("two nonces in one slot")
	}
	proof := d.prove(t, func(_, c object) { c["iat"], c["nonce"] = years.Unix(), nonce })
	var until time.Time
	for _, test := range []struct {
		after time.Duration
		want  bool
	}{{-time.Minute, true}, {0, true}, {4 * time.Minute, true}, {5 * time.Minute, false}, {time.Hour, false}} {
		got, err := v.Verify(proof, want, noon.Add(test.after))
		if (err == nil) != test.want {
			t.Errorf("after %v: %v", test.after, err)
		}
		if err == nil {
			until = got.Until
		}
	}
	// Its id is remembered for as long as it could be used.
	for at := noon; at.Before(noon.Add(10 * time.Minute)); at = at.Add(time.Second) {
		if _, err := v.Verify(proof, want, at); err == nil && !at.Before(until) {
			t.Fatalf("accepted at %v, remembered until %v", at, until)
		}
	}
}

// A proof is remembered for the whole window in which it is acceptable, also one
// that is ahead of our clock.
func TestAcceptanceWindow(t *testing.T) {
	t.Parallel()
	v, _ := newVerifier(t)
	d := edDevice(t)
	want := dpop.Request{Method: "POST", Path: "/a/b", TokenHash: "hash", KeyPrint: d.jkt}
	proof := d.prove(t, func(_, c object) { c["iat"] = noon.Add(dpop.Skew).Unix() })
	got, err := v.Verify(proof, want, noon)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(proof, want, noon.Add(2*dpop.Skew)); err != nil {
		t.Errorf("at the end of the window: %v", err)
	}
	if _, err := v.Verify(proof, want, got.Until); err == nil {
		t.Error("accepted when its id is forgotten")
	}
}

// A proof without a token is remembered for a minute at most, and not accepted after that:
// any stranger makes as many of them as it likes.
func TestProofsWithoutATokenAreShort(t *testing.T) {
	t.Parallel()
	v, _ := newVerifier(t)
	d := edDevice(t)
	want := dpop.Request{Method: "POST", Path: "/a/b"}
	accepted := map[string]bool{}
	for ahead := -2 * time.Minute; ahead <= 2*time.Minute; ahead += time.Second {
		for name, proof := range map[string]string{
			"clock": d.prove(t, func(_, c object) { delete(c, "ath"); c["iat"] = noon.Add(ahead).Unix() }),
			"nonce": d.prove(t, func(_, c object) {
				delete(c, "ath")
				c["iat"], c["nonce"] = noon.AddDate(-10, 0, 0).Unix(), v.Nonce(noon.Add(ahead))
			}),
		} {
			got, err := v.Verify(proof, want, noon)
			if err != nil {
				continue
			}
			accepted[name+" "+ahead.String()] = true
			if got.Until.Sub(noon) > time.Minute {
				t.Errorf("%s, %v ahead: remembered for %v", name, ahead, got.Until.Sub(noon))
			}
			for at := got.Until; at.Before(noon.Add(10 * time.Minute)); at = at.Add(5 * time.Second) {
				if _, err := v.Verify(proof, want, at); err == nil {
					t.Fatalf("%s, %v ahead: accepted %v after it was forgotten", name, ahead, at.Sub(got.Until))
				}
			}
		}
	}
	for _, must := range []string{"clock 0s", "clock 20s", "clock -20s", "nonce 0s", "nonce -30s"} {
		if !accepted[must] {
			t.Errorf("refused: %s", must)
		}
	}
}

// Nonces survive the rotation of their key, and only of that.
func TestNonceRotation(t *testing.T) {
	t.Parallel()
	first, second := []byte("the first key, long"), []byte("the second key, long")
	nonces := func(keys ...[]byte) *dpop.Nonces {
		n, err := dpop.NewNonces(keys...)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	d := edDevice(t)
	proof := d.prove(t, func(_, c object) { c["nonce"] = nonces(first).Mint(noon) })
	for _, test := range []struct {
		accepts *dpop.Nonces
		want    bool
	}{{nonces(first), true}, {nonces(second, first), true}, {nonces(second), false}} {
		v, err := dpop.New([]string{"https://staff.example"}, test.accepts)
		if err != nil {
			t.Fatal(err)
		}
		_, err = v.Verify(proof, dpop.Request{Method: "POST", Path: "/a/b", TokenHash: "hash"}, noon)
		if (err == nil) != test.want {
			t.Errorf("%v, want %v", err, test.want)
		}
	}
}

func TestNewReportsEverything(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]func() error{
		"no URL and no nonces": func() error { _, err := dpop.New(nil, nil); return err },
		"a URL with a path":    func() error { _, err := dpop.New([]string{"https://x/bff"}, &dpop.Nonces{}); return err },
		"no scheme":            func() error { _, err := dpop.New([]string{"staff.example"}, &dpop.Nonces{}); return err },
		"no nonce key":         func() error { _, err := dpop.NewNonces(); return err },
		"a short nonce key":    func() error { _, err := dpop.NewNonces([]byte("short")); return err },
	} {
		if build() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// FuzzVerify: whatever is sent, a proof that was not signed is refused.
func FuzzVerify(f *testing.F) {
	v, _ := newVerifier(f)
	f.Add("a.b.c")
	f.Add(edDevice(f).prove(f, func(h, _ object) { h["typ"] = "JWT" }))
	f.Fuzz(func(t *testing.T, proof string) {
		if _, err := v.Verify(proof, dpop.Request{Method: "POST", Path: "/a/b", TokenHash: "hash", KeyPrint: "nobody's"}, noon); err == nil {
			t.Error("accepted")
		}
	})
}
