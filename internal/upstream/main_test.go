package upstream

import (
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newClient returns a client that is closed with the test.
func newClient(tb testing.TB, cfg Config) *Client {
	tb.Helper()
	if cfg.Name == "" {
		cfg.Name = "far"
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = "http://far.test"
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute
	}
	c, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// scrape returns the metrics as Prometheus reads them.
func scrape(tb testing.TB, reg *prometheus.Registry) string {
	tb.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequestWithContext(tb.Context(), http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// far is an upstream in memory. Its latency is exact, so that what is measured
// is the client's doing and not the noise of sockets, and it lives in the time
// of synctest.
type far func(r *http.Request) (status int)

func (f far) RoundTrip(r *http.Request) (*http.Response, error) {
	status := f(r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: status, Request: r, Body: io.NopCloser(strings.NewReader("{}")), ContentLength: 2,
		Header: http.Header{"Content-Type": {"application/json"}},
	}, nil
}

// lognormal is how long services take. With a spread of 0.8 the p99 is about
// six times the median.
func lognormal(median time.Duration, spread float64) time.Duration {
	return time.Duration(float64(median) * math.Exp(rand.NormFloat64()*spread))
}

func p99(took []time.Duration) time.Duration {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}
