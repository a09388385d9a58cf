package consumerhttp_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/pause"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// The benchmarks compare, in one run: slices of the two sides alternate, each
// is charged with the CPU time of its own process, and medians are divided. The
// machine may do other things meanwhile; absolute figures mean nothing.

// bareEnv names the file that tells a bare server what to answer.
const bareEnv = "CONSUMERHTTP_BARE_SERVER"

// bareAnswer is all that a bare handler knows.
type bareAnswer struct {
	Header map[string]string
	Body   []byte
}

// TestBareServer is no test: in a process of its own it is the server that the
// benchmarks compare with. It ends with its standard input.
func TestBareServer(t *testing.T) {
	file := os.Getenv(bareEnv)
	if file == "" {
		return
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var answers map[string]bareAnswer
	if err := json.Unmarshal(raw, &answers); err != nil {
		t.Fatal(err)
	}
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		h := w.Header()
		for k, v := range a.Header {
			h.Set(k, v)
		}
		_, _ = w.Write(a.Body)
	})}
	if _, err := fmt.Fprintf(os.Stdout, "\nlistening %s\n", ln.Addr()); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = server.Close()
	}()
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		t.Fatal(err)
	}
}

// startBare runs a bare server and returns its address and process id.
func startBare(b *testing.B, answers map[string]bareAnswer) (addr string, pid int) {
	b.Helper()
	raw, err := json.Marshal(answers)
	if err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(b.TempDir(), "answers.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), os.Args[0], "-test.run=^TestBareServer$", "-test.timeout=1h")
	cmd.Env = append(os.Environ(), bareEnv+"="+file)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		stdin.Close()
		_ = cmd.Wait() // it was told to end
	})
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if addr, ok := strings.CutPrefix(lines.Text(), "listening "); ok {
			return addr, cmd.Process.Pid
		}
	}
	b.Fatal("the bare server did not start")
	return "", 0
}

// cpuOf is the CPU time that a process has used, to the nanosecond: the sum
// over its threads, which a Go process keeps.
func cpuOf(b *testing.B, pid int) time.Duration {
	b.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		b.Fatalf("no CPU times of process %d: %v", pid, err)
	}
	var sum int64
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended
		}
		spent, _, _ := strings.Cut(string(raw), " ")
		n, err := strconv.ParseInt(spent, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += n
	}
	return time.Duration(sum)
}

// memoryOf is a field of a process's status, in MiB.
func memoryOf(b *testing.B, pid int, field string) float64 {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.SplitSeq(string(raw), "\n") {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			if err != nil {
				b.Fatal(err)
			}
			return kb / 1024
		}
	}
	b.Fatalf("no %s", field)
	return 0
}

// side is one of two servers, with clients that do next to nothing.
type side struct {
	pid      int
	conns    []*benchConn
	requests [][]byte // asked in turn
	costs    []float64
}

const benchConns = 4

func newBenchSide(b *testing.B, addr string, pid int, requests [][]byte) *side {
	b.Helper()
	s := &side{pid: pid, requests: requests}
	for i := range benchConns {
		conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { conn.Close() })
		s.conns = append(s.conns, &benchConn{conn: conn, r: bufio.NewReaderSize(conn, 64<<10), next: i})
	}
	return s
}

// slice has the clients ask for a while and notes the server's CPU time per
// request.
func (s *side) slice(b *testing.B, d time.Duration) {
	b.Helper()
	var (
		wg    sync.WaitGroup
		total = make([]int, len(s.conns))
		errs  = make([]error, len(s.conns))
		until = time.Now().Add(d)
	)
	before := cpuOf(b, s.pid)
	for i, c := range s.conns {
		wg.Go(func() {
			for time.Now().Before(until) && errs[i] == nil {
				errs[i] = c.ask(s.requests[c.next%len(s.requests)])
				c.next += len(s.conns)
				total[i]++
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		b.Fatal(err)
	}
	n := 0
	for _, t := range total {
		n += t
	}
	s.costs = append(s.costs, float64(cpuOf(b, s.pid)-before)/float64(n))
}

func (s *side) median() float64 {
	sorted := slices.Sorted(slices.Values(s.costs))
	return sorted[len(sorted)/2]
}

// benchConn is a connection that reads no more of an answer than its status and
// its length.
type benchConn struct {
	conn net.Conn
	r    *bufio.Reader
	next int
}

func (c *benchConn) ask(request []byte) error {
	if _, err := c.conn.Write(request); err != nil {
		return err
	}
	length, first := -1, true
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return err
		}
		switch {
		case first:
			if !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")) {
				rest, _ := c.r.Peek(c.r.Buffered())
				return fmt.Errorf("answered %s%s", line, rest)
			}
			first = false
		case len(line) <= 2:
			_, err := c.r.Discard(length)
			return err
		case bytes.HasPrefix(line, []byte("Content-Length: ")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[16:]))); err != nil {
				return err
			}
		}
	}
}

// benchGuests is how many take turns, so that no limit on one of them speaks.
const benchGuests = 2048

// benchBrowsers is how many kinds of browsers they use.
const benchBrowsers = 64

// benchRequests are the requests of many returning guests, each with the cookies of
// a session and an address of their own, and one of some kinds of browsers. The
// network is the case's own, so that no case uses up the limits of another.
func benchRequests(b *testing.B, c warmCase) [][]byte {
	b.Helper()
	requests := make([][]byte, benchGuests)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range requests {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			header := fmt.Sprintf("Host: %s\r\nUser-Agent: %s\r\nAccept: application/json\r\nAccept-Language: en\r\nAccept-Encoding: gzip\r\n"+
				"X-Forwarded-For: 10.%d.%d.%d\r\nX-Client-Timezone: Etc/Guest-%d\r\n", c.p.Public, firefox, c.network, i>>8, i&255, i%benchBrowsers)
			req, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET /bff/consumer/v1/session HTTP/1.1\r\n" + header + "\r\n")))
			if err != nil {
				b.Error(err)
				return
			}
			req.URL.Scheme, req.URL.Host, req.RequestURI = "http", c.p.Public, ""
			res, err := client.Do(req.WithContext(b.Context()))
			if err != nil {
				b.Error(err)
				return
			}
			defer res.Body.Close()
			var id, card string
			testkit.TakeCookies(res.Header, &id, &card)
			header += "Cookie: " + testkit.CookieHeader(id, card) + "\r\n"
			if c.body != "" {
				header += fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(c.body))
			}
			requests[i] = fmt.Appendf(nil, "%s %s HTTP/1.1\r\n%s\r\n%s", c.method, c.path, header, c.body)
		})
	}
	wg.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return requests
}

// gzipped returns the answer to a request as it goes over the wire.
func gzipped(b *testing.B, addr string, request []byte) bareAnswer {
	b.Helper()
	conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(request); err != nil {
		b.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || res.Header.Get("Content-Encoding") != "gzip" {
		b.Fatalf("%d %v %v", res.StatusCode, res.Header, err)
	}
	return bareAnswer{
		Header: map[string]string{"Content-Type": "application/json", "Content-Encoding": "gzip", "Content-Length": strconv.Itoa(len(body))},
		Body:   body,
	}
}

// benchSearch is the ordinary search: browsers send both cookies and leave language
// and currency to the session. explicitSearch repeats them, as scripts do.
const (
	benchAsked = `{"geo":{"mode":"city","city":"Kabul"},"dates":{"checkIn":"2077-05-12","checkOut":"2077-05-15"},` +
		`"occupancy":{"adults":2,"children":0,"rooms":1},"filters":{"amenities":["free-wifi"],"starRating":[3,4,5]}`
	benchSearch    = benchAsked + `}`
	explicitSearch = benchAsked + `,"locale":"en","currency":"USD"}`
)

// BenchmarkWarm divides what a core serves of warm answers, with session, limits,
// bot check, telemetry, metrics and logging on, by what it serves of the same
// gzip bytes from a bare net/http handler. One instance of a fleet publishes the
// events of all: it is measured apart. More than ten loops, and the guests run into
// their limits.
func BenchmarkWarm(b *testing.B) {
	w := testkit.NewWorld(b, nil)
	// All limits are on; only browsers of one kind may do more than is theirs by
	// default, as a deployment with many guests has it.
	settings := map[string]string{"BFF_CONSUMER_TRUSTED_PROXIES": "127.0.0.0/8", "BFF_CONSUMER_LIMITS": "fingerprint=100000"}
	leader := w.Start("bff-consumer", settings) // the first to come publishes
	p := w.Start("bff-consumer", settings)
	const base = "/bff/consumer/v1"
	hotel := base + "/hotels/" + w.Sim.Catalog().Properties[5].PropertyID
	for i, c := range []warmCase{
		{name: "search", method: http.MethodPost, path: base + "/search", body: benchSearch, p: p},
		{name: "search-explicit", method: http.MethodPost, path: base + "/search", body: explicitSearch, p: p},
		{name: "hotel", method: http.MethodGet, path: hotel, p: p},
		{name: "search-publishing", method: http.MethodPost, path: base + "/search", body: benchSearch, p: leader},
		{name: "hotel-publishing", method: http.MethodGet, path: hotel, p: leader},
	} {
		c.network = i
		b.Run(c.name, func(b *testing.B) { benchWarm(b, c) })
	}
}

// warmCase is a request that is measured, and of which process.
type warmCase struct {
	name, method, path, body string
	p                        *platform.Process
	network                  int // of its guests
}

func benchWarm(b *testing.B, c warmCase) {
	b.Helper()
	p, path, requests := c.p, c.path, benchRequests(b, c)
	answer := gzipped(b, p.Public, requests[0])
	addr, pid := startBare(b, map[string]bareAnswer{path: answer})
	bare, ours := newBenchSide(b, addr, pid, requests), newBenchSide(b, p.Public, p.PID(), requests)
	const slice, pairs = 100 * time.Millisecond, 5
	for _, s := range []*side{bare, ours} { // warm up, uncounted
		s.slice(b, 2*slice)
		s.costs = nil
	}
	profiled := profile(b, p, filepath.Base(b.Name()))
	for b.Loop() {
		for range pairs { // enough for a median, also of a single loop
			bare.slice(b, slice)
			ours.slice(b, slice)
		}
	}
	profiled()
	b.ReportMetric(bare.median()/ours.median(), "of-bare")
	b.ReportMetric(bare.median()/1e3, "µs-bare")
	b.ReportMetric(ours.median()/1e3, "µs-ours")
	b.ReportMetric(float64(len(answer.Body)), "bytes")
	b.ReportMetric(memoryOf(b, p.PID(), "VmRSS"), "MiB-RSS")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkTraced divides what a core serves while every request is recorded in detail,
// as `melmastoon up` has it, by what it serves without traces.
func BenchmarkTraced(b *testing.B) {
	w := testkit.NewWorld(b, nil)
	// The receiver only reads: were it slower than the service, spans would be dropped and cost less.
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	b.Cleanup(receiver.Close)
	settings := map[string]string{"BFF_CONSUMER_TRUSTED_PROXIES": "127.0.0.0/8", "BFF_CONSUMER_LIMITS": "fingerprint=100000"}
	w.Start("bff-consumer", settings) // the first to come publishes
	plain := w.Start("bff-consumer", settings)
	maps.Copy(settings, platform.Traced(receiver.URL))
	traced := w.Start("bff-consumer", settings)
	const base = "/bff/consumer/v1"
	for i, c := range []warmCase{
		{name: "search", method: http.MethodPost, path: base + "/search", body: benchSearch, p: plain},
		{name: "hotel", method: http.MethodGet, path: base + "/hotels/" + w.Sim.Catalog().Properties[5].PropertyID, p: plain},
	} {
		c.network = i
		b.Run(c.name, func(b *testing.B) {
			requests := benchRequests(b, c)
			without, with := newBenchSide(b, plain.Public, plain.PID(), requests), newBenchSide(b, traced.Public, traced.PID(), requests)
			const slice = 200 * time.Millisecond
			for _, s := range []*side{without, with} { // warm up, uncounted
				s.slice(b, slice)
				s.costs = nil
			}
			profiled := profile(b, traced, "traced-"+c.name)
			for b.Loop() {
				without.slice(b, slice)
				with.slice(b, slice)
			}
			profiled()
			b.ReportMetric(without.median()/with.median(), "of-untraced")
			b.ReportMetric(without.median()/1e3, "µs-untraced")
			b.ReportMetric(with.median()/1e3, "µs-traced")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// profile writes the service's CPU profile of a benchmark to the directory that
// BENCH_PROFILE names, if it does.
func profile(b *testing.B, p *platform.Process, name string) (wait func()) {
	b.Helper()
	dir := os.Getenv("BENCH_PROFILE")
	if dir == "" {
		return func() {}
	}
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://"+p.Admin+"/debug/pprof/profile?seconds=5", nil)
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		res, err := client.Do(req)
		if err != nil {
			done <- err
			return
		}
		defer res.Body.Close()
		raw, err := io.ReadAll(res.Body)
		done <- errors.Join(err, os.WriteFile(filepath.Join(dir, name+".pprof"), raw, 0o600))
	}()
	return func() {
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkMemory weighs a process that serves a thousand searches a second, each
// of them a new guest's at an address of their own, so that all tables fill. A loop
// is a second: run it for a minute (-benchtime 60x).
func BenchmarkMemory(b *testing.B) {
	w := testkit.NewWorld(b, nil)
	p := w.Start("bff-consumer", map[string]string{"BFF_CONSUMER_TRUSTED_PROXIES": "127.0.0.0/8", "BFF_CONSUMER_LIMITS": "fingerprint=100000"})
	s := newBenchSide(b, p.Public, p.PID(), nil)
	const rate = 1000
	next := 0
	for b.Loop() {
		begin := time.Now()
		var wg sync.WaitGroup
		for i, c := range s.conns {
			first := next + i
			wg.Go(func() {
				for n := first; n < first-i+rate && !b.Failed(); n += len(s.conns) {
					pause.For(b.Context(), time.Until(begin.Add(time.Duration(n-first+i)*time.Second/rate)))
					request := fmt.Appendf(nil, "POST /bff/consumer/v1/search HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\nAccept: application/json\r\n"+
						"Accept-Language: en\r\nAccept-Encoding: gzip\r\nX-Forwarded-For: 10.%d.%d.%d\r\nX-Client-Timezone: Etc/Guest-%d\r\n"+
						"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
						p.Public, firefox, n>>16&255, n>>8&255, n&255, n%benchBrowsers, len(benchSearch), benchSearch)
					if err := c.ask(request); err != nil {
						b.Error(err)
					}
				}
			})
		}
		wg.Wait()
		next += rate
	}
	b.ReportMetric(memoryOf(b, p.PID(), "VmHWM")*1.048576, "MB-peak")
	b.ReportMetric(float64(next), "guests")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkStart takes a process from its start to its readiness, with the
// migrations applied, and weighs it.
func BenchmarkStart(b *testing.B) {
	w := testkit.NewWorld(b, nil)
	testkit.Binary(b, "bff-consumer")
	var took, weight []float64
	for b.Loop() {
		begin := time.Now()
		p := w.Start("bff-consumer", nil)
		took = append(took, float64(time.Since(begin).Microseconds())/1e3)
		weight = append(weight, memoryOf(b, p.PID(), "VmRSS"))
		p.Kill()
	}
	slices.Sort(took)
	slices.Sort(weight)
	b.ReportMetric(took[0], "ms-best")
	b.ReportMetric(took[len(took)/2], "ms-median")
	b.ReportMetric(weight[len(weight)/2], "MiB-RSS")
	b.ReportMetric(0, "ns/op")
}
