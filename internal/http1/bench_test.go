package http1

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"
)

const benchRequest = "POST /bff/consumer/v1/search HTTP/1.1\r\nHost: 127.0.0.1:25491\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0\r\n" +
	"Accept: application/json\r\nAccept-Language: en\r\nAccept-Encoding: gzip\r\nX-Forwarded-For: 10.0.1.2\r\nX-Client-Timezone: Asia/Kabul\r\n" +
	"Cookie: gms_id=gms_01M7HJHFNWKY19A3H39QCC0ZGJ\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

// BenchmarkParse reads a request, in turns with net/http.
func BenchmarkParse(b *testing.B) {
	text := []byte(benchRequest)
	reader := bufio.NewReader(nil)
	var (
		r          http.Request
		ours, std  time.Duration
		parsed     = func() { _, _ = parse(text, &r) }
		readByHTTP = func() {
			reader.Reset(bytes.NewReader(text))
			if _, err := http.ReadRequest(reader); err != nil {
				b.Fatal(err)
			}
		}
	)
	for b.Loop() {
		ours += timed(parsed)
		std += timed(readByHTTP)
	}
	b.ReportMetric(float64(ours)/float64(std), "of-net/http")
	b.ReportMetric(float64(ours.Nanoseconds())/float64(100*b.N), "ns-ours")
	b.ReportMetric(0, "ns/op")
}

func timed(f func()) time.Duration {
	start := time.Now()
	for range 100 {
		f()
	}
	return time.Since(start)
}

// BenchmarkServer asks both for the same answer, in turns, over one connection
// each; the client's part is the same for both.
func BenchmarkServer(b *testing.B) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 4096/16)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		h := w.Header()
		for _, name := range []string{"Cache-Control", "Cache-Status", "Content-Encoding", "Content-Type", "Etag", "Traceparent", "X-Cache", "X-Request-Id"} {
			h[name] = []string{"some value of a header"}
		}
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
		_, _ = w.Write(body)
	})
	ask := func(serve func(net.Listener) error) func() {
		ln, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		go func() { _ = serve(ln) }()
		c, err := new(net.Dialer).DialContext(b.Context(), "tcp", ln.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = c.Close() })
		r := bufio.NewReaderSize(c, 64<<10)
		return func() {
			if _, err := io.WriteString(c, benchRequest); err != nil {
				b.Fatal(err)
			}
			for {
				line, err := r.ReadSlice('\n')
				if err != nil {
					b.Fatal(err)
				}
				if len(line) <= 2 {
					break
				}
			}
			if _, err := r.Discard(len(body)); err != nil {
				b.Fatal(err)
			}
		}
	}
	here, there := New(&http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}), &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	defer func() { _, _ = here.Close(), there.Close() }()
	askHere, askThere := ask(here.Serve), ask(there.Serve)
	var ours, std time.Duration
	for b.Loop() {
		ours += timed(askHere)
		std += timed(askThere)
	}
	b.ReportMetric(float64(std)/float64(ours), "times-net/http")
	b.ReportMetric(0, "ns/op")
}
