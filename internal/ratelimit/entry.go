package ratelimit

const (
	// The smallest lease asked for is a part of the limit, and never less than few: a
	// quiet bucket then needs Redis once in a few requests, and what a process holds
	// and its caller does not come back for is little.
	part = 16
	few  = 4
	// slack divides what a bucket has left to get what may be admitted on trust
	// over all processes; most caps it for one.
	slack = 8
	most  = 16
	// modest is from how many requests left a single one may be admitted on trust
	// however many processes there are: a guest should not wait for Redis because a
	// campaign has started thirty of us.
	modest = 24
	// horizon is how long a lease should last at the pace seen last, in
	// microseconds: long against a round trip, short against a window.
	horizon = 100_000
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
// of them cost the garbage collector nothing.
type entry struct {
	id bucketID
	// at is the latest time a caller came with, synced that of the last answer.
	at, synced int64
	// tat is the bucket's as of that answer: a lower bound, since nobody ever
	// moves it back.
	tat       int64
	cur, next lease
	granted   int64 // slots in the lease at hand when it was new
	since     int64 // when the oldest debt was made
	used      int64 // since the last ask
	debt      int64 // admitted on trust, not yet charged
	flight    int64 // being charged right now
	demand    int64 // cost of the callers who wait
	need      int64 // the greatest single one of them
	rule      uint16
	queued    bool // an ask is due
	aged      bool // a sweep has seen the debt before
}

type outcome uint8

const (
	unsure  outcome = iota // only Redis knows
	refused                // the bucket is empty
	leased                 // paid with leased slots
	trusted                // noted as a debt
	shared                 // taken from the local share
)

// decide settles one request, if it can be settled here. ask says that the
// source should hear of this bucket soon.
func (e *entry) decide(q quota, now, cost, peers int64, alone bool) (o outcome, ask bool) {
	now = e.tick(now)
	have := e.cur.left(now, q.interval)
	if have == 0 {
		e.cur, e.next = e.next, lease{}
		have = e.cur.left(now, q.interval)
		e.granted = have
	}
	spare := e.next.left(now, q.interval)
	if have+spare >= cost {
		e.take(q, cost, have)
		return leased, spare == 0 && have-cost <= e.granted/4
	}
	if alone {
		return e.decideAlone(q, now, cost, peers)
	}

	tat := e.bucket(q)
	owed := e.debt + e.flight + cost
	if have+spare+q.left(now, tat+(owed-cost)*q.interval) < cost {
		return refused, false
	}
	left := q.left(now, tat)
	trust := min(max(left/(slack*peers), min(left/modest, 1)), most)
	age := now - e.synced
	known := e.synced > 0 && age <= q.window
	if !known {
		trust = min(trust, 1)
	}
	if owed <= trust {
		e.owe(now, cost)
		return trusted, !known || age > q.window/2 || owed+cost > trust
	}
	e.demand += cost
	e.need = max(e.need, cost)
	return unsure, true
}

// decideAlone grants this process's part of the limit: a request weighs as many
// slots as there are processes that may each grant one.
func (e *entry) decideAlone(q quota, now, cost, peers int64) (o outcome, ask bool) {
	next, ok := q.spend(now, e.bucket(q), e.weigh(q, cost, peers))
	if !ok {
		return refused, false
	}
	e.tat = next
	e.owe(now, cost)
	return shared, true
}

// weigh is never more than a full bucket: with more processes than requests to
// share, one each is granted rather than none.
func (e *entry) weigh(q quota, cost, peers int64) int64 { return min(cost*peers, q.limit()) }

// undo takes back a request that another limit refused.
func (e *entry) undo(q quota, cost, peers int64, o outcome) {
	e.used = max(e.used-cost, 0)
	if o == shared {
		e.tat -= e.weigh(q, cost, peers) * q.interval
	}
	switch {
	case o != leased && e.debt >= cost:
		e.debt -= cost
	case o == shared: // charged meanwhile, and so be it
	case o == trusted && e.cur.left(e.at, q.interval) == 0:
		// Charged meanwhile: the slots are ours.
		e.cur, e.granted = lease{from: e.at, to: e.at + cost*q.interval}, cost
	default:
		e.cur.from -= cost * q.interval
	}
}

// tick moves the bucket's clock. Callers may come slightly out of order; a jump
// back is a clock set right, and must not freeze the bucket.
func (e *entry) tick(now int64) int64 {
	const disorder = 1_000_000
	if e.at-now > disorder {
		e.at, e.synced = now, min(e.synced, now)
	}
	e.at = max(e.at, now)
	return e.at
}

// bucket is the TAT as far as known. A bad clock's is mended for good.
func (e *entry) bucket(q quota) int64 {
	e.tat = q.sane(e.at, e.tat)
	return max(e.tat, e.at)
}

func (e *entry) take(q quota, cost, have int64) {
	e.used += cost
	if first := min(cost, have); first > 0 {
		e.cur.from += first * q.interval
		cost -= first
	}
	e.next.from += cost * q.interval
}

func (e *entry) owe(now, cost int64) {
	if e.debt == 0 {
		e.since = now
	}
	e.used += cost
	e.debt += cost
}

// ask writes down what to ask the source, and reports whether there is anything.
func (e *entry) ask(q quota, peers int64, a *Ask) bool {
	e.queued, e.aged = false, false
	*a = Ask{
		Now: e.at, Since: e.since, Interval: q.interval, Window: q.window,
		Charge: e.debt, Need: e.need, Share: 2 * peers,
	}
	if e.next.left(e.at, q.interval) == 0 || e.demand > 0 {
		pace := int64(0)
		if e.synced > 0 {
			pace = min(e.used, 1<<32) * horizon / max(e.at-e.synced, 1000)
		}
		a.Want = max(few, q.limit()/part, pace, e.demand)
	}
	e.flight, e.debt = e.debt, 0
	e.used, e.demand, e.need = 0, 0, 0
	return a.Charge > 0 || a.Want > 0
}

// hear takes in the answer.
func (e *entry) hear(q quota, a *Ask, ans *Answer) {
	e.flight = 0
	if !ans.OK {
		if a.Charge > 0 {
			e.since = a.Since
			e.debt += a.Charge
		}
		return
	}
	e.tat, e.synced = ans.TAT, a.Now
	if ans.Granted == 0 {
		return
	}
	run := lease{from: ans.From, to: ans.From + ans.Granted*a.Interval}
	switch {
	case e.cur.left(e.at, q.interval) == 0:
		e.cur, e.granted = run, ans.Granted
	case e.next.left(e.at, q.interval) == 0:
		e.next = run
	default: // a dear request waits, and neither run pays for it
		e.cur, e.next, e.granted = e.next, run, ans.Granted
	}
}

// shown is what headers tell the caller: the requests left, and the time until the
// bucket is full.
func (e *entry) shown(q quota, peers int64, alone bool) (left, reset int64) {
	tat := e.standing(q, alone)
	left = q.left(e.at, tat)
	if alone {
		left /= e.weigh(q, 1, peers)
	}
	return left, max(tat-e.at, 0)
}

// retry is the time until a request like this one is admitted.
func (e *entry) retry(q quota, cost, peers int64, alone bool) int64 {
	if alone {
		cost = e.weigh(q, cost, peers)
	}
	return q.wait(e.at, e.standing(q, alone), cost)
}

// standing is the TAT as this process's callers see it: without the slots they may
// still use, and with what Redis does not know yet. The local share has that in it.
func (e *entry) standing(q quota, alone bool) int64 {
	tat := e.bucket(q) - (e.cur.left(e.at, q.interval)+e.next.left(e.at, q.interval))*q.interval
	if !alone {
		tat += (e.debt + e.flight) * q.interval
	}
	return tat
}
