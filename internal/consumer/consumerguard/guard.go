// Package consumerguard stands in front of the public routes: it identifies the
// client of a request, holds it to the limits, judges whether it is a person, and
// challenges it if not. It wraps routes by their kind and knows none of their
// handlers: what it found out reaches them as a [consumer.Visit].
package consumerguard

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"golang.org/x/sync/singleflight"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/challenge"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/memo"
	"melmastoon.ghasi.io/bff/internal/ratelimit"
	"melmastoon.ghasi.io/bff/internal/tracing"
	"melmastoon.ghasi.io/bff/internal/useragent"
	"melmastoon.ghasi.io/bff/internal/web"
)

// Mode says what verdicts lead to.
type Mode string

// The modes there are.
const (
	ModeOn    Mode = "on"
	ModeWatch Mode = "watch" // verdicts are logged and counted, and nothing follows
	ModeOff   Mode = "off"
)

// Config says what the guard works with.
type Config struct {
	Clients Clients
	Limits  ratelimit.Classes
	// Limiter keeps the limits; nil if those are off.
	Limiter *ratelimit.Limiter
	// Scale multiplies the limits of some classes, as campaign mode does.
	Scale map[web.Limit]func() float64

	Mode   Mode
	Policy bot.Policy
	// Memory is shared by all instances.
	Memory   bot.BotMemory
	Sessions guest.Sessions
	// Cards verifies the cards that guests carry.
	Cards *guest.Cards
	// Cardless says which session ids count without a card.
	Cardless   consumer.Cardless
	UserAgents *useragent.Index
	// Verifier proves which clients are search engines; nil = none.
	Verifier   *useragent.Verifier
	Challenger *challenge.Challenger
	// ChallengePath is where a refused client gets a challenge.
	ChallengePath string
	// Recaptcha judges the tokens of X-Recaptcha-Token; nil = they are solutions
	// of our own challenges.
	Recaptcha Assessor

	// Ration bounds how many verdicts are logged, together with those of others who
	// share it.
	Ration *bot.Ration
	// Telemetry and Background take the events of verdicts.
	Telemetry  *consumer.Telemetry
	Background *web.Background
	Log        *slog.Logger
	Now        func() time.Time
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
	need(len(c.Clients.Pepper) > 0, "clients: a pepper is required")
	need(c.Limits.Off || c.Limiter != nil, "limiter: missing")
	need(c.Mode == ModeOn || c.Mode == ModeWatch || c.Mode == ModeOff, "mode: want on, watch or off")
	need(c.UserAgents != nil && c.Memory != nil && c.Sessions != nil && c.Cards != nil, "user agents, memory, sessions and cards are required")
	need(c.Challenger != nil && c.ChallengePath != "", "challenger and its path are required")
	need(c.Telemetry != nil && c.Background != nil && c.Ration != nil, "telemetry, background and ration are required")
	need(c.Log != nil && c.Now != nil && c.Metrics != nil, "log, now and metrics are required")
	return errors.Join(errs...)
}

// Guard decides, for each request, whether it is answered, and at what cost. No
// request waits for a store, but those of suspects: counts are in memory, limits
// on leases, and what other instances know is exchanged in the background.
type Guard struct {
	cfg     Config
	policy  bot.Policy
	classes map[web.Limit]*ratelimit.Class // empty = no limits
	charges *ratelimit.Charges

	profiles *memo.Memo[bot.Headers, *profile]
	cards    *memo.Memo[cardUnder, consumer.Card]
	clients  *memo.Table[clientCounts]
	crowds   *memo.Table[bot.Crowd]
	networks *memo.Table[bot.Network]
	lookups  singleflight.Group
	// jobs are small and about what comes again: they may be lost.
	jobs *web.Background
	busy *busyClients
	// solutions is the class whose address pays for a solution: that of the
	// challenges; nil without limits.
	solutions     *ratelimit.Class
	solutionLimit web.Limit     // its name
	assessing     chan struct{} // holds a place for each token that is being assessed
	maxOpened     int           // sessions of a network in a minute; 0 = no bound

	verdicts [3][4]prometheus.Counter // verdict, action
	limited  *prometheus.CounterVec
	answers  *prometheus.CounterVec // to challenges
	link     []string               // to the challenge, for programs
}

// clientCounts is what this process counted of a client, and how it judged it.
type clientCounts struct {
	bot.Track
	// All in milliseconds.
	blockedUntil, solvedUntil, checked int64
	reported                           int64    // the last exchange about it
	loggedAt                           [2]int64 // suspect, bot
	// Of a session: counted before, being looked up, found to be one of ours.
	seen, lookedUp, genuine bool
}

// Bounds of what is remembered.
const (
	maxClients  = 1 << 15
	maxCrowds   = 1 << 14
	maxNetworks = 1 << 14
	maxProfiles = 1 << 13
	maxVerified = 1 << 12
)

// openedPerMinute is how many sessions one client would open at most; a network,
// with all clients behind it, may open as many times more as its other limits are
// higher. People keep their session: only clients that throw it away need more.
const openedPerMinute = 60

// Bounds of the small jobs.
const (
	maxJobs    = 256
	jobWorkers = 2
	jobBudget  = 250 * time.Millisecond
)

// New checks the configuration.
func New(cfg Config) (*Guard, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	cfg.Clients.addresses = &sync.Pool{New: func() any { return hmac.New(sha256.New, cfg.Clients.Pepper) }}
	g := &Guard{
		cfg: cfg, policy: cfg.Policy, classes: map[web.Limit]*ratelimit.Class{}, charges: ratelimit.NewCharges(),
		profiles: memo.New[bot.Headers, *profile](maxProfiles), clients: memo.NewTable[clientCounts](maxClients),
		crowds: memo.NewTable[bot.Crowd](maxCrowds), networks: memo.NewTable[bot.Network](maxNetworks),
		cards: memo.New[cardUnder, consumer.Card](maxVerified),
		jobs:  web.NewBackground(web.BackgroundConfig{Queue: maxJobs, Workers: jobWorkers, Budget: jobBudget}),
		busy:  newBusyClients(), assessing: make(chan struct{}, maxAssessing),
		link: []string{"<" + cfg.ChallengePath + `>; rel="challenge"`},
	}
	var errs []error
	if !cfg.Limits.Off {
		g.maxOpened = int(openedPerMinute * cfg.Limits.IP)
		for name := range cfg.Limits.PerMinute {
			class, err := ratelimit.NewClass(cfg.Limiter, name, cfg.Scale[web.Limit(name)])
			errs = append(errs, err)
			g.classes[web.Limit(name)] = class
		}
	}
	g.register()
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	return g, nil
}

// What is done about a verdict, as metrics name it.
const (
	actNone = iota
	actCache
	actChallenge
	actBlock
)

func (g *Guard) register() {
	verdicts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: g.cfg.Namespace, Name: "bot_verdict_total", Help: "Requests by the verdict on their sender and what was done about it.",
	}, []string{"verdict", "action"})
	g.limited = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: g.cfg.Namespace, Name: "rate_limited_total", Help: "Requests beyond a limit, by class and whose limit it was.",
	}, []string{"class", "scope"})
	g.answers = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: g.cfg.Namespace, Name: "bot_challenge_total", Help: "Challenges answered, by outcome: each solved one was put to a client that is no bot, as far as a challenge can tell.",
	}, []string{"outcome"})
	g.cfg.Metrics.MustRegister(verdicts, g.limited, g.answers)
	for _, outcome := range []string{answerSolved, answerFailed} {
		g.answers.WithLabelValues(outcome) // there from the start: a rate needs a zero to rise from
	}
	for class := range g.cfg.Limits.PerMinute {
		for _, scope := range []string{ratelimit.ScopeSession, ratelimit.ScopeIP, ratelimit.ScopeFingerprint} {
			g.limited.WithLabelValues(class, scope)
		}
	}
	for v, verdict := range []bot.Verdict{bot.Human, bot.Suspect, bot.Bot} {
		for a, action := range []string{actNone: "none", actCache: "cache", actChallenge: "challenge", actBlock: "hard-block"} {
			g.verdicts[v][a] = verdicts.WithLabelValues(string(verdict), action)
		}
	}
}

// Close finishes the jobs that were begun.
func (g *Guard) Close(ctx context.Context) error { return g.jobs.Close(ctx) }

// Protect returns the routes behind the guard, each by its kind. A route whose
// limit is not configured is an error, as is an internal one: no client reaches it.
func (g *Guard) Protect(routes []web.Route) ([]web.Route, error) {
	protected := make([]web.Route, 0, len(routes))
	var errs []error
	for _, rt := range routes {
		class := g.classes[rt.Limit]
		switch {
		case rt.Kind == "" || rt.Kind == web.Internal:
			errs = append(errs, fmt.Errorf("guard: route %q: kind %q is not public", rt.Pattern, rt.Kind))
		case class == nil && !g.cfg.Limits.Off:
			errs = append(errs, fmt.Errorf("guard: route %q: there is no limit %q", rt.Pattern, rt.Limit))
		}
		if rt.Kind == web.Challenge {
			g.solutions, g.solutionLimit = class, rt.Limit
		}
		rt.Handle = g.protect(rt, class)
		protected = append(protected, rt)
	}
	return protected, errors.Join(errs...)
}

func (g *Guard) protect(rt web.Route, class *ratelimit.Class) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		// This API is anonymous. A token that strays here must be noticed rather
		// than ignored.
		if len(r.Header["Authorization"]) > 0 {
			return bff.Errorf(bff.CodeSurfaceMismatch, "this surface is anonymous: send no Authorization header")
		}
		s := g.identify(r)
		web.From(r.Context()).Local = &s.Visit
		if g.cfg.Mode == ModeOff {
			s.noted(r)
			return g.charged(w, r, s, &rt, class)
		}
		return g.judged(w, r, s, &rt, class)
	}
}

// noted writes the guest into the span of its request, where requests are recorded in detail.
func (s *sender) noted(r *http.Request, more ...attribute.KeyValue) {
	if span := tracing.Detail(r.Context()); span != nil {
		span.SetAttributes(append(more, attribute.String("caller.kind", "guest"), attribute.String("caller.name", s.limited.Session))...)
	}
}

// judged answers a request as the verdict on its client allows.
func (g *Guard) judged(w http.ResponseWriter, r *http.Request, s *sender, rt *web.Route, class *ratelimit.Class) error {
	j := g.judge(r, s, rt)
	s.noted(r, attribute.String("caller.verdict", string(j.verdict)), attribute.Float64("caller.score", bot.Round(j.score)))
	if g.cfg.Mode == ModeOn {
		if err := g.readSolution(w, r, s, &j); err != nil {
			g.count(s, rt, &j)
			return err
		}
	}
	action, err := g.act(s, rt, &j)
	if err != nil {
		g.count(s, rt, &j)
		g.verdicts[j.index()][action].Inc()
		return g.refuse(w, r, s, &j, err)
	}
	if s.NoSession && rt.Kind == web.PublicRead && !s.hasSession() {
		s.Untracked = true
	}
	refusal := s.Refusal
	if j.genuine {
		class = nil // the cache answers, or nothing does
	}
	err = g.charged(w, r, s, rt, class)
	if s.overLimit {
		g.count(s, rt, &j)
		return err
	}
	// What calls an upstream counts, whatever the route's kind: reports that look a
	// hotel up would else try ids for nothing.
	j.counts = j.counts && !s.attempt.Retry() || s.Costly()
	if s.Opened() {
		network, mu := g.networks.Lock(s.networkKey, s.ms)
		network.Open(s.ms)
		mu.Unlock()
	}
	if !harmless(&s.Visit, rt, err) {
		g.count(s, rt, &j)
	}
	switch {
	case refusal != nil && err == refusal: //nolint:errorlint // the very same: the cache had nothing
		g.verdicts[j.index()][actChallenge].Inc()
		if j.genuine {
			return err
		}
		return g.refuse(w, r, s, &j, err)
	case refusal != nil:
		g.verdicts[j.index()][actCache].Inc()
	default:
		g.verdicts[j.index()][actNone].Inc()
	}
	if j.verdict != bot.Human && !j.genuine {
		g.log(r, s, &j, bot.ActionNone)
	}
	return err
}

// harmless reports whether a request cost nothing worth counting: the cache
// answered it, it asked for nothing that there is, or we failed. A page that is reloaded
// for ever costs us less than it costs the client.
func harmless(v *consumer.Visit, rt *web.Route, err error) bool {
	switch {
	case v.Costly() || err != nil && err == v.Refusal: //nolint:errorlint // the very same
		return false
	case err == nil:
		return rt.Kind == web.PublicRead
	}
	status := bff.CodeOf(err).Info().Status
	if status >= http.StatusInternalServerError {
		return rt.Kind == web.PublicRead // it waited for another's search, which failed: an outage makes no bots
	}
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusUnsupportedMediaType, http.StatusRequestEntityTooLarge, http.StatusNotFound:
		return true
	}
	return false
}

// count adds a request to its client's pace, once it is known what it cost: of a
// thousand that ask the same at once, one costs something.
func (g *Guard) count(s *sender, rt *web.Route, j *judgement) {
	if !j.counts {
		return
	}
	c, mu := g.clients.Lock(s.key, s.ms)
	c.Count(s.ms, rt.Repeats)
	if c.Busy(s.ms) {
		g.busy.add(s.key)
	}
	mu.Unlock()
	network, mu := g.networks.Lock(s.networkKey, s.ms)
	network.Count(s.ms, s.hasSession())
	mu.Unlock()
}

// Times that refused clients are told to wait.
const (
	// retryChallenged is when a client that cannot solve a challenge may try again:
	// paces are forgotten in about as long.
	retryChallenged = 30 * time.Second
	retryCrawler    = 2 * time.Minute
)

// act says what follows from a verdict: nothing, an answer from the cache only,
// or a refusal.
func (g *Guard) act(s *sender, rt *web.Route, j *judgement) (action int, refused error) {
	switch {
	case g.cfg.Mode == ModeWatch, asksForSession(rt, s):
		return actNone, nil
	case s.hasSession() && j.blockedUntil > s.ms:
		return actBlock, errBlocked(time.Duration(j.blockedUntil-s.ms) * time.Millisecond)
	case j.genuine:
		s.Untracked, s.CacheOnly = true, true
		s.Refusal = &bff.Error{Code: bff.CodeServiceUnavailable, Detail: "this page is temporarily unavailable: retry later", RetryAfter: retryCrawler}
		return actCache, nil
	case j.preview && j.claim != useragent.False:
		s.Untracked = true
		return actNone, nil
	case j.verdict == bot.Human, rt.Kind == web.Challenge:
		return actNone, nil
	case rt.Kind == web.PublicRead:
		s.CacheOnly, s.Refusal = true, g.errSuspected(j)
		// A session for each of them is what a flood without cookies wants.
		s.Untracked = j.verdict == bot.Bot || !s.hasSession()
		return actCache, nil
	case j.verdict == bot.Bot, rt.Kind == web.Change:
		return actChallenge, g.errSuspected(j)
	}
	return actNone, nil
}

// asksForSession reports whether a client without a session asks for one. It is
// known by headers and network, which many share: were it refused a session for
// what others did, it could never be told apart from them. Limits still hold.
func asksForSession(rt *web.Route, s *sender) bool {
	return rt.Kind == web.PrivateRead && !s.hasSession()
}

// charged charges a request to the limits of its class, which is nil if there are
// none, and has it answered.
func (g *Guard) charged(w http.ResponseWriter, r *http.Request, s *sender, rt *web.Route, class *ratelimit.Class) error {
	if class == nil {
		return rt.Handle(w, r)
	}
	var unread error
	kept := false // nothing is, unless the handler says so
	if rt.KeepsAnswers {
		unread = g.beginAttempt(w, r, s)
		defer func() {
			if s.attempt.End(kept) { // a retry that was none: it costs what others cost
				class.Write(r.Context(), s.limited, &ratelimit.Attempt{}, s.At)
			}
		}()
	}
	if err := g.charge(w, r, s, rt, class); err != nil {
		s.overLimit = true
		return err
	}
	if unread != nil {
		return unread
	}
	err := rt.Handle(w, r)
	kept = err == nil && (!s.attempt.Retry() || web.Header(w.Header(), consumer.ReplayedHeader) != "")
	return err
}

// beginAttempt finds out whether a request repeats an earlier one, for which it
// reads the body; the handler finds it unread. A body that cannot be read repeats
// nothing and is the request's error, once it was charged.
func (g *Guard) beginAttempt(w http.ResponseWriter, r *http.Request, s *sender) error {
	key := idempotencyKey(r.Header)
	if key == "" || !s.hasSession() {
		return nil
	}
	body := ""
	if web.From(r.Context()).MaxBody > 0 {
		var err error
		if body, err = web.ReadText(w, r); err != nil {
			return err
		}
		r.Body = io.NopCloser(strings.NewReader(body))
	}
	s.attempt = g.charges.Begin(s.At, s.limited.Session, key, r.Method, r.URL.Path, body)
	return nil
}

// charge holds a request to the limits of its class.
func (g *Guard) charge(w http.ResponseWriter, r *http.Request, s *sender, rt *web.Route, class *ratelimit.Class) error {
	if rt.Kind != web.PublicRead {
		decision := class.Write(r.Context(), s.limited, &s.attempt, s.At)
		ratelimit.Announce(w.Header(), decision)
		if !decision.Allowed {
			g.limited.WithLabelValues(string(rt.Limit), class.Scope(decision)).Inc()
			return errLimited(decision)
		}
		return nil
	}
	decision, over := class.Read(r.Context(), s.limited, s.At)
	if !rt.CDN || !decision.Allowed {
		ratelimit.Announce(w.Header(), decision)
	}
	if decision.Allowed {
		return nil
	}
	g.limited.WithLabelValues(string(rt.Limit), class.Scope(decision)).Inc()
	if !over {
		return errLimited(decision)
	}
	if s.Untracked = true; !s.CacheOnly {
		s.CacheOnly, s.Refusal = true, errLimited(decision)
	}
	return nil
}

// refuse tells a client how to go on, and counts that it was told.
func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, s *sender, j *judgement, err error) error {
	if j.blockedUntil > s.ms || j.genuine {
		return err
	}
	if g.mayPass(j) {
		w.Header()["Link"] = g.link
	}
	c, mu := g.clients.Lock(s.key, s.ms)
	ignored := c.Ignore(s.ms)
	mu.Unlock()
	if ignored%(maxIgnored+1) == 0 {
		g.block(r, s, j)
	}
	g.log(r, s, j, bot.ActionChallenge)
	return err
}

// mayPass reports whether a solved challenge would help a client.
func (g *Guard) mayPass(j *judgement) bool {
	return g.policy.Verdict(g.policy.Lasting(&j.evidence)) == bot.Human
}

func (g *Guard) errSuspected(j *judgement) *bff.Error {
	if !g.mayPass(j) {
		return &bff.Error{
			Code:       bff.CodeSuspectedBot,
			Detail:     "this client is an automated browser or not the search engine that it claims to be: a challenge does not change that, use an ordinary browser",
			RetryAfter: retryChallenged,
		}
	}
	return &bff.Error{
		Code:       bff.CodeSuspectedBot,
		Detail:     "solve the challenge of GET " + g.cfg.ChallengePath + " and send the request again with the solution in X-Challenge",
		RetryAfter: retryChallenged,
	}
}

func errBlocked(left time.Duration) *bff.Error {
	return &bff.Error{Code: bff.CodeSuspectedBot, Detail: "too many challenges were ignored or failed: wait", RetryAfter: max(left, time.Second)}
}

func errLimited(d ratelimit.Decision) error {
	return &bff.Error{Code: bff.CodeRateLimited, Detail: "too many requests: wait and try again", RetryAfter: max(d.RetryAfter, time.Second)}
}

// idempotencyKey reads the key without judging it; the handler does.
func idempotencyKey(h http.Header) string {
	if k := web.Header(h, "Idempotency-Key"); k != "" {
		return k
	}
	return web.Header(h, "X-Idempotency-Key")
}
