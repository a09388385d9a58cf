package sim

import (
	"context"
	"crypto"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jwt"

	"melmastoon.ghasi.io/bff"
)

const (
	accessLife  = 15 * time.Minute
	refreshLife = 30 * 24 * time.Hour
	// stepUpCode is the one-time code that every operator's device shows.
	stepUpCode = "000000"
	// maxWrongCodes in a row lock an operator.
	maxWrongCodes = 10
	// maxFamilies bounds the memory that sign-ins can take.
	maxFamilies = 50_000
	maxDeviceID = 64
)

// audiences are the surfaces of the platform that iam issues tokens for.
var audiences = []string{"bff-backoffice", "bff-tenant-booking", "bff-console"}

// iam signs operators in.
type iam struct {
	issuer string
	file   string // where sign-ins are kept; empty = nowhere
	keys   *keyring
	proofs proofs

	mu       sync.Mutex
	families map[string]*family // by every refresh token, spent ones too
	count    int
	locked   map[string]bool // operators
	barred   map[string]bool // devices that were revoked
	wrong    map[string]int  // by operator: wrong codes in a row
}

// family is one sign-in and all refresh tokens that followed from it. Using a
// spent token means that someone else has a copy, so the whole family ends.
type family struct {
	tenantID, operatorID, deviceID string
	jkt, audience                  string

	current string
	spent   []string
	expires time.Time
	revoked bool

	retry struct { // the last refresh, for a caller that lost its answer
		key, token string
		answer     Tokens
		until      time.Time
	}
}

func newIAM(cfg Config) (*iam, error) {
	keys, err := newKeyring(cfg.Seed)
	if err != nil {
		return nil, err
	}
	a := &iam{
		issuer: cfg.Issuer, file: cfg.SignIns, keys: keys, proofs: proofs{seed: cfg.Seed},
		families: map[string]*family{}, locked: map[string]bool{}, barred: map[string]bool{}, wrong: map[string]int{},
	}
	return a, a.load()
}

func (s *Sim) iamRoutes() {
	s.handle("iam", "GET /.well-known/jwks.json", func(c *call) (any, error) { return s.iam.keys.published(c.now) })
	s.handle("iam", "POST /api/v1/auth/sign-in", func(c *call) (any, error) {
		var req SignIn
		if err := c.decode(&req); err != nil {
			return nil, err
		}
		jkt := ""
		if c.Header.Get("DPoP") != "" {
			var err error
			if jkt, err = s.iam.proofs.check(c); err != nil {
				return nil, err
			}
		}
		return s.signIn(req, jkt, c.now)
	})
	s.handle("iam", "POST /api/v1/auth/refresh", s.refresh)
	s.handle("iam", "POST /api/v1/auth/sign-out", s.signOut)
	s.handle("iam", "POST /api/v1/auth/step-up", s.stepUp)
}

// SignIn asks for tokens. The key that the device proves itself with is the one
// of the DPoP header, or JWK.
type SignIn struct {
	Username   string          `json:"username,omitempty"` // of an operator of the cast, instead of OperatorID
	TenantID   string          `json:"tenantId,omitempty"` // may be left out with Username, if it works for one tenant only
	OperatorID string          `json:"operatorId,omitempty"`
	DeviceID   string          `json:"deviceId"`
	JWK        json.RawMessage `json:"jwk,omitempty"`
	Audience   string          `json:"audience,omitempty"` // bff-backoffice unless said
}

// Tokens are the answer to a sign-in or a refresh.
type Tokens struct {
	AccessToken  string `json:"accessToken"`
	RefreshToken string `json:"refreshToken"`
	ExpiresIn    int    `json:"expiresIn"`
}

// SignIn signs an operator in, as POST /iam/api/v1/auth/sign-in does.
func (s *Sim) SignIn(req SignIn) (Tokens, error) { return s.signIn(req, "", s.cfg.Now()) }

func (s *Sim) signIn(req SignIn, jkt string, now time.Time) (Tokens, error) {
	if p := s.data.cast.find(req.Username); p != nil {
		req.OperatorID = p.id
		if req.TenantID == "" && len(p.tenants) == 1 {
			req.TenantID = p.tenants[0].id
		}
	}
	if req.Audience == "" {
		req.Audience = audiences[0]
	}
	var bad bff.FieldErrors
	bad.Check(req.TenantID != "", "tenantId", bff.FieldRequired)
	bad.Check(req.OperatorID != "" || req.Username != "", "operatorId", bff.FieldRequired)
	bad.Check(req.DeviceID != "", "deviceId", bff.FieldRequired)
	bad.Check(len(req.DeviceID) <= maxDeviceID, "deviceId", bff.FieldLength)
	bad.Check(slices.Contains(audiences, req.Audience), "audience", bff.FieldUnsupported)
	if jkt == "" || req.JWK != nil {
		given, ok := thumbprint(req.JWK)
		bad.Check(ok && (jkt == "" || jkt == given), "jwk", bff.FieldFormat)
		jkt = given
	}
	if err := refused(bad); err != nil {
		return Tokens{}, err
	}
	f := &family{tenantID: req.TenantID, operatorID: req.OperatorID, deviceID: req.DeviceID, jkt: jkt, audience: req.Audience}
	if s.member(f.tenantID, f.operatorID) == nil {
		return Tokens{}, unauthenticated("unknown operator")
	}
	a := s.iam
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.admits(f); err != nil {
		return Tokens{}, err
	}
	if a.count >= maxFamilies {
		a.prune(now)
	}
	a.count++
	return a.issue(f, now)
}

// admits refuses locked operators and revoked devices. It needs the lock.
func (a *iam) admits(f *family) error {
	switch {
	case a.locked[f.operatorID]:
		return &failure{status: http.StatusForbidden, code: "USER_LOCKED", message: "this operator is locked"}
	case a.barred[f.deviceID]:
		return &failure{status: http.StatusForbidden, code: "DEVICE_REVOKED", message: "this device is not trusted"}
	}
	return nil
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
		Issuer(a.issuer).Audience([]string{f.audience}).Subject(f.operatorID).
		IssuedAt(now).Expiration(now.Add(accessLife)).JwtID(rand.Text()).
		Claim("tid", f.tenantID).Claim("device_id", f.deviceID).Claim("cnf", map[string]string{"jkt": f.jkt}).
		Build()
	if err != nil {
		return Tokens{}, fmt.Errorf("build access token: %w", err)
	}
	access, err := a.keys.sign(token)
	if err != nil {
		return Tokens{}, err
	}
	f.expires = now.Add(refreshLife)
	f.current = "rft_" + rand.Text()
	a.families[f.current] = f
	if err := a.save(); err != nil {
		return Tokens{}, fmt.Errorf("keep sign-ins: %w", err)
	}
	return Tokens{AccessToken: access, RefreshToken: f.current, ExpiresIn: int(accessLife / time.Second)}, nil
}

const (
	// maxSpent is how many spent tokens of a family are remembered.
	maxSpent = 100
	// retryWindow is how long a refresh with the same Idempotency-Key is
	// answered as before, for a caller that lost the answer.
	retryWindow = time.Minute
)

func (s *Sim) refresh(c *call) (any, error) {
	var req struct {
		RefreshToken string `json:"refreshToken"`
		DeviceID     string `json:"deviceId"`
	}
	if err := c.decode(&req); err != nil {
		return nil, err
	}
	var bad bff.FieldErrors
	bad.Check(req.RefreshToken != "", "refreshToken", bff.FieldRequired)
	bad.Check(req.DeviceID != "", "deviceId", bff.FieldRequired)
	if err := refused(bad); err != nil {
		return nil, err
	}
	jkt, err := s.iam.proofs.check(c)
	if err != nil {
		return nil, err
	}
	tokens, stolen, err := s.rotate(req.RefreshToken, req.DeviceID, jkt, c)
	if stolen != nil {
		err = errors.Join(err, s.revoke(c.Context(), Revocation{
			TenantID: stolen.tenantID, OperatorID: stolen.operatorID, DeviceID: stolen.deviceID, Reason: "refresh_token_reuse",
		}))
	}
	if err != nil {
		return nil, err
	}
	return tokens, nil
}

// rotate spends a refresh token. It returns the family of a token that was used
// twice or on another device.
func (s *Sim) rotate(token, deviceID, jkt string, c *call) (Tokens, *family, error) {
	a, now, key := s.iam, c.now, c.Header.Get("Idempotency-Key")
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.families[token]
	switch {
	case f == nil || f.revoked || now.After(f.expires):
		return Tokens{}, nil, unauthenticated("refresh token unknown, expired or revoked")
	case f.jkt != jkt: // a copied token is useless without the key
		return Tokens{}, nil, proofInvalid("signed with another key than the sign-in")
	case key != "" && f.retry.key == key && f.retry.token == token && now.Before(f.retry.until) && f.deviceID == deviceID:
		return f.retry.answer, nil, nil
	case f.current != token, f.deviceID != deviceID:
		f.revoked = true
		return Tokens{}, f, &failure{status: http.StatusUnauthorized, code: "REFRESH_REUSED", message: "refresh token used twice or elsewhere; signed out"}
	case s.member(f.tenantID, f.operatorID) == nil:
		return Tokens{}, nil, unauthenticated("the operator has left the tenant")
	}
	if err := a.admits(f); err != nil {
		return Tokens{}, nil, err
	}
	if f.spent = append(f.spent, token); len(f.spent) > maxSpent {
		delete(a.families, f.spent[0])
		f.spent = f.spent[1:]
	}
	out, err := a.issue(f, now)
	f.retry.key, f.retry.token, f.retry.answer, f.retry.until = key, token, out, now.Add(retryWindow)
	return out, nil, err
}

// signOut ends the sign-ins of an operator on a device. No event follows: the
// caller is the service that closed the session.
func (s *Sim) signOut(c *call) (any, error) {
	var req struct {
		TenantID   string `json:"tenantId"`
		OperatorID string `json:"operatorId"`
		DeviceID   string `json:"deviceId"`
	}
	if err := c.decode(&req); err != nil {
		return nil, err
	}
	var bad bff.FieldErrors
	bad.Check(req.TenantID != "", "tenantId", bff.FieldRequired)
	bad.Check(req.OperatorID != "", "operatorId", bff.FieldRequired)
	bad.Check(req.DeviceID != "", "deviceId", bff.FieldRequired)
	if err := refused(bad); err != nil {
		return nil, err
	}
	s.iam.end(Revocation{TenantID: req.TenantID, OperatorID: req.OperatorID, DeviceID: req.DeviceID})
	return nil, nil
}

// end revokes the families that a revocation is about.
func (a *iam) end(r Revocation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range a.families {
		if (r.TenantID == "" || r.TenantID == f.tenantID) && (r.OperatorID == "" || r.OperatorID == f.operatorID) && (r.DeviceID == "" || r.DeviceID == f.deviceID) {
			f.revoked = true
		}
	}
	_ = a.save() // a sign-in that comes back is refused by the services' own tombstones
}

func (s *Sim) stepUp(c *call) (any, error) {
	var req struct {
		TenantID   string `json:"tenantId"`
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
	if req.TenantID != "" && s.member(req.TenantID, req.OperatorID) == nil || !s.employed(req.OperatorID) {
		return nil, unauthenticated("unknown operator")
	}
	locks, err := s.iam.tryCode(&family{operatorID: req.OperatorID, deviceID: req.DeviceID}, req.Code)
	if locks {
		err = errors.Join(err, s.lockUser(c.Context(), req.OperatorID, "too_many_wrong_codes"))
	}
	if err != nil {
		return nil, err
	}
	return map[string]any{"attested": true, "method": "totp", "attestedAt": bff.At(c.now)}, nil
}

// tryCode checks a one-time code and reports whether it was one wrong code too
// many.
func (a *iam) tryCode(f *family, code string) (locks bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.admits(f); err != nil {
		return false, err
	}
	if code == stepUpCode {
		delete(a.wrong, f.operatorID)
		return false, nil
	}
	a.wrong[f.operatorID]++ // bounded by the operators of the data set
	return a.wrong[f.operatorID] >= maxWrongCodes,
		&failure{status: http.StatusUnauthorized, code: "MFA_CODE_INVALID", message: "wrong code"}
}

// Revocation is the payload of melmastoon.iam.session.revoked.v1. Without
// DeviceID it is about every device of the operator, without OperatorID about
// the whole tenant.
type Revocation struct {
	TenantID   string        `json:"tenantId"`
	OperatorID string        `json:"operatorId,omitempty"`
	DeviceID   string        `json:"deviceId,omitempty"`
	Reason     string        `json:"reason"`
	RevokedAt  bff.Timestamp `json:"revokedAt"`
}

func (s *Sim) revoke(ctx context.Context, r Revocation) error {
	r.RevokedAt = bff.At(s.cfg.Now())
	return s.report(ctx, "melmastoon.iam.session.revoked.v1", r)
}

// lockUser locks an operator, and says so to each tenant that it works for.
func (s *Sim) lockUser(ctx context.Context, operatorID, reason string) error {
	var failed []error
	for _, t := range s.data.tenants {
		if s.member(t.id, operatorID) == nil {
			continue
		}
		failed = append(failed, s.report(ctx, "melmastoon.iam.user.locked.v1", map[string]any{
			"tenantId": t.id, "operatorId": operatorID, "reason": reason, "lockedAt": bff.At(s.cfg.Now()),
		}))
	}
	return errors.Join(failed...)
}

// report emits an event of the simulator's own.
func (s *Sim) report(ctx context.Context, topic string, payload any) error {
	b, err := json.Marshal(payload)
	if err != nil {
		return err
	}
	_, _, err = s.Emit(context.WithoutCancel(ctx), topic, b)
	return err
}

// setLocked locks or unlocks an operator; a locked one is signed out.
func (a *iam) setLocked(operatorID string, locked bool) {
	if locked {
		a.end(Revocation{OperatorID: operatorID})
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.wrong, operatorID)
	set(a.locked, operatorID, locked)
}

// setBarred revokes a device or trusts it again; a revoked one is signed out.
func (a *iam) setBarred(deviceID string, barred bool) {
	if barred {
		a.end(Revocation{DeviceID: deviceID})
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	set(a.barred, deviceID, barred)
}

// set adds a name to a bounded set, or takes it away.
func set(m map[string]bool, name string, member bool) {
	if !member {
		delete(m, name)
		return
	}
	bound(m)
	m[name] = true
}
