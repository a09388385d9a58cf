package consumer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
)

// BotVerdict is what a score says of a visitor (DOMAIN_MODEL §2.7).
type BotVerdict string

// The verdicts there are. Only the last two are logged.
const (
	Human   BotVerdict = "human"
	Suspect BotVerdict = "suspect"
	Bot     BotVerdict = "bot"
)

// BotAction is what was done about a verdict, as bot_score_log has it.
type BotAction string

// The actions there are.
const (
	ActionNone      BotAction = "none"
	ActionChallenge BotAction = "challenge"
	ActionHardBlock BotAction = "hard-block"
)

// The kinds of signals.
const (
	SignalUserAgent = "ua-pattern"
	SignalCadence   = "cadence"
	SignalCollision = "fingerprint-collision"
	SignalChallenge = "recaptcha"
	SignalHeaders   = "header-anomaly"
)

// BotPolicy says how much each sign weighs, and what the sum means. What a
// script cannot help (its user agent, the headers it never thought of) stays
// below Suspect on its own: integrators and health checks look like that, too.
type BotPolicy struct {
	Suspect float64 // from this score on
	Bot     float64
	// Relief is what a solved challenge takes off a score. It is enough to pass
	// whatever the score was: whoever paid is let in, within the limits.
	Relief  float64
	Weights BotWeights
}

// BotWeights by sign.
type BotWeights map[string]float64

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
	signMadeUp     = "made-up"     // a network whose sessions we never opened
	signNoCookies  = "no-cookies"  // a busy network that never sends a cookie back
	signMisdeeds   = "misdeeds"    // at most: replays, borrowed cookies
	signFailed     = "failed"      // a wrong solution; each
)

// DefaultBotPolicy returns the thresholds of the specification and weights that
// were tried on the corpora of docs/bots.md.
func DefaultBotPolicy() BotPolicy {
	return BotPolicy{Suspect: 0.5, Bot: 0.8, Relief: 0.6, Weights: BotWeights{
		signEmpty: 0.3, signLibrary: 0.25, signDriven: 0.6, signRobot: 0.5, signUnproven: 0.2, signFalse: 1, signPreview: 0.3, signMalformed: 0.3,
		signNoLanguage: 0.05, signNoAccept: 0.05, signNoHints: 0.25, signFewHints: 0.05, signOtherHints: 0.4,
		signFast: 0.5, signFaster: 0.65, signFastest: 0.85, signSteady: 0.2, signSteadier: 0.3, signSteadiest: 0.5,
		signCrowd: 0.1, signMadeUp: 0.6, signNoCookies: 0.25, signMisdeeds: 0.3, signFailed: 0.2,
	}}
}

// Override returns the policy with some weights, or the thresholds suspect, bot
// and relief, replaced; it reports everything that is wrong with them.
func (p BotPolicy) Override(values map[string]float64) (BotPolicy, error) {
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
func (p *BotPolicy) Verdict(score float64) BotVerdict {
	// Weights are decimal; their sums in binary fall a hair short of themselves.
	const hair = 1e-9
	switch {
	case score >= p.Bot-hair:
		return Bot
	case score >= p.Suspect-hair:
		return Suspect
	}
	return Human
}

// signal returns a sign as it is logged.
func (p *BotPolicy) signal(kind, sign, detail string) BotSignal {
	return BotSignal{Kind: kind, Weight: p.Weights[sign], Detail: detail}
}

// Score is the capped sum of the signals' weights.
func Score(signals []BotSignal) float64 {
	sum := 0.0
	for i := range signals {
		sum += signals[i].Weight
	}
	return min(sum, 1)
}

// SuspectFor names the visitor that a verdict without a session is about: the
// schema wants a session's id, and the same visitor should have the same one.
func SuspectFor(key uint64, fingerprint Hash) bff.ID {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], key)
	copy(b[8:], fingerprint[:8])
	return bff.IDFromBytes(bff.PrefixGuestSession, b)
}

// Pace is how often one visitor asked since the last exchange between instances,
// and when that was.
type Pace struct {
	Visitor  uint64
	Requests int
	Since    time.Time
}

// Standing is what instances know of a visitor beyond its pace.
type Standing struct {
	SolvedUntil time.Time
}

// BotMemory is what the instances of the service tell each other of visitors.
// All of it may be lost: a visitor is then judged anew.
type BotMemory interface {
	// Burn marks a challenge as spent; fresh is true for the first caller only.
	Burn(ctx context.Context, id string, ttl time.Duration) (fresh bool, err error)
	// Solved remembers that a visitor solved a challenge.
	Solved(ctx context.Context, visitor uint64, until time.Time) error
	// FindStanding returns what is remembered of a visitor.
	FindStanding(ctx context.Context, visitor uint64) (Standing, error)
	// Block shuts a visitor out.
	Block(ctx context.Context, visitor uint64, until time.Time) error
	// Blocked returns who is shut out, and until when.
	Blocked(ctx context.Context, now time.Time) (map[uint64]time.Time, error)
	// ExchangePaces reports what was counted here and returns, for each visitor,
	// what the other instances counted since the last exchange.
	ExchangePaces(ctx context.Context, paces []Pace, now time.Time) ([]int, error)
	// Collide notes a session of a crowd, which is a fingerprint on a network, and
	// returns how many sessions the crowd has had within a minute.
	Collide(ctx context.Context, crowd, session uint64, now time.Time) (int, error)
	// Penalty returns what a fingerprint's misdeeds still weigh.
	Penalty(ctx context.Context, fingerprint Hash, now time.Time) (float64, error)
	// LogVerdict keeps a verdict with its event, if any, in one transaction.
	LogVerdict(ctx context.Context, b BotSuspected, e *bff.Event) error
}
