package probe

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficeguard"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficestore"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/doctor"
	"melmastoon.ghasi.io/bff/internal/dpop"
	"melmastoon.ghasi.io/bff/internal/issuer"
	"melmastoon.ghasi.io/bff/internal/ratelimit"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/web"
)

const (
	attackPath     = "/doctor"
	attackOperator = "opt_doctor"
)

// keyPair is a key pair of the examination's own.
type keyPair struct{ ed25519.PrivateKey }

func newKeyPair() keyPair {
	_, key, _ := ed25519.GenerateKey(nil) // never fails
	return keyPair{key}
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// x is the public key as a JWK has it (RFC 8037).
func (s keyPair) x() string {
	public, _ := s.Public().(ed25519.PublicKey)
	return encode(public)
}

// thumbprint is that of RFC 7638.
func (s keyPair) thumbprint() string {
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + s.x() + `"}`))
	return encode(sum[:])
}

func (s keyPair) sign(header, payload map[string]any) string {
	h, err1 := json.Marshal(header)
	p, err2 := json.Marshal(payload)
	if err1 != nil || err2 != nil {
		panic(errors.Join(err1, err2)) // texts and numbers alone
	}
	text := encode(h) + "." + encode(p)
	return text + "." + encode(ed25519.Sign(s.PrivateKey, []byte(text)))
}

// keySet answers every request with the examination's own keys: it stands in for iam.
type keySet struct{ trusted []keyPair }

const trustedKey = "doctor"

// RoundTrip implements http.RoundTripper.
func (k keySet) RoundTrip(*http.Request) (*http.Response, error) {
	keys := []map[string]string{}
	for i, s := range k.trusted {
		id := trustedKey
		if i > 0 {
			id = fmt.Sprintf("%s-%d", trustedKey, i)
		}
		keys = append(keys, map[string]string{"kty": "OKP", "crv": "Ed25519", "kid": id, "x": s.x()})
	}
	body, err := json.Marshal(map[string]any{"keys": keys})
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body))}, err
}

// singleOperator is tenant-service with one operator.
type singleOperator struct{}

// FindMember implements backoffice.Members.
func (singleOperator) FindMember(_ context.Context, _ bff.ID, operator, _ string) (*backoffice.Member, error) {
	if operator != attackOperator {
		return nil, backoffice.ErrNoMember
	}
	return &backoffice.Member{DisplayName: "doctor", Roles: []backoffice.Role{backoffice.FrontDesk}}, nil
}

// FindProperty implements board.Properties.
func (singleOperator) FindProperty(context.Context, bff.ID, bff.ID) (board.Property, error) {
	return board.Property{}, bff.Errorf(bff.CodeResourceNotFound, "there is no such property")
}

// Record implements backoffice.Journal: nothing of an attack is published.
func (singleOperator) Record(context.Context, []backoffice.Activity, ...bff.Event) error { return nil }

// guardProbe is the service's guard with the configured stores, and an attacker before it.
type guardProbe struct {
	server       http.Handler
	origin       string // scheme and authority that proofs name
	issuer       string
	audience     string
	tenant       bff.ID
	device       bff.ID
	iam          keyPair // signs tokens
	holder       keyPair // signs proofs
	untrustedKey keyPair // is trusted by none
	burned       []identity.Proof
	close        func(context.Context) error
}

// target is what an attack is on.
type target struct {
	sessions identity.Sessions
	store    *backofficestore.Sessions // removes what was left there
	trusting bool                      // iam publishes the untrusted key, too
}

func (p *backofficeProbe) sessions(client rueidis.Client, keys redis.Keys) *backofficestore.Sessions {
	return backofficestore.NewSessions(backofficestore.SessionsConfig{Client: client, Keys: backofficestore.NewKeys(keys), Timeout: p.Doctor.Timeout})
}

func (p *backofficeProbe) newGuardProbe(on target) (*guardProbe, error) {
	public, err := url.Parse(p.PublicURLs[0])
	if err != nil {
		return nil, errors.New("public-urls: the first is no URL")
	}
	victim, _ := tenants()
	now := time.Now()
	a := &guardProbe{
		origin: public.Scheme + "://" + public.Host, issuer: p.Issuer, audience: p.Audience, tenant: victim, device: bff.NewID(bff.PrefixDevice, now),
		iam: newKeyPair(), holder: newKeyPair(), untrustedKey: newKeyPair(),
	}
	published := keySet{[]keyPair{a.iam}}
	if on.trusting {
		published.trusted = append(published.trusted, a.untrustedKey)
	}
	var nonceKeys [][]byte
	for _, k := range p.NonceKeys {
		nonceKeys = append(nonceKeys, []byte(k.Reveal()))
	}
	tokens, err1 := issuer.NewTokens(&issuer.Keys{URL: "http://doctor.invalid", Client: &http.Client{Transport: published}}, p.Issuer, p.Audience)
	nonces, err2 := dpop.NewNonces(nonceKeys...)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	proofs, err := dpop.New(p.PublicURLs, nonces)
	if err != nil {
		return nil, err
	}
	log, metrics, background := slog.New(slog.DiscardHandler), prometheus.NewRegistry(), web.NewBackground(web.BackgroundConfig{})
	a.close = background.Close
	guard, err := backofficeguard.New(backofficeguard.Config{
		Tokens: tokens, Proofs: proofs, Access: identity.NewAccess(on.sessions, singleOperator{}, singleOperator{}, backoffice.NewEnvelopes("doctor")),
		Properties: singleOperator{}, Limits: ratelimit.Classes{Off: true}, Pepper: []byte("of no use to others"), Background: background,
		Log: log, Metrics: metrics, Namespace: "doctor",
	})
	if err != nil {
		return nil, err
	}
	routes, err := guard.Protect([]web.Route{{
		Pattern: "GET " + attackPath, Kind: web.PrivateRead, Budget: p.Doctor.Timeout, Limit: "doctor", Gate: "doctor", Needs: identity.Needs{},
		Handle: func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(http.StatusNoContent); return nil },
	}})
	if err != nil {
		return nil, err
	}
	server := web.NewServer(web.Config{Log: log, Metrics: metrics, Namespace: "doctor", Budget: p.Doctor.Timeout})
	a.server = server
	return a, server.Mount(routes...)
}

// forgery is a request; an attack changes one thing of a good one.
type forgery struct {
	tokenHeader, claims map[string]any
	tokenBy             keyPair
	forge               func(token string) string // changes the signed token
	proofClaims         map[string]any
	proofBy             keyPair
	proof               string // in place of a new one
	device              bff.ID
}

func (a *guardProbe) forgery() *forgery {
	now := time.Now()
	return &forgery{
		tokenHeader: map[string]any{"alg": "EdDSA", "kid": trustedKey, "typ": "at+jwt"},
		claims: map[string]any{
			"iss": a.issuer, "aud": a.audience, "sub": attackOperator, "tid": a.tenant.String(), "device_id": a.device.String(), "jti": rand.Text(),
			// A tier that was never used begins with this request, and refuses what was issued before.
			"iat": now.Add(2 * time.Second).Unix(), "exp": now.Add(identity.TokenLifetime).Unix(), "cnf": map[string]any{"jkt": a.holder.thumbprint()},
		},
		tokenBy:     a.iam,
		proofClaims: map[string]any{"jti": rand.Text(), "htm": http.MethodGet, "htu": a.origin + attackPath, "iat": now.Unix()},
		proofBy:     a.holder, device: a.device,
	}
}

// send returns the status of the answer and the proof that was sent.
func (a *guardProbe) send(ctx context.Context, t *forgery) (status int, proof string, err error) {
	token := t.tokenBy.sign(t.tokenHeader, t.claims)
	if t.forge != nil {
		token = t.forge(token)
	}
	proof = t.proof
	if proof == "" {
		claims := maps.Clone(t.proofClaims)
		if claims["ath"] == nil {
			sum := sha256.Sum256([]byte(token))
			claims["ath"] = encode(sum[:])
		}
		proof = t.proofBy.sign(map[string]any{
			"typ": "dpop+jwt", "alg": "EdDSA", "jwk": map[string]string{"kty": "OKP", "crv": "Ed25519", "x": t.proofBy.x()},
		}, claims)
		id, _ := claims["jti"].(string)
		a.burned = append(a.burned, identity.Proof{KeyPrint: t.proofBy.thumbprint(), ID: id})
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.origin+attackPath, nil)
	if err != nil {
		return 0, "", err
	}
	req.RequestURI, req.RemoteAddr = attackPath, "127.0.0.1:1"
	req.Header = http.Header{"Authorization": {"DPoP " + token}, "Dpop": {proof}, "X-Device-Id": {t.device.String()}}
	w := httptest.NewRecorder()
	a.server.ServeHTTP(w, req)
	return w.Code, proof, nil
}

// tokenAttack is an attack on the guard.
type tokenAttack struct {
	name   string
	change func(a *guardProbe, t *forgery)
}

func tokenAttacks() []tokenAttack {
	return []tokenAttack{
		{"proof for another URL", func(a *guardProbe, t *forgery) { t.proofClaims["htu"] = a.origin + "/other" }},
		{"proof for another host", func(_ *guardProbe, t *forgery) { t.proofClaims["htu"] = "https://doctor.invalid" + attackPath }},
		{"proof for another method", func(_ *guardProbe, t *forgery) { t.proofClaims["htm"] = http.MethodPost }},
		{"proof for another token", func(_ *guardProbe, t *forgery) { t.proofClaims["ath"] = encode(make([]byte, sha256.Size)) }},
		{"proof of another key", func(a *guardProbe, t *forgery) { t.proofBy = a.untrustedKey }},
		{"proof of an hour ago", func(_ *guardProbe, t *forgery) { t.proofClaims["iat"] = time.Now().Add(-time.Hour).Unix() }},
		{"token without a signature", func(_ *guardProbe, t *forgery) {
			t.tokenHeader["alg"] = "none"
			t.forge = func(token string) string { return token[:bytes.LastIndexByte([]byte(token), '.')+1] }
		}},
		{"token of another key", func(a *guardProbe, t *forgery) { t.tokenBy, t.tokenHeader["kid"] = a.untrustedKey, trustedKey+"-1" }},
		{"token of another key under a known id", func(a *guardProbe, t *forgery) { t.tokenBy = a.untrustedKey }},
		{"token with changed claims", func(a *guardProbe, t *forgery) {
			other := maps.Clone(t.claims)
			other["sub"] = "opt_manager"
			t.forge = func(token string) string { return swapPayload(token, other) }
		}},
		{"token for another audience", func(_ *guardProbe, t *forgery) { t.claims["aud"] = "another-service" }},
		{"token of another issuer", func(_ *guardProbe, t *forgery) { t.claims["iss"] = "https://doctor.invalid" }},
		{"expired token", func(_ *guardProbe, t *forgery) {
			t.claims["iat"], t.claims["exp"] = time.Now().Add(-time.Hour).Unix(), time.Now().Add(-time.Minute).Unix()
		}},
		{"token that claims to live for a year", func(_ *guardProbe, t *forgery) {
			t.claims["iat"], t.claims["exp"] = time.Now().Add(-time.Hour).Unix(), time.Now().AddDate(1, 0, 0).Unix()
		}},
		{"token of another device", func(_ *guardProbe, t *forgery) { t.device = bff.NewID(bff.PrefixDevice, time.Now()) }},
		{"proof as a token", func(a *guardProbe, t *forgery) { t.tokenHeader["typ"] = "dpop+jwt" }},
	}
}

// swapPayload puts other claims under a token's signature.
func swapPayload(token string, claims map[string]any) string {
	parts := bytes.Split([]byte(token), []byte("."))
	raw, err := json.Marshal(claims)
	if err != nil || len(parts) != 3 {
		return token
	}
	return string(parts[0]) + "." + encode(raw) + "." + string(parts[2])
}

const guardAdvice = "take the service out of traffic: callers get in with what they should be refused for"

// attackGuard sends requests through the real guard: a good one, which must pass, the
// same again, and each with one thing wrong.
func (p *backofficeProbe) attackGuard(ctx context.Context, on target) (found []doctor.Finding, err error) {
	a, err := p.newGuardProbe(on)
	if err != nil {
		return nil, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
		defer cancel()
		err = errors.Join(err, a.close(ctx), on.store.Erase(ctx, a.tenant, a.device, attackOperator, a.burned...))
	}()
	good := a.forgery()
	status, proof, err := a.send(ctx, good)
	if err != nil {
		return nil, err
	}
	if status != http.StatusNoContent {
		return doctor.Bad(
			"the attacks were not tried: they would be refused for the same reason", "a request with a good token and proof is refused with status %d", status,
		), nil
	}
	good.proof = proof
	judge := func(name string, t *forgery) error {
		status, _, err := a.send(ctx, t)
		switch {
		case err != nil:
			return err
		case status == http.StatusBadRequest || status == http.StatusUnauthorized || status == http.StatusForbidden:
			found = append(found, doctor.Finding{Check: name, Verdict: doctor.OK, Found: fmt.Sprintf("refused with %d", status)})
		case status < http.StatusBadRequest:
			found = append(found, doctor.Finding{Check: name, Verdict: doctor.Wrong, Found: "was let in", Advice: guardAdvice})
		default:
			found = append(found, doctor.Finding{Check: name, Verdict: doctor.Warning, Found: fmt.Sprintf("was answered with %d, not with a refusal", status)})
		}
		return nil
	}
	if err := judge("the same proof again", good); err != nil {
		return found, err
	}
	for _, th := range tokenAttacks() {
		t := a.forgery()
		th.change(a, t)
		if err := judge(th.name, t); err != nil {
			return found, err
		}
	}
	return found, nil
}

// attackAttestation uses one second factor several times at once, again afterwards,
// for something else and as another tenant.
func attackAttestation(ctx context.Context, kept backoffice.Attestations, store *backofficestore.Sessions) (found []doctor.Finding, err error) {
	victim, attacker := tenants()
	now := time.Now()
	session := backoffice.Session{
		ID: bff.NewID(bff.PrefixBackofficeLogin, now), Tenant: victim, Operator: attackOperator, Device: bff.NewID(bff.PrefixDevice, now),
	}
	// Each is another mutation: a mutation that is repeated may use the same again.
	refund := func(key string) backoffice.Use {
		return backoffice.Use{Scope: backoffice.ScopeRefund, Once: backoffice.Once{Key: key}}
	}
	a := backoffice.Attestation{
		ID: bff.NewID(bff.PrefixMFA, now), Tenant: victim, Operator: session.Operator, Device: session.Device, Session: session.ID,
		Scope: backoffice.ScopeRefund, ExpiresAt: now.Add(backoffice.AttestationLifetime),
	}
	if err := kept.AddAttestation(ctx, a); err != nil {
		return nil, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
		defer cancel()
		err = errors.Join(err, store.EraseAttestation(ctx, victim, a.ID))
	}()
	consume := func(tenant bff.ID, use backoffice.Use) error {
		s := session
		s.Tenant = tenant
		return backoffice.ConsumeAttestation(ctx, kept, &backoffice.Visit{Session: s}, a.ID.String(), use, time.Now())
	}
	judge := func(name string, err error) {
		found = append(found, refusal(name, err, bff.CodeMFAAttestationInvalid, guardAdvice))
	}
	judge("of another tenant", consume(attacker, refund("elsewhere")))
	judge("for something else", consume(victim, backoffice.Use{Scope: backoffice.ScopeLockRevoke}))
	found = append(found, onlyOne(guardAdvice, func(i int) error { return consume(victim, refund(fmt.Sprintf("at once %d", i))) }))
	judge("used again", consume(victim, refund("again")))
	return found, nil
}
