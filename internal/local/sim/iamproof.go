package sim

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jws"
)

const (
	maxProof    = 8 << 10
	proofWindow = time.Minute
	nonceLife   = 5 * time.Minute
	maxProofIDs = 50_000
)

// proofs checks that a device has its key (RFC 9449). A proof that was made for
// iam must be fresh, by its clock or by iam's nonce. One that was made for the
// service in front, which passes it on, was found fresh there.
type proofs struct {
	seed uint64

	mu   sync.Mutex
	seen map[string]struct{} // by key and jti
}

// check returns the thumbprint of the key that signed the proof of a call.
func (p *proofs) check(c *call) (jkt string, err error) {
	headers := c.Header.Values("DPoP")
	if len(headers) != 1 || len(headers[0]) > maxProof {
		return "", proofInvalid("one DPoP header is wanted")
	}
	jkt, payload, why := verifyProof([]byte(headers[0]))
	if why != "" {
		return "", proofInvalid(why)
	}
	var claims struct {
		Method string `json:"htm"`
		URL    string `json:"htu"`
		ID     string `json:"jti"`
		Nonce  string `json:"nonce"`
		At     int64  `json:"iat"`
	}
	if json.Unmarshal(payload, &claims) != nil || claims.ID == "" || claims.At == 0 {
		return "", proofInvalid("a claim is missing or malformed")
	}
	u, err := url.Parse(claims.URL)
	if err != nil || claims.Method != c.Method || u.RawQuery != "" || u.Fragment != "" {
		return "", proofInvalid("made for another request")
	}
	_, route, _ := strings.Cut(c.URL.Path, "/auth/")
	switch {
	case u.Path == c.URL.Path && u.Host == c.Host:
		c.reply.Set("DPoP-Nonce", p.nonce(c.now))
		skewed := time.Unix(claims.At, 0).Sub(c.now).Abs() > proofWindow
		if claims.Nonce != "" || skewed {
			if claims.Nonce != p.nonce(c.now) && claims.Nonce != p.nonce(c.now.Add(-nonceLife)) {
				return "", &failure{
					status: http.StatusUnauthorized, code: "USE_DPOP_NONCE", message: "clock skew or an old nonce: prove again with the nonce of this answer",
				}
			}
		}
	case strings.HasSuffix(u.Path, "/auth/"+route): // passed on by the service in front
	default:
		return "", proofInvalid("made for another request")
	}
	return jkt, p.burn(jkt + " " + claims.ID)
}

// burn refuses a proof that was seen before.
func (p *proofs) burn(id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, seen := p.seen[id]; seen {
		return proofInvalid("used before")
	}
	if p.seen == nil || len(p.seen) >= maxProofIDs {
		p.seen = map[string]struct{}{}
	}
	p.seen[id] = struct{}{}
	return nil
}

// nonce follows from the time, so that it need not be remembered.
func (p *proofs) nonce(now time.Time) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], p.seed)
	binary.BigEndian.PutUint64(b[8:], uint64(now.Unix()/int64(nonceLife/time.Second))) //nolint:gosec // after 1970
	sum := sha256.Sum256(append([]byte("sim iam nonce "), b[:]...))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// verifyProof returns the thumbprint of the key in the proof and what it signed,
// or why the proof is not one.
func verifyProof(proof []byte) (jkt string, payload []byte, why string) {
	m, err := jws.Parse(proof, jws.WithCompact())
	if err != nil || len(m.Signatures()) != 1 {
		return "", nil, "not a JWS"
	}
	h := m.Signatures()[0].ProtectedHeaders()
	typ, _ := h.Type()
	alg, _ := h.Algorithm()
	key, _ := h.JWK()
	if typ != "dpop+jwt" || key == nil || !slices.Contains([]jwa.SignatureAlgorithm{jwa.EdDSA(), jwa.ES256()}, alg) {
		return "", nil, "typ, alg or jwk is not as wanted"
	}
	if private, err := jwk.IsPrivateKey(key); err != nil || private {
		return "", nil, "jwk is not a public key"
	}
	if payload, err = jws.Verify(proof, jws.WithKey(alg, key)); err != nil {
		return "", nil, "wrong signature"
	}
	sum, err := key.Thumbprint(crypto.SHA256)
	if err != nil {
		return "", nil, "jwk has no thumbprint"
	}
	return base64.RawURLEncoding.EncodeToString(sum), bytes.Clone(payload), ""
}

func proofInvalid(why string) error {
	return &failure{status: http.StatusUnauthorized, code: "DPOP_INVALID", message: "proof of possession refused: " + why}
}
