package consumerguard

import (
	"context"
	"net/http"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/useragent"
	"melmastoon.ghasi.io/bff/internal/web"
)

// judgement is the verdict on a client and what it rests on.
type judgement struct {
	verdict      bot.Verdict
	score        float64
	raw          float64 // the score without the relief of a solved challenge
	evidence     bot.Evidence
	claim        useragent.Claim
	genuine      bool // a search engine that is one, and reads
	preview      bool // fetches a page that was shared
	counts       bool // towards its client's pace, unless it turns out to be harmless
	blockedUntil int64
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

// What other instances know of a suspect is read again after checkEvery.
const (
	checkEvery   = 2 * time.Second
	checkTimeout = 100 * time.Millisecond
)

// judge weighs what is known of a client. The request counts, unless it is
// telemetry, which pages send by themselves and which costs no upstream.
func (g *Guard) judge(r *http.Request, s *sender, rt *web.Route) (j judgement) {
	costs := rt.Kind == web.PublicRead || rt.Kind == web.PrivateRead || rt.Kind == web.Change
	j.counts = costs && !asksForSession(rt, s)
	p := s.profile
	switch p.agent.Kind {
	case useragent.Search:
		if g.cfg.Verifier != nil {
			// Without waiting: a client that is not yet proven is one like others.
			j.claim = g.cfg.Verifier.Verify(expired, p.agent, web.From(r.Context()).ClientIP, s.At)
		}
		// Pages from the cache cost nothing; for all else it is a guest like others.
		if j.genuine = j.claim == useragent.Genuine && rt.Kind == web.PublicRead; j.genuine {
			j.counts, j.verdict = false, bot.Human
			return j
		}
	case useragent.Preview:
		j.preview = rt.Previews
	}
	j.evidence.Headers, j.evidence.HeaderWeight, j.evidence.Driven = p.signals, p.weight, p.driven
	if j.claim == useragent.False {
		j.evidence.FalseClaim = p.agent.Operator
	}
	solvedUntil, checked := g.weigh(r.Context(), s, &j)
	j.raw = g.policy.Score(&j.evidence)
	j.score, j.verdict = j.raw, g.policy.Verdict(j.raw)
	if j.verdict == bot.Human {
		return j
	}
	if solvedUntil <= s.ms && s.ms-checked > checkEvery.Milliseconds() {
		solvedUntil = g.reputation(r.Context(), s)
	}
	if solvedUntil > s.ms {
		g.relieve(&j)
	}
	return j
}

// relieve takes off what a solved challenge is worth.
func (g *Guard) relieve(j *judgement) {
	j.score = g.policy.Relieved(&j.evidence)
	j.verdict = g.policy.Verdict(j.score)
}

// weigh adds what was counted of the client, its crowd and its network, and
// returns until when a solved challenge counts and when that was read.
func (g *Guard) weigh(ctx context.Context, s *sender, j *judgement) (solvedUntil, checked int64) {
	e := &j.evidence
	c, mu := g.clients.Lock(s.key, s.ms)
	e.Pace = g.policy.Signs(&c.Track, s.ms)
	e.Failed = g.policy.Failed(c.Failures(s.ms), !s.hasSession())
	j.blockedUntil = c.blockedUntil
	solvedUntil, checked = c.solvedUntil, c.checked
	fresh := j.counts && !c.seen
	c.seen = c.seen || j.counts
	lookedUp, genuine := c.lookedUp, c.genuine
	mu.Unlock()

	if s.hasSession() {
		crowd, mu := g.crowds.Lock(s.crowd, s.ms)
		if j.counts {
			crowd.Count(s.ms, s.key)
		}
		e.Crowd = g.policy.Crowded(crowd, s.ms)
		mu.Unlock()
	}
	network, mu := g.networks.Lock(s.networkKey, s.ms)
	s.NoSession = g.cfg.Mode == ModeOn && g.maxOpened > 0 && network.Opened(s.ms) >= g.maxOpened
	flooded := false
	switch {
	case !s.hasSession():
		e.Cookieless = g.policy.Cookieless(network, s.ms)
		if s.uncarded { // a browser that has our id has its card; programs make ids up
			if j.counts {
				network.Found(s.ms, false)
			}
			e.Invented = g.policy.Invented(network, s.ms)
		}
	case !genuine:
		if fresh {
			network.Fresh(s.ms)
		}
		flooded = !lookedUp && network.Flooded(s.ms)
		if s.Card.IsZero() { // a card is not made up
			e.Invented = g.policy.Invented(network, s.ms)
		}
	}
	mu.Unlock()
	if flooded && j.counts {
		g.lookUp(ctx, s)
	}
	e.Penalty = g.penalty(ctx, s)
	return solvedUntil, checked
}

// lookUp finds out, in the background, whether a session is one that we opened:
// cookies are easily made up, and each made-up one is a new client to every count
// but its network's. Of a session with a card that is known.
func (g *Guard) lookUp(ctx context.Context, s *sender) {
	id, carded, key, network, crowd, at := s.SessionID, !s.Card.IsZero(), s.key, s.networkKey, s.crowd, s.At
	c, mu := g.clients.Lock(key, s.ms)
	c.lookedUp = true
	mu.Unlock()
	g.jobs.DoFor(ctx, func(ctx context.Context) {
		genuine, err := carded, error(nil)
		if !carded {
			genuine, err = g.openedBefore(ctx, id, at)
		}
		if err != nil {
			return // unknown
		}
		ms := g.cfg.Now().UnixMilli()
		n, mu := g.networks.Lock(network, ms)
		n.Found(ms, genuine)
		mu.Unlock()
		c, mu := g.clients.Lock(key, ms)
		c.genuine, c.lookedUp = genuine, genuine // one that was not found is looked up again
		mu.Unlock()
		if sessions, err := g.cfg.Memory.Collide(ctx, crowd, key, at); err == nil {
			c, mu := g.crowds.Lock(crowd, ms)
			c.Merge(ms, sessions)
			mu.Unlock()
		}
	})
}

// openedBefore reports whether a session is one that was opened here before a
// request, and not by that very request.
func (g *Guard) openedBefore(ctx context.Context, id bff.ID, at time.Time) (bool, error) {
	found, ok, err := g.cfg.Sessions.FindSession(ctx, id)
	return ok && found.CreatedAt.Before(at), err
}

// reputation asks whether a suspect has solved a challenge at another instance.
func (g *Guard) reputation(ctx context.Context, s *sender) (solvedUntil int64) {
	found, err, _ := g.lookups.Do(s.subject(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
		defer cancel()
		s, err := g.cfg.Memory.FindReputation(ctx, s.key)
		return s.SolvedUntil, err
	})
	c, mu := g.clients.Lock(s.key, s.ms)
	defer mu.Unlock()
	c.checked = s.ms
	if until, ok := found.(time.Time); err == nil && ok && !until.IsZero() {
		c.solvedUntil = max(c.solvedUntil, until.UnixMilli())
	}
	return c.solvedUntil
}
