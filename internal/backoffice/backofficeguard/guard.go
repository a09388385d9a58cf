// Package backofficeguard stands in front of the staff service's routes: it finds out
// who sends a request, and lets it pass to its handler as a [backoffice.Visit] if it
// may. It knows tokens and proofs, and none of the handlers.
package backofficeguard

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/dpop"
	"melmastoon.ghasi.io/bff/internal/issuer"
	"melmastoon.ghasi.io/bff/internal/memo"
	"melmastoon.ghasi.io/bff/internal/ratelimit"
	"melmastoon.ghasi.io/bff/internal/tracing"
	"melmastoon.ghasi.io/bff/internal/web"
)

// Config is what the guard works with.
type Config struct {
	Tokens *issuer.Tokens
	Proofs *dpop.Verifier
	Access *identity.Access
	// Properties tells a property outside the caller's scope from another tenant's.
	Properties board.Properties
	Limits     ratelimit.Classes
	// Limiter keeps the limits; nil if those are off.
	Limiter *ratelimit.Limiter
	// MinAppVersion is the oldest app that is served, such as 2.4.0; empty = every one.
	MinAppVersion string
	// Pepper keys the hashes of addresses and fingerprints.
	Pepper []byte
	// Background takes reports of replays.
	Background *web.Background
	Log        *slog.Logger
	Metrics    prometheus.Registerer
	Namespace  string
}

func (c *Config) validate() error {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New(what))
		}
	}
	need(c.Tokens != nil && c.Proofs != nil && c.Access != nil && c.Properties != nil, "tokens, proofs, access and properties are required")
	need(c.Limits.Off || c.Limiter != nil, "limiter: missing")
	need(len(c.Pepper) > 0, "pepper: missing")
	need(c.Background != nil && c.Log != nil && c.Metrics != nil, "background, log and metrics are required")
	return errors.Join(errs...)
}

// Guard admits requests.
type Guard struct {
	cfg     Config
	floor   version
	classes map[web.Limit]*ratelimit.Class // empty = no limits
	hashes  *sync.Pool

	reported *memo.Table[time.Time] // by key: the last report of a replay
	refused  *prometheus.CounterVec
	replays  prometheus.Counter
}

// maxReported bounds the memory of reported replays.
const maxReported = 4 << 10

// New checks the configuration.
func New(cfg Config) (*Guard, error) {
	err := cfg.validate()
	floor, ok := parseVersion(cfg.MinAppVersion)
	if !ok && cfg.MinAppVersion != "" {
		err = errors.Join(err, fmt.Errorf("min app version: %q is none", cfg.MinAppVersion))
	}
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	g := &Guard{
		cfg: cfg, floor: floor, classes: map[web.Limit]*ratelimit.Class{},
		hashes:   &sync.Pool{New: func() any { return hmac.New(sha256.New, cfg.Pepper) }},
		reported: memo.NewTable[time.Time](maxReported),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: cfg.Namespace, Name: "dpop_refused_total", Help: "Proofs of possession that were refused, by the check that they failed.",
		}, []string{"reason"}),
		replays: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: cfg.Namespace, Name: "dpop_replay_blocked_total", Help: "Proofs of possession that were sent a second time.",
		}),
	}
	cfg.Metrics.MustRegister(g.refused, g.replays)
	if cfg.Limits.Off {
		return g, nil
	}
	var errs []error
	for name := range cfg.Limits.PerMinute {
		class, err := ratelimit.NewClass(cfg.Limiter, name, nil)
		errs = append(errs, err)
		g.classes[web.Limit(name)] = class
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	return g, nil
}

// Protect puts the guard in front of routes. A route that does not say what it needs
// is an error: it was never decided whether it is safe.
func (g *Guard) Protect(routes []web.Route) ([]web.Route, error) {
	out := make([]web.Route, 0, len(routes))
	var errs []error
	for _, rt := range routes {
		needs, ok := rt.Needs.(identity.Needs)
		if !ok {
			errs = append(errs, fmt.Errorf("route %q: needs: missing", rt.Pattern))
			continue
		}
		if needs.ProofOnly && (len(needs.Roles) > 0 || needs.Property || needs.OwnProperty) {
			errs = append(errs, fmt.Errorf("route %q: a caller without a token has neither roles nor properties", rt.Pattern))
		}
		if _, ok := g.classes[rt.Limit]; !ok && !g.cfg.Limits.Off {
			errs = append(errs, fmt.Errorf("route %q: there is no limit %q", rt.Pattern, rt.Limit))
		}
		rt.Handle = g.before(rt.Handle, needs, rt.Limit)
		out = append(out, rt)
	}
	return out, errors.Join(errs...)
}

func (g *Guard) before(next web.Handler, needs identity.Needs, limit web.Limit) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		req := web.From(r.Context())
		w.Header()["Dpop-Nonce"] = []string{g.cfg.Proofs.Nonce(req.Start)}
		var err error
		if needs.ProofOnly {
			req.Local, err = g.admitProof(w, r, limit)
		} else {
			req.Local, err = g.admit(w, r, needs, limit)
		}
		if err != nil {
			return challenge(w, err)
		}
		return next(w, r)
	}
}

// admit runs the checks in their order (backoffice.md §2): shape and size, token,
// device, proof, replay, session, version, limits, role, scope. What is refused first
// says least. Limits are charged before the proof is used up and the session opened, so
// that what they refuse leaves nothing in the session tier; what is wrong besides is
// looked up and told first all the same.
func (g *Guard) admit(w http.ResponseWriter, r *http.Request, needs identity.Needs, limit web.Limit) (*backoffice.Visit, error) {
	ctx, req := r.Context(), web.From(r.Context())
	now := req.Start
	sent, err := readHeaders(r, needs.Property)
	if err != nil {
		return nil, err
	}
	token, err := g.token(ctx, sent.token, now)
	if err != nil {
		return nil, err
	}
	caller, err := g.caller(token, sent, r)
	if err != nil {
		return nil, err
	}
	if span := tracing.Detail(ctx); span != nil {
		span.SetAttributes(attribute.String("caller.kind", "operator"), attribute.String("caller.name", caller.Operator),
			attribute.String("caller.tenant", caller.Tenant.String()), attribute.String("caller.device", caller.Device.String()))
	}
	proof, err := g.proof(w, sent.proof, dpop.Request{
		Method: r.Method, Path: r.URL.EscapedPath(), TokenHash: token.Hash, KeyPrint: token.KeyPrint,
	}, now)
	if err != nil {
		return nil, err
	}
	who := ratelimit.Client{
		Session: caller.Tenant.String() + caller.Device.String(), Fingerprint: caller.Tenant.String() + caller.Operator,
		Network: ratelimit.Network(req.ClientIP),
	}
	limited := g.charge(ctx, limit, who, now)
	proof.Look = !limited.Allowed
	visit, err := g.cfg.Access.Enter(ctx, caller, proof, occasion(req), now)
	if err != nil {
		g.refund(limit, who, limited, err)
		return nil, g.entered(ctx, caller, proof, now, err)
	}
	if err := g.supported(sent.version); err != nil {
		return nil, err
	}
	if err := announce(w, limited); err != nil {
		return nil, err
	}
	if len(needs.Roles) > 0 && !visit.Member.HasAny(needs.Roles) {
		if needs.Property { // the ledger of that property says who tried
			_ = g.scope(r, sent, visit)
		}
		return nil, g.cfg.Access.RefuseRoute(ctx, visit, r.Pattern, bff.Errorf(bff.CodeRoleDenied, "your role does not allow this"), now)
	}
	if needs.Property || needs.OwnProperty && r.URL.Query().Has("propertyId") {
		err := g.scope(r, sent, visit)
		if bff.CodeOf(err) == bff.CodePropertyScopeDenied {
			err = g.cfg.Access.RefuseRoute(ctx, visit, r.Pattern, err, now)
		}
		return visit, err
	}
	return visit, nil
}

// admitProof runs the checks of a route that takes no access token. Its limits count the
// address and the key, which are proven, and not the device, of which the caller only
// says that it is its own: that one is counted when iam has said so.
func (g *Guard) admitProof(w http.ResponseWriter, r *http.Request, limit web.Limit) (*identity.Holder, error) {
	ctx, req := r.Context(), web.From(r.Context())
	sent, err := readProofHeaders(r, false)
	if err != nil {
		return nil, err
	}
	proof, err := g.proof(w, sent.proof, dpop.Request{Method: r.Method, Path: r.URL.EscapedPath()}, req.Start)
	if err != nil {
		return nil, err
	}
	who := ratelimit.Client{Session: proof.KeyPrint, Network: ratelimit.Network(req.ClientIP)}
	limited := g.charge(ctx, limit, who, req.Start)
	proof.Look = !limited.Allowed
	if err := g.cfg.Access.Burn(ctx, proof, req.Start); err != nil {
		g.refund(limit, who, limited, err)
		switch {
		case errors.Is(err, identity.ErrForgotten):
			g.refused.WithLabelValues(string(dpop.ReasonNonce)).Inc()
			return nil, errProof(w, &dpop.Error{Reason: dpop.ReasonNonce}, req.Start)
		case bff.CodeOf(err) == bff.CodeDPoPReplayed:
			g.replays.Inc()
		}
		return nil, err
	}
	if err := g.supported(sent.version); err != nil {
		return nil, err
	}
	if err := announce(w, limited); err != nil {
		return nil, err
	}
	return &identity.Holder{
		Device: sent.device, KeyPrint: proof.KeyPrint, Proof: sent.proof,
		Vouched: func(ctx context.Context, tenant string) {
			g.charge(ctx, limit, ratelimit.Client{Session: tenant + sent.device.String()}, req.Start)
		},
	}, nil
}

// token verifies the access token.
func (g *Guard) token(ctx context.Context, raw string, now time.Time) (*issuer.Token, error) {
	token, err := g.cfg.Tokens.Verify(ctx, raw, now)
	switch {
	case err == nil && !now.Before(token.Issued.Add(identity.TokenLifetime)), errors.Is(err, issuer.ErrExpired):
		// Tombstones are kept for a token's life: one that claims a longer life would
		// outlive them.
		return nil, bff.Errorf(bff.CodeTokenExpired, "the access token has expired: refresh it")
	case err == nil:
		return token, nil
	case errors.Is(err, issuer.ErrUnknownKey):
		// Of a key that iam has withdrawn, or only just begun to use, or made up. Which
		// keys there are is public; the holder of a refresh token helps itself with it,
		// and by then the new keys are here.
		return nil, &bff.Error{Code: bff.CodeTokenExpired, Detail: "the key of this access token is not known: refresh it", Err: err}
	case errors.Is(err, issuer.ErrAudience):
		return nil, bff.Errorf(bff.CodeSurfaceMismatch, "this token is for another surface")
	case errors.Is(err, issuer.ErrToken):
		return nil, unauthenticated(err)
	}
	return nil, &bff.Error{
		Code: bff.CodeUpstreamUnavailable, Detail: "tokens cannot be checked right now: try again shortly", RetryAfter: 2 * time.Second, Err: err,
	}
}

func unauthenticated(cause error) error {
	return &bff.Error{Code: bff.CodeUnauthenticated, Detail: "the caller could not be authenticated", Err: cause}
}

// proof verifies the proof of possession.
func (g *Guard) proof(w http.ResponseWriter, raw string, want dpop.Request, now time.Time) (identity.Proof, error) {
	p, err := g.cfg.Proofs.Verify(raw, want, now)
	if err != nil {
		refused, ok := errors.AsType[*dpop.Error](err)
		if !ok {
			return identity.Proof{}, err
		}
		g.refused.WithLabelValues(string(refused.Reason)).Inc()
		return identity.Proof{}, errProof(w, refused, now)
	}
	return identity.Proof{KeyPrint: p.KeyPrint, ID: p.ID, Issued: p.Issued, Made: p.Made, Until: p.Until}, nil
}

// reportEvery is how often the replays of one key are reported: a flood of them must
// not become a flood of events.
const reportEvery = 10 * time.Second

// entered counts and reports a replay.
func (g *Guard) entered(ctx context.Context, c backoffice.Caller, p identity.Proof, now time.Time, err error) error {
	if bff.CodeOf(err) != bff.CodeDPoPReplayed {
		return err
	}
	g.replays.Inc()
	last, mu := g.reported.Lock(spread(p.KeyPrint), now.UnixMilli())
	due := now.Sub(*last) >= reportEvery
	if due {
		*last = now
	}
	mu.Unlock()
	if due {
		o := occasion(web.From(ctx))
		g.cfg.Background.Do(func(ctx context.Context) {
			if err := g.cfg.Access.ReportReplay(ctx, c, o, now); err != nil {
				g.cfg.Log.WarnContext(ctx, "replayed proof was blocked, but its event could not be written", "error", err.Error())
			}
		})
	}
	return err
}

// supported refuses apps below the floor.
func (g *Guard) supported(sent version) error {
	if g.cfg.MinAppVersion != "" && sent.before(g.floor) {
		return bff.Errorf(bff.CodeAppVersionUnsupported, "this app is no longer supported: update it to %s or later", g.cfg.MinAppVersion)
	}
	return nil
}

// charge charges a request to its limit.
func (g *Guard) charge(ctx context.Context, limit web.Limit, who ratelimit.Client, now time.Time) ratelimit.Decision {
	class := g.classes[limit]
	if class == nil {
		return ratelimit.Decision{Allowed: true}
	}
	return class.Write(ctx, who, new(ratelimit.Attempt), now)
}

// refund takes a charge back from a caller whose proof was sent again: that needs no
// key, and a thief of one request could use up its device's limit with it.
func (g *Guard) refund(limit web.Limit, who ratelimit.Client, d ratelimit.Decision, err error) {
	if class := g.classes[limit]; class != nil && d.Allowed && bff.CodeOf(err) == bff.CodeDPoPReplayed {
		class.Refund(who)
	}
}

// announce tells the limit, and refuses what is beyond it.
func announce(w http.ResponseWriter, d ratelimit.Decision) error {
	ratelimit.Announce(w.Header(), d)
	if !d.Allowed {
		return &bff.Error{Code: bff.CodeStaffRateLimited, Detail: "too many requests of this device: retry later", RetryAfter: d.RetryAfter}
	}
	return nil
}

// scope refuses a property that the operator does not work for. One of another tenant
// does not exist for the caller: that it does is not told.
func (g *Guard) scope(r *http.Request, sent *headers, v *backoffice.Visit) error {
	property, err := propertyOf(r, sent)
	if err != nil {
		return err
	}
	if !v.Member.Scope.Lists(property) {
		if _, err := g.cfg.Properties.FindProperty(r.Context(), v.Caller.Tenant, property); err != nil {
			return err
		}
		if !v.Member.Scope.Covers(property) {
			v.Property = property // for the ledger: the caller gets no further
			return bff.Errorf(bff.CodePropertyScopeDenied, "this property is outside your scope")
		}
	}
	v.Property = property
	return nil
}

func occasion(req *web.Request) backoffice.Occasion {
	return backoffice.Occasion{RequestID: req.ID, TraceParent: req.TraceParent}
}

// sum is a keyed hash, as the platform writes it.
func (g *Guard) sum(parts ...string) string {
	mac, _ := g.hashes.Get().(hash.Hash)
	defer g.hashes.Put(mac)
	mac.Reset()
	for _, p := range parts {
		mac.Write([]byte(p))
		mac.Write([]byte{0})
	}
	var room [sha256.Size]byte
	return "sha256:" + hex.EncodeToString(mac.Sum(room[:0]))
}
