package ratelimit

// quota is a limit as GCRA sees it. Times are in microseconds, since the Unix
// epoch where they are instants: a Lua number holds those exactly.
type quota struct {
	interval int64 // between two requests at the limit's rate
	window   int64 // how far the TAT may run ahead: the burst, as time
}

// limit is the number of requests that a full bucket holds.
func (q quota) limit() int64 { return q.window / q.interval }

// spend is GCRA: may a request of this cost be admitted now, and what is the
// bucket's TAT afterwards? A refused request leaves the bucket as it was.
func (q quota) spend(now, tat, cost int64) (next int64, ok bool) {
	next = max(tat, now) + cost*q.interval
	if next > now+q.window {
		return tat, false
	}
	return next, true
}

// left is how many requests the bucket would admit now, one after another.
func (q quota) left(now, tat int64) int64 {
	return max(now+q.window-max(tat, now), 0) / q.interval
}

// wait is how long until a request of this cost is admitted, if no other
// comes. More than a full bucket is never admitted; the answer is then the time
// a whole bucket takes, since no better one exists.
func (q quota) wait(now, tat, cost int64) int64 {
	if cost > q.limit() {
		return q.window
	}
	return max(tat+cost*q.interval-q.window-now, 0)
}

// sane bounds a TAT that a broken clock, here or elsewhere, has thrown far ahead:
// it would otherwise lock callers out for as long as the clock was wrong.
func (q quota) sane(now, tat int64) int64 { return min(tat, now+2*q.window) }
