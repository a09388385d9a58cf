package consumerguard

import (
	"context"
	"errors"
	"net/http"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/challenge"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
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
	return web.WriteJSON(w, http.StatusOK, g.cfg.Challenger.Issue(s.subject(), j.score, s.At))
}

// readSolution checks the solution that a request carries, if it does, and
// remembers it. A wrong one is refused: it would only fail again.
func (g *Guard) readSolution(r *http.Request, s *sender) error {
	solution, token := header(r.Header, "X-Challenge"), header(r.Header, "X-Recaptcha-Token")
	if solution == "" && token == "" {
		return nil
	}
	if g.blocked(s) {
		return nil // refused in a moment, whatever it has solved
	}
	if solution == "" && g.cfg.Recaptcha == nil {
		solution = token
	}
	var err error
	if solution != "" {
		err = g.verifySolution(r.Context(), s, solution)
	} else {
		err = g.assess(r, s, token)
	}
	if bff.CodeOf(err) == bff.CodeChallengeInvalid {
		g.failed(r, s)
	}
	return err
}

func (g *Guard) blocked(s *sender) bool {
	c, mu := g.clients.Lock(s.key, s.ms)
	defer mu.Unlock()
	return c.blockedUntil > s.ms
}

// verifySolution checks a solution of our own challenge.
func (g *Guard) verifySolution(ctx context.Context, s *sender, solution string) error {
	err := g.cfg.Challenger.Verify(ctx, s.subject(), solution, s.At)
	switch {
	case errors.Is(err, challenge.ErrMalformed), errors.Is(err, challenge.ErrForged), errors.Is(err, challenge.ErrExpired),
		errors.Is(err, challenge.ErrUnsolved), errors.Is(err, challenge.ErrSpent):
		return &bff.Error{Code: bff.CodeChallengeInvalid, Detail: "the solution is wrong, expired, used, or for another client: ask for a new challenge", Err: err}
	}
	// A store that cannot say whether it was spent is no reason to refuse a client
	// that did the work: it is signed, for this client, and good for minutes only.
	g.solved(s)
	return nil
}

// assess has a third party judge its token. When it cannot, the client is none
// the worse for it, and may solve a challenge of ours.
func (g *Guard) assess(r *http.Request, s *sender, token string) error {
	if len(token) > maxToken {
		return bff.Errorf(bff.CodeChallengeInvalid, "the token is too long")
	}
	ctx, cancel := context.WithTimeout(r.Context(), assessTimeout)
	defer cancel()
	person, valid, err := g.cfg.Recaptcha.Assess(ctx, token)
	switch {
	case err != nil:
		web.From(r.Context()).Note("recaptcha", "unavailable")
	case !valid || person < likelyPerson:
		return bff.Errorf(bff.CodeChallengeInvalid, "the token was not accepted: solve the challenge of GET %s instead", g.cfg.ChallengePath)
	default:
		g.solved(s)
	}
	return nil
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
func (g *Guard) failed(r *http.Request, s *sender) {
	g.answers.WithLabelValues(answerFailed).Inc()
	c, mu := g.clients.Lock(s.key, s.ms)
	n := c.Fail(s.ms)
	mu.Unlock()
	if n < maxFailures {
		return
	}
	j := g.judge(r, s, &web.Route{Kind: web.Challenge})
	if j.verdict == bot.Human { // its failures alone are enough to say so
		j.verdict, j.score = bot.Suspect, max(j.score, g.policy.Suspect)
	}
	g.block(s)
	g.log(r, s, &j, bot.ActionHardBlock)
}

// block refuses a client everything for a while, here at once and at other
// instances soon.
func (g *Guard) block(s *sender) {
	key, until := s.key, s.At.Add(blockFor)
	c, mu := g.clients.Lock(key, s.ms)
	c.blockedUntil = until.UnixMilli()
	c.Forgive() // it is paid for with the wait
	mu.Unlock()
	g.jobs.Do(func(ctx context.Context) {
		if err := g.cfg.Memory.Block(ctx, key, until); err != nil {
			g.cfg.Log.Warn("block was not shared: only this instance refuses the client", "error", err.Error())
		}
	})
}
