package callers

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jwt"
)

// issuer publishes keys and signs tokens with them.
type issuer struct {
	t     *testing.T
	mu    sync.Mutex
	keys  map[string]jwk.Key
	shown jwk.Set
	asked atomic.Int32
	down  atomic.Bool
	*httptest.Server
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{t: t, keys: map[string]jwk.Key{}, shown: jwk.NewSet()}
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

func (i *issuer) add(id string, publish bool) {
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

func (i *issuer) token(key string, now time.Time, change func(*jwt.Builder)) string {
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
	o := &OIDC{JWKSURL: i.URL, Issuer: "https://issuer", Audience: "https://us", Emails: []string{"booking@project"}, Client: i.Client()}
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

// stuckIssuer does not answer until it is released.
type stuckIssuer struct {
	asked   atomic.Int32
	release chan struct{}
}

func (s *stuckIssuer) RoundTrip(*http.Request) (*http.Response, error) {
	s.asked.Add(1)
	<-s.release
	return nil, errors.New("the issuer is down")
}

// TestIssuerDown: callers that come while the issuer does not answer wait for one
// fetch, none longer than its own budget, and the next fetch comes after a pause.
func TestIssuerDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		issuer := &stuckIssuer{release: make(chan struct{})}
		o := &OIDC{JWKSURL: "http://issuer", Client: &http.Client{Transport: issuer}}
		now := time.Now()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if err := o.Check(t.Context(), "token", now); !errors.Is(err, errNoKeys) {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := o.Check(short, "token", now); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("beyond its budget: %v", err)
		}
		close(issuer.release)
		wg.Wait()
		if err := o.Check(t.Context(), "token", now.Add(keysPause/2)); !errors.Is(err, errNoKeys) || issuer.asked.Load() != 1 {
			t.Errorf("%v after %d fetches, want 1", err, issuer.asked.Load())
		}
		if err := o.Check(t.Context(), "token", now.Add(keysPause)); !errors.Is(err, errNoKeys) || issuer.asked.Load() != 2 {
			t.Errorf("after the pause: %v after %d fetches, want 2", err, issuer.asked.Load())
		}
	})
}
