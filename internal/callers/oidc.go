package callers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lestrrat-go/jwx/v3/jws"
	"github.com/lestrrat-go/jwx/v3/jwt"

	"melmastoon.ghasi.io/bff/internal/issuer"
)

// OIDC knows service accounts by their ID tokens.
type OIDC struct {
	Keys     *issuer.Keys
	Issuer   string
	Audience string
	Emails   []string // of the accounts that may call
}

const clockSkew = 30 * time.Second

var errStranger = errors.New("the account may not call")

// Check refuses a token unless the issuer signed it for us, for one of the
// accounts, and it is valid now.
func (o *OIDC) Check(ctx context.Context, token string, now time.Time) error {
	keys, err := o.Keys.Current(ctx, now)
	if err != nil {
		return err
	}
	tok, err := o.parse(token, keys, now)
	if err != nil { // perhaps signed with a key that is newer than our copy
		again, fetchErr := o.Keys.Newer(ctx, now)
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

func (o *OIDC) parse(token string, keys *issuer.KeySet, now time.Time) (jwt.Token, error) {
	tok, err := jwt.Parse([]byte(token),
		// The algorithm follows from the issuer's key, never from the token.
		jwt.WithKeySet(keys.Set, jws.WithInferAlgorithmFromKey(true)),
		jwt.WithIssuer(o.Issuer), jwt.WithAudience(o.Audience), jwt.WithRequiredClaim("exp"),
		jwt.WithClock(jwt.ClockFunc(func() time.Time { return now })), jwt.WithAcceptableSkew(clockSkew))
	if err != nil {
		return nil, fmt.Errorf("verify id token: %w", err)
	}
	return tok, nil
}
