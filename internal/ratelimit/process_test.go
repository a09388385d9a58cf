package ratelimit

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff/internal/testkit"
)

// A process of its own: the test binary, started again with these.
const (
	childURL    = "RATELIMIT_CHILD_REDIS"
	childPrefix = "RATELIMIT_CHILD_PREFIX"
	childCount  = "RATELIMIT_CHILD_COUNT"
)

func TestMain(m *testing.M) {
	if os.Getenv(childURL) == "" {
		m.Run()
		return
	}
	if err := child(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// child reads "now requests" lines and answers each with the number admitted.
func child(in io.Reader, out io.Writer) error {
	opt, err := rueidis.ParseURL(os.Getenv(childURL))
	if err != nil {
		return err
	}
	opt.DisableCache = true
	client, err := rueidis.NewClient(opt)
	if err != nil {
		return err
	}
	defer client.Close()
	var count int
	if _, err := fmt.Sscan(os.Getenv(childCount), &count); err != nil {
		return err
	}
	l, err := New(Config{
		Limits: []Limit{{Name: "search", Count: count, Period: time.Minute}},
		Source: NewRedis(client, func(b string) string { return os.Getenv(childPrefix) + b }),
		Pepper: pepper, MaxWait: time.Minute, Timeout: time.Minute,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { _ = l.Run(ctx) })
	defer done.Wait()
	defer cancel()
	rule, err := l.Rule("search")
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var micros int64
		var requests int
		if _, err := fmt.Sscan(lines.Text(), &micros, &requests); err != nil {
			return err
		}
		var passed atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				passed.Add(int64(admitted(l, requests/4, time.UnixMicro(micros), rule.Key("gms_a"))))
			})
		}
		wg.Wait()
		if _, err := fmt.Fprintln(out, passed.Load()); err != nil {
			return err
		}
	}
	return nil
}

// peer is a child under the test's control.
type peer struct {
	in  io.Writer
	out *bufio.Scanner
}

func newPeer(t *testing.T, url, prefix string, count int) *peer {
	t.Helper()
	// The end of its input ends it, after the test's own context has ended.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])
	cmd.Env = append(os.Environ(), childURL+"="+url, childPrefix+"="+prefix, fmt.Sprintf("%s=%d", childCount, count))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("child: %v\n%s", err, stderr.String())
		}
	})
	return &peer{in: in, out: bufio.NewScanner(out)}
}

// hammer has every peer send requests at one moment and returns how many passed.
func hammer(t *testing.T, peers []*peer, now time.Time, requests int) (passed int) {
	t.Helper()
	for _, p := range peers {
		if _, err := fmt.Fprintln(p.in, now.UnixMicro(), requests); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range peers {
		if !p.out.Scan() {
			t.Fatalf("a child ended: %v", p.out.Err())
		}
		var n int
		if _, err := fmt.Sscan(p.out.Text(), &n); err != nil {
			t.Fatal(err)
		}
		passed += n
	}
	return passed
}

// Three processes that hammer one bucket admit together what one would: at most
// 2 % more, and not much less.
func TestThreeProcesses(t *testing.T) {
	t.Parallel()
	for _, count := range []int{10, 60, 300, 6000} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			t.Parallel()
			url, prefix := testkit.Redis(t), "test:"+t.Name()+fmt.Sprint(time.Now().UnixNano())+":"
			var peers []*peer
			for range 3 {
				peers = append(peers, newPeer(t, url, prefix, count))
			}
			const seconds = 60
			total, step := 0, max(count/8, 8)
			for s := range seconds + 1 {
				total += hammer(t, peers, start.Add(time.Duration(s)*time.Second), step)
			}
			allowed := count + count*seconds/60
			t.Logf("admitted %d of %d asked, %d allowed (%+.2f %%)", total, 3*step*(seconds+1), allowed, 100*(float64(total)/float64(allowed)-1))
			if float64(total) > 1.02*float64(allowed) || float64(total) < 0.9*float64(allowed) {
				t.Errorf("admitted %d, want %d", total, allowed)
			}
		})
	}
}

// Processes that first see a bucket when others have emptied it admit one request
// each on trust, if the limit is large enough to bear it, and no more.
func TestLateProcesses(t *testing.T) {
	t.Parallel()
	for count, wantExtra := range map[int]int{10: 0, 300: 2} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			t.Parallel()
			url, prefix := testkit.Redis(t), "test:"+t.Name()+fmt.Sprint(time.Now().UnixNano())+":"
			first := newPeer(t, url, prefix, count)
			got := hammer(t, []*peer{first}, start, 2*count)
			got += hammer(t, []*peer{newPeer(t, url, prefix, count), newPeer(t, url, prefix, count)}, start, 2*count)
			if got > count+wantExtra {
				t.Errorf("admitted %d, want %d and at most %d more", got, count, wantExtra)
			}
		})
	}
}

// Redis dies under load and comes back: no request is lost, none waits long, and the
// share is neither everything nor nothing.
func TestRedisKilled(t *testing.T) {
	t.Parallel()
	server := testkit.NewRedis(t)
	source, _ := newRedis(t, server.URL())
	l := newLimiter(t, Config{
		Source: source, Limits: []Limit{{Name: "search", Count: 600, Period: time.Minute}},
		Timeout: 50 * time.Millisecond,
	})
	run(t, l)
	r := rule(t, l, "search")
	if got := admitted(l, 100, start, r.Key("a")); got != 100 {
		t.Fatalf("admitted %d of the first 100", got)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	ctx := testkit.Context(t)
	now := start
	for i := 0; !l.offline.Load(); i++ { // until a round has failed
		if ctx.Err() != nil {
			t.Fatal("the limiter did not notice")
		}
		now = now.Add(time.Millisecond)
		l.Allow(ctx, []Key{r.Key(fmt.Sprint("probe", i))}, 1, now)
	}
	if got := admitted(l, 1000, now, r.Key("b")); got != 200 {
		t.Errorf("local share admits %d, want 200 of 600", got)
	}
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	// A probe will tell; each connection of the pool may have to learn it by itself.
	for got := 0; got < 590 || got > 601; {
		round := l.round()
		now = now.Add(2 * time.Minute)
		if got = admitted(l, 1000, now, r.Key("b")); got != 600 {
			t.Logf("admitted %d while recovering", got)
			select {
			case <-ctx.Done():
				t.Fatalf("still admits %d, want 600", got)
			case <-round:
			}
		}
	}
}
