package consumerguard

import (
	"context"
	"errors"
	"net/http"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/challenge"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/ratelimit"
	"melmastoon.ghasi.io/bff/internal/web"
)

// Assessor judges the tokens of a third party that tells people from programs.
type Assessor interface {
	// Assess returns how likely a person is behind a token, from 0 to 1; false if
	// the token is forged, spent or too old. An error means that it is unknown.
	Assess(ctx context.Context, token string) (person float64, valid bool, err error)
}

const (
	assessTimeout = 2 * time.Second
	// likelyPerson is from when a token counts as a solution.
	likelyPerson = 0.5
	maxToken     = 8 << 10
)

// Clients that fail or ignore challenges are blocked: after so many within ten
// minutes.
const (
	maxFailures = 3
	maxIgnored  = 60
)

// Bounds of the assessments, which are paid for.
const (
	maxAssessing = 8 // at once
	// maxNetworkFailures is from how many wrong solutions of a network within ten
	// minutes on the tokens from there are not assessed: each made-up session is a
	// new client, which has failed at nothing yet.
	maxNetworkFailures = 30
)

const (
	blockFor  = 10 * time.Minute
	solvedFor = 30 * time.Minute
)

// Outcomes of an answered challenge, in metrics.
const (
	answerSolved = "solved"
	answerFailed = "failed"
)

// Challenge gives a challenge to any client that asks; the higher its score, the
// harder.
func (g *Guard) Challenge(w http.ResponseWriter, r *http.Request) error {
	s := g.identify(r)
	j := g.judge(r, s, &web.Route{Kind: web.Challenge}) // which counts nothing
	w.Header().Set("Cache-Control", "private, no-store")
	return web.WriteJSON(w, http.StatusOK, g.cfg.Challenger.Issue(s.subject(), j.raw, s.At))
}

// readSolution checks the solution that a request carries, if it does, and
// remembers it. The address pays first: a wrong one costs work, and sessions are
// easily made up. A wrong one is refused: it would only fail again.
func (g *Guard) readSolution(w http.ResponseWriter, r *http.Request, s *sender, j *judgement) error {
	solution, token := web.Header(r.Header, "X-Challenge"), web.Header(r.Header, "X-Recaptcha-Token")
	if solution == "" && g.cfg.Recaptcha == nil {
		solution = token
	}
	switch {
	case solution == "" && (token == "" || j.verdict == bot.Human): // pages may send a token with every request
		return nil
	case s.hasSession() && j.blockedUntil > s.ms:
		return nil // refused in a moment, whatever it has solved
	}
	if g.solutions != nil {
		if d := g.solutions.Address(r.Context(), s.limited, s.At); !d.Allowed {
			ratelimit.Announce(w.Header(), d)
			g.limited.WithLabelValues(string(g.solutionLimit), g.solutions.Scope(d)).Inc()
			return errLimited(d)
		}
	}
	var (
		solved bool
		err    error
	)
	if solution != "" {
		solved, err = g.verifySolution(r.Context(), s, solution, j.raw)
	} else {
		solved, err = g.assess(r, s, token)
	}
	switch {
	case solved:
		g.solved(s)
		j.evidence.Failed = bot.Sign{}
		g.relieve(j)
	case bff.CodeOf(err) == bff.CodeChallengeInvalid && !errors.Is(err, challenge.ErrEasy):
		g.failed(r, s, j)
	}
	return err
}

// verifySolution checks a solution of our own challenge.
func (g *Guard) verifySolution(ctx context.Context, s *sender, solution string, score float64) (solved bool, err error) {
	err = g.cfg.Challenger.Verify(ctx, s.subject(), solution, score, s.At)
	switch {
	case errors.Is(err, challenge.ErrEasy):
		return false, &bff.Error{Code: bff.CodeChallengeInvalid, Detail: "this challenge is no longer hard enough for this client: solve a new one", Err: err}
	case errors.Is(err, challenge.ErrMalformed), errors.Is(err, challenge.ErrForged), errors.Is(err, challenge.ErrExpired),
		errors.Is(err, challenge.ErrUnsolved), errors.Is(err, challenge.ErrSpent):
		return false, &bff.Error{
			Code: bff.CodeChallengeInvalid, Detail: "the solution is wrong, expired, used, or for another client: ask for a new challenge", Err: err,
		}
	}
	// A store that cannot say whether it was spent is no reason to refuse a client
	// that did the work: it is signed, for this client, and good for minutes only.
	return true, nil
}

// assess has a third party judge its token. When it cannot, the client is none
// the worse for it, and may solve a challenge of ours.
func (g *Guard) assess(r *http.Request, s *sender, token string) (solved bool, err error) {
	if len(token) > maxToken {
		return false, bff.Errorf(bff.CodeChallengeInvalid, "the token is too long")
	}
	network, mu := g.networks.Lock(s.networkKey, s.ms)
	failures := network.Failures(s.ms)
	mu.Unlock()
	if failures >= maxNetworkFailures {
		web.From(r.Context()).Note("recaptcha", "too many failures of the network")
		return false, nil
	}
	select {
	case g.assessing <- struct{}{}:
		defer func() { <-g.assessing }()
	default:
		web.From(r.Context()).Note("recaptcha", "busy")
		return false, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), assessTimeout)
	defer cancel()
	person, valid, err := g.cfg.Recaptcha.Assess(ctx, token)
	if err != nil {
		web.From(r.Context()).Note("recaptcha", "unavailable")
		return false, nil
	}
	if !valid || person < likelyPerson {
		return false, bff.Errorf(bff.CodeChallengeInvalid, "the token was not accepted: solve the challenge of GET %s instead", g.cfg.ChallengePath)
	}
	return true, nil
}

// solved remembers a solution for half an hour, here and at other instances.
func (g *Guard) solved(s *sender) {
	g.answers.WithLabelValues(answerSolved).Inc()
	until := s.At.Add(solvedFor)
	c, mu := g.clients.Lock(s.key, s.ms)
	c.solvedUntil = until.UnixMilli()
	c.Forgive()
	mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), jobBudget)
	defer cancel()
	// At once, and not in the background: the next request may reach another
	// instance sooner than that.
	if err := g.cfg.Memory.Solved(ctx, s.key, until); err != nil {
		g.cfg.Log.Warn("solved challenge was not shared: only this instance knows of it", "error", err.Error())
	}
}

// failed counts a wrong solution; after a few, the client is blocked.
func (g *Guard) failed(r *http.Request, s *sender, j *judgement) {
	g.answers.WithLabelValues(answerFailed).Inc()
	network, mu := g.networks.Lock(s.networkKey, s.ms)
	network.Fail(s.ms)
	mu.Unlock()
	c, mu := g.clients.Lock(s.key, s.ms)
	failures := c.Fail(s.ms)
	mu.Unlock()
	if failures%maxFailures == 0 {
		g.block(r, s, j)
	}
}

// block refuses a client everything for a while, here at once and at other
// instances soon, if its session is one of ours. A client without a session shares
// its headers and network with others, and would be refused on their behalf; and
// made-up sessions would push the true blocks out of the shared list.
func (g *Guard) block(r *http.Request, s *sender, j *judgement) {
	if !s.hasSession() {
		return
	}
	if s.Card.IsZero() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), checkTimeout)
		defer cancel()
		if ours, err := g.openedBefore(ctx, s.SessionID, s.At); err != nil || !ours {
			return // made up, or unknown; the limits hold
		}
	}
	key, until := s.key, s.At.Add(blockFor)
	c, mu := g.clients.Lock(key, s.ms)
	c.blockedUntil = until.UnixMilli()
	c.Forgive() // it is paid for with the wait
	mu.Unlock()
	verdict := *j
	if verdict.verdict == bot.Human { // what it did to challenges is enough to say so
		verdict.verdict, verdict.score = bot.Suspect, max(verdict.score, g.policy.Suspect)
	}
	g.log(r, s, &verdict, bot.ActionHardBlock)
	g.jobs.DoFor(r.Context(), func(ctx context.Context) {
		if err := g.cfg.Memory.Block(ctx, key, until); err != nil {
			g.cfg.Log.Warn("block was not shared: only this instance refuses the client", "error", err.Error())
		}
	})
}
