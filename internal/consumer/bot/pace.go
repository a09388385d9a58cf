package bot

// Lengths of the windows, in milliseconds.
const (
	second        = 1000
	shortWindow   = 10 * second
	longWindow    = 300 * second
	crowdWindow   = 60 * second
	cookieWindow  = 60 * second
	offenceWindow = 600 * second
)

// Units of a request: typing and dragging cause many, for one action each.
const (
	unitsPlain  = 2
	unitsRepeat = 1
)

// How many requests are unlike a person, by window.
const (
	fastFrom     = 40 // in ten seconds
	fasterFrom   = 80
	fastestFrom  = 160
	steadyFrom   = 100 // in five minutes
	steadierFrom = 250
	steadiestIn  = 500
	// reportFrom is from how many requests in ten seconds on the other instances
	// are told.
	reportFrom = 5
)

// Track is what one client has done lately: a session, or everyone who shares a
// fingerprint on a network and brings no session. It is not safe for concurrent
// use.
type Track struct {
	short, long window
	unreported  uint32 // units that the other instances have not been told of
	failed      window // solutions that were wrong
	ignored     window // challenges without an answer
}

// Count adds a request that cost something; repeats says that a single action
// causes many such requests, as typing a destination does.
func (t *Track) Count(nowMS int64, repeats bool) {
	units := uint32(unitsPlain)
	if repeats {
		units = unitsRepeat
	}
	t.short.add(nowMS, shortWindow, units)
	t.long.add(nowMS, longWindow, units)
	t.unreported += units
}

// Merge adds what other instances counted.
func (t *Track) Merge(nowMS int64, requests int) {
	n := uint32(min(max(requests, 0), 1<<20)) * unitsPlain
	t.short.add(nowMS, shortWindow, n)
	t.long.add(nowMS, longWindow, n)
}

// Busy reports whether the other instances should be told of the client.
func (t *Track) Busy(nowMS int64) bool {
	return t.short.count(nowMS, shortWindow) >= reportFrom*unitsPlain
}

// Report returns the requests that the other instances have not been told of, and
// takes them as told; false if there are too few.
func (t *Track) Report(nowMS int64) (requests int, ok bool) {
	if t.unreported < unitsPlain || !t.Busy(nowMS) {
		return 0, false
	}
	requests = int(t.unreported / unitsPlain)
	t.unreported %= unitsPlain
	return requests, true
}

// Fail counts a wrong solution and returns how many there were lately.
func (t *Track) Fail(nowMS int64) int {
	t.failed.add(nowMS, offenceWindow, 1)
	return t.failed.count(nowMS, offenceWindow)
}

// Ignore counts a challenged request and returns how many there were lately.
func (t *Track) Ignore(nowMS int64) int {
	t.ignored.add(nowMS, offenceWindow, 1)
	return t.ignored.count(nowMS, offenceWindow)
}

// Forgive forgets failures and challenges: one was solved.
func (t *Track) Forgive() { t.failed, t.ignored = window{}, window{} }

// Failures returns how many wrong solutions there were lately.
func (t *Track) Failures(nowMS int64) int { return t.failed.count(nowMS, offenceWindow) }

// Signs returns what the pace says.
func (p *Policy) Signs(t *Track, nowMS int64) (s PaceSigns) {
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
	if fast == "" && steady == "" { // nearly every client
		return s
	}
	s.Weight, s.requests, s.seconds = p.Weights[fast], short, shortWindow/second
	if w := p.Weights[steady]; w > s.Weight {
		s.Weight, s.requests, s.seconds = w, long, longWindow/second
	}
	return s
}

// PaceSigns are what a pace weighs.
type PaceSigns struct {
	Weight            float64
	requests, seconds int
}
