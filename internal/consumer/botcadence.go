package consumer

import (
	"math/bits"
	"strconv"
)

// window counts what happened in a sliding stretch of time: exactly in the
// current stretch, and in proportion in the one before.
type window struct {
	slot      int32 // there are many windows, and none is shorter than ten seconds
	cur, prev uint32
}

func (w *window) roll(now, length int64) {
	slot := int32(now / length) //nolint:gosec // for 680 years
	switch slot - w.slot {
	case 0:
	case 1:
		w.slot, w.prev, w.cur = slot, w.cur, 0
	default:
		if slot > w.slot || w.slot-slot > 1 { // a clock that was set back starts anew
			*w = window{slot: slot}
		}
	}
}

func (w *window) add(now, length int64, n uint32) {
	w.roll(now, length)
	w.cur += n
}

func (w *window) count(now, length int64) int {
	w.roll(now, length)
	past := now - int64(w.slot)*length
	return int(w.cur) + int(int64(w.prev)*max(length-past, 0)/length)
}

// sketch counts distinct values, by linear counting: one bit for each.
type sketch struct {
	slot      int64
	cur, prev [4]uint64
}

func (s *sketch) roll(now, length int64) {
	slot := now / length
	switch {
	case slot == s.slot:
	case slot == s.slot+1:
		s.slot, s.prev, s.cur = slot, s.cur, [4]uint64{}
	default:
		*s = sketch{slot: slot}
	}
}

func (s *sketch) add(now, length int64, value uint64) {
	s.roll(now, length)
	value *= 0x9e3779b97f4a7c15 // spread
	s.cur[value>>62] |= 1 << (value >> 56 & 63)
}

// count estimates the distinct values of this stretch and the one before. A
// full sketch says "many".
func (s *sketch) count(now, length int64) int {
	s.roll(now, length)
	ones := 0
	for i := range s.cur {
		ones += bits.OnesCount64(s.cur[i] | s.prev[i])
	}
	return distinct[ones]
}

// distinct is -m·ln(zeros/m) for m = 256 bits.
var distinct = func() (table [257]int) {
	for ones := range table {
		zeros := max(256-ones, 1)
		// ln by its series in the ratio of neighbours: a table of 257 needs no more.
		sum := 0.0
		for z := 256; z > zeros; z-- {
			sum += 256 / float64(z)
		}
		table[ones] = int(sum + 0.5)
	}
	return table
}()

// Lengths of the windows, in milliseconds.
const (
	second       = 1000
	shortWindow  = 10 * second
	longWindow   = 300 * second
	crowdWindow  = 60 * second
	cookieWindow = 60 * second
)

// Units of a request: typing and dragging cause many, for one action each.
const (
	unitsPlain = 2
	unitsSlide = 1
)

// How many requests are unlike a person, by window.
const (
	fastFrom     = 40 // in ten seconds
	fasterFrom   = 80
	fastestFrom  = 160
	steadyFrom   = 100 // in five minutes
	steadierFrom = 250
	steadiestIn  = 500
	crowdFrom    = 30 // sessions in a minute
	lonelyFrom   = 100
	doubtFrom    = 20 // new sessions of a network in a minute
	telling      = 5  // requests in ten seconds that other instances should hear of
)

// BotTrack is what one visitor has done lately: a session, or whoever shares a
// fingerprint on a network and brings no session. It is not safe for concurrent
// use.
type BotTrack struct {
	short, long window
	untold      uint32 // units that the other instances have not heard of
	failed      window // solutions that were wrong
	ignored     window // challenges that nobody answered
}

// Count notes a request that cost something. Sliding is one of many that a single action causes, such
// as typing a destination.
func (t *BotTrack) Count(nowMS int64, sliding bool) {
	units := uint32(unitsPlain)
	if sliding {
		units = unitsSlide
	}
	t.short.add(nowMS, shortWindow, units)
	t.long.add(nowMS, longWindow, units)
	t.untold += units
}

// Hear adds what other instances counted.
func (t *BotTrack) Hear(nowMS int64, requests int) {
	n := uint32(min(max(requests, 0), 1<<20)) * unitsPlain
	t.short.add(nowMS, shortWindow, n)
	t.long.add(nowMS, longWindow, n)
}

// Busy reports whether the other instances should hear of the visitor.
func (t *BotTrack) Busy(nowMS int64) bool {
	return t.short.count(nowMS, shortWindow) >= telling*unitsPlain
}

// Tell returns what the other instances should hear, and forgets it; false if it
// is not worth a word.
func (t *BotTrack) Tell(nowMS int64) (requests int, ok bool) {
	if t.untold < unitsPlain || !t.Busy(nowMS) {
		return 0, false
	}
	requests = int(t.untold / unitsPlain)
	t.untold %= unitsPlain
	return requests, true
}

// offenceWindow is how long failures count.
const offenceWindow = 600 * second

// Fail notes a wrong solution and returns how many there were lately.
func (t *BotTrack) Fail(nowMS int64) int {
	t.failed.add(nowMS, offenceWindow, 1)
	return t.failed.count(nowMS, offenceWindow)
}

// Ignore notes a challenged request and returns how many there were lately.
func (t *BotTrack) Ignore(nowMS int64) int {
	t.ignored.add(nowMS, offenceWindow, 1)
	return t.ignored.count(nowMS, offenceWindow)
}

// Forgive forgets failures and challenges: one was solved.
func (t *BotTrack) Forgive() { t.failed, t.ignored = window{}, window{} }

// Failures returns how many wrong solutions there were lately.
func (t *BotTrack) Failures(nowMS int64) int { return t.failed.count(nowMS, offenceWindow) }

// Signs returns what the pace says.
func (p *BotPolicy) Signs(t *BotTrack, nowMS int64) (s PaceSigns) {
	short, long := t.short.count(nowMS, shortWindow)/unitsPlain, t.long.count(nowMS, longWindow)/unitsPlain
	fast, steady := "", ""
	switch {
	case short > fastestFrom:
		fast = signFastest
	case short > fasterFrom:
		fast = signFaster
	case short > fastFrom:
		fast = signFast
	}
	switch {
	case long > steadiestIn:
		steady = signSteadiest
	case long > steadierFrom:
		steady = signSteadier
	case long > steadyFrom:
		steady = signSteady
	}
	if fast == "" && steady == "" { // nearly everybody
		return s
	}
	s.Weight, s.requests, s.seconds = p.Weights[fast], short, shortWindow/second
	if w := p.Weights[steady]; w > s.Weight {
		s.Weight, s.requests, s.seconds = w, long, longWindow/second
	}
	return s
}

// PaceSigns are what a pace says, without the words: those are only wanted for
// visitors that are logged.
type PaceSigns struct {
	Weight            float64
	requests, seconds int
}

// Signal puts them in words.
func (s PaceSigns) Signal() BotSignal {
	return BotSignal{Kind: SignalCadence, Weight: s.Weight, Detail: strconv.Itoa(s.requests) + " reqs/" + strconv.Itoa(s.seconds) + "s"}
}

// BotCrowd is how many sessions one fingerprint has on one network. Carriers put
// hundreds of people behind one address, and many of them have the same
// telephone: a crowd says little.
type BotCrowd struct {
	sessions sketch
	heard    int // of all instances, at some time
	heardAt  int64
}

// Count notes a request of a session.
func (c *BotCrowd) Count(nowMS int64, session uint64) { c.sessions.add(nowMS, crowdWindow, session) }

// Hear takes in how many sessions all instances have seen in the last minute.
func (c *BotCrowd) Hear(nowMS int64, sessions int) { c.heard, c.heardAt = sessions, nowMS }

// Crowded returns what the crowd says: its weight, and how many sessions it has.
func (p *BotPolicy) Crowded(c *BotCrowd, nowMS int64) (weight float64, sessions int) {
	n := c.sessions.count(nowMS, crowdWindow)
	if nowMS-c.heardAt < crowdWindow {
		n = max(n, c.heard)
	}
	if n < crowdFrom {
		return 0, n
	}
	return p.Weights[signCrowd], n
}

// CrowdSignal puts a crowd in words.
func CrowdSignal(weight float64, sessions int) BotSignal {
	return BotSignal{Kind: SignalCollision, Weight: weight, Detail: "shared-with-" + strconv.Itoa(sessions) + "-sessions"}
}

// BotNetwork is how a network treats cookies. People get one with their first
// answer and bring it back; a program that rotates everything else still has an
// address, and either brings none or makes them up.
type BotNetwork struct {
	without, with window // requests
	fresh         window // sessions that this instance had not seen
	genuine       window // of those, the ones that we opened
	madeUp        window // and the others
}

// Count notes a request with or without a session.
func (n *BotNetwork) Count(nowMS int64, session bool) {
	if session {
		n.with.add(nowMS, cookieWindow, 1)
		return
	}
	n.without.add(nowMS, cookieWindow, 1)
}

// Fresh notes a session that was not seen before.
func (n *BotNetwork) Fresh(nowMS int64) { n.fresh.add(nowMS, cookieWindow, 1) }

// Doubtful reports whether there are so many new sessions that they are worth
// looking up.
func (n *BotNetwork) Doubtful(nowMS int64) bool {
	return n.fresh.count(nowMS, cookieWindow) >= doubtFrom
}

// Found notes what a look-up said.
func (n *BotNetwork) Found(nowMS int64, genuine bool) {
	if genuine {
		n.genuine.add(nowMS, cookieWindow, 1)
		return
	}
	n.madeUp.add(nowMS, cookieWindow, 1)
}

// MadeUp returns what it says of a session that nobody has looked up yet that
// most of its network's were made up, and how many those are.
func (p *BotPolicy) MadeUp(n *BotNetwork, nowMS int64) (weight float64, sessions int) {
	sessions = n.madeUp.count(nowMS, cookieWindow)
	if sessions < doubtFrom || sessions < n.genuine.count(nowMS, cookieWindow) {
		return 0, sessions
	}
	return p.Weights[signMadeUp], sessions
}

// MadeUpSignal puts it in words.
func MadeUpSignal(weight float64, sessions int) BotSignal {
	return BotSignal{Kind: SignalCollision, Weight: weight, Detail: strconv.Itoa(sessions) + " made-up sessions/60s on this network"}
}

// Forgetful returns what it says that a busy network keeps no cookies, and how
// many requests came without one.
func (p *BotPolicy) Forgetful(n *BotNetwork, nowMS int64) (weight float64, without int) {
	without = n.without.count(nowMS, cookieWindow)
	if without < lonelyFrom || n.with.count(nowMS, cookieWindow) >= without/4 {
		return 0, without
	}
	return p.Weights[signNoCookies], without
}

// ForgetfulSignal puts it in words.
func ForgetfulSignal(weight float64, without int) BotSignal {
	return BotSignal{Kind: SignalCollision, Weight: weight, Detail: strconv.Itoa(without) + " reqs/60s without cookies on this network"}
}

// Misdeeds returns what earlier penalties say of a fingerprint. Many people share
// one: it never makes a suspect alone.
func (p *BotPolicy) Misdeeds(penalty float64) float64 {
	return min(penalty, p.Weights[signMisdeeds])
}

// MisdeedsSignal puts it in words.
func MisdeedsSignal(weight float64) BotSignal {
	return BotSignal{Kind: SignalHeaders, Weight: weight, Detail: "earlier-misdeeds"}
}

// Failed returns what wrong solutions say.
func (p *BotPolicy) Failed(failures int) float64 {
	if failures == 0 {
		return 0
	}
	return min(float64(failures)*p.Weights[signFailed], 1)
}

// FailedSignal puts it in words.
func FailedSignal(weight float64, failures int) BotSignal {
	return BotSignal{Kind: SignalChallenge, Weight: weight, Detail: strconv.Itoa(failures) + " wrong solutions"}
}

// FalseClaim is the signal of a search engine that is none.
func (p *BotPolicy) FalseClaim(operator string) BotSignal {
	return p.signal(SignalUserAgent, signFalse, "not "+operator)
}
