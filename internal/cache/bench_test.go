package cache

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/pause"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// BenchmarkHit compares a warm hit with a bare handler that writes the same
// gzip bytes, over loopback connections with the same, minimal client. Slices
// alternate, medians are compared: the machine may do other things meanwhile.
func BenchmarkHit(b *testing.B) {
	c := newTestCache(b, newTestStore(b, StoreConfig{Namespace: "bff"}), func(cfg *Config) {
		cfg.CacheControl, cfg.Vary = "public, max-age=15", "Accept-Language, X-Currency"
	})
	tags := make([]string, 100)
	for i := range tags {
		tags[i] = "property:" + strconv.Itoa(i)
	}
	src := newSource(string(body(30_000)), tags...)
	e, _, err := c.Get(b.Context(), "k", src.fill)
	if err != nil {
		b.Fatal(err)
	}
	packed := e.variant[gzipped].body
	bare := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed)
	})
	fill := FillFunc(src.fill)
	cached := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e, st, err := c.Get(r.Context(), "k", fill)
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		e.Serve(w, r, st)
	})

	b.Run("handler", func(b *testing.B) {
		r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/", http.NoBody)
		r.Header.Set("Accept-Encoding", "gzip")
		w := &sink{header: http.Header{}}
		b.ReportAllocs()
		for b.Loop() {
			clear(w.header)
			cached(w, r)
		}
	})

	for _, method := range []string{http.MethodGet, http.MethodPost} {
		b.Run("server/"+method, func(b *testing.B) {
			const slice = 100
			sides := [2]*wire{dialWire(b, method, bare), dialWire(b, method, cached)}
			var took [2][]time.Duration
			for b.Loop() {
				for i, side := range sides {
					begin := time.Now()
					for range slice {
						side.ask(b)
					}
					took[i] = append(took[i], time.Since(begin)/slice)
				}
			}
			b.ReportMetric(float64(median(took[0]))/float64(median(took[1])), "of-bare")
			b.ReportMetric(float64(median(took[0])), "ns/bare")
			b.ReportMetric(float64(median(took[1])), "ns/hit")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// wire is a client that does next to nothing.
type wire struct {
	conn    net.Conn
	r       *bufio.Reader
	request string
}

func dialWire(b *testing.B, method string, h http.Handler) *wire {
	b.Helper()
	s := httptest.NewServer(h)
	b.Cleanup(s.Close)
	conn, err := (&net.Dialer{}).DialContext(b.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return &wire{
		conn: conn, r: bufio.NewReaderSize(conn, 64<<10),
		request: method + " / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nContent-Length: 0\r\n\r\n",
	}
}

func (w *wire) ask(b *testing.B) {
	b.Helper()
	if _, err := io.WriteString(w.conn, w.request); err != nil {
		b.Fatal(err)
	}
	length := -1
	for {
		line, err := w.r.ReadSlice('\n')
		if err != nil {
			b.Fatal(err)
		}
		if len(line) <= 2 {
			break
		}
		if n, ok := cutPrefix(line, "Content-Length: "); ok {
			if length, err = strconv.Atoi(n); err != nil {
				b.Fatal(err)
			}
		}
	}
	if length < 0 { // chunked, in one piece
		line, err := w.r.ReadSlice('\n')
		if err != nil {
			b.Fatal(err)
		}
		n, err := strconv.ParseInt(string(line[:len(line)-2]), 16, 32)
		if err != nil {
			b.Fatal(err)
		}
		length = int(n) + len("\r\n0\r\n\r\n")
	}
	if _, err := w.r.Discard(length); err != nil {
		b.Fatal(err)
	}
}

func cutPrefix(line []byte, prefix string) (string, bool) {
	if len(line) < len(prefix) || string(line[:len(prefix)]) != prefix {
		return "", false
	}
	return string(line[len(prefix) : len(line)-2]), true
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// BenchmarkSteady reads one key a thousand times a second in three processes'
// stores over many lifetimes: how many fills per lifetime, and does any reader
// wait? One iteration is one lifetime; run it with -benchtime=100x.
func BenchmarkSteady(b *testing.B) {
	const fresh = 500 * time.Millisecond
	fx := newFixture(b, 3, []string{testkit.Redis(b)}, func(cfg *Config) {
		cfg.TTL = func() TTL { return TTL{Fresh: fresh, Grace: fresh, Stale: time.Minute} }
	})
	src := newSource(string(body(30_000)))
	fill := func(ctx context.Context) (Fill, error) {
		pause.For(ctx, 10*time.Millisecond)
		return src.fill(ctx)
	}
	k := fx.key("k")
	for _, c := range fx.caches {
		read(b, c, k, fill)
	}
	var results [4]atomic.Int64
	var slowest atomic.Int64
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(b.Context())
	for _, c := range fx.caches {
		wg.Go(func() {
			tick := time.NewTicker(3 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				begin := time.Now()
				_, st, err := c.Get(ctx, k, fill)
				if err != nil && ctx.Err() == nil {
					b.Error(err)
				}
				results[st.Result].Add(1)
				slowest.Store(max(slowest.Load(), int64(time.Since(begin))))
			}
		})
	}
	before := src.calls.Load()
	begin := time.Now()
	for b.Loop() {
		pause.For(ctx, fresh)
	}
	calls, windows := src.calls.Load()-before, float64(time.Since(begin))/float64(fresh)
	stop()
	wg.Wait()
	b.ReportMetric(float64(calls)/windows, "fills/window")
	b.ReportMetric(float64(results[Miss].Load()), "waited")
	b.ReportMetric(float64(results[Stale].Load()), "stale")
	b.ReportMetric(float64(results[Hit].Load()), "hits")
	b.ReportMetric(float64(slowest.Load())/1e6, "ms-slowest")
}
