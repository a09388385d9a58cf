package backofficehttp_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/http1"
)

// rawClient is a client's socket that costs this process no memory of its own.
type rawClient int

func dialRaw(b *testing.B, url string) rawClient {
	b.Helper()
	host, port, err := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	if err != nil {
		b.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		b.Fatal(err)
	}
	to := &syscall.SockaddrInet4{Port: n}
	copy(to.Addr[:], net.ParseIP(host).To4())
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		b.Fatal(err)
	}
	if err := syscall.Connect(fd, to); err != nil {
		b.Fatal(err)
	}
	return rawClient(fd)
}

func (c rawClient) send(b *testing.B, text []byte) {
	b.Helper()
	if _, err := syscall.Write(int(c), text); err != nil {
		b.Fatal(err)
	}
}

// until reads until a text has come.
func (c rawClient) until(b *testing.B, text string, room []byte) {
	b.Helper()
	for have := 0; !bytes.Contains(room[:have], []byte(text)); {
		n, err := syscall.Read(int(c), room[have:])
		if have += max(n, 0); err != nil || n == 0 || bytes.Contains(room[:have], []byte("problem+json")) {
			b.Fatalf("read %d bytes and not %q: %v\n%s", have, text, err, room[:have])
		}
	}
}

// inUse is the memory of heap and stacks that is in use.
func inUse() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// plainStreams is how net/http's documentation would have it: a handler that waits
// with its client.
type plainStreams struct {
	mu   sync.Mutex
	open map[chan string]struct{}
}

func (p *plainStreams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	events := make(chan string, 16)
	p.mu.Lock()
	p.open[events] = struct{}{}
	p.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	_, _ = fmt.Fprint(w, "event: ready\ndata: {}\n\n")
	_ = control.Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case e := <-events:
			_, _ = fmt.Fprint(w, e)
			_ = control.Flush()
		}
	}
}

func (p *plainStreams) tell(e string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for events := range p.open {
		events <- e
	}
}

// BenchmarkStreams is the goal "memory per idle stream at most 4 KB": 5,000 devices of
// one tenant that hear nothing, as at night, after each has asked once for its session,
// so that what the service remembers of a device is not counted. Then one event goes to
// all of them. A plain handler of net/http in the same process is the measure; clients
// are bare sockets.
func BenchmarkStreams(b *testing.B) {
	const streams = 5000
	f := newFront(b, frontConfig{limits: "session=10000000,stream=10000000,ip=1000000,fingerprint=1000000"})
	room := make([]byte, 64<<10)
	measure := func(open func(i int) rawClient, tell func()) (memory, spread float64) {
		before := inUse()
		all := make([]rawClient, streams)
		for i := range all {
			all[i] = open(i)
		}
		memory = (inUse() - before) / streams
		began := time.Now()
		tell()
		for _, c := range all {
			c.until(b, "event: ai", room)
		}
		spread = float64(time.Since(began)) / streams
		for _, c := range all {
			_ = syscall.Close(int(c))
		}
		return memory, spread
	}
	for b.Loop() {
		url := f.listen(0, http1.Options{})
		requests := make([][]byte, streams)
		for i := range requests {
			operator := "opt_" + strconv.Itoa(i) // whose oldest session ends when too many are open
			f.employ(operator, backoffice.FrontDesk)
			s := f.sender(operator)
			if w := s.get("/session"); w.Code != http.StatusOK {
				b.Fatal(w.Code)
			}
			r := s.request(http.MethodGet, base+"/sse/stream", "")
			r.header.Set("Dpop", f.prove(r))
			var text bytes.Buffer
			text.WriteString("GET " + r.path + " HTTP/1.1\r\nHost: x\r\n")
			if err := r.header.Write(&text); err != nil {
				b.Fatal(err)
			}
			requests[i] = append(text.Bytes(), "\r\n"...)
		}
		ours, spread := measure(func(i int) rawClient {
			c := dialRaw(b, url)
			c.send(b, requests[i])
			c.until(b, "event: ready", room)
			return c
		}, func() { f.tell(0, backoffice.Notice{Channel: backoffice.ChannelAI}) })

		plain := &plainStreams{open: map[chan string]struct{}{}}
		ln, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		server := &http.Server{Handler: plain, ReadHeaderTimeout: time.Minute}
		go func() { _ = server.Serve(ln) }() // ends with Close
		theirs, theirSpread := measure(func(i int) rawClient {
			c := dialRaw(b, "http://"+ln.Addr().String())
			c.send(b, requests[i])
			c.until(b, "event: ready", room)
			return c
		}, func() { plain.tell("event: ai\ndata: {}\n\n") })
		_ = server.Close()

		b.ReportMetric(ours, "B/stream")
		b.ReportMetric(theirs, "B/plain")
		b.ReportMetric(ours/theirs, "ratio")
		b.ReportMetric(spread, "ns/told")
		b.ReportMetric(theirSpread, "ns/told-plain")
	}
	b.ReportMetric(0, "ns/op")
}
