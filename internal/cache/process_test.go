package cache

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff/internal/pause"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// childEnv holds the orders of a child process as JSON.
const childEnv = "CACHE_TEST_CHILD"

type orders struct {
	Redis    []string
	Prefix   string
	Upstream string
	Readers  int
	Lease    time.Duration
}

type report struct {
	Failed  int
	Error   string        // one of them
	Slowest time.Duration // of the readers
	Body    string
}

// childMain is another process with the same cache: it says that it is ready,
// waits for the word, has all its readers ask for one key, and reports.
func childMain() int {
	r, err := childRun()
	if err != nil {
		r.Failed, r.Error = -1, err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return 1
	}
	return 0
}

func childRun() (report, error) {
	var o orders
	if err := json.Unmarshal([]byte(os.Getenv(childEnv)), &o); err != nil {
		return report{}, err
	}
	opt, err := clientOption(o.Redis...)
	if err != nil {
		return report{}, err
	}
	client, err := rueidis.NewClient(opt)
	if err != nil {
		return report{}, err
	}
	defer client.Close()
	s, err := NewStore(slowMachine(client, o.Prefix))
	if err != nil {
		return report{}, err
	}
	if !s.Up() {
		return report{}, errors.New("store did not reach redis")
	}
	s.leaseTTL = o.Lease
	c, err := New(s, Config{Name: "test", TTL: minute, MaxBytes: 16 << 20, Shared: true, FollowTimeout: slowTimeout})
	if err != nil {
		return report{}, err
	}
	fill := func(ctx context.Context) (Fill, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, o.Upstream, http.NoBody)
		if err != nil {
			return Fill{}, err
		}
		req.Header.Set("X-Pid", strconv.Itoa(os.Getpid()))
		resp, err := (&http.Transport{}).RoundTrip(req)
		if err != nil {
			return Fill{}, err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return Fill{Body: b}, err
	}
	if _, err := os.Stdout.WriteString("ready\n"); err != nil {
		return report{}, err
	}
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return report{}, err
	}
	var r report
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range o.Readers {
		wg.Go(func() {
			begin := time.Now()
			e, _, err := c.Get(context.Background(), o.Prefix+"cache:k", fill)
			took := time.Since(begin)
			mu.Lock()
			defer mu.Unlock()
			r.Slowest = max(r.Slowest, took)
			if err != nil {
				r.Failed++
				r.Error = err.Error()
				return
			}
			r.Body = string(e.Body())
		})
	}
	wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), slowTimeout)
	defer cancel()
	return r, s.Close(ctx)
}

type child struct {
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

func startChild(t *testing.T, o orders) *child {
	t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(raw))
	cmd.Stderr = os.Stderr
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
	c := &child{cmd: cmd, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	if line, err := c.out.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("child says %q, %v", line, err)
	}
	return c
}

func (c *child) begin(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(c.in, "go\n"); err != nil {
		t.Fatal(err)
	}
}

func (c *child) report(t *testing.T) report {
	t.Helper()
	var r report
	if err := json.NewDecoder(c.out).Decode(&r); err != nil {
		t.Fatalf("child's report: %v", err)
	}
	return r
}

// 1,000 concurrent misses over three processes make one call to the upstream.
func TestStampede(t *testing.T) {
	t.Parallel()
	eachTopology(t, func(t *testing.T, urls []string) {
		t.Helper()
		const latency = 400 * time.Millisecond
		var calls atomic.Int64
		upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls.Add(1)
			pause.For(r.Context(), latency)
			reply(w, "one")
		}))
		t.Cleanup(upstream.Close)
		o := orders{Redis: urls, Prefix: newPrefix(), Upstream: upstream.URL, Readers: 334, Lease: slowTimeout}
		var children []*child
		for range 3 {
			children = append(children, startChild(t, o))
		}
		for _, c := range children {
			c.begin(t)
		}
		var slowest time.Duration
		for i, c := range children {
			r := c.report(t)
			if r.Failed != 0 || r.Body != "one" {
				t.Errorf("process %d: %+v", i, r)
			}
			slowest = max(slowest, r.Slowest)
		}
		if got := calls.Load(); got != 1 {
			t.Errorf("%d calls, want 1", got)
		}
		t.Logf("1,002 readers in 3 processes: %d call, slowest waited %.2f of the upstream's %v",
			calls.Load(), float64(slowest)/float64(latency), latency)
	})
}

// The process that fills is killed: another takes over at once.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	eachTopology(t, func(t *testing.T, urls []string) {
		t.Helper()
		pids := make(chan int, 16)
		times := make(chan time.Time, 16)
		var calls atomic.Int64
		upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			times <- time.Now()
			pid, _ := strconv.Atoi(r.Header.Get("X-Pid"))
			pids <- pid
			if calls.Add(1) == 1 {
				<-r.Context().Done() // until the caller is killed
				return
			}
			reply(w, "two")
		}))
		t.Cleanup(upstream.Close)
		o := orders{Redis: urls, Prefix: newPrefix(), Upstream: upstream.URL, Readers: 50, Lease: 3 * time.Second}
		var children []*child
		for range 3 {
			children = append(children, startChild(t, o))
		}
		for _, c := range children {
			c.begin(t)
		}
		leader := <-pids
		<-times
		// Let the lease be renewed: the leader dies in the middle of its work.
		pause.For(testkit.Context(t), 3*leaseBeat)
		killed := time.Now()
		for i, c := range children {
			if c.cmd.Process.Pid != leader {
				continue
			}
			if err := c.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			children = append(children[:i:i], children[i+1:]...)
			break
		}
		for i, c := range children {
			if r := c.report(t); r.Failed != 0 || r.Body != "two" {
				t.Errorf("process %d: %+v", i, r)
			}
		}
		if got := calls.Load(); got != 2 {
			t.Errorf("%d calls, want 2", got)
		}
		t.Logf("taken over %v after the kill", (<-times).Sub(killed))
	})
}

func reply(w http.ResponseWriter, text string) {
	_, _ = io.WriteString(w, text) // the caller may have been killed
}
