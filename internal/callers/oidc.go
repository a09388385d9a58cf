package callers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jws"
	"github.com/lestrrat-go/jwx/v3/jwt"
)

// OIDC knows service accounts by their ID tokens.
type OIDC struct {
	JWKSURL  string // where the issuer publishes its keys
	Issuer   string
	Audience string
	Emails   []string // of the accounts that may call
	Client   *http.Client

	mu       sync.Mutex
	keys     jwk.Set
	fetched  time.Time     // when the keys were asked for last, with whatever outcome
	fetching chan struct{} // closed when the fetch that runs has ended; nil: none runs
}

const (
	keysFresh   = 10 * time.Minute // how long fetched keys are used without asking
	keysPause   = 5 * time.Second  // between two fetches: a forged key id must not cause a flood
	keysTimeout = 2 * time.Second
	maxKeys     = 256 << 10
	clockSkew   = 30 * time.Second
)

var errStranger = errors.New("the account may not call")

// Check refuses a token unless the issuer signed it for us, for one of the
// accounts, and it is valid now.
func (o *OIDC) Check(ctx context.Context, token string, now time.Time) error {
	keys, err := o.current(ctx, now, keysFresh)
	if err != nil {
		return err
	}
	tok, err := o.parse(token, keys, now)
	if err != nil { // perhaps signed with a key that is newer than our copy
		again, fetchErr := o.current(ctx, now, keysPause)
		if fetchErr != nil || again == keys {
			return err
		}
		if tok, err = o.parse(token, again, now); err != nil {
			return err
		}
	}
	var (
		email    string
		verified bool
	)
	if tok.Get("email", &email) != nil || tok.Get("email_verified", &verified) != nil || !verified || !slices.Contains(o.Emails, email) {
		return errStranger
	}
	return nil
}

func (o *OIDC) parse(token string, keys jwk.Set, now time.Time) (jwt.Token, error) {
	tok, err := jwt.Parse([]byte(token),
		// The algorithm follows from the issuer's key, never from the token.
		jwt.WithKeySet(keys, jws.WithInferAlgorithmFromKey(true)),
		jwt.WithIssuer(o.Issuer), jwt.WithAudience(o.Audience), jwt.WithRequiredClaim("exp"),
		jwt.WithClock(jwt.ClockFunc(func() time.Time { return now })), jwt.WithAcceptableSkew(clockSkew))
	if err != nil {
		return nil, fmt.Errorf("verify id token: %w", err)
	}
	return tok, nil
}

var errNoKeys = errors.New("the issuer's keys are not known")

// current returns the issuer's keys, asking again when the copy is older than the
// given age. One fetch serves all callers that wait, and the next one comes after a
// pause, whatever the outcome. When the issuer does not answer, the old keys go on.
func (o *OIDC) current(ctx context.Context, now time.Time, age time.Duration) (jwk.Set, error) {
	o.mu.Lock()
	keys, since := o.keys, now.Sub(o.fetched)
	fetching := o.fetching
	switch {
	case keys != nil && since < age:
		o.mu.Unlock()
		return keys, nil
	case fetching == nil && since < keysPause:
		o.mu.Unlock()
		return keys, errIfNone(keys)
	case fetching == nil:
		fetching = make(chan struct{})
		o.fetching, o.fetched = fetching, now
		go o.refresh(context.WithoutCancel(ctx), fetching)
	}
	o.mu.Unlock()
	select {
	case <-fetching:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.keys, errIfNone(o.keys)
}

func errIfNone(keys jwk.Set) error {
	if keys == nil {
		return errNoKeys
	}
	return nil
}

func (o *OIDC) refresh(ctx context.Context, done chan struct{}) {
	keys, err := o.fetch(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		o.keys = keys
	}
	o.fetching = nil
	close(done)
}

func (o *OIDC) fetch(ctx context.Context) (jwk.Set, error) {
	ctx, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, o.JWKSURL, nil)
	if err != nil {
		return nil, fmt.Errorf("fetch issuer's keys: %w", err)
	}
	res, err := o.Client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetch issuer's keys: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxKeys))
	if err != nil || res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch issuer's keys: status %d: %w", res.StatusCode, err)
	}
	keys, err := jwk.Parse(body)
	if err != nil {
		return nil, fmt.Errorf("fetch issuer's keys: %w", err)
	}
	return keys, nil
}
