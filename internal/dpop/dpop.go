// Package dpop verifies proofs of possession (RFC 9449): that the sender of an
// access token holds the key that the token is bound to, for this request alone. It
// knows neither tokens nor stores: the caller says which token and key a proof must
// name, and burns the id of the proof for as long as it is told to.
package dpop

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jws"

	"melmastoon.ghasi.io/bff/internal/memo"
)

// Reason says which check a proof failed. The values are closed: clients and
// metrics see them.
type Reason string

// The reasons, in the order of the checks.
const (
	ReasonMissing    Reason = "missing"     // no proof, or several (§4.3 check 1)
	ReasonMalformed  Reason = "malformed"   // not a well-formed, small JWT (2, 3)
	ReasonType       Reason = "type"        // typ is not dpop+jwt (4)
	ReasonAlgorithm  Reason = "algorithm"   // not an accepted asymmetric algorithm (5)
	ReasonKey        Reason = "key"         // the jwk is not a key for the algorithm
	ReasonPrivateKey Reason = "private_key" // the jwk has a private part (7)
	ReasonMethod     Reason = "method"      // htm (8)
	ReasonURL        Reason = "url"         // htu (9)
	ReasonTokenHash  Reason = "token_hash"  // ath (11)
	ReasonBinding    Reason = "binding"     // the key is not that of the token (12)
	ReasonNonce      Reason = "nonce"       // a nonce that is not, or no longer, ours (10)
	ReasonClockSkew  Reason = "clock_skew"  // iat (11)
	ReasonSignature  Reason = "signature"   // (6), last because it costs most
)

// Error refuses a proof.
type Error struct {
	Reason Reason
	// Ahead is how far the sender's clock is ahead of ours; of ReasonClockSkew.
	Ahead time.Duration
}

func (e *Error) Error() string { return "dpop proof refused: " + string(e.Reason) }

// WantsNonce reports whether the sender can recover with the server's nonce.
func (e *Error) WantsNonce() bool { return e.Reason == ReasonNonce || e.Reason == ReasonClockSkew }

const (
	// MaxProof is the longest proof that is looked at.
	MaxProof = 4 << 10
	// Skew is how far the time of a proof may be from ours, in both directions.
	Skew = time.Minute
	// bareSkew is the same of a proof without a token. Any stranger makes those, and each
	// one is remembered: for a minute at most, margin included. Who is further off is
	// told so, and helps itself with a nonce.
	bareSkew = 25 * time.Second
	// bareLife is the longest memory of a proof without a token.
	bareLife = time.Minute
	// margin is how much longer than acceptable a proof is remembered: instances
	// have different clocks.
	margin = 10 * time.Second

	maxID = 128 // of jti
	// maxSigners bounds the memory of keys that proofs were verified with.
	maxSigners = 8 << 10
)

// Proof is what a verified proof says.
type Proof struct {
	KeyPrint string // RFC 7638 thumbprint of the key
	ID       string // jti: burn it together with KeyPrint
	// Issued is what its sender's clock showed, which may be wrong.
	Issued time.Time
	// Made is the earliest moment at which it can have been made, as far as that can be
	// told: by its own time if that is about right, or else by its nonce.
	Made time.Time
	// Until is the moment from which the proof would be refused anyway; its id must
	// be remembered that long.
	Until time.Time
}

// Request is what a proof must be for.
type Request struct {
	Method string
	Path   string // escaped, as it was sent
	// TokenHash and KeyPrint are those of the access token; both are empty where
	// none is sent, as at a refresh.
	TokenHash, KeyPrint string
}

// bare is a request without a token.
func (r *Request) bare() bool { return r.TokenHash == "" }

// Verifier checks proofs.
type Verifier struct {
	origins []string
	nonces  *Nonces
	signers *memo.Memo[string, *signer]
}

// signer is the key of a proof's header.
type signer struct {
	alg   jwa.SignatureAlgorithm
	key   any
	print string
}

// New returns a verifier of proofs for the given public URLs: scheme and authority
// under which clients reach the service, such as https://staff.example. The Host
// header is the client's to choose and decides nothing.
func New(publicURLs []string, nonces *Nonces) (*Verifier, error) {
	v := &Verifier{nonces: nonces, signers: memo.New[string, *signer](maxSigners)}
	var errs []error
	if nonces == nil {
		errs = append(errs, errors.New("nonces are required"))
	}
	if len(publicURLs) == 0 {
		errs = append(errs, errors.New("a public URL is required"))
	}
	for _, text := range publicURLs {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
			errs = append(errs, fmt.Errorf("public URL %q: want scheme and authority", text))
			continue
		}
		v.origins = append(v.origins, origin(u))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("dpop: %w", err)
	}
	return v, nil
}

// Verify checks a proof against a request, the cheap checks first. The caller must
// still burn the id.
func (v *Verifier) Verify(proof string, want Request, now time.Time) (Proof, error) {
	if proof == "" {
		return Proof{}, refuse(ReasonMissing)
	}
	header, payload, err := split(proof)
	if err != nil {
		return Proof{}, err
	}
	by, known := v.signers.Get(header)
	if !known {
		if by, err = readHeader(header); err != nil {
			return Proof{}, err
		}
	}
	c, err := readClaims(payload)
	if err != nil {
		return Proof{}, err
	}
	made, until, err := v.check(&c, by, &want, now)
	if err != nil {
		return Proof{}, err
	}
	if _, err := jws.VerifyCompactFast(by.key, []byte(proof), by.alg); err != nil {
		return Proof{}, refuse(ReasonSignature)
	}
	if !known {
		v.signers.Put(strings.Clone(header), by)
	}
	until = until.Add(margin)
	if longest := now.Add(bareLife); want.bare() && until.After(longest) {
		until = longest // it is refused from then on, here and by every clock that is right
	}
	return Proof{KeyPrint: by.print, ID: c.ID, Issued: c.issued(), Made: made, Until: until}, nil
}

// check compares everything but the signature.
func (v *Verifier) check(c *claims, by *signer, want *Request, now time.Time) (made, until time.Time, err error) {
	switch {
	case c.Method != want.Method:
		return made, until, refuse(ReasonMethod)
	case !v.isFor(c.URL, want.Path):
		return made, until, refuse(ReasonURL)
	case !want.bare() && c.TokenHash != want.TokenHash: // a refresh has no token that it could name wrongly
		return made, until, refuse(ReasonTokenHash)
	case want.KeyPrint != "" && by.print != want.KeyPrint:
		return made, until, refuse(ReasonBinding)
	}
	return v.fresh(c, want.bare(), now)
}

// fresh returns since and until when a proof is acceptable. With a nonce that is ours and
// young the sender's clock does not matter: that is how a computer with a wrong clock
// recovers.
func (v *Verifier) fresh(c *claims, bare bool, now time.Time) (made, until time.Time, err error) {
	skew := Skew
	if bare {
		skew = bareSkew
	}
	made = c.issued()
	ahead := made.Sub(now)
	off := ahead > skew || ahead < -skew
	if c.Nonce != "" {
		minted, until, ok := v.nonces.life(c.Nonce, bare, now)
		if !ok {
			return made, until, refuse(ReasonNonce)
		}
		if off || minted.After(made) {
			made = minted
		}
		return made, until, nil
	}
	if off {
		return made, until, &Error{Reason: ReasonClockSkew, Ahead: ahead}
	}
	return made, made.Add(skew), nil
}

func refuse(r Reason) error { return &Error{Reason: r} }

// split cuts a compact JWS.
func split(proof string) (header, payload string, err error) {
	if len(proof) > MaxProof {
		return "", "", refuse(ReasonMalformed)
	}
	header, rest, ok1 := strings.Cut(proof, ".")
	payload, signature, ok2 := strings.Cut(rest, ".")
	if !ok1 || !ok2 || signature == "" || strings.Contains(signature, ".") {
		return "", "", refuse(ReasonMalformed)
	}
	return header, payload, nil
}

// readHeader reads type, algorithm and key.
func readHeader(encoded string) (*signer, error) {
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return nil, refuse(ReasonMalformed)
	}
	var h struct {
		Type      string          `json:"typ"`
		Algorithm string          `json:"alg"`
		Key       json.RawMessage `json:"jwk"`
		Critical  json.RawMessage `json:"crit"`
	}
	if json.Unmarshal(raw, &h) != nil || h.Critical != nil {
		return nil, refuse(ReasonMalformed)
	}
	if h.Type != "dpop+jwt" {
		return nil, refuse(ReasonType)
	}
	s := &signer{}
	switch h.Algorithm {
	case jwa.EdDSA().String():
		s.alg = jwa.EdDSA()
	case jwa.ES256().String():
		s.alg = jwa.ES256()
	default:
		return nil, refuse(ReasonAlgorithm)
	}
	return s, s.readKey(h.Key)
}

// privateMembers are the members of a JWK that no public key has (RFC 7518 §6).
var privateMembers = []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"}

// readKey accepts a public key that fits the algorithm. A private or shared key was
// shown to everyone on the way: it is refused, not stripped.
func (s *signer) readKey(raw json.RawMessage) error {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return refuse(ReasonKey)
	}
	for _, name := range privateMembers {
		if _, has := members[name]; has {
			return refuse(ReasonPrivateKey)
		}
	}
	key, err := jwk.ParseKey(raw)
	if err != nil {
		return refuse(ReasonKey)
	}
	switch s.alg {
	case jwa.EdDSA():
		var public ed25519.PublicKey
		if jwk.Export(key, &public) != nil || len(public) != ed25519.PublicKeySize {
			return refuse(ReasonKey)
		}
		s.key = public
	default:
		var public ecdsa.PublicKey
		if jwk.Export(key, &public) != nil || public.Curve != elliptic.P256() {
			return refuse(ReasonKey)
		}
		s.key = &public
	}
	sum, err := key.Thumbprint(crypto.SHA256)
	if err != nil {
		return refuse(ReasonKey)
	}
	s.print = base64.RawURLEncoding.EncodeToString(sum)
	return nil
}

// claims are those of RFC 9449 §4.2.
type claims struct {
	ID        string  `json:"jti"`
	Method    string  `json:"htm"`
	URL       string  `json:"htu"`
	Issued    float64 `json:"iat"`
	TokenHash string  `json:"ath"`
	Nonce     string  `json:"nonce"`
}

// maxMoment is the year 9999.
const maxMoment = 253_402_300_799

func (c *claims) issued() time.Time { return time.UnixMilli(int64(c.Issued * 1000)) }

func readClaims(encoded string) (c claims, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || json.Unmarshal(raw, &c) != nil {
		return c, refuse(ReasonMalformed)
	}
	if c.ID == "" || len(c.ID) > maxID || c.Method == "" || c.URL == "" || !(c.Issued > 0 && c.Issued < maxMoment) {
		return c, refuse(ReasonMalformed)
	}
	return c, nil
}

// isFor reports whether htu is one of our URLs with the path of the request. Query
// and fragment do not count (§4.3); scheme and authority are compared after the
// normalisation of RFC 3986 §6.2.
func (v *Verifier) isFor(htu, path string) bool {
	for _, o := range v.origins {
		if len(htu) == len(o)+len(path) && htu[:len(o)] == o && htu[len(o):] == path {
			return true
		}
	}
	u, err := url.Parse(htu)
	if err != nil || u.Host == "" || u.User != nil || u.Opaque != "" {
		return false
	}
	return slices.Contains(v.origins, origin(u)) && samePath(u, path)
}

func samePath(u *url.URL, path string) bool {
	given := u.EscapedPath()
	if given == "" {
		given = "/"
	}
	return given == path
}

// origin is scheme and authority in their normal form.
func origin(u *url.URL) string {
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if scheme == "https" {
		host = strings.TrimSuffix(host, ":443")
	} else if scheme == "http" {
		host = strings.TrimSuffix(host, ":80")
	}
	return scheme + "://" + host
}

// Nonce returns the nonce to offer.
func (v *Verifier) Nonce(now time.Time) string { return v.nonces.Mint(now) }
