package http1

import (
	"bufio"
	"bytes"
	"io"
	"maps"
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
	here, there := New(&http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}, Options{}), &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
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

// repeatConn is a connection on which one request comes again and again; answers
// are discarded. It keeps the kernel out of the measurement.
type repeatConn struct {
	net.Conn
	left   int
	text   string
	unread string
	closed chan struct{}
}

func (c *repeatConn) Read(b []byte) (int, error) {
	if c.unread == "" {
		if c.left--; c.left < 0 {
			return 0, io.EOF
		}
		c.unread = c.text
	}
	n := copy(b, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

func (*repeatConn) Write(b []byte) (int, error)      { return len(b), nil }
func (c *repeatConn) Close() error                   { close(c.closed); return nil }
func (*repeatConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*repeatConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*repeatConn) SetDeadline(time.Time) error      { return nil }
func (*repeatConn) SetReadDeadline(time.Time) error  { return nil }
func (*repeatConn) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkHandler is what one request costs without the kernel, with the head of a
// cached answer as header values, the same as finished lines, and with a client
// that is watched.
func BenchmarkHandler(b *testing.B) {
	header := http.Header{
		"Age": {"7"}, "Cache-Control": {"public, max-age=15"}, "Cache-Status": {"bff/hotel; hit; ttl=53"}, "Content-Encoding": {"gzip"},
		"Content-Length": {"2500"}, "Content-Type": {"application/json"}, "Etag": {`"0123456789abcdef-gzip"`}, "Vary": {"Accept-Encoding, Accept-Language"},
		"X-Cache": {"HIT"}, "X-Content-Type-Options": {"nosniff"},
	}
	var lines bytes.Buffer
	if err := header.WriteSubset(&lines, map[string]bool{"Content-Length": true}); err != nil {
		b.Fatal(err)
	}
	finished, id, body := lines.String(), []string{"01H8YN7QV4D8KZ4F8Y5CK4MV3D"}, make([]byte, 2500)
	for name, handle := range map[string]http.HandlerFunc{
		"headers": func(w http.ResponseWriter, _ *http.Request) {
			maps.Copy(w.Header(), header)
		},
		"lines": func(w http.ResponseWriter, _ *http.Request) {
			w.(interface {
				FinishHead(length int, lines, more string) bool
			}).FinishHead(len(body), finished, "")
		},
		"lines, watched": func(w http.ResponseWriter, r *http.Request) {
			_ = r.Context().Done()
			w.(interface {
				FinishHead(length int, lines, more string) bool
			}).FinishHead(len(body), finished, "")
		},
	} {
		b.Run(name, func(b *testing.B) {
			s := New(&http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header()["X-Request-Id"], w.Header()["Traceparent"] = id, id
				handle(w, r)
				_, _ = w.Write(body)
			})}, Options{})
			c := &repeatConn{left: b.N, text: "GET / HTTP/1.1\r\nHost: h\r\n\r\n", closed: make(chan struct{})}
			b.ReportAllocs()
			b.ResetTimer()
			newConn(s, c).serve()
			<-c.closed
		})
	}
}
