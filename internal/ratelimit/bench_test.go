package ratelimit

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff/internal/testkit"
)

// side is one half of a comparison: a function and how often to call it in a slice.
type side struct {
	calls int
	call  func(i int)
	i     int
}

// slice returns wall time and CPU per call; the CPU is this process's, background work
// included, and the Redis server's.
func (s *side) slice(b *testing.B, client rueidis.Client) (wall, work float64) {
	b.Helper()
	begin, before := time.Now(), cpu(b, client)
	for range s.calls {
		s.call(s.i)
		s.i++
	}
	wall = float64(time.Since(begin))
	return wall / float64(s.calls), float64(cpu(b, client)-before) / float64(s.calls)
}

func cpu(b *testing.B, client rueidis.Client) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	sum := time.Duration(u.Utime.Nano() + u.Stime.Nano())
	info, err := client.Do(context.Background(), client.B().Info().Section("cpu").Build()).ToString()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += time.Duration(seconds * float64(time.Second))
		}
	}
	return sum
}

// compare reports what the first costs over what the second costs. Their slices take
// turns, so that a noisy neighbour hits both alike.
func compare(b *testing.B, client rueidis.Client, local, remote side) {
	b.Helper()
	var wall, work []float64
	for b.Loop() {
		w1, c1 := local.slice(b, client)
		w2, c2 := remote.slice(b, client)
		wall, work = append(wall, w1/w2), append(work, c1/c2)
	}
	slices.Sort(wall)
	slices.Sort(work)
	b.ReportMetric(wall[len(wall)/2], "wall-ratio")
	b.ReportMetric(work[len(work)/2], "cpu-ratio")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkDecision is the goal "a decision costs at most 1/100 of a Redis GCRA call,
// amortised": everything the process does for it counts, leases included.
func BenchmarkDecision(b *testing.B) {
	source, client := newRedis(b, testkit.Redis(b))
	remote := side{calls: 500, call: func(n int) {
		ask := Ask{Bucket: fmt.Sprint("remote", n%100), Now: time.Now().UnixMicro(), Interval: 60, Window: 60e6, Want: 1, Need: 1, Share: 1}
		if err := source.Settle(context.Background(), []Ask{ask}, make([]Answer, 1)); err != nil {
			b.Fatal(err)
		}
	}}
	b.Run("one busy bucket", func(b *testing.B) {
		l := newLimiter(b, Config{Source: source, Limits: []Limit{{Name: "hot", Count: 3e7, Period: time.Minute}}})
		run(b, l)
		key := rule(b, l, "hot").Key("a")
		compare(b, client, side{calls: 100_000, call: func(int) {
			l.Allow(context.Background(), []Key{key}, 1, time.Now())
		}}, remote)
		b.ReportMetric(float64(l.Stats().Waits), "waits")
	})
	// Ten thousand guests, each with a request in 5 seconds: three buckets to check
	// per request, none of them busy. Time runs a hundred times faster than it does.
	b.Run("many quiet guests", func(b *testing.B) {
		l := newLimiter(b, Config{Source: source, Limits: []Limit{
			{Name: "session", Count: 60, Period: time.Minute},
			{Name: "ip", Count: 300, Period: time.Minute},
			{Name: "fingerprint", Count: 300, Period: time.Minute},
		}})
		run(b, l)
		session, ip, fp := rule(b, l, "session"), rule(b, l, "ip"), rule(b, l, "fingerprint")
		ids := make([]string, 10_000)
		for i := range ids {
			ids[i] = fmt.Sprintf("gms_%026d", i)
		}
		now := time.Now()
		local := side{calls: 20_000, call: func(i int) {
			now = now.Add(500 * time.Microsecond)
			n := i * 7919 % len(ids)
			keys := [...]Key{ip.IP(netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)})), session.Key(ids[n]), fp.Key(ids[n])}
			l.Allow(context.Background(), keys[:], 1, now)
		}}
		local.slice(b, client) // they have all been here before
		before := l.Stats()
		compare(b, client, local, remote)
		s := l.Stats()
		requests := float64(b.N * local.calls)
		b.ReportMetric(float64(s.Asks-before.Asks)/requests, "asks/request")
		b.ReportMetric(float64(s.Waits-before.Waits)/requests, "waits/request")
	})
}
