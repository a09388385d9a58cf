package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"melmastoon.ghasi.io/bff/internal/testkit"
)

var pepper = []byte("0123456789abcdef")

func newLimiter(t testing.TB, cfg Config) *Limiter {
	t.Helper()
	if cfg.Pepper == nil {
		cfg.Pepper = pepper
	}
	if cfg.Source == nil {
		cfg.Source = NewMemory()
	}
	if cfg.Limits == nil {
		cfg.Limits = []Limit{{Name: "search", Count: 60, Period: time.Minute}}
	}
	l, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func rule(t testing.TB, l *Limiter, name string) *Rule {
	t.Helper()
	r, err := l.Rule(name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// run runs the limiter's background work for as long as the test.
func run(t testing.TB, l *Limiter) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// reconcile runs rounds until nothing is due.
func reconcile(t testing.TB, l *Limiter) {
	t.Helper()
	l.drain(testkit.Context(t), &round{})
}

// awayable is a source that can be taken away.
type awayable struct {
	Source
	away atomic.Bool
}

func (s *awayable) Settle(ctx context.Context, asks []Ask, answers []Answer) error {
	if s.away.Load() {
		return errors.New("connection refused")
	}
	return s.Source.Settle(ctx, asks, answers)
}

// hung is a source that never answers.
type hung struct{}

func (hung) Settle(ctx context.Context, _ []Ask, _ []Answer) error {
	<-ctx.Done()
	return ctx.Err()
}

// admitted counts how many of n requests pass.
func admitted(l *Limiter, n int, now time.Time, keys ...Key) (passed int) {
	for range n {
		if l.Allow(context.Background(), keys, 1, now).Allowed {
			passed++
		}
	}
	return passed
}

var start = time.UnixMicro(epoch).UTC()

func TestNewReportsEverythingWrong(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Limits: []Limit{
		{Name: "Search", Count: 0, Period: time.Minute},
		{Name: "slow", Count: 1, Period: time.Hour},
		{Name: "fast", Count: 2_000_001, Period: time.Second},
		{Name: "twice", Count: 1, Period: time.Second},
		{Name: "twice", Count: 1, Period: time.Second},
	}, Instances: -1})
	if err == nil {
		t.Fatal("New accepted nonsense")
	}
	for _, want := range []string{"Search", "positive", "slow", "fast", "twice", "source", "pepper", "negative"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not mention %q:\n%v", want, err)
		}
	}
}

func TestAllowKeepsTheLimit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ count, instances int }{{60, 1}, {60, 3}, {60, 30}, {10, 3}, {1, 3}, {300, 3}, {240, 30}} {
		t.Run(fmt.Sprintf("%d over %d", tt.count, tt.instances), func(t *testing.T) {
			t.Parallel()
			l := newLimiter(t, Config{
				Limits:    []Limit{{Name: "search", Count: tt.count, Period: time.Minute}},
				Instances: tt.instances, MaxWait: time.Minute,
			})
			run(t, l)
			key := rule(t, l, "search").Key("gms_a")
			if got := admitted(l, 3*tt.count, start, key); got != tt.count {
				t.Errorf("admitted %d at once, want %d", got, tt.count)
			}
			now, got := start, 0
			for range 120 {
				now = now.Add(500 * time.Millisecond)
				got += admitted(l, 5, now, key)
			}
			if got != tt.count {
				t.Errorf("admitted %d in the minute after, want %d", got, tt.count)
			}
			if got := admitted(l, 1, start, rule(t, l, "search").Key("gms_b")); got != 1 {
				t.Error("refused another subject")
			}
		})
	}
}

func TestDecisionFigures(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, Config{
		Limits: []Limit{
			{Name: "session", Count: 6, Period: time.Minute},
			{Name: "ip", Count: 60, Period: time.Minute},
		},
		Instances: 1, MaxWait: time.Minute,
	})
	run(t, l)
	session, ip := rule(t, l, "session"), rule(t, l, "ip")
	keys := []Key{ip.IP(netip.MustParseAddr("192.0.2.1")), session.Key("gms_a")}
	for i := range 6 {
		got := l.Allow(t.Context(), keys, 1, start)
		want := Decision{Allowed: true, Rule: session, Limit: 6, Remaining: 5 - i, Reset: time.Duration(i+1) * 10 * time.Second}
		if diff := cmp.Diff(want, got, cmpopts.EquateComparable(&Rule{})); diff != "" {
			t.Fatalf("request %d: (-want +got)\n%s", i, diff)
		}
	}
	got := l.Allow(t.Context(), keys, 1, start.Add(4*time.Second))
	want := Decision{Rule: session, Limit: 6, Reset: 56 * time.Second, RetryAfter: 6 * time.Second}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(&Rule{})); diff != "" {
		t.Errorf("refusal: (-want +got)\n%s", diff)
	}
	if !l.Allow(t.Context(), keys, 1, start.Add(10*time.Second)).Allowed {
		t.Error("refused after the wait that was asked for")
	}

	// Another guest behind the same address: six were charged to it, no refusal was.
	got = l.Allow(t.Context(), []Key{keys[0]}, 1, start.Add(10*time.Second))
	want = Decision{Allowed: true, Rule: ip, Limit: 60, Remaining: 58, Reset: 2 * time.Second}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(&Rule{})); diff != "" {
		t.Errorf("ip: (-want +got)\n%s", diff)
	}

	if got := l.Allow(t.Context(), nil, 1, start); !got.Allowed || got.Rule != nil {
		t.Errorf("no keys: %+v, want allowed", got)
	}
}

func TestCost(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, Config{Instances: 3, MaxWait: time.Minute})
	run(t, l)
	key := rule(t, l, "search").Key("gms_a")
	got := 0
	for range 20 {
		if l.Allow(t.Context(), []Key{key}, 7, start).Allowed {
			got++
		}
	}
	if got != 8 {
		t.Errorf("admitted %d requests that cost 7, want 8 of 60", got)
	}
	if got := l.Allow(t.Context(), []Key{key}, 61, start.Add(time.Hour)); got.Allowed || got.RetryAfter != time.Minute {
		t.Errorf("more than the limit at once: %+v", got)
	}
}

// However the two limits are ordered and paid, a refusal by one costs the other
// nothing.
func TestRefusalCostsNothing(t *testing.T) {
	t.Parallel()
	for _, away := range []bool{false, true} {
		t.Run(fmt.Sprintf("away %t", away), func(t *testing.T) {
			t.Parallel()
			source := &awayable{Source: NewMemory()}
			l := newLimiter(t, Config{
				Source:    source,
				Limits:    []Limit{{Name: "wide", Count: 300, Period: time.Minute}, {Name: "narrow", Count: 3, Period: time.Minute}},
				Instances: 1, MaxWait: time.Minute,
			})
			run(t, l)
			source.away.Store(away)
			l.offline.Store(away)
			wide, narrow := rule(t, l, "wide"), rule(t, l, "narrow")
			if got := admitted(l, 400, start, wide.Key("a"), narrow.Key("a")); got != 3 {
				t.Fatalf("admitted %d, want 3", got)
			}
			if got := admitted(l, 400, start, wide.Key("a")); got < 296 || got > 297 {
				t.Errorf("the wide limit admits %d more, want 297", got)
			}
		})
	}
}

func TestScale(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, Config{Limits: []Limit{{Name: "handoff", Count: 10, Period: time.Minute}}, Instances: 1, MaxWait: time.Minute})
	run(t, l)
	r := rule(t, l, "handoff")
	r.Scale(0.8)
	if got := admitted(l, 20, start, r.Key("a")); got != 8 {
		t.Errorf("campaign mode admits %d, want 8", got)
	}
	if d := l.Allow(t.Context(), []Key{r.Key("a")}, 1, start); d.Limit != 8 {
		t.Errorf("limit shown %d, want 8", d.Limit)
	}
	r.Scale(1)
	if got := admitted(l, 20, start, r.Key("b")); got != 10 {
		t.Errorf("afterwards %d, want 10", got)
	}
	for _, silly := range []float64{0, -1, 1e9, nan()} {
		r.Scale(silly)
		if n := r.now().limit(); n < 1 || n > 100 {
			t.Errorf("scaled by %v: limit %d", silly, n)
		}
	}
}

func nan() float64 { zero := 0.0; return zero / zero }

// A quiet bucket needs Redis once in a few requests, and no request waits for it.
func TestQuietBucketAsksSeldom(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, Config{Limits: []Limit{{Name: "ip", Count: 300, Period: time.Minute}}})
	key := []Key{rule(t, l, "ip").Key("a")}
	now := start
	const requests = 200
	for range requests {
		now = now.Add(2 * time.Second)
		if d, ok := l.pass(newRequest(key, now), false); !ok || !d.Allowed {
			t.Fatalf("request had to wait or was refused: %+v", d)
		}
		reconcile(t, l)
	}
	if asks := l.Stats().Asks; asks > requests/4 {
		t.Errorf("%d asks for %d requests", asks, requests)
	}
}

// A busy bucket has its next lease before the last one is spent.
func TestBusyBucketNeverWaits(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, Config{Limits: []Limit{{Name: "hot", Count: 600_000, Period: time.Minute}}})
	key := []Key{rule(t, l, "hot").Key("a")}
	now := start
	const requests = 200_000
	waits := 0
	for i := range requests {
		now = now.Add(125 * time.Microsecond) // 8,000 a second, of 10,000
		if _, ok := l.pass(newRequest(key, now), false); !ok {
			waits++
		}
		if i%16 == 0 { // a round trip takes 2 ms
			reconcile(t, l)
		}
	}
	if waits > 32 { // until the pace is known
		t.Errorf("%d requests would have waited", waits)
	}
	if asks := l.Stats().Asks; asks > requests/400 {
		t.Errorf("%d asks for %d requests", asks, requests)
	}
}

func newRequest(keys []Key, now time.Time) *request {
	r := &request{keys: keys, cost: 1, now: now.UnixMicro()}
	for i := range keys {
		r.states = append(r.states, state{tag: keys[i].tag()})
	}
	return r
}

// Unused slots go the way of a full bucket's overflow: a hoarded lease
// must not add to a bucket that has refilled.
func TestLeasesLapse(t *testing.T) {
	t.Parallel()
	source := NewMemory()
	var ls []*Limiter
	for range 3 {
		l := newLimiter(t, Config{Source: source, MaxWait: time.Minute})
		run(t, l)
		ls = append(ls, l)
	}
	now := start
	for range 20 { // everybody gets leases, then time passes
		for _, l := range ls {
			admitted(l, 1, now, rule(t, l, "search").Key("a"))
		}
		now = now.Add(100 * time.Millisecond)
	}
	now = now.Add(2 * time.Minute)
	got := 0
	for range 100 {
		for _, l := range ls {
			got += admitted(l, 1, now, rule(t, l, "search").Key("a"))
		}
	}
	// One may be admitted on trust by each process that has not asked for long.
	if got < 60 || got > 63 {
		t.Errorf("admitted %d at once, want 60", got)
	}
}

func TestClockSetBack(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, Config{MaxWait: time.Minute})
	run(t, l)
	key := rule(t, l, "search").Key("a")
	admitted(l, 100, start.Add(time.Hour), key)
	// Empty, by a clock that was an hour fast.
	if d := l.Allow(t.Context(), []Key{key}, 1, start); d.Allowed || d.RetryAfter > 2*time.Minute {
		t.Errorf("%+v; want a refusal for at most two windows", d)
	}
	// Process and source mend their state when they first see the right time.
	admitted(l, 100, start.Add(2*time.Minute), key)
	if got := admitted(l, 100, start.Add(5*time.Minute), key); got < 60 {
		t.Errorf("admitted %d minutes later, want the limit", got)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	source := &awayable{Source: NewMemory()}
	source.away.Store(true) // the limiter's own memory is what counts
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	l := newLimiter(t, Config{Source: source, MaxKeys: 1 << 13})
	run(t, l)
	r := rule(t, l, "search")
	for i := range 100_000 {
		if d := l.Allow(t.Context(), []Key{
			r.IP(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})),
		}, 1, start.Add(time.Duration(i)*time.Microsecond)); !d.Allowed {
			t.Fatalf("key %d refused: %+v", i, d)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	const bound = 8 << 20
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > bound {
		t.Errorf("100,000 keys hold %d MB, want at most %d MB", grown>>20, bound>>20)
	}
	if l.Stats().Evicted == 0 {
		t.Error("nothing was evicted")
	}
	runtime.KeepAlive(l)
}

func TestAllowDoesNotAllocate(t *testing.T) {
	l := newLimiter(t, Config{Limits: []Limit{
		{Name: "session", Count: 1e6, Period: time.Second},
		{Name: "ip", Count: 1e6, Period: time.Second},
		{Name: "fingerprint", Count: 1e6, Period: time.Second},
	}})
	run(t, l)
	session, ip, fp := rule(t, l, "session"), rule(t, l, "ip"), rule(t, l, "fingerprint")
	addr := netip.MustParseAddr("2001:db8::1")
	now := time.Now()
	allow := func() {
		now = now.Add(100 * time.Microsecond)
		keys := [...]Key{ip.IP(addr), session.Key("gms_01H8YN7Q2P7GZ4F8Y5CK4MV3DT"), fp.Key("9c8b")}
		if !l.Allow(t.Context(), keys[:], 1, now).Allowed {
			t.Fatal("refused")
		}
	}
	// The background makes some, off the path.
	if got := testing.AllocsPerRun(50_000, allow); got >= 1 {
		t.Errorf("%v allocations per request", got)
	}
}

// Many goroutines on few buckets, for the race detector and the sum.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, Config{
		Limits:  []Limit{{Name: "a", Count: 5000, Period: time.Minute}, {Name: "b", Count: 1000, Period: time.Minute}},
		MaxWait: time.Minute,
	})
	run(t, l)
	a, b := rule(t, l, "a").Key("x"), rule(t, l, "b")
	var total atomic.Int64
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			total.Add(int64(admitted(l, 1000, start, a, b.Key(fmt.Sprint(g%8)))))
		})
	}
	wg.Wait()
	if got := total.Load(); got < 4950 || got > 5000 {
		t.Errorf("admitted %d, want 5000", got)
	}
}
