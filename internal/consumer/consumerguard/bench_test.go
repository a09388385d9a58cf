package consumerguard

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/ratelimit"
	"melmastoon.ghasi.io/bff/internal/web"
)

// nobody takes headers and forgets the rest.
type nobody struct{ h http.Header }

func (n nobody) Header() http.Header                { return n.h }
func (nobody) Write(b []byte) (int, error)          { return len(b), nil }
func (nobody) WriteHeader(int)                      {}
func done(http.ResponseWriter, *http.Request) error { return nil }

// BenchmarkGuard is what the guard adds to a request (goal P12): the limits,
// the verdict, and both; and its share of a bare request over a connection.
func BenchmarkGuard(b *testing.B) {
	for name, change := range map[string]func(*Config){
		"both":    func(*Config) {},
		"limits":  func(c *Config) { c.Mode = ModeOff },
		"verdict": func(c *Config) { c.Limits.Off = true },
	} {
		b.Run(name, func(b *testing.B) {
			a := newSimulation(b, func(c *Config) {
				for class := range c.Limits.PerMinute {
					c.Limits.PerMinute[class] = ratelimit.MaxPerMinute
				}
				c.Policy.Suspect, c.Policy.Bot = 2, 2 // no client is fast enough
				change(c)
			})
			var r *http.Request
			routes, err := a.guard.Protect([]web.Route{{Pattern: "POST " + base + "/search", Handle: done, Kind: web.PublicRead, Limit: "search"}})
			if err != nil {
				b.Fatal(err)
			}
			capture := routes[0].Handle
			if err := a.server.Mount(web.Route{
				Pattern: "POST /capture", Kind: web.Internal, Budget: time.Second, Body: web.NoBody,
				Handle: func(_ http.ResponseWriter, got *http.Request) error {
					r = got.Clone(context.WithoutCancel(got.Context()))
					return nil
				},
			}); err != nil {
				b.Fatal(err)
			}
			call, w := newCall(http.MethodPost, "/search", "{}", home, firefoxHeaders("Cookie", a.cookie()))
			call.URL.Path = "/capture"
			a.server.ServeHTTP(w, call)
			bare := bareRequest(b)
			b.ReportAllocs()
			begin, taker := time.Now(), nobody{http.Header{}} // a response has a header map anyway
			for b.Loop() {
				web.From(r.Context()).Local = nil
				if err := capture(taker, r); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(time.Since(begin))/float64(b.N)/float64(bare), "of-a-bare-request")
		})
	}
}

// bareRequest is what a request costs a handler that does nothing, both ends
// included.
func bareRequest(b *testing.B) time.Duration {
	b.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 8<<10)) }))
	defer s.Close()
	best := time.Hour
	for range 5 {
		begin := time.Now()
		const n = 500
		for range n {
			req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, s.URL, nil)
			if err != nil {
				b.Fatal(err)
			}
			res, err := s.Client().Do(req)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
		best = min(best, time.Since(begin)/n)
	}
	return best
}

// BenchmarkProfile is what the headers of a client cost when they were seen
// before, and when not.
func BenchmarkProfile(b *testing.B) {
	a := newSimulation(b, nil)
	call, _ := newCall(http.MethodPost, "/search", "{}", home, firefoxHeaders())
	for name, known := range map[string]bool{"with": true, "without": false} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !known {
					a.guard.newProfile(readSent(call.Header))
					continue
				}
				a.guard.profileOf(call.Header)
			}
		})
	}
}
