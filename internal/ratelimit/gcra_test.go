package ratelimit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A token bucket that is filled by the clock says the same as GCRA, however
// requests arrive.
func TestSpendIsATokenBucket(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := quota{interval: rapid.Int64Range(1, 1e7).Draw(t, "interval")}
		q.window = q.interval * rapid.Int64Range(1, 1000).Draw(t, "burst")
		now := rapid.Int64Range(0, 4e15).Draw(t, "start")
		var tat int64
		level := q.window // what the bucket holds, as time
		for range rapid.IntRange(1, 200).Draw(t, "requests") {
			gap := rapid.Int64Range(0, 3*q.interval).Draw(t, "gap")
			now, level = now+gap, min(level+gap, q.window)
			cost := rapid.Int64Range(1, q.limit()+1).Draw(t, "cost")

			if got, want := q.left(now, tat), level/q.interval; got != want {
				t.Fatalf("left = %d, want %d", got, want)
			}
			wantOK := level >= cost*q.interval
			next, ok := q.spend(now, tat, cost)
			if ok != wantOK {
				t.Fatalf("spend(%d) = %t, want %t at level %d", cost, ok, wantOK, level)
			}
			if ok {
				level -= cost * q.interval
			} else if next != tat {
				t.Fatalf("a refusal moved the TAT by %d", next-tat)
			}
			tat = next

			if !ok && cost <= q.limit() {
				wait := q.wait(now, tat, cost)
				if _, ok := q.spend(now+wait, tat, cost); !ok {
					t.Fatalf("refused after the %d that wait promised", wait)
				}
				if _, ok := q.spend(now+wait-1, tat, cost); ok {
					t.Fatalf("admitted before the %d that wait demanded", wait)
				}
			}
		}
	})
}

func TestLimitQuota(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		limit        Limit
		wantInterval time.Duration
		wantLimit    int64
	}{
		{Limit{Count: 60, Period: time.Minute}, time.Second, 60},
		{Limit{Count: 7, Period: time.Minute}, 8571428 * time.Microsecond, 7},
		{Limit{Count: 60, Period: time.Minute, Burst: 5}, time.Second, 5},
		{Limit{Count: 1e6, Period: time.Minute}, 60 * time.Microsecond, 1e6},
	} {
		q := tt.limit.quota()
		if got := micros(q.interval); got != tt.wantInterval {
			t.Errorf("%+v: interval %v, want %v", tt.limit, got, tt.wantInterval)
		}
		if got := q.limit(); got != tt.wantLimit {
			t.Errorf("%+v: limit %d, want %d", tt.limit, got, tt.wantLimit)
		}
	}
}
