package issuer

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jws"

	"melmastoon.ghasi.io/bff/internal/memo"
)

// MaxToken is the longest access token that is looked at.
const MaxToken = 8 << 10

// Refusals of a token. What is wrong with one that is not genuine is not told
// apart: its sender has no business with the difference.
var (
	ErrToken    = errors.New("the token is not genuine")
	ErrExpired  = errors.New("the token has expired")
	ErrAudience = errors.New("the token is for another audience")
	// ErrUnknownKey is an ErrToken whose key is not among those that the issuer had
	// published when they were fetched last. They are being fetched again.
	ErrUnknownKey = fmt.Errorf("%w: unknown key", ErrToken)
)

// Token is a verified access token.
type Token struct {
	Subject  string
	Issued   time.Time
	Expires  time.Time
	KeyPrint string // cnf.jkt: the thumbprint of the key that its holder must prove (RFC 9449 §6)
	// Hash is the base64url SHA-256 of the token, as proofs carry it (ath).
	Hash   string
	claims map[string]string
}

// Claim is a claim that is a text; "" if there is none.
func (t *Token) Claim(name string) string { return t.claims[name] }

// Tokens verifies the access tokens of an issuer. Zero values of the configuration
// are not usable; see [NewTokens].
type Tokens struct {
	keys             *Keys
	issuer, audience string
	known            *memo.Memo[[sha256.Size]byte, *known]
}

// known is a token that was verified, and the keys that it was verified with: when
// the issuer withdraws a key, what it has signed is looked at again.
type known struct {
	Token
	keys *KeySet
}

const (
	// maxKnown bounds the memory of verified tokens: a few megabytes.
	maxKnown = 8 << 10
	// tokenSkew is how far the issuer's clock may be ahead.
	tokenSkew = 30 * time.Second
)

// NewTokens returns a verifier of the tokens that an issuer signs for an audience.
func NewTokens(keys *Keys, issuer, audience string) (*Tokens, error) {
	if keys == nil || issuer == "" || audience == "" {
		return nil, errors.New("tokens: keys, issuer and audience are required")
	}
	return &Tokens{keys: keys, issuer: issuer, audience: audience, known: memo.New[[sha256.Size]byte, *known](maxKnown)}, nil
}

// Verify returns a token if the issuer signed it for the audience and it is valid
// now. A token that was verified before costs one hash. Any stranger can name a key
// that there is not: such a token is refused at once, and the issuer is asked behind
// the answer.
func (v *Tokens) Verify(ctx context.Context, raw string, now time.Time) (*Token, error) {
	return v.look(ctx, raw, now, func() (*KeySet, error) {
		v.keys.Seek(ctx, now)
		return nil, ErrUnknownKey
	})
}

// Await is Verify for a token that was had from the issuer itself: it waits for a key
// that is newer than our copy.
func (v *Tokens) Await(ctx context.Context, raw string, now time.Time) (*Token, error) {
	return v.look(ctx, raw, now, func() (*KeySet, error) { return v.keys.Newer(ctx, now) })
}

func (v *Tokens) look(ctx context.Context, raw string, now time.Time, newer func() (*KeySet, error)) (*Token, error) {
	if raw == "" || len(raw) > MaxToken {
		return nil, ErrToken
	}
	keys, err := v.keys.Current(ctx, now)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256([]byte(raw))
	k, seen := v.known.Get(hash)
	if !seen || k.keys != keys {
		if k, err = v.verify(raw, keys, newer, now); err != nil {
			return nil, err
		}
		k.Hash = base64.RawURLEncoding.EncodeToString(hash[:])
		v.known.Put(hash, k)
	}
	if !now.Before(k.Expires) {
		return nil, ErrExpired
	}
	return &k.Token, nil
}

func (v *Tokens) verify(raw string, keys *KeySet, newer func() (*KeySet, error), now time.Time) (*known, error) {
	id, alg, err := header(raw)
	if err != nil {
		return nil, err
	}
	key, ok := keys.LookupKeyID(id)
	if !ok { // perhaps newer than our copy
		if keys, err = newer(); err != nil {
			return nil, err
		}
		if key, ok = keys.LookupKeyID(id); !ok {
			return nil, ErrUnknownKey
		}
	}
	public, err := publicKey(key, alg)
	if err != nil {
		return nil, err
	}
	payload, err := jws.VerifyCompactFast(public, []byte(raw), alg)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrToken, err)
	}
	token, err := v.read(payload, now)
	if err != nil {
		return nil, err
	}
	return &known{Token: token, keys: keys}, nil
}

// header reads the key id and the algorithm of a token. A proof of possession is
// signed with a key that its sender chose: it is no token, and has another type
// (RFC 8725 §3.11).
func header(raw string) (id string, alg jwa.SignatureAlgorithm, err error) {
	first, _, _ := strings.Cut(raw, ".")
	decoded, err := base64.RawURLEncoding.DecodeString(first)
	if err != nil {
		return "", alg, fmt.Errorf("%w: header", ErrToken)
	}
	var h struct {
		Algorithm string          `json:"alg"`
		KeyID     string          `json:"kid"`
		Type      string          `json:"typ"`
		Critical  json.RawMessage `json:"crit"`
	}
	if json.Unmarshal(decoded, &h) != nil || h.KeyID == "" || h.Critical != nil {
		return "", alg, fmt.Errorf("%w: header", ErrToken)
	}
	switch strings.TrimPrefix(strings.ToLower(h.Type), "application/") {
	case "", "jwt", "at+jwt":
	default:
		return "", alg, fmt.Errorf("%w: type", ErrToken)
	}
	switch h.Algorithm {
	case jwa.EdDSA().String():
		return h.KeyID, jwa.EdDSA(), nil
	case jwa.ES256().String():
		return h.KeyID, jwa.ES256(), nil
	}
	return "", alg, fmt.Errorf("%w: algorithm", ErrToken)
}

// publicKey returns the key if it is one for the algorithm: what the token says of
// itself must not decide how the key is used.
func publicKey(key jwk.Key, alg jwa.SignatureAlgorithm) (any, error) {
	if use, ok := key.KeyUsage(); ok && use != "sig" {
		return nil, fmt.Errorf("%w: the key is not for signatures", ErrToken)
	}
	if named, ok := key.Algorithm(); ok && named.String() != alg.String() {
		return nil, fmt.Errorf("%w: the key is for another algorithm", ErrToken)
	}
	switch alg {
	case jwa.EdDSA():
		var public ed25519.PublicKey
		if err := jwk.Export(key, &public); err == nil {
			return public, nil
		}
	case jwa.ES256():
		var public ecdsa.PublicKey
		if err := jwk.Export(key, &public); err == nil && public.Curve == elliptic.P256() {
			return &public, nil
		}
	}
	return nil, fmt.Errorf("%w: the key does not fit the algorithm", ErrToken)
}

// audiences is one text or a list of them (RFC 7519 §4.1.3).
type audiences []string

// UnmarshalJSON reads both forms.
func (a *audiences) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*a = audiences{one}
		return nil
	}
	var list []string
	err := json.Unmarshal(b, &list)
	*a = list
	return err
}

// read checks the registered claims of a payload whose signature holds. The
// audience is checked last: only a genuine token is told that it is for another.
func (v *Tokens) read(payload []byte, now time.Time) (Token, error) {
	var c struct {
		Issuer    string    `json:"iss"`
		Audience  audiences `json:"aud"`
		Subject   string    `json:"sub"`
		Issued    float64   `json:"iat"`
		NotBefore float64   `json:"nbf"`
		Expires   float64   `json:"exp"`
		Confirm   struct {
			KeyPrint string `json:"jkt"`
		} `json:"cnf"`
	}
	if json.Unmarshal(payload, &c) != nil {
		return Token{}, fmt.Errorf("%w: claims", ErrToken)
	}
	t := Token{
		Subject: c.Subject, Issued: moment(c.Issued), Expires: moment(c.Expires), KeyPrint: c.Confirm.KeyPrint, claims: texts(payload),
	}
	latest := now.Add(tokenSkew)
	switch {
	case c.Issuer != v.issuer, c.Subject == "", c.Expires <= 0, c.Issued <= 0, t.Issued.After(latest), c.NotBefore > maxMoment, moment(c.NotBefore).After(latest):
		return Token{}, fmt.Errorf("%w: claims", ErrToken)
	case !slices.Contains(c.Audience, v.audience):
		return Token{}, ErrAudience
	}
	return t, nil
}

// maxMoment is the year 9999.
const maxMoment = 253_402_300_799

func moment(seconds float64) time.Time {
	if !(seconds >= 0 && seconds <= maxMoment) { // NaN, too
		seconds = 0
	}
	return time.UnixMilli(int64(seconds * 1000)).UTC()
}

// texts are the claims that are texts.
func texts(payload []byte) map[string]string {
	var all map[string]any
	if json.Unmarshal(payload, &all) != nil {
		return nil
	}
	out := map[string]string{}
	for name, value := range all {
		if s, ok := value.(string); ok {
			out[name] = s
		}
	}
	return out
}
