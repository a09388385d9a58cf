package bot

import (
	"math"
	"strconv"
)

// Sign is one thing that is held against a client, in numbers.
type Sign struct {
	Weight float64
	Count  int
}

// Evidence is everything that is held against a client. It is kept in numbers,
// because words are only needed for clients that are logged.
type Evidence struct {
	// Headers are the signals of the client's headers, and HeaderWeight their sum.
	Headers      []Signal
	HeaderWeight float64
	Driven       float64 // what of it says that a program drives the browser
	// FalseClaim is the search engine that the client falsely claims to be.
	FalseClaim string

	Pace                        PaceSigns
	Crowd, Invented, Cookieless Sign
	Penalty                     float64 // of the fingerprint
	Failed                      Sign    // wrong solutions
}

// Score is the sum of the weights, at most 1. A false claim outweighs all headers.
func (p *Policy) Score(e *Evidence) float64 {
	headers := e.HeaderWeight
	if e.FalseClaim != "" {
		headers = p.Weights[signFalse]
	}
	return min(headers+e.Pace.Weight+e.Crowd.Weight+e.Invented.Weight+e.Cookieless.Weight+e.Penalty+e.Failed.Weight, 1)
}

// Lasting is the part of the score that no solved challenge takes off: a false
// claim stays one, and a program that drives a browser can also have it solve.
func (p *Policy) Lasting(e *Evidence) float64 {
	if e.FalseClaim != "" {
		return p.Weights[signFalse]
	}
	return e.Driven
}

// Relieved is the score of a client that solved a challenge.
func (p *Policy) Relieved(e *Evidence) float64 {
	return max(p.Score(e)-p.Relief, p.Lasting(e), 0)
}

// Signals puts the evidence in words.
func (p *Policy) Signals(e *Evidence) []Signal {
	signals := append([]Signal(nil), e.Headers...)
	if e.FalseClaim != "" {
		signals = append(signals, p.signal(SignalUserAgent, signFalse, "not "+e.FalseClaim))
	}
	for _, s := range []Signal{
		{SignalCadence, e.Pace.Weight, strconv.Itoa(e.Pace.requests) + " reqs/" + strconv.Itoa(e.Pace.seconds) + "s"},
		{SignalCollision, e.Crowd.Weight, "shared-with-" + strconv.Itoa(e.Crowd.Count) + "-sessions"},
		{SignalCollision, e.Invented.Weight, strconv.Itoa(e.Invented.Count) + " made-up sessions/60s on this network"},
		{SignalCollision, e.Cookieless.Weight, strconv.Itoa(e.Cookieless.Count) + " reqs/60s without cookies on this network"},
		{SignalHeaders, e.Penalty, "earlier-misdeeds"},
		{SignalChallenge, e.Failed.Weight, strconv.Itoa(e.Failed.Count) + " wrong solutions"},
	} {
		if s.Weight > 0 {
			signals = append(signals, s)
		}
	}
	for i := range signals {
		signals[i].Weight = Round(signals[i].Weight)
	}
	return signals
}

// Round returns a score or a weight as it is logged: sums of decimal weights have
// digits in binary that none of them has.
func Round(weight float64) float64 { return math.Round(weight*1e4) / 1e4 }

// Penalty returns what earlier penalties of a fingerprint weigh. Many people share
// one: it never makes a suspect alone.
func (p *Policy) Penalty(penalty float64) float64 { return min(penalty, p.Weights[signPenalty]) }

// Failed returns what wrong solutions weigh. Shared says that they are those of
// everyone with these headers on this network: then they, too, never make a suspect
// alone.
func (p *Policy) Failed(failures int, shared bool) Sign {
	most := 1.0
	if shared {
		most = p.Weights[signPenalty]
	}
	return Sign{min(float64(failures)*p.Weights[signFailed], most), failures}
}
