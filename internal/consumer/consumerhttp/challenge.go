package consumerhttp

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
	// the token is forged, spent or too old. An error means that nobody could say.
	Assess(ctx context.Context, token string) (person float64, valid bool, err error)
}

const (
	assessTimeout = 2 * time.Second
	// likelyPerson is from when a token counts as a solution.
	likelyPerson = 0.5
	maxToken     = 8 << 10
)

// challenge gives a challenge to whoever asks; the more suspicious, the harder.
func (a *API) challenge(w http.ResponseWriter, r *http.Request) error {
	d := a.cfg.Defence
	if d == nil {
		return bff.Errorf(bff.CodeResourceNotFound, "nothing is challenged here")
	}
	c := a.caller(r)
	rt := web.Route{Kind: web.Challenge} // looks, and counts nothing
	j := a.judge(r, &c, &rt)
	w.Header().Set("Cache-Control", "private, no-store")
	return web.WriteJSON(w, http.StatusOK, d.cfg.Challenger.Issue(c.subject(), j.score, c.now))
}

// readSolution checks the solution that a request carries, if it does, and
// remembers it. One that is no good is refused: it would only fail again.
func (a *API) readSolution(r *http.Request, c *caller) error {
	solution, token := header(r.Header, "X-Challenge"), header(r.Header, "X-Recaptcha-Token")
	if solution == "" && token == "" {
		return nil
	}
	d := a.cfg.Defence
	if d.blocked(c) {
		return nil // refused in a moment, whatever it has solved
	}
	if solution == "" && d.cfg.Recaptcha == nil {
		solution = token
	}
	var err error
	if solution != "" {
		err = a.verifySolution(r.Context(), c, solution)
	} else {
		err = a.assess(r, c, token)
	}
	if err != nil {
		if bff.CodeOf(err) == bff.CodeChallengeInvalid {
			a.failed(r, c)
		}
		return err
	}
	return nil
}

func (d *Defence) blocked(c *caller) bool {
	v, mu := d.visitors.lock(c.visitor, c.ms)
	defer mu.Unlock()
	return v.blockedUntil > c.ms
}

// verifySolution checks a solution of our own challenge.
func (a *API) verifySolution(ctx context.Context, c *caller, solution string) error {
	err := a.cfg.Defence.cfg.Challenger.Verify(ctx, c.subject(), solution, c.now)
	switch {
	case errors.Is(err, challenge.ErrMalformed), errors.Is(err, challenge.ErrForged), errors.Is(err, challenge.ErrExpired),
		errors.Is(err, challenge.ErrUnsolved), errors.Is(err, challenge.ErrSpent):
		return &bff.Error{Code: bff.CodeChallengeInvalid, Detail: "the solution is wrong, expired, used, or somebody else's: ask for a new challenge", Err: err}
	}
	// A store that cannot say whether it was spent is no reason to turn away who
	// did the work: it is signed, for this visitor, and good for minutes only.
	a.solved(c)
	return nil
}

// assess has a third party judge its token. When it cannot, the visitor is none
// the worse for it, and may solve a challenge of ours.
func (a *API) assess(r *http.Request, c *caller, token string) error {
	if len(token) > maxToken {
		return bff.Errorf(bff.CodeChallengeInvalid, "the token is too long")
	}
	ctx, cancel := context.WithTimeout(r.Context(), assessTimeout)
	defer cancel()
	person, valid, err := a.cfg.Defence.cfg.Recaptcha.Assess(ctx, token)
	switch {
	case err != nil:
		web.From(r.Context()).Note("recaptcha", "unavailable")
	case !valid || person < likelyPerson:
		return bff.Errorf(bff.CodeChallengeInvalid, "the token was not accepted: solve the challenge of GET %s/challenge instead", Base)
	default:
		a.solved(c)
	}
	return nil
}

// solved remembers a solution for half an hour, here and elsewhere.
func (a *API) solved(c *caller) {
	d, until := a.cfg.Defence, c.now.Add(solvedFor)
	v, mu := d.visitors.lock(c.visitor, c.ms)
	v.solvedUntil = until.UnixMilli()
	v.Forgive()
	mu.Unlock()
	ctx, cancel := d.brief()
	defer cancel()
	// At once, and not behind the answer: the next request may reach another
	// instance sooner than that.
	if err := d.cfg.Memory.Solved(ctx, c.visitor, until); err != nil {
		d.cfg.Log.Warn("a solved challenge is known here only", "error", err.Error())
	}
}

// failed notes a wrong solution; after a few, whoever sends them is shut out.
func (a *API) failed(r *http.Request, c *caller) {
	d := a.cfg.Defence
	v, mu := d.visitors.lock(c.visitor, c.ms)
	n := v.Fail(c.ms)
	mu.Unlock()
	if n < maxFailures {
		return
	}
	rt := web.Route{Kind: web.Challenge}
	j := a.judge(r, c, &rt)
	if j.verdict == bot.Human { // its failures alone are enough to say so
		j.verdict, j.score = bot.Suspect, max(j.score, d.policy.Suspect)
	}
	a.block(c)
	a.log(r, c, &j, bot.ActionHardBlock)
}
