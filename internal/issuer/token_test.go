package issuer

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jws"
)

// fake publishes keys and signs with them.
type fake struct {
	mu    sync.Mutex
	keys  map[string]jwk.Key
	shown jwk.Set
	asked atomic.Int32
	down  atomic.Bool
}

func newIssuer(t *testing.T) *fake {
	t.Helper()
	return &fake{keys: map[string]jwk.Key{}, shown: jwk.NewSet()}
}

// RoundTrip answers with the published keys.
func (f *fake) RoundTrip(*http.Request) (*http.Response, error) {
	f.asked.Add(1)
	if f.down.Load() {
		return nil, errors.New("the issuer is down")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	b, err := json.Marshal(f.shown)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(b))}, err
}

// add makes a key of the kind that its name begins with, Ed25519 unless said.
func (f *fake) add(t *testing.T, id string, publish bool) {
	t.Helper()
	var raw any
	var err error
	switch {
	case strings.HasPrefix(id, "p256"):
		raw, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case strings.HasPrefix(id, "p384"):
		raw, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case strings.HasPrefix(id, "rsa"):
		raw, err = rsa.GenerateKey(rand.Reader, 2048)
	default:
		_, raw, err = ed25519.GenerateKey(rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	key, err := jwk.Import(raw)
	if err != nil {
		t.Fatal(err)
	}
	if err := key.Set(jwk.KeyIDKey, id); err != nil {
		t.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys[id] = key
	if publish {
		if err := f.shown.AddKey(public); err != nil {
			t.Fatal(err)
		}
	}
}

// withdraw takes a key from what is published.
func (f *fake) withdraw(t *testing.T, id string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	key, ok := f.shown.LookupKeyID(id)
	if !ok {
		t.Fatalf("no key %s", id)
	}
	if err := f.shown.RemoveKey(key); err != nil {
		t.Fatal(err)
	}
}

type claims = map[string]any

func goodClaims(now time.Time) claims {
	return claims{
		"iss": "https://iam", "aud": []string{"staff"}, "sub": "opt_1", "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
		"tid": "tnt_1", "cnf": claims{"jkt": "print"},
	}
}

func (f *fake) sign(t *testing.T, key string, alg jwa.SignatureAlgorithm, header, body claims) string {
	t.Helper()
	h := jws.NewHeaders()
	for name, value := range header {
		if err := h.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	payload, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := jws.Sign(payload, jws.WithKey(alg, f.keys[key], jws.WithProtectedHeaders(h)))
	if err != nil {
		t.Fatal(err)
	}
	return string(signed)
}

func TestTokens(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	for _, id := range []string{"ed", "p256", "p384", "rsa"} {
		i.add(t, id, true)
	}
	i.add(t, "unpublished", false)
	now := time.Date(2026, 11, 17, 9, 0, 0, 0, time.UTC)
	tokens, err := NewTokens(&Keys{URL: "http://iam", Client: &http.Client{Transport: i}}, "https://iam", "staff")
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(claims)) claims {
		c := goodClaims(now)
		change(c)
		return c
	}
	ed := func(c claims) string { return i.sign(t, "ed", jwa.EdDSA(), nil, c) }
	good := ed(goodClaims(now))
	body := strings.Split(good, ".")[1]
	plain := func(header string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + body + "." + strings.Split(good, ".")[2]
	}
	hmacKey, err := jwk.Import([]byte("the public key's bytes, as an attacker would use them"))
	if err != nil {
		t.Fatal(err)
	}
	if err := hmacKey.Set(jwk.KeyIDKey, "ed"); err != nil {
		t.Fatal(err)
	}
	i.keys["hmac"] = hmacKey
	for name, test := range map[string]struct {
		token string
		want  error
	}{
		"EdDSA":                   {good, nil},
		"ES256":                   {i.sign(t, "p256", jwa.ES256(), nil, goodClaims(now)), nil},
		"one audience":            {ed(with(func(c claims) { c["aud"] = "staff" })), nil},
		"an access token's type":  {i.sign(t, "ed", jwa.EdDSA(), claims{"typ": "at+jwt"}, goodClaims(now)), nil},
		"a proof's type":          {i.sign(t, "ed", jwa.EdDSA(), claims{"typ": "dpop+jwt"}, goodClaims(now)), ErrToken},
		"RS256":                   {i.sign(t, "rsa", jwa.RS256(), nil, goodClaims(now)), ErrToken},
		"ES384":                   {i.sign(t, "p384", jwa.ES384(), nil, goodClaims(now)), ErrToken},
		"a symmetric key":         {i.sign(t, "hmac", jwa.HS256(), nil, goodClaims(now)), ErrToken},
		"no signature":            {plain(`{"alg":"none","kid":"ed"}`), ErrToken},
		"another algorithm":       {plain(`{"alg":"ES256","kid":"ed"}`), ErrToken},
		"another key":             {plain(`{"alg":"EdDSA","kid":"p256"}`), ErrToken},
		"no key id":               {plain(`{"alg":"EdDSA"}`), ErrToken},
		"something critical":      {plain(`{"alg":"EdDSA","kid":"ed","crit":["x"]}`), ErrToken},
		"an unknown key":          {i.sign(t, "unpublished", jwa.EdDSA(), nil, goodClaims(now)), ErrUnknownKey},
		"another payload":         {strings.Replace(good, body, base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"x"}`)), 1), ErrToken},
		"another issuer":          {ed(with(func(c claims) { c["iss"] = "https://else" })), ErrToken},
		"another audience":        {ed(with(func(c claims) { c["aud"] = "consumers" })), ErrAudience},
		"no audience":             {ed(with(func(c claims) { delete(c, "aud") })), ErrAudience},
		"no subject":              {ed(with(func(c claims) { delete(c, "sub") })), ErrToken},
		"no expiry":               {ed(with(func(c claims) { delete(c, "exp") })), ErrToken},
		"no issue":                {ed(with(func(c claims) { delete(c, "iat") })), ErrToken},
		"of the future":           {ed(with(func(c claims) { c["iat"] = now.Add(time.Hour).Unix() })), ErrToken},
		"not before year 10000":   {ed(with(func(c claims) { c["nbf"] = 253_402_300_800 })), ErrToken},
		"never before":            {ed(with(func(c claims) { c["nbf"] = 1e300 })), ErrToken},
		"not yet":                 {ed(with(func(c claims) { c["nbf"] = now.Add(time.Hour).Unix() })), ErrToken},
		"expired":                 {ed(with(func(c claims) { c["exp"] = now.Unix() })), ErrExpired},
		"an expiry beyond reason": {ed(with(func(c claims) { c["exp"] = 1e300 })), ErrExpired},
		"too long":                {strings.Repeat("x", MaxToken+1), ErrToken},
		"nonsense":                {"x", ErrToken},
		"empty":                   {"", ErrToken},
	} {
		for range 2 { // a token that was seen before is treated alike
			got, err := tokens.Verify(t.Context(), test.token, now)
			if !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
				t.Errorf("%s: %v, want %v", name, err, test.want)
			}
			if err == nil && (got.Subject != "opt_1" || got.Claim("tid") != "tnt_1" || got.KeyPrint != "print" || !got.Issued.Equal(now)) {
				t.Errorf("%s: %+v", name, got)
			}
		}
	}

	if _, err := tokens.Verify(t.Context(), good, now.Add(time.Minute)); !errors.Is(err, ErrExpired) {
		t.Errorf("a known token at its end: %v", err)
	}
	asked := i.asked.Load()
	for range 50 {
		_, _ = tokens.Verify(t.Context(), i.sign(t, "unpublished", jwa.EdDSA(), nil, goodClaims(now)), now) // refused, as above
	}
	if n := i.asked.Load() - asked; n > 1 {
		t.Errorf("forged key ids made us ask the issuer %d times", n)
	}
}

// A stranger's made-up key id holds nothing up while the issuer is slow, and causes one
// fetch, however many there are; a token of the issuer itself is waited for.
func TestMadeUpKeysAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer(t)
		i.add(t, "k1", true)
		i.add(t, "unpublished", false)
		keys := &Keys{URL: "http://issuer", Client: &http.Client{Transport: i}}
		tokens, err := NewTokens(keys, "https://iam", "staff")
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		good := i.sign(t, "k1", jwa.EdDSA(), nil, goodClaims(now))
		if _, err := tokens.Verify(t.Context(), good, now); err != nil {
			t.Fatal(err)
		}
		slow := &stuck{release: make(chan struct{})}
		keys.Client = &http.Client{Transport: slow}
		now = now.Add(keysPause)
		began := time.Now() // the bubble's: it moves only while all wait
		for range 100 {
			if _, err := tokens.Verify(t.Context(), i.sign(t, "unpublished", jwa.EdDSA(), nil, goodClaims(now)), now); !errors.Is(err, ErrUnknownKey) {
				t.Errorf("got %v", err)
			}
		}
		if _, err := tokens.Verify(t.Context(), good, now); err != nil {
			t.Errorf("a good token meanwhile: %v", err)
		}
		synctest.Wait()
		if n := slow.asked.Load(); n != 1 || !time.Now().Equal(began) {
			t.Errorf("%d fetches, want 1, and %v of waiting, want none", n, time.Since(began))
		}
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := tokens.Await(short, i.sign(t, "unpublished", jwa.EdDSA(), nil, goodClaims(now)), now); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a token from the issuer was not waited for: %v", err)
		}
		close(slow.release)
	})
}

// A new key is learnt when it is met; a withdrawn one is trusted no longer than the
// copy of the keys lives, also for tokens that were verified before; an issuer that
// is down costs nothing.
func TestKeysRotate(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.add(t, "old", true)
	now := time.Date(2026, 11, 17, 9, 0, 0, 0, time.UTC)
	tokens, err := NewTokens(&Keys{URL: "http://iam", Client: &http.Client{Transport: i}}, "https://iam", "staff")
	if err != nil {
		t.Fatal(err)
	}
	long := goodClaims(now)
	long["exp"] = now.Add(24 * time.Hour).Unix()
	old := i.sign(t, "old", jwa.EdDSA(), nil, long)
	verify := func(token string) error {
		_, err := tokens.Verify(t.Context(), token, now)
		return err
	}
	if err := verify(old); err != nil {
		t.Fatal(err)
	}
	i.add(t, "new", true)
	now = now.Add(keysPause)
	renewed := i.sign(t, "new", jwa.EdDSA(), nil, long)
	if err := verify(renewed); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("a new key that was not fetched yet: %v", err)
	}
	if _, err := tokens.Await(t.Context(), renewed, now); err != nil { // waits for what that has begun
		t.Errorf("a token that the issuer has just given: %v", err)
	}
	if err := verify(renewed); err != nil {
		t.Errorf("a new key: %v", err)
	}
	i.down.Store(true)
	now = now.Add(time.Hour)
	if err := verify(old); err != nil {
		t.Errorf("while the issuer is down: %v", err)
	}
	i.down.Store(false)
	i.withdraw(t, "old")
	now = now.Add(2 * keysFresh)
	_ = verify(old)                                                // finds the issuer back, after its response
	if _, err := tokens.keys.Newer(t.Context(), now); err != nil { // waits for that
		t.Fatal(err)
	}
	if err := verify(old); !errors.Is(err, ErrToken) {
		t.Errorf("a withdrawn key: %v", err)
	}
}
