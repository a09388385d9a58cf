package ratelimit

const (
	// leaseDivisor and minLease bound the smallest lease asked for: a sixteenth of
	// the limit, at least four slots. A quiet bucket then needs Redis once in a few
	// requests, and few slots are lost when the client does not come back.
	leaseDivisor = 16
	minLease     = 4
	// trustDivisor divides what a bucket has left into what all processes together
	// may admit on trust; maxTrust caps the part of one process.
	trustDivisor = 8
	maxTrust     = 16
	// trustThreshold is from how many requests left a single one is admitted on
	// trust however many processes there are: a client should not wait for Redis
	// because thirty processes were started for a campaign.
	trustThreshold = 24
	// leaseHorizon is how long a lease should last at the pace seen last, in
	// microseconds: long against a round trip, short against a window.
	leaseHorizon = 100_000
)

// lease is a run of slots on the bucket's time line, each one interval long.
type lease struct{ from, to int64 }

// left drops slots that have passed unused, as GCRA loses them to a full bucket,
// and counts the rest.
func (l *lease) left(now, interval int64) int64 {
	if late := now - l.from; late >= interval && l.from < l.to {
		l.from += late / interval * interval
	}
	if l.from >= l.to { // spares the idle half of the entries a division
		return 0
	}
	return (l.to - l.from) / interval
}

// entry is what this process knows of one bucket. It holds no pointers: a million
// of them cost the garbage collector nothing. Times are in microseconds.
type entry struct {
	id bucketID
	// clock is the latest time that a request came with, syncedAt that of the last
	// answer from the source.
	clock, syncedAt int64
	// tat is the bucket's theoretical arrival time as of that answer: a lower bound,
	// since no process moves it back.
	tat           int64
	current, next lease
	granted       int64 // slots of the current lease when it was new
	spent         int64 // cost of the requests admitted since the last ask
	debt          int64 // cost admitted on trust and not yet charged
	debtSince     int64 // when the oldest debt was made
	charging      int64 // debt that is being charged right now
	waiting       int64 // cost of the requests that wait for the source
	largest       int64 // cost of the largest of these requests
	rule          uint16
	queued        bool // an ask is queued
	aged          bool // a sweep has seen the debt before
}

type outcome uint8

const (
	undecided outcome = iota // only Redis knows
	refused                  // the bucket is empty
	leased                   // paid with leased slots
	trusted                  // noted as a debt
	shared                   // taken from the local share
)

// decide decides one request if this process can. ask says that the bucket should
// be settled with the source soon.
func (e *entry) decide(q quota, now, cost, peers int64, offline bool) (o outcome, ask bool) {
	now = e.tick(now)
	have := e.current.left(now, q.interval)
	if have == 0 {
		e.current, e.next = e.next, lease{}
		have = e.current.left(now, q.interval)
		e.granted = have
	}
	spare := e.next.left(now, q.interval)
	if have+spare >= cost {
		e.take(q, cost, have)
		return leased, spare == 0 && have-cost <= e.granted/4
	}
	if offline {
		return e.decideOffline(q, now, cost, peers)
	}

	tat := e.bucket(q)
	owed := e.debt + e.charging + cost
	if have+spare+q.left(now, tat+(owed-cost)*q.interval) < cost {
		return refused, false
	}
	left := q.left(now, tat)
	trust := min(max(left/(trustDivisor*peers), min(left/trustThreshold, 1)), maxTrust)
	age := now - e.syncedAt
	known := e.syncedAt > 0 && age <= q.window
	if !known {
		trust = min(trust, 1)
	}
	if owed <= trust {
		e.owe(now, cost)
		return trusted, !known || age > q.window/2 || owed+cost > trust
	}
	e.waiting += cost
	e.largest = max(e.largest, cost)
	return undecided, true
}

// decideOffline grants this process's part of the limit: a request weighs as many
// slots as there are processes that may each grant one.
func (e *entry) decideOffline(q quota, now, cost, peers int64) (o outcome, ask bool) {
	next, ok := q.spend(now, e.bucket(q), e.weigh(q, cost, peers))
	if !ok {
		return refused, false
	}
	e.tat = next
	e.owe(now, cost)
	return shared, true
}

// weigh is what a request costs while the source is away: its part of the limit,
// at most a full bucket. With more processes than requests to share, each grants one.
func (e *entry) weigh(q quota, cost, peers int64) int64 { return min(cost*peers, q.limit()) }

// undo takes back a request that another limit refused.
func (e *entry) undo(q quota, cost, peers int64, o outcome) {
	e.spent = max(e.spent-cost, 0)
	if o == shared {
		e.tat -= e.weigh(q, cost, peers) * q.interval
	}
	switch {
	case o != leased && e.debt >= cost:
		e.debt -= cost
	case o == shared: // charged meanwhile: the charge stays
	case o == trusted && e.current.left(e.clock, q.interval) == 0:
		// Charged meanwhile: the slots become a lease.
		e.current, e.granted = lease{from: e.clock, to: e.clock + cost*q.interval}, cost
	default:
		e.current.from -= cost * q.interval
	}
}

// tick moves the entry's clock. Requests may come slightly out of order; a larger
// jump back is a corrected system clock, which must not freeze the bucket.
func (e *entry) tick(now int64) int64 {
	const disorder = 1_000_000
	if e.clock-now > disorder {
		e.clock, e.syncedAt = now, min(e.syncedAt, now)
	}
	e.clock = max(e.clock, now)
	return e.clock
}

// bucket is the TAT as far as known. One that a wrong clock has set is corrected.
func (e *entry) bucket(q quota) int64 {
	e.tat = q.sane(e.clock, e.tat)
	return max(e.tat, e.clock)
}

func (e *entry) take(q quota, cost, have int64) {
	e.spent += cost
	if first := min(cost, have); first > 0 {
		e.current.from += first * q.interval
		cost -= first
	}
	e.next.from += cost * q.interval
}

func (e *entry) owe(now, cost int64) {
	if e.debt == 0 {
		e.debtSince = now
	}
	e.spent += cost
	e.debt += cost
}

// ask fills in what to ask the source and reports whether there is anything to ask.
func (e *entry) ask(q quota, peers int64, a *Ask) bool {
	e.queued, e.aged = false, false
	*a = Ask{
		Now: e.clock, Since: e.debtSince, Interval: q.interval, Window: q.window,
		Charge: e.debt, Need: e.largest, Share: 2 * peers,
	}
	if e.next.left(e.clock, q.interval) == 0 || e.waiting > 0 {
		pace := int64(0)
		if e.syncedAt > 0 {
			pace = min(e.spent, 1<<32) * leaseHorizon / max(e.clock-e.syncedAt, 1000)
		}
		a.Want = max(minLease, q.limit()/leaseDivisor, pace, e.waiting)
	}
	e.charging, e.debt = e.debt, 0
	e.spent, e.waiting, e.largest = 0, 0, 0
	return a.Charge > 0 || a.Want > 0
}

// apply takes over the answer of the source.
func (e *entry) apply(q quota, a *Ask, ans *Answer) {
	e.charging = 0
	if !ans.OK {
		if a.Charge > 0 {
			e.debtSince = a.Since
			e.debt += a.Charge
		}
		return
	}
	e.tat, e.syncedAt = ans.TAT, a.Now
	if ans.Granted == 0 {
		return
	}
	run := lease{from: ans.From, to: ans.From + ans.Granted*a.Interval}
	switch {
	case e.current.left(e.clock, q.interval) == 0:
		e.current, e.granted = run, ans.Granted
	case e.next.left(e.clock, q.interval) == 0:
		e.next = run
	default: // a costly request waits, and neither lease covers it
		e.current, e.next, e.granted = e.next, run, ans.Granted
	}
}

// shown is what the response headers say: the requests left, and the time until
// the bucket is full.
func (e *entry) shown(q quota, peers int64, offline bool) (left, reset int64) {
	tat := e.seen(q, offline)
	left = q.left(e.clock, tat)
	if offline {
		left /= e.weigh(q, 1, peers)
	}
	return left, max(tat-e.clock, 0)
}

// retry is the time until a request like this one is admitted.
func (e *entry) retry(q quota, cost, peers int64, offline bool) int64 {
	if offline {
		cost = e.weigh(q, cost, peers)
	}
	return q.wait(e.clock, e.seen(q, offline), cost)
}

// seen is the TAT as the clients of this process see it: without the leased
// slots that they may still use, and with the debt that Redis does not know yet,
// which the local share includes already.
func (e *entry) seen(q quota, offline bool) int64 {
	tat := e.bucket(q) - (e.current.left(e.clock, q.interval)+e.next.left(e.clock, q.interval))*q.interval
	if !offline {
		tat += (e.debt + e.charging) * q.interval
	}
	return tat
}
