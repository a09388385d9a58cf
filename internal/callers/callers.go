// Package callers authenticates the calls that services make to each other: a
// bearer token that says which service calls, and a signature over the exact
// bytes of the request. It knows no route.
package callers

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/web"
)

// Auth authenticates calls of other services: each brings a bearer token and
// signs its request with a key that both sides know.
type Auth struct {
	Token   string // the static token of local runs; empty = none
	OIDC    *OIDC  // the accounts of deployments; nil = none
	HMACKey []byte
}

// bearer reports whether the token is that of a known caller.
func (a Auth) bearer(ctx context.Context, token string, now time.Time) bool {
	// Of digests, so that not even the length of ours can be measured.
	given, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(a.Token))
	if a.Token != "" && subtle.ConstantTimeCompare(given[:], want[:]) == 1 {
		return true
	}
	if a.OIDC == nil || len(token) > maxBearer {
		return false
	}
	err := a.OIDC.Check(ctx, token, now)
	if err != nil {
		web.From(ctx).Note("caller", "refused")
	}
	return err == nil
}

// maxBearer is several times what an ID token has.
const maxBearer = 8 << 10

// signatureSkew is how far a signed request's time may be from ours.
const signatureSkew = time.Minute

// Check authenticates a request over its exact bytes. Both proofs are needed:
// the bearer says who, the signature that nothing was changed on the way.
func (a Auth) Check(r *http.Request, body []byte, now time.Time) error {
	refused := bff.Errorf(bff.CodeUnauthenticated, "the caller could not be authenticated")
	scheme, bearer, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || bearer == "" { // schemes have no case (RFC 9110 §11.1)
		return refused
	}
	t, mac, err := parseSignature(r.Header.Get("X-Internal-HMAC"))
	if err != nil || now.Sub(time.Unix(t, 0)).Abs() > signatureSkew || len(a.HMACKey) == 0 {
		return refused
	}
	digest := sha256.Sum256(body)
	want := hmac.New(sha256.New, a.HMACKey)
	_, _ = io.WriteString(want, r.Method+"\n"+r.URL.EscapedPath()+"\n"+strconv.FormatInt(t, 10)+"\n"+hex.EncodeToString(digest[:]))
	// The signature first: it is cheap, and without a valid one a stranger cannot
	// make this service ask the issuer for keys.
	if !hmac.Equal(mac, want.Sum(nil)) || !a.bearer(r.Context(), bearer, now) {
		return refused
	}
	return nil
}

// Only returns the same authentication for other accounts; the static token of local
// runs stays.
func (a Auth) Only(emails []string) Auth {
	if a.OIDC != nil {
		only := *a.OIDC
		only.Emails = emails
		a.OIDC = &only
	}
	return a
}

// CheckBearer authenticates a caller that can not sign its requests, by its bearer
// token alone. It is for calls whose repetition and change on the way do no harm.
func (a Auth) CheckBearer(r *http.Request, now time.Time) error {
	scheme, bearer, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || bearer == "" || !a.bearer(r.Context(), bearer, now) {
		return bff.Errorf(bff.CodeUnauthenticated, "the caller could not be authenticated")
	}
	return nil
}

var errSignature = errors.New("want t=<unix>,v1=<hex>")

// parseSignature reads "t=<unix>,v1=<hex>" and nothing else.
func parseSignature(s string) (int64, []byte, error) {
	ts, v1, ok := strings.Cut(s, ",")
	if !ok {
		return 0, nil, errSignature
	}
	ts, okT := strings.CutPrefix(ts, "t=")
	v1, okV := strings.CutPrefix(v1, "v1=")
	if !okT || !okV || len(v1) != 2*sha256.Size {
		return 0, nil, errSignature
	}
	t, err := strconv.ParseInt(ts, 10, 64)
	if err != nil {
		return 0, nil, errSignature
	}
	mac, err := hex.DecodeString(v1)
	if err != nil {
		return 0, nil, errSignature
	}
	return t, mac, nil
}
