package consumerhttp

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/challenge"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/ratelimit"
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

// DefenceConfig is what the defence against programs and greed stands on.
type DefenceConfig struct {
	Limits Limits
	// Limiter keeps the rules of Limits; nil if those are off.
	Limiter *ratelimit.Limiter
	// Campaign reports campaign mode.
	Campaign func() bool

	Mode   Mode
	Policy bot.Policy
	// Memory is shared by all instances.
	Memory     consumer.BotMemory
	UserAgents *useragent.Index
	// Verifier proves who is a search engine; nil = nobody.
	Verifier   *useragent.Verifier
	Challenger *challenge.Challenger
	// Recaptcha judges the tokens of X-Recaptcha-Token; nil = they are solutions
	// of our own challenges.
	Recaptcha Assessor

	Log     *slog.Logger
	Now     func() time.Time
	Metrics prometheus.Registerer
}

// Defence decides, for each request, whether it is answered, and at what cost.
// It waits for nobody: counts are in memory, limits on leases, and what other
// instances know is exchanged behind the answers.
type Defence struct {
	cfg    DefenceConfig
	policy bot.Policy
	limits map[web.Limit]*limits // by class; empty = none

	looks    *memo[sentHeaders, *looks]
	visitors *table[visitorState]
	crowds   *table[bot.Crowd]
	networks *table[bot.Network]
	asking   singleflight.Group
	jobs     chan func()
	hot      *hotSet
	logged   rationed

	verdicts *prometheus.CounterVec
	counted  [3][4]prometheus.Counter // verdict, action
	limited  *prometheus.CounterVec
}

// visitorState is what this process knows of a visitor.
type visitorState struct {
	bot.Track
	// All in milliseconds.
	blockedUntil, solvedUntil, checked int64
	told                               int64    // the last exchange about it
	loggedAt                           [2]int64 // suspect, bot
	// Of a session: seen before, being looked up, found to be one of ours.
	seen, asked, genuine bool
}

// Bounds of what is remembered.
const (
	maxVisitors = 1 << 15
	maxCrowds   = 1 << 14
	maxNetworks = 1 << 14
	maxJobs     = 256
)

// Times.
const (
	blockFor  = 10 * time.Minute
	solvedFor = 30 * time.Minute
	logEvery  = time.Minute
	// checkEvery is how often a suspect's standing is read again.
	checkEvery   = 2 * time.Second
	checkTimeout = 100 * time.Millisecond
	// retryChallenged is when a visitor who cannot solve a challenge may try again:
	// paces are forgotten in about as long.
	retryChallenged = 30 * time.Second
	retryCrawler    = 2 * time.Minute
)

// Repeat offenders are shut out: after so many within ten minutes.
const (
	maxFailures = 3
	maxIgnored  = 60
)

// NewDefence checks the configuration.
func NewDefence(cfg DefenceConfig) (*Defence, error) {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New(what))
		}
	}
	need(cfg.Limits.Off || cfg.Limiter != nil, "limiter: missing")
	need(cfg.Mode == ModeOn || cfg.Mode == ModeWatch || cfg.Mode == ModeOff, "mode: want on, watch or off")
	need(cfg.UserAgents != nil && cfg.Memory != nil && cfg.Challenger != nil, "user agents, memory and challenger are required")
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Campaign == nil {
		cfg.Campaign = func() bool { return false }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	d := &Defence{
		cfg: cfg, policy: cfg.Policy, limits: map[web.Limit]*limits{}, looks: newMemo[sentHeaders, *looks](knownLooks),
		visitors: newTable[visitorState](maxVisitors), crowds: newTable[bot.Crowd](maxCrowds), networks: newTable[bot.Network](maxNetworks),
		jobs: make(chan func(), maxJobs), hot: newHotSet(), logged: rationed{most: maxLogged},
	}
	if !cfg.Limits.Off && cfg.Limiter != nil {
		once := newCharges()
		for class := range cfg.Limits.PerMinute {
			l, err := newLimits(class, cfg.Limiter, cfg.Campaign, once)
			errs = append(errs, err)
			d.limits[class] = l
		}
	}
	d.count(cfg.Metrics)
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("defence: %w", err)
	}
	return d, nil
}

// What is counted of verdicts.
var (
	verdictNames = [...]bot.Verdict{bot.Human, bot.Suspect, bot.Bot}
	actionNames  = [...]string{"none", "cache", "challenge", "hard-block"}
)

const (
	actNone = iota
	actCache
	actChallenge
	actBlock
)

func (d *Defence) count(reg prometheus.Registerer) {
	d.verdicts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "bff_consumer", Name: "bot_verdict_total", Help: "Requests by the verdict on their sender and what was done about it.",
	}, []string{"verdict", "action"})
	d.limited = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "bff_consumer", Name: "rate_limited_total", Help: "Requests beyond a limit, by class and whose limit it was.",
	}, []string{"class", "scope"})
	if reg != nil {
		reg.MustRegister(d.verdicts, d.limited)
	}
	for v := range verdictNames {
		for a := range actionNames {
			d.counted[v][a] = d.verdicts.WithLabelValues(string(verdictNames[v]), actionNames[a])
		}
	}
}

// welcomes reports whether a caller is asking for a session. Whoever has none is
// known by headers and network, which many share: were they refused one for what
// others did, they could never be told apart from them. Limits still hold.
func welcomes(rt *web.Route, c *caller) bool { return rt.Kind == web.PrivateRead && !c.hasSession }

// defended puts the defence in front of a route.
func (a *API) defended(rt web.Route) (web.Handler, error) {
	d, next := a.cfg.Defence, rt.Handle
	if d == nil {
		return next, nil
	}
	lim := d.limits[rt.Limit] // nil: no limits
	if lim == nil && !d.cfg.Limits.Off {
		return nil, fmt.Errorf("route %q: there is no limit %q", rt.Pattern, rt.Limit)
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		c := a.caller(r)
		if lim != nil && rt.Kind == web.Change {
			c.attempt = lim.once.begin(rt.Pattern, c.session, idempotencyKey(r.Header), c.now)
			defer c.attempt.settle(ratelimit.Decision{}) // if nobody did
		}
		var (
			refusal error
			j       judgement
		)
		if d.cfg.Mode == ModeOn {
			if err := a.readSolution(r, &c); err != nil {
				return err
			}
		}
		if d.cfg.Mode != ModeOff {
			j = a.judge(r, &c, &rt)
			switch action, err := a.act(r, &c, &rt, &j); {
			case err != nil:
				d.tally(&c, &rt, &j)
				d.counted[j.index()][action].Inc()
				return a.refuse(w, r, &c, &j, err)
			case action == actCache:
				refusal = a.visit(r).refusal
			}
		}
		if lim != nil && !j.genuine {
			if err := a.charge(w, r, &c, &rt, lim); err != nil {
				d.tally(&c, &rt, &j)
				return err
			}
		}
		err := next(w, r)
		if d.cfg.Mode != ModeOff {
			if !a.wasFree(r, &rt, err) {
				d.tally(&c, &rt, &j)
			}
			switch {
			case refusal != nil && err == refusal: //nolint:errorlint // the very same: the cache had nothing
				d.counted[j.index()][actChallenge].Inc()
				if j.genuine {
					return err
				}
				return a.refuse(w, r, &c, &j, err)
			case refusal != nil:
				d.counted[j.index()][actCache].Inc()
			default:
				d.counted[j.index()][actNone].Inc()
			}
			if j.verdict != bot.Human && !j.genuine {
				a.log(r, &c, &j, bot.ActionNone)
			}
		}
		return err
	}, nil
}

// wasFree reports whether a request did no harm: the cache answered it, or it
// asked for nothing that there is. A page that is reloaded for ever costs us
// less than it costs them.
func (a *API) wasFree(r *http.Request, rt *web.Route, err error) bool {
	v := a.visit(r)
	switch {
	case v.costly.Load() || err != nil && err == v.refusal: //nolint:errorlint // the very same
		return false
	case err == nil:
		return rt.Kind == web.PublicRead
	}
	switch bff.CodeOf(err).Info().Status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusUnsupportedMediaType, http.StatusRequestEntityTooLarge, http.StatusNotFound:
		return true
	}
	return false
}

// tally adds a request to its sender's pace, when it is known what it cost: of a
// thousand who ask the same at once, one costs something.
func (d *Defence) tally(c *caller, rt *web.Route, j *judgement) {
	if !j.counts {
		return
	}
	v, mu := d.visitors.lock(c.visitor, c.ms)
	v.Count(c.ms, rt.Repeats)
	if v.Busy(c.ms) {
		d.hot.add(c.visitor)
	}
	mu.Unlock()
	network, mu := d.networks.lock(c.networkN, c.ms)
	network.Count(c.ms, c.hasSession)
	mu.Unlock()
}

// act says what follows from a verdict: nothing, an answer from the cache only,
// or a refusal.
func (a *API) act(r *http.Request, c *caller, rt *web.Route, j *judgement) (action int, refused error) {
	if a.cfg.Defence.cfg.Mode == ModeWatch {
		return actNone, nil
	}
	if welcomes(rt, c) {
		return actNone, nil
	}
	if j.blockedMS > c.ms {
		return actBlock, blockedFor(time.Duration(j.blockedMS-c.ms) * time.Millisecond)
	}
	switch {
	case j.genuine && rt.Kind == web.PublicRead:
		v := a.visit(r)
		v.unsung, v.cacheOnly = true, true
		v.refusal = &bff.Error{Code: bff.CodeServiceUnavailable, Detail: "this page is not at hand right now", RetryAfter: retryCrawler}
		return actCache, nil
	case j.genuine && rt.Kind == web.Telemetry:
		return actChallenge, errSuspected()
	case j.preview && j.claim != useragent.False:
		a.visit(r).unsung = true
		return actNone, nil
	}
	switch {
	case j.verdict == bot.Human, rt.Kind == web.Challenge:
		return actNone, nil
	case rt.Kind == web.PublicRead:
		v := a.visit(r)
		v.cacheOnly, v.refusal = true, errSuspected()
		// A session for each of them is what a flood without cookies wants.
		v.unsung = v.unsung || j.verdict == bot.Bot || !c.hasSession
		return actCache, nil
	case j.verdict == bot.Bot, rt.Kind == web.Change:
		return actChallenge, errSuspected()
	}
	return actNone, nil
}

// charge puts a request to the limits.
func (a *API) charge(w http.ResponseWriter, r *http.Request, c *caller, rt *web.Route, lim *limits) error {
	d := a.cfg.Defence
	if rt.Kind != web.PublicRead {
		decision := lim.write(r.Context(), c)
		lim.announce(w.Header(), decision)
		if !decision.Allowed {
			d.limited.WithLabelValues(string(rt.Limit), lim.scope(decision)).Inc()
			return limited(decision)
		}
		return nil
	}
	decision, over := lim.read(r.Context(), c)
	if !rt.CDN || !decision.Allowed {
		lim.announce(w.Header(), decision)
	}
	if decision.Allowed {
		return nil
	}
	d.limited.WithLabelValues(string(rt.Limit), lim.scope(decision)).Inc()
	if !over {
		return limited(decision)
	}
	v := a.visit(r)
	if v.unsung = true; !v.cacheOnly {
		v.cacheOnly, v.refusal = true, limited(decision)
	}
	return nil
}

func errSuspected() *bff.Error {
	return &bff.Error{
		Code:       bff.CodeSuspectedBot,
		Detail:     "solve the challenge of GET " + Base + "/challenge and send the request again with the solution in X-Challenge",
		RetryAfter: retryChallenged,
	}
}

func blockedFor(left time.Duration) *bff.Error {
	return &bff.Error{Code: bff.CodeSuspectedBot, Detail: "too many challenges were ignored or failed: wait", RetryAfter: max(left, time.Second)}
}

// challengeLink is where a refused caller proves itself, for programs.
const challengeLink = "<" + Base + `/challenge>; rel="challenge"`

// refuse tells a caller how to go on, and notes whether it does.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, c *caller, j *judgement, err error) error {
	if j.blockedMS > c.ms || j.genuine {
		return err
	}
	w.Header()["Link"] = []string{challengeLink}
	d, action := a.cfg.Defence, bot.ActionChallenge
	v, mu := d.visitors.lock(c.visitor, c.ms)
	ignored := v.Ignore(c.ms)
	mu.Unlock()
	if ignored > maxIgnored {
		a.block(c)
		action = bot.ActionHardBlock
	}
	a.log(r, c, j, action)
	return err
}

// block shuts a visitor out for a while, here at once and elsewhere soon.
func (a *API) block(c *caller) {
	d, until := a.cfg.Defence, c.now.Add(blockFor)
	v, mu := d.visitors.lock(c.visitor, c.ms)
	v.blockedUntil = until.UnixMilli()
	v.Forgive() // it is paid for with the wait
	mu.Unlock()
	visitor := c.visitor
	d.later(func() {
		ctx, cancel := d.brief()
		defer cancel()
		if err := d.cfg.Memory.Block(ctx, visitor, until); err != nil {
			d.cfg.Log.Warn("a block stays here", "error", err.Error())
		}
	})
}
