package sim

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jwt"

	"melmastoon.ghasi.io/bff"
)

const (
	accessLife  = 15 * time.Minute
	refreshLife = 30 * 24 * time.Hour
	audience    = "bff-backoffice"
	// stepUpCode is the one-time code that every operator's device shows.
	stepUpCode = "000000"
	// maxFamilies bounds the memory that sign-ins can take.
	maxFamilies = 50_000
)

// iam signs operators in. Its key follows from the seed, so tokens outlive a
// restart of the simulator.
type iam struct {
	issuer string
	key    jwk.Key
	jwks   raw

	mu       sync.Mutex
	families map[string]*family // by every refresh token, spent ones too
	count    int
}

// family is one sign-in and all refresh tokens that followed from it. Using a
// spent token means that someone else has a copy, so the whole family ends.
type family struct {
	tenantID, operatorID, deviceID, jkt string
	current                             string
	spent                               []string
	expires                             time.Time
	revoked                             bool
}

func newIAM(cfg Config) (*iam, error) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], cfg.Seed)
	seed := sha256.Sum256(append([]byte("upstreamsim iam signing key "), n[:]...))
	key, err := jwk.Import(ed25519.NewKeyFromSeed(seed[:]))
	if err != nil {
		return nil, fmt.Errorf("import signing key: %w", err)
	}
	thumb, err := key.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("name signing key: %w", err)
	}
	for name, value := range map[string]any{
		jwk.KeyIDKey: "sim-" + base64.RawURLEncoding.EncodeToString(thumb)[:12], jwk.AlgorithmKey: jwa.EdDSA(), jwk.KeyUsageKey: "sig",
	} {
		if err := key.Set(name, value); err != nil {
			return nil, fmt.Errorf("describe signing key: %w", err)
		}
	}
	public, err := key.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("publish signing key: %w", err)
	}
	set := jwk.NewSet()
	if err := set.AddKey(public); err != nil {
		return nil, fmt.Errorf("publish signing key: %w", err)
	}
	jwks, err := json.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("publish signing key: %w", err)
	}
	return &iam{issuer: cfg.Issuer, key: key, jwks: jwks, families: map[string]*family{}}, nil
}

func (s *Sim) iamRoutes() {
	s.handle("iam", "GET /.well-known/jwks.json", func(*call) (any, error) { return s.iam.jwks, nil })
	s.handle("iam", "POST /api/v1/auth/sign-in", func(c *call) (any, error) {
		var req SignIn
		if err := c.decode(&req); err != nil {
			return nil, err
		}
		return s.signIn(req, c.now)
	})
	s.handle("iam", "POST /api/v1/auth/refresh", func(c *call) (any, error) {
		var req struct {
			RefreshToken string `json:"refreshToken"`
			DeviceID     string `json:"deviceId"`
		}
		if err := c.decode(&req); err != nil {
			return nil, err
		}
		return s.iam.refresh(req.RefreshToken, req.DeviceID, c.now)
	})
	s.handle("iam", "POST /api/v1/auth/step-up", s.stepUp)
}

// SignIn asks for tokens. JWK is the public key that the device proves itself
// with.
type SignIn struct {
	TenantID   string          `json:"tenantId"`
	OperatorID string          `json:"operatorId"`
	DeviceID   string          `json:"deviceId"`
	JWK        json.RawMessage `json:"jwk"`
}

// Tokens are the answer to a sign-in or a refresh.
type Tokens struct {
	AccessToken  string `json:"accessToken"`
	RefreshToken string `json:"refreshToken"`
	ExpiresIn    int    `json:"expiresIn"`
}

// SignIn signs an operator in, as POST /iam/api/v1/auth/sign-in does.
func (s *Sim) SignIn(req SignIn) (Tokens, error) { return s.signIn(req, s.cfg.Now()) }

const maxDeviceID = 64

func (s *Sim) signIn(req SignIn, now time.Time) (Tokens, error) {
	var bad bff.FieldErrors
	bad.Check(req.TenantID != "", "tenantId", bff.FieldRequired)
	bad.Check(req.OperatorID != "", "operatorId", bff.FieldRequired)
	bad.Check(req.DeviceID != "", "deviceId", bff.FieldRequired)
	bad.Check(len(req.DeviceID) <= maxDeviceID, "deviceId", bff.FieldLength)
	jkt, ok := thumbprint(req.JWK)
	bad.Check(ok, "jwk", bff.FieldFormat)
	if err := refused(bad); err != nil {
		return Tokens{}, err
	}
	t := s.data.tenantByID[req.TenantID]
	if t == nil || t.operator[req.OperatorID] == nil {
		return Tokens{}, unauthenticated("unknown operator")
	}
	return s.iam.open(&family{tenantID: t.id, operatorID: req.OperatorID, deviceID: req.DeviceID, jkt: jkt}, now)
}

// thumbprint returns the RFC 7638 thumbprint of a public key. A private or
// shared key must never travel: it is refused, not stripped.
func thumbprint(b []byte) (string, bool) {
	key, err := jwk.ParseKey(b)
	if err != nil {
		return "", false
	}
	if private, err := jwk.IsPrivateKey(key); err != nil || private {
		return "", false
	}
	sum, err := key.Thumbprint(crypto.SHA256)
	if err != nil {
		return "", false
	}
	return base64.RawURLEncoding.EncodeToString(sum), true
}

func unauthenticated(why string) error {
	return &failure{status: http.StatusUnauthorized, code: "UNAUTHENTICATED", message: why}
}

// open starts a family.
func (a *iam) open(f *family, now time.Time) (Tokens, error) {
	f.expires = now.Add(refreshLife)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count >= maxFamilies {
		a.prune(now)
	}
	a.count++
	return a.issue(f, now)
}

// prune forgets dead families, and if none is dead, all: a simulator under a
// long load test may sign people out but must not grow without end.
func (a *iam) prune(now time.Time) {
	alive := 0
	for token, f := range a.families {
		switch {
		case f.revoked || now.After(f.expires):
			delete(a.families, token)
		case token == f.current:
			alive++
		}
	}
	if a.count = alive; alive >= maxFamilies {
		clear(a.families)
		a.count = 0
	}
}

// issue needs the lock.
func (a *iam) issue(f *family, now time.Time) (Tokens, error) {
	token, err := jwt.NewBuilder().
		Issuer(a.issuer).Audience([]string{audience}).Subject(f.operatorID).
		IssuedAt(now).Expiration(now.Add(accessLife)).JwtID(rand.Text()).
		Claim("tid", f.tenantID).Claim("device_id", f.deviceID).Claim("cnf", map[string]string{"jkt": f.jkt}).
		Build()
	if err != nil {
		return Tokens{}, fmt.Errorf("build access token: %w", err)
	}
	access, err := jwt.Sign(token, jwt.WithKey(jwa.EdDSA(), a.key))
	if err != nil {
		return Tokens{}, fmt.Errorf("sign access token: %w", err)
	}
	f.current = "rft_" + rand.Text()
	a.families[f.current] = f
	return Tokens{AccessToken: string(access), RefreshToken: f.current, ExpiresIn: int(accessLife / time.Second)}, nil
}

// maxSpent is how many spent tokens of a family are remembered.
const maxSpent = 100

func (a *iam) refresh(token, deviceID string, now time.Time) (Tokens, error) {
	var bad bff.FieldErrors
	bad.Check(token != "", "refreshToken", bff.FieldRequired)
	bad.Check(deviceID != "", "deviceId", bff.FieldRequired)
	if err := refused(bad); err != nil {
		return Tokens{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.families[token]
	switch {
	case f == nil || f.revoked || now.After(f.expires):
		return Tokens{}, unauthenticated("refresh token unknown, expired or revoked")
	case f.current != token, f.deviceID != deviceID:
		f.revoked = true
		return Tokens{}, &failure{status: http.StatusUnauthorized, code: "REFRESH_REUSED", message: "refresh token used twice or elsewhere; signed out"}
	}
	if f.spent = append(f.spent, token); len(f.spent) > maxSpent {
		delete(a.families, f.spent[0])
		f.spent = f.spent[1:]
	}
	f.expires = now.Add(refreshLife)
	return a.issue(f, now)
}

// RevokeDevice ends every sign-in of a device, as an administrator would.
func (s *Sim) RevokeDevice(deviceID string) {
	s.iam.mu.Lock()
	defer s.iam.mu.Unlock()
	for _, f := range s.iam.families {
		if f.deviceID == deviceID {
			f.revoked = true
		}
	}
}

func (s *Sim) stepUp(c *call) (any, error) {
	var req struct {
		OperatorID string `json:"operatorId"`
		DeviceID   string `json:"deviceId"`
		Scope      string `json:"scope"`
		ResourceID string `json:"resourceId"`
		Code       string `json:"code"`
	}
	if err := c.decode(&req); err != nil {
		return nil, err
	}
	var bad bff.FieldErrors
	bad.Check(req.OperatorID != "", "operatorId", bff.FieldRequired)
	bad.Check(req.DeviceID != "", "deviceId", bff.FieldRequired)
	bad.Check(req.Scope != "", "scope", bff.FieldRequired)
	bad.Check(req.Code != "", "code", bff.FieldRequired)
	if err := refused(bad); err != nil {
		return nil, err
	}
	if req.Code != stepUpCode {
		return nil, &failure{status: http.StatusUnauthorized, code: "MFA_CODE_INVALID", message: "wrong code"}
	}
	return map[string]any{"attested": true, "method": "totp"}, nil
}
