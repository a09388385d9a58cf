package ratelimit

import "context"

// Source holds the buckets that all processes share. Both implementations obey one
// suite of tests.
type Source interface {
	// Settle puts each ask to its bucket and writes the answers, one per ask, in
	// order. An answer that could not be had stays not OK; the error says why. It
	// keeps to the context's deadline.
	Settle(ctx context.Context, asks []Ask, answers []Answer) error
}

// Ask is what a process wants of a bucket: to charge what it has admitted on trust
// and to lease slots for what will come. Times are microseconds.
type Ask struct {
	Bucket string
	Now    int64
	// Since is when the first of the charged requests was admitted.
	Since    int64
	Interval int64
	Window   int64
	// Charge is taken in any case, even beyond the limit: those requests have
	// been served.
	Charge int64
	// Want is how many slots to lease. At most one Share-th of what is left is
	// granted, so that one process cannot take it all, but never less than Need, if
	// there is as much.
	Want  int64
	Need  int64
	Share int64
}

// Answer is the bucket after an ask.
type Answer struct {
	TAT int64
	// From is the start of the leased run, Granted the number of its slots.
	From    int64
	Granted int64
	OK      bool
}

// settle is the pure rule of a bucket; the script in redis.go says the same in
// Lua.
func settle(tat int64, a *Ask) Answer {
	q := quota{interval: a.Interval, window: a.Window}
	tat = q.sane(a.Now, tat)
	if a.Charge > 0 {
		// Charged as of then: had it been charged at once, the bucket would
		// have begun to refill at once.
		tat = max(tat, min(a.Since, a.Now)) + a.Charge*a.Interval
	}
	from := max(tat, a.Now)
	granted := min(a.Want, max(a.Need, q.left(a.Now, tat)/a.Share), q.left(a.Now, tat))
	if granted > 0 {
		tat = from + granted*a.Interval
	}
	return Answer{TAT: tat, From: from, Granted: max(granted, 0), OK: true}
}
