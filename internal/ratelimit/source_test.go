package ratelimit

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"
	"pgregory.net/rapid"

	"melmastoon.ghasi.io/bff/internal/testkit"
)

// newRedis returns a source under keys of this test's own.
func newRedis(t testing.TB, urls ...string) (*Redis, rueidis.Client) {
	t.Helper()
	opt, err := rueidis.ParseURL(urls[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range urls[1:] {
		o, err := rueidis.ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		opt.InitAddress = append(opt.InitAddress, o.InitAddress...)
	}
	opt.DisableCache = true
	opt.ForceSingleClient = len(urls) == 1
	client, err := rueidis.NewClient(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	prefix := "test:" + rand.Text() + ":rl:"
	return NewRedis(client, func(bucket string) string { return prefix + bucket }), client
}

// epoch is where the tests' clocks start, in microseconds.
var epoch = time.Date(2026, 4, 23, 9, 14, 22, 41_000_000, time.UTC).UnixMicro()

func TestSource(t *testing.T) {
	t.Parallel()
	redis, _ := newRedis(t, testkit.Redis(t))
	cluster, _ := newRedis(t, testkit.RedisCluster(t)...)
	for name, source := range map[string]Source{"memory": NewMemory(), "redis": redis, "cluster": cluster} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("script", func(t *testing.T) { t.Parallel(); testSourceScript(t, source) })
			t.Run("batch", func(t *testing.T) { t.Parallel(); testSourceBatch(t, source) })
			t.Run("same", func(t *testing.T) { t.Parallel(); testSourceSame(t, source) })
			t.Run("cancelled", func(t *testing.T) { t.Parallel(); testSourceCancelled(t, source) })
		})
	}
}

// testSourceScript walks one bucket of 10 per 10 seconds through its life.
func testSourceScript(t *testing.T, source Source) {
	t.Helper()
	const second = 1_000_000
	base := Ask{Bucket: rand.Text(), Interval: second, Window: 10 * second, Share: 1}
	for _, step := range []struct {
		name                           string
		at, since                      int64 // seconds after the epoch
		charge, want, need, share      int64
		wantTAT, wantFrom, wantGranted int64 // seconds after the epoch
	}{
		{name: "a full bucket leases", at: 0, want: 4, wantTAT: 4, wantFrom: 0, wantGranted: 4},
		{name: "the next run follows", at: 0, want: 3, wantTAT: 7, wantFrom: 4, wantGranted: 3},
		{name: "no more than there is", at: 0, want: 9, wantTAT: 10, wantFrom: 7, wantGranted: 3},
		{name: "empty", at: 0, want: 1, wantTAT: 10, wantFrom: 10},
		{name: "asking for nothing", at: 0, wantTAT: 10, wantFrom: 10},
		{name: "a debt is charged beyond the limit", at: 0, charge: 2, want: 1, wantTAT: 12, wantFrom: 12},
		{name: "which delays the refill", at: 2, want: 1, wantTAT: 12, wantFrom: 12},
		{name: "then it refills", at: 6, want: 2, wantTAT: 14, wantFrom: 12, wantGranted: 2},
		{name: "a share of what is left", at: 12, want: 8, share: 4, wantTAT: 16, wantFrom: 14, wantGranted: 2},
		{name: "but no less than is needed", at: 12, want: 8, need: 5, share: 4, wantTAT: 21, wantFrom: 16, wantGranted: 5},
		{name: "full again", at: 60, want: 1, wantTAT: 61, wantFrom: 60, wantGranted: 1},
		{name: "an old debt has refilled meanwhile", at: 90, since: 70, charge: 4, want: 2, wantTAT: 92, wantFrom: 90, wantGranted: 2},
		{name: "unless others came first", at: 90, since: 70, charge: 4, wantTAT: 96, wantFrom: 96},
		{name: "a debt from the future counts from now", at: 120, since: 500, charge: 1, wantTAT: 121, wantFrom: 121},
		{name: "the clock was set back", at: 20, want: 1, wantTAT: 40, wantFrom: 40},
	} {
		a := base
		a.Now, a.Since = epoch+step.at*second, epoch+step.since*second
		a.Charge, a.Want, a.Need, a.Share = step.charge, step.want, step.need, max(step.share, 1)
		var got [1]Answer
		if err := source.Settle(testkit.Context(t), []Ask{a}, got[:]); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		want := Answer{TAT: epoch + step.wantTAT*second, From: epoch + step.wantFrom*second, Granted: step.wantGranted, OK: true}
		if diff := cmp.Diff(want, got[0]); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", step.name, diff)
		}
	}
}

// testSourceBatch settles many buckets at once, one of them twice.
func testSourceBatch(t *testing.T, source Source) {
	t.Helper()
	var asks []Ask
	prefix := rand.Text()
	for i := range 300 {
		asks = append(asks, Ask{
			Bucket: prefix + strings.Repeat("x", i), Now: epoch, Interval: 1000, Window: 1000 * int64(i+1),
			Want: 1000, Share: 1,
		})
	}
	asks = append(asks, asks[7])
	answers := make([]Answer, len(asks))
	if err := source.Settle(testkit.Context(t), asks, answers); err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		want := int64(i + 1)
		if i == 300 {
			want = 0 // the first time took all
		}
		if !a.OK || a.Granted != want {
			t.Errorf("ask %d: %+v, want %d granted", i, a, want)
		}
	}
}

// testSourceSame holds the source to the pure rule over random lives.
func testSourceSame(t *testing.T, source Source) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		q := quota{interval: rapid.Int64Range(1, 1e6).Draw(rt, "interval")}
		q.window = q.interval * rapid.Int64Range(1, 60).Draw(rt, "burst")
		name := rand.Text()
		now, tat := epoch, int64(0)
		for range rapid.IntRange(1, 8).Draw(rt, "asks") {
			now += rapid.Int64Range(0, 2*q.window).Draw(rt, "gap")
			a := Ask{
				Bucket: name, Now: now, Interval: q.interval, Window: q.window,
				Since:  now - rapid.Int64Range(0, q.window).Draw(rt, "age"),
				Charge: rapid.Int64Range(0, 5).Draw(rt, "charge"),
				Want:   rapid.Int64Range(0, 100).Draw(rt, "want"),
				Need:   rapid.Int64Range(0, 5).Draw(rt, "need"),
				Share:  rapid.Int64Range(1, 60).Draw(rt, "share"),
			}
			want := settle(tat, &a)
			if want.TAT > now {
				tat = want.TAT
			}
			var got [1]Answer
			if err := source.Settle(testkit.Context(t), []Ask{a}, got[:]); err != nil {
				rt.Fatal(err)
			}
			if diff := cmp.Diff(want, got[0]); diff != "" {
				rt.Fatalf("%+v: (-want +got)\n%s", a, diff)
			}
		}
	})
}

func testSourceCancelled(t *testing.T, source Source) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var got [1]Answer
	if err := source.Settle(ctx, []Ask{{Bucket: rand.Text(), Interval: 1, Window: 1, Share: 1}}, got[:]); err == nil || got[0].OK {
		t.Errorf("Settle = %+v, %v; want an error", got[0], err)
	}
}

func TestRedisKeys(t *testing.T) {
	t.Parallel()
	source, client := newRedis(t, testkit.Redis(t))
	ctx := testkit.Context(t)
	ask := Ask{Bucket: "search:abc", Now: epoch, Interval: 1_000_000, Window: 60_000_000, Want: 1, Share: 1}
	if err := source.Settle(ctx, []Ask{ask}, make([]Answer, 1)); err != nil {
		t.Fatal(err)
	}
	key := source.key("search:abc")
	ttl, err := client.Do(ctx, client.B().Pttl().Key(key).Build()).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	if ttl <= 0 || ttl > BucketTTL.Milliseconds() {
		t.Errorf("TTL of %s = %d ms, want at most a minute", key, ttl)
	}

	// What another program put there does not stop the service.
	for _, bad := range []string{"", "nonsense", "1e400", "-5"} {
		if err := client.Do(ctx, client.B().Set().Key(key).Value(bad).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		var got [1]Answer
		if err := source.Settle(ctx, []Ask{ask}, got[:]); err != nil || !got[0].OK {
			t.Errorf("value %q: %+v, %v", bad, got[0], err)
		}
	}

	// A server that has lost its scripts learns them again.
	if err := client.Do(ctx, client.B().ScriptFlush().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if err := source.Settle(ctx, []Ask{ask, ask}, make([]Answer, 2)); err != nil {
		t.Error(err)
	}
}

// A bucket is kept until it is full again and not for a whole minute: an address that
// sends one request must not have a key for longer than that means anything.
func TestBucketsGoWhenTheyAreFull(t *testing.T) {
	t.Parallel()
	source, client := newRedis(t, testkit.Redis(t))
	for name, test := range map[string]struct {
		charge      int64
		least, most time.Duration
	}{
		"one of twenty":    {1, time.Second, 3*time.Second + bucketMargin},
		"all of them":      {20, 30 * time.Second, BucketTTL},
		"more than a life": {40, 30 * time.Second, BucketTTL},
	} {
		ask := Ask{Bucket: name, Now: epoch, Since: epoch, Interval: 3_000_000, Window: 60_000_000, Charge: test.charge, Share: 1}
		if err := source.Settle(t.Context(), []Ask{ask}, make([]Answer, 1)); err != nil {
			t.Fatal(err)
		}
		ms, err := client.Do(t.Context(), client.B().Pttl().Key(source.key(name)).Build()).AsInt64()
		if got := time.Duration(ms) * time.Millisecond; err != nil || got < test.least || got > test.most {
			t.Errorf("%s: lives %v: %v", name, got, err)
		}
	}
}
