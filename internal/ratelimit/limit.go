package ratelimit

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"regexp"
	"sync/atomic"
	"time"
)

// Limit is Count requests per Period for each subject.
type Limit struct {
	// Name is the first part of the bucket keys: "search", "search-ip".
	Name   string
	Count  int
	Period time.Duration
	// Burst is how many may come at once; 0 means Count.
	Burst int
}

var limitName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

func (l Limit) validate(ttl time.Duration) error {
	var errs []error
	if !limitName.MatchString(l.Name) {
		errs = append(errs, errors.New("name: must be lower-case letters, digits and dashes, at most 32"))
	}
	if l.Count < 1 || l.Period <= 0 || l.Burst < 0 {
		errs = append(errs, errors.New("count and period must be positive, burst not negative"))
	} else {
		if l.Period.Microseconds() < int64(l.Count) {
			errs = append(errs, errors.New("more than a million per second"))
		}
		if q := l.quota(); time.Duration(q.window)*time.Microsecond > ttl {
			errs = append(errs, fmt.Errorf("a full burst takes %v to refill, but buckets are kept for %v",
				time.Duration(q.window)*time.Microsecond, ttl))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("limit %q: %w", l.Name, errors.Join(errs...))
}

func (l Limit) quota() quota {
	burst := l.Burst
	if burst == 0 {
		burst = l.Count
	}
	// Rounded down: a period that the count does not divide admits less than a
	// microsecond per request too much, and the limit shown is the limit set.
	interval := max(l.Period.Microseconds()/int64(l.Count), 1)
	return quota{interval: interval, window: int64(burst) * interval}
}

// Rule is a limit at work: it makes the keys that [Limiter.Allow] checks.
type Rule struct {
	limit Limit
	quota quota
	seed  maphash.Seed
	index uint16
	// interval is the quota's, scaled. The window stays: fewer and slower
	// requests fill the same time.
	interval atomic.Int64
}

// Name is the limit's.
func (r *Rule) Name() string { return r.limit.Name }

// Limit is how many requests a full bucket holds right now.
func (r *Rule) Limit() int { return int(r.now().limit()) }

// Scale multiplies count and burst from now on, in this process; 1 is the limit as
// configured. Campaign mode scales hand-offs by 0.8. The factor is kept between
// a hundredth and ten: an operator's slip must neither open nor shut the door.
func (r *Rule) Scale(factor float64) {
	if math.IsNaN(factor) {
		return
	}
	factor = min(max(factor, 0.01), 10)
	scaled := int64(math.Ceil(float64(r.quota.interval) / factor))
	r.interval.Store(min(max(scaled, 1), r.quota.window))
}

func (r *Rule) now() quota {
	return quota{interval: r.interval.Load(), window: r.quota.window}
}
