package consumerhttp

import (
	"context"
	"net/http"
	"time"

	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/useragent"
	"melmastoon.ghasi.io/bff/internal/web"
)

// judgement is what is held against a caller, with its reasons: in words only
// for those who are logged.
type judgement struct {
	verdict   bot.Verdict
	score     float64
	claim     useragent.Claim
	genuine   bool // a search engine that is one
	preview   bool // fetches a page that somebody shared
	counts    bool // towards its sender's pace, unless it turns out to be free
	blockedMS int64

	evidence bot.Evidence
	solved   bool
}

func (j *judgement) index() int {
	switch j.verdict {
	case bot.Bot:
		return 2
	case bot.Suspect:
		return 1
	default:
		return 0
	}
}

// expired is for look-ups that must not be waited for.
var expired = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// judge weighs what is known of a caller. The request counts, unless it is a free
// retry or telemetry, which pages send by themselves.
func (a *API) judge(r *http.Request, c *caller, rt *web.Route) (j judgement) {
	d := a.cfg.Defence
	costs := rt.Kind == web.PublicRead || rt.Kind == web.PrivateRead || rt.Kind == web.Change
	counts := costs && !c.attempt.retry() && !welcomes(rt, c)
	switch l := c.looks; l.agent.Kind {
	case useragent.Search:
		if d.cfg.Verifier != nil {
			// Without waiting: whoever is not yet proven is a visitor like others.
			j.claim = d.cfg.Verifier.Verify(expired, l.agent, web.From(r.Context()).ClientIP, c.now)
		}
		if j.genuine = j.claim == useragent.Genuine; j.genuine {
			j.verdict = bot.Human
			return j
		}
	case useragent.Preview:
		j.preview = rt.Previews
	}
	j.evidence.Headers, j.evidence.HeaderWeight = c.looks.signals, c.looks.score
	if j.claim == useragent.False {
		j.evidence.FalseClaim = c.looks.agent.Operator
	}

	v, mu := d.visitors.lock(c.visitor, c.ms)
	j.counts = counts
	j.evidence.Pace = d.policy.Signs(&v.Track, c.ms)
	j.evidence.Failed = d.policy.Failed(v.Failures(c.ms))
	j.blockedMS = v.blockedUntil
	solvedUntil, checked := v.solvedUntil, v.checked
	fresh := counts && !v.seen
	v.seen = v.seen || counts
	asked, genuine := v.asked, v.genuine
	mu.Unlock()

	if c.hasSession {
		crowd, mu := d.crowds.lock(c.crowd, c.ms)
		if counts {
			crowd.Count(c.ms, c.visitor)
		}
		j.evidence.Crowd = d.policy.Crowded(crowd, c.ms)
		mu.Unlock()
	}
	network, mu := d.networks.lock(c.networkN, c.ms)
	doubtful := false
	switch {
	case !c.hasSession:
		j.evidence.Cookieless = d.policy.Cookieless(network, c.ms)
	case !genuine:
		if fresh {
			network.Fresh(c.ms)
		}
		doubtful = !asked && network.Flooded(c.ms)
		j.evidence.Invented = d.policy.Invented(network, c.ms)
	}
	mu.Unlock()
	if doubtful && counts {
		a.lookUp(c)
	}

	j.evidence.Penalty = a.misdeeds(c.looks, c.now, c.ms)
	j.score = d.policy.Score(&j.evidence)
	j.verdict = d.policy.Verdict(j.score)
	if j.verdict == bot.Human {
		return j
	}
	if solvedUntil <= c.ms && c.ms-checked > checkEvery.Milliseconds() {
		solvedUntil = a.standing(r.Context(), c)
	}
	if j.solved = solvedUntil > c.ms; j.solved {
		j.score = max(j.score-d.policy.Relief, 0)
		j.verdict = d.policy.Verdict(j.score)
	}
	return j
}

// lookUp finds out, behind the answer, whether a session is one that we opened:
// cookies are easily made up, and each made-up one is a new visitor to every
// count but its network's.
func (a *API) lookUp(c *caller) {
	d := a.cfg.Defence
	id, visitor, network, crowd, at := c.id, c.visitor, c.networkN, c.crowd, c.now
	v, mu := d.visitors.lock(visitor, c.ms)
	v.asked = true
	mu.Unlock()
	d.later(func() {
		ctx, cancel := d.brief()
		defer cancel()
		s, found, err := a.cfg.Sessions.FindSession(ctx, id)
		if err != nil {
			return // nobody knows
		}
		genuine := found && s.CreatedAt.Before(at) // and not by this very request
		ms := d.cfg.Now().UnixMilli()
		n, mu := d.networks.lock(network, ms)
		n.Found(ms, genuine)
		mu.Unlock()
		v, mu := d.visitors.lock(visitor, ms)
		v.genuine, v.asked = genuine, genuine // who was wronged is looked up again
		mu.Unlock()
		if sessions, err := d.cfg.Memory.Collide(ctx, crowd, visitor, at); err == nil {
			c, mu := d.crowds.lock(crowd, ms)
			c.Merge(ms, sessions)
			mu.Unlock()
		}
	})
}

// standing asks whether a suspect has solved a challenge at another instance.
func (a *API) standing(ctx context.Context, c *caller) (solvedUntil int64) {
	d := a.cfg.Defence
	found, err, _ := d.asking.Do(c.subject(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
		defer cancel()
		s, err := d.cfg.Memory.FindStanding(ctx, c.visitor)
		return s.SolvedUntil, err
	})
	v, mu := d.visitors.lock(c.visitor, c.ms)
	defer mu.Unlock()
	v.checked = c.ms
	if until, ok := found.(time.Time); err == nil && ok && !until.IsZero() {
		v.solvedUntil = max(v.solvedUntil, until.UnixMilli())
	}
	return v.solvedUntil
}
