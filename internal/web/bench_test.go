package web

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff/internal/daemon"
)

const benchBody = `{"geo":{"mode":"city","city":"Kabul"},"dates":{"checkIn":"2027-05-12","checkOut":"2027-05-15"},` +
	`"occupancy":{"adults":2,"children":0,"rooms":1},"filters":{"amenities":["free-wifi"],"starRating":[3,4,5]},"locale":"en","currency":"USD"}`

const benchRequest = "POST /bff/consumer/v1/search HTTP/1.1\r\nHost: example.org\r\nUser-Agent: Mozilla/5.0\r\nAccept: application/json\r\n" +
	"Accept-Encoding: gzip\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n"

// script is a connection on which one request comes again and again; what is
// answered is thrown away. It leaves the kernel out of the count.
type script struct {
	left   int
	input  *strings.Reader
	closed chan struct{}
}

func (c *script) Read(b []byte) (int, error) {
	if c.input.Len() == 0 {
		if c.left--; c.left <= 0 {
			return 0, io.EOF
		}
		c.input.Reset(benchRequest)
	}
	return c.input.Read(b)
}
func (*script) Write(b []byte) (int, error) { return len(b), nil }
func (c *script) Close() error              { close(c.closed); return nil }
func (*script) LocalAddr() net.Addr         { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (*script) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711} }
func (*script) SetDeadline(time.Time) error      { return nil }
func (*script) SetReadDeadline(time.Time) error  { return nil }
func (*script) SetWriteDeadline(time.Time) error { return nil }

// scripts is a listener that hands over its connections.
type scripts chan net.Conn

func (l scripts) Accept() (net.Conn, error) {
	if c, ok := <-l; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (scripts) Close() error   { return nil }
func (scripts) Addr() net.Addr { return &net.TCPAddr{} }

func benchServer() *Server {
	return NewServer(Config{
		Log: daemon.NewLogger(io.Discard, daemon.Settings{}, "bench"), Metrics: prometheus.NewRegistry(), Namespace: "bench",
		Budget: time.Second,
	})
}

// BenchmarkServer divides the time in which net/http answers through a bare mux
// by that in which it answers through a Server with ids, traces, metrics, budget
// and log. Neither counts the kernel, so that a service's share is better.
func BenchmarkServer(b *testing.B) {
	answer := bytes.Repeat([]byte("x"), 2500)
	write := func(w http.ResponseWriter) {
		h := w.Header()
		h["Content-Type"], h["Content-Length"] = []string{"application/json"}, []string{"2500"}
		_, _ = w.Write(answer)
	}
	bare := http.NewServeMux()
	bare.HandleFunc("POST /bff/consumer/v1/search", func(w http.ResponseWriter, _ *http.Request) { write(w) })
	ours := benchServer()
	mount(b, ours, Route{Pattern: "POST /bff/consumer/v1/search", Handle: func(w http.ResponseWriter, _ *http.Request) error { write(w); return nil }})

	const slice = 20_000
	var costs [2][]float64
	var listeners [2]scripts
	for i, h := range []http.Handler{bare, ours} {
		listeners[i] = make(scripts)
		go func() { _ = http.Serve(listeners[i], h) }() //nolint:gosec // a listener of scripts needs no timeouts
		defer close(listeners[i])
	}
	for b.Loop() {
		for i, l := range listeners {
			c := &script{left: slice, input: strings.NewReader(benchRequest), closed: make(chan struct{})}
			begin := time.Now()
			l <- c
			<-c.closed
			costs[i] = append(costs[i], float64(time.Since(begin).Nanoseconds())/slice/1e3)
		}
	}
	slices.Sort(costs[0])
	slices.Sort(costs[1])
	bareCost, ourCost := costs[0][len(costs[0])/2], costs[1][len(costs[1])/2]
	b.ReportMetric(bareCost/ourCost, "of-bare")
	b.ReportMetric(bareCost, "µs-bare")
	b.ReportMetric(ourCost, "µs-ours")
	b.ReportMetric(0, "ns/op")
}

// nowhere is a ResponseWriter that costs nothing.
type nowhere struct{ header http.Header }

func (w *nowhere) Header() http.Header       { return w.header }
func (*nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (*nowhere) WriteHeader(int)             {}

// BenchmarkServeHTTP is the Server's own part of a request.
func BenchmarkServeHTTP(b *testing.B) {
	for _, bm := range []struct {
		name, pattern, path string
		waits               bool // the handler waits for something, so that the context starts its timer
	}{
		{"plain", "POST /bff/consumer/v1/search", "/bff/consumer/v1/search", false},
		{"wildcard", "POST /bff/consumer/v1/hotels/{id}", "/bff/consumer/v1/hotels/ppt_01H8YN7QV4D8KZ4F8Y5CK4MV3D", false},
		{"waiting", "POST /bff/consumer/v1/search", "/bff/consumer/v1/search", true},
	} {
		b.Run(bm.name, func(b *testing.B) {
			s := benchServer()
			mount(b, s, Route{Pattern: bm.pattern, Handle: func(w http.ResponseWriter, r *http.Request) error {
				if bm.waits {
					_ = r.Context().Done()
				}
				_, _ = w.Write([]byte("{}"))
				return nil
			}})
			r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, bm.path, nil)
			b.ReportAllocs()
			for b.Loop() {
				s.ServeHTTP(&nowhere{header: make(http.Header)}, r)
			}
		})
	}
}

// BenchmarkReadBody reads a search.
func BenchmarkReadBody(b *testing.B) {
	r := httptest.NewRequestWithContext(allowBody(b.Context(), 32<<10), http.MethodPost, "/", nil)
	r.Header.Set("Content-Type", "application/json")
	b.ReportAllocs()
	for b.Loop() {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(benchBody)), int64(len(benchBody))
		in, err := ReadBody(nil, r)
		if err != nil {
			b.Fatal(err)
		}
		in.Object("geo").String("city", 64)
		dates, occupancy := in.Object("dates"), in.Object("occupancy")
		dates.Date("checkIn")
		dates.Date("checkOut")
		occupancy.Int("adults", 1, 1, 9)
		occupancy.Int("rooms", 1, 1, 9)
		f := in.Object("filters")
		f.Strings("amenities", 32, 64)
		f.Ints("starRating", 5, 1, 5)
		in.Locale("locale")
		in.String("currency", 3)
		if err := in.Err(); err != nil {
			b.Fatal(err)
		}
	}
}
