// Package bot tells people from programs: what a client's headers, pace, crowd
// and network weigh, and what the sum of it means. It is pure: it knows neither
// requests nor stores, and takes the time from its caller, in milliseconds.
package bot

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Verdict is what a score says of a client (DOMAIN_MODEL §2.7).
type Verdict string

// The verdicts there are. Only the last two are logged.
const (
	Human   Verdict = "human"
	Suspect Verdict = "suspect"
	Bot     Verdict = "bot"
)

// Action is what was done about a verdict, as bot_score_log has it.
type Action string

// The actions there are.
const (
	ActionNone      Action = "none"
	ActionChallenge Action = "challenge"
	ActionHardBlock Action = "hard-block"
)

// The kinds of signals.
const (
	SignalUserAgent = "ua-pattern"
	SignalCadence   = "cadence"
	SignalCollision = "fingerprint-collision"
	SignalChallenge = "recaptcha"
	SignalHeaders   = "header-anomaly"
)

// Signal is one reason to believe that no person is there, as it is logged.
type Signal struct {
	Kind   string  `json:"kind"`
	Weight float64 `json:"weight"`
	Detail string  `json:"detail,omitempty"`
}

// Policy says how much each sign weighs, and what the sum means. What a
// script cannot help (its user agent, the headers it never thought of) stays
// below Suspect on its own: integrators and health checks look like that, too.
type Policy struct {
	Suspect float64 // from this score on
	Bot     float64
	// Relief is what a solved challenge takes off a score. It is enough to pass,
	// within the limits, but for what [Policy.Lasting] says.
	Relief  float64
	Weights Weights
}

// Weights by sign.
type Weights map[string]float64

// The signs.
const (
	signEmpty      = "empty"       // no user agent
	signLibrary    = "library"     // curl, python-requests, …
	signDriven     = "driven"      // headless and remote-controlled browsers
	signRobot      = "robot"       // says so itself
	signUnproven   = "unproven"    // says it is a search engine
	signFalse      = "false-claim" // says so, and is none
	signPreview    = "preview"     // fetches shared links
	signMalformed  = "malformed"   // a user agent as no program of people writes it
	signNoLanguage = "no-language" // no Accept-Language
	signNoAccept   = "no-accept"   // no Accept
	signNoHints    = "no-hints"    // a browser without the headers it always sends
	signFewHints   = "few-hints"   // with some of them
	signOtherHints = "other-hints" // with those of another browser
	signFast       = "fast"        // faster than people click
	signFaster     = "faster"      //
	signFastest    = "fastest"     //
	signSteady     = "steady"      // for minutes, without a pause
	signSteadier   = "steadier"    //
	signSteadiest  = "steadiest"   //
	signCrowd      = "crowd"       // many sessions of one fingerprint on one network
	signInvented   = "made-up"     // a network whose sessions we never opened
	signCookieless = "no-cookies"  // a busy network that never sends a cookie back
	signPenalty    = "misdeeds"    // at most: replays, borrowed cookies
	signFailed     = "failed"      // a wrong solution; each
)

// DefaultPolicy returns the thresholds of the specification and weights that
// were tried on the corpora of docs/bots.md.
func DefaultPolicy() Policy {
	return Policy{Suspect: 0.5, Bot: 0.8, Relief: 0.6, Weights: Weights{
		signEmpty: 0.3, signLibrary: 0.25, signDriven: 0.6, signRobot: 0.5, signUnproven: 0.2, signFalse: 1, signPreview: 0.3, signMalformed: 0.3,
		signNoLanguage: 0.05, signNoAccept: 0.05, signNoHints: 0.25, signFewHints: 0.05, signOtherHints: 0.4,
		signFast: 0.5, signFaster: 0.65, signFastest: 0.85, signSteady: 0.2, signSteadier: 0.3, signSteadiest: 0.5,
		signCrowd: 0.1, signInvented: 0.6, signCookieless: 0.25, signPenalty: 0.3, signFailed: 0.2,
	}}
}

// Override returns the policy with some weights, or the thresholds suspect, bot
// and relief, replaced; it reports everything that is wrong with them.
func (p Policy) Override(values map[string]float64) (Policy, error) {
	p.Weights = maps.Clone(p.Weights)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		v := values[name]
		if math.IsNaN(v) || v < 0 || v > 1 {
			errs = append(errs, fmt.Errorf("%s: must lie between 0 and 1", name))
		}
		switch _, known := p.Weights[name]; {
		case name == "suspect":
			p.Suspect = v
		case name == "bot":
			p.Bot = v
		case name == "relief":
			p.Relief = v
		case known:
			p.Weights[name] = v
		default:
			errs = append(errs, fmt.Errorf("there is no sign %q: want one of %s", name, strings.Join(slices.Sorted(maps.Keys(p.Weights)), ", ")))
		}
	}
	if p.Suspect > p.Bot || p.Suspect <= 0 {
		errs = append(errs, errors.New("suspect must be positive and not above bot"))
	}
	return p, errors.Join(errs...)
}

// Verdict reads a score.
func (p *Policy) Verdict(score float64) Verdict {
	// Weights are decimal; their sums in binary fall a little short of themselves.
	const epsilon = 1e-9
	switch {
	case score >= p.Bot-epsilon:
		return Bot
	case score >= p.Suspect-epsilon:
		return Suspect
	}
	return Human
}

// signal returns a sign as it is logged.
func (p *Policy) signal(kind, sign, detail string) Signal {
	return Signal{Kind: kind, Weight: p.Weights[sign], Detail: detail}
}
