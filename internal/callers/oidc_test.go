package callers

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jwt"

	"melmastoon.ghasi.io/bff/internal/issuer"
)

// fakeIssuer publishes keys and signs tokens with them.
type fakeIssuer struct {
	t     *testing.T
	mu    sync.Mutex
	keys  map[string]jwk.Key
	shown jwk.Set
	asked atomic.Int32
	down  atomic.Bool
	*httptest.Server
}

func newIssuer(t *testing.T) *fakeIssuer {
	t.Helper()
	i := &fakeIssuer{t: t, keys: map[string]jwk.Key{}, shown: jwk.NewSet()}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.asked.Add(1)
		if i.down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		if err := json.NewEncoder(w).Encode(i.shown); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *fakeIssuer) add(id string, publish bool) {
	i.t.Helper()
	raw, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		i.t.Fatal(err)
	}
	key, err := jwk.Import(raw)
	if err != nil {
		i.t.Fatal(err)
	}
	if err := key.Set(jwk.KeyIDKey, id); err != nil {
		i.t.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		i.t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys[id] = key
	if publish {
		if err := i.shown.AddKey(public); err != nil {
			i.t.Fatal(err)
		}
	}
}

func (i *fakeIssuer) token(key string, now time.Time, change func(*jwt.Builder)) string {
	i.t.Helper()
	b := jwt.NewBuilder().Issuer("https://issuer").Audience([]string{"https://us"}).IssuedAt(now).Expiration(now.Add(time.Hour)).
		Claim("email", "booking@project").Claim("email_verified", true)
	if change != nil {
		change(b)
	}
	tok, err := b.Build()
	if err != nil {
		i.t.Fatal(err)
	}
	signed, err := jwt.Sign(tok, jwt.WithKey(jwa.RS256(), i.keys[key]))
	if err != nil {
		i.t.Fatal(err)
	}
	return string(signed)
}

func TestOIDC(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.add("k1", true)
	i.add("unpublished", false)
	now := time.Date(2026, 4, 23, 9, 0, 0, 0, time.UTC)
	o := &OIDC{
		Keys:   &issuer.Keys{URL: i.URL, Client: i.Client()},
		Issuer: "https://issuer", Audience: "https://us", Emails: []string{"booking@project"},
	}
	check := func(token string) error { return o.Check(context.Background(), token, now) }
	if err := check(i.token("k1", now, nil)); err != nil {
		t.Fatal(err)
	}
	symmetric, err := jwt.NewBuilder().Issuer("https://issuer").Audience([]string{"https://us"}).Expiration(now.Add(time.Hour)).
		Claim("email", "booking@project").Claim("email_verified", true).Build()
	if err != nil {
		t.Fatal(err)
	}
	confused, err := jwt.Sign(symmetric, jwt.WithKey(jwa.HS256(), []byte("the public key's bytes")))
	if err != nil {
		t.Fatal(err)
	}
	unsigned, err := jwt.Sign(symmetric, jwt.WithInsecureNoSignature())
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{
		"another issuer":      i.token("k1", now, func(b *jwt.Builder) { b.Issuer("https://else") }),
		"another audience":    i.token("k1", now, func(b *jwt.Builder) { b.Audience([]string{"https://else"}) }),
		"another account":     i.token("k1", now, func(b *jwt.Builder) { b.Claim("email", "else@project") }),
		"an unverified email": i.token("k1", now, func(b *jwt.Builder) { b.Claim("email_verified", false) }),
		"expired":             i.token("k1", now.Add(-2*time.Hour), nil),
		"of the future":       i.token("k1", now, func(b *jwt.Builder) { b.NotBefore(now.Add(time.Hour)) }),
		"an unknown key":      i.token("unpublished", now, nil),
		"a symmetric key":     string(confused),
		"no signature":        string(unsigned),
		"no token":            "x",
		"empty":               "",
	} {
		if check(token) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	// A scheduler's account starts jobs and calls nothing else, and who else calls starts none.
	services := Auth{OIDC: o}
	for email, want := range map[string]bool{"scheduler@project": true, "booking@project": false} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/internal/jobs/outbox-archival", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+i.token("k1", now, func(b *jwt.Builder) { b.Claim("email", email) }))
		if jobs, other := services.Only([]string{"scheduler@project"}).CheckBearer(r, now), services.CheckBearer(r, now); (jobs == nil) != want || (other == nil) == want {
			t.Errorf("%s: jobs %v, other calls %v", email, jobs, other)
		}
	}
	asked := i.asked.Load()
	for range 50 {
		_ = check(i.token("unpublished", now, nil)) // refused, as above
	}
	if n := i.asked.Load() - asked; n > 1 {
		t.Errorf("forged key ids made us ask the issuer %d times", n)
	}

	// A new key is learnt when it is met, and an issuer that is down costs nothing.
	i.add("k2", true)
	now = now.Add(time.Minute)
	if err := check(i.token("k2", now, nil)); err != nil {
		t.Errorf("a new key: %v", err)
	}
	i.down.Store(true)
	now = now.Add(time.Hour)
	if err := check(i.token("k1", now, nil)); err != nil {
		t.Errorf("while the issuer is down: %v", err)
	}
}
