package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config describes one upstream.
type Config struct {
	Name    string // label of metrics and errors
	BaseURL string
	// Timeout is the wall-clock cap of a call from when it has a place among those under
	// way, retries and hedges included.
	Timeout time.Duration
	// Retries of idempotent calls after a failure that may pass.
	Retries int
	// HedgeAfter sends an idempotent call a second time when the first has not
	// answered by then; 0 is never.
	HedgeAfter time.Duration
	// HedgeQuantile lowers HedgeAfter to this quantile (0..1) of the route's
	// own recent latencies; 0 keeps HedgeAfter fixed.
	HedgeQuantile float64
	// MaxConcurrent caps the calls under way; the limiter goes below it while
	// the upstream is slower than it used to be. 0 means 256.
	MaxConcurrent int
	// FairBy is the header that says for whom a call is made. When calls have to wait, those
	// for whom they are made take turns; "": first come, first served.
	FairBy string
	// MaxBody caps an answer; 0 means 4 MiB.
	MaxBody int64
	Breaker BreakerConfig

	Metrics   *prometheus.Registry // nil: measured, not exported
	Namespace string               // prefix of the metrics
	Log       *slog.Logger         // nil: silent
	// Transport replaces the tuned one.
	Transport http.RoundTripper
	// Header adds the headers of the request being served: its id, its
	// traceparent, its tenant.
	Header func(ctx context.Context, h http.Header)
}

// BreakerConfig tunes the circuit breaker. The zero value is the
// specification's: five failures in a row, a probe after four seconds.
type BreakerConfig struct {
	Failures      int
	HalfOpenAfter time.Duration
}

// Client calls one upstream.
type Client struct {
	name      string
	base      url.URL
	timeout   time.Duration
	retries   int
	maxBody   int64
	transport http.RoundTripper
	header    func(context.Context, http.Header)
	fairBy    string

	breaker *breaker
	limiter *limiter
	hedge   *hedging
	retry   *allowance
	metrics *metrics
	drift   *drift
}

// New returns a client; every fault of the configuration is reported at once.
func New(cfg Config) (*Client, error) {
	var errs []error
	base, err := url.Parse(cfg.BaseURL)
	switch {
	case err != nil: // the error quotes the URL, which may hold a password
		errs = append(errs, errors.New("malformed base URL"))
	case base.Scheme != "http" && base.Scheme != "https", base.Host == "", base.User != nil, base.RawQuery != "", base.Fragment != "":
		errs = append(errs, errors.New("base URL must be http(s)://host[/path]"))
	}
	if cfg.Name == "" {
		errs = append(errs, errors.New("name is required"))
	}
	if cfg.Timeout <= 0 {
		errs = append(errs, errors.New("timeout is required"))
	}
	if cfg.Retries < 0 || cfg.HedgeAfter < 0 || cfg.MaxConcurrent < 0 || cfg.MaxBody < 0 ||
		cfg.Breaker.Failures < 0 || cfg.Breaker.HalfOpenAfter < 0 {
		errs = append(errs, errors.New("settings must not be negative"))
	}
	if cfg.HedgeQuantile < 0 || cfg.HedgeQuantile >= 1 {
		errs = append(errs, errors.New("hedge quantile must be in 0..1"))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("upstream %s: %w", cfg.Name, errors.Join(errs...))
	}

	if cfg.MaxConcurrent == 0 {
		cfg.MaxConcurrent = 256
	}
	if cfg.MaxBody == 0 {
		cfg.MaxBody = 4 << 20
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	m, err := newMetrics(cfg)
	if err != nil {
		return nil, fmt.Errorf("upstream %s: metrics: %w", cfg.Name, err)
	}
	c := &Client{
		name:      cfg.Name,
		base:      url.URL{Scheme: base.Scheme, Host: base.Host, Path: strings.TrimSuffix(base.Path, "/"), RawPath: strings.TrimSuffix(base.RawPath, "/")},
		timeout:   cfg.Timeout,
		retries:   cfg.Retries,
		maxBody:   cfg.MaxBody,
		transport: cfg.Transport,
		header:    cfg.Header,
		fairBy:    cfg.FairBy,
		breaker:   newBreaker(cfg, m),
		limiter:   newLimiter(cfg, m),
		hedge:     newHedging(cfg),
		retry:     newAllowance(retryShare, retryBurst, retryBurst),
		metrics:   m,
		drift:     newDrift(cfg, m),
	}
	if c.transport == nil {
		c.transport = newTransport(cfg)
	}
	return c, nil
}

// Get reads path, query appended, into out.
//
// Route is the pattern behind path and must come from a fixed set: it labels
// metrics. Out is a pointer to decode the JSON answer into, a [Reading] of it,
// *[]byte for the answer's own bytes (checked to be JSON), or nil to look at the
// status only.
// Fields of out tagged `upstream:"required"` that come empty are reported, see
// [Client.Drift].
func (c *Client) Get(ctx context.Context, route, path string, query url.Values, out any, opts ...Option) error {
	return c.do(ctx, &call{method: http.MethodGet, route: route, idempotent: true}, path, query.Encode(), nil, out, opts)
}

// Post sends body as JSON, a json.RawMessage as it is, and reads the answer into out, as Get does. It is
// sent once, unless [Idempotent] allows more.
func (c *Client) Post(ctx context.Context, route, path string, body, out any, opts ...Option) error {
	return c.do(ctx, &call{method: http.MethodPost, route: route}, path, "", body, out, opts)
}

// Put is Post with another method; a PUT is idempotent by definition.
func (c *Client) Put(ctx context.Context, route, path string, body, out any, opts ...Option) error {
	return c.do(ctx, &call{method: http.MethodPut, route: route, idempotent: true}, path, "", body, out, opts)
}

// State returns the breaker's state: "closed", "half-open" or "open".
func (c *Client) State() string { return c.breaker.state() }

// Drift reports that a field of a route's answer, which used to be there, is
// missing: counted each time, logged once a minute. Answers are decoded
// tolerantly, so without it a renamed field would empty a page in silence.
func (c *Client) Drift(route, field string) { c.drift.report(route, field) }

// Close lets go of idle connections.
func (c *Client) Close() {
	if t, ok := c.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// Header values that all calls share; they must not be changed.
var (
	acceptJSON = []string{"application/json"}
	userAgent  = []string{"melmastoon-bff"}
)

// address is where a call goes: below the base URL, or nowhere.
func (c *Client) address(path, query string) (*url.URL, bool) {
	if !cleanPath(path) {
		return nil, false
	}
	to := c.base
	to.RawQuery = query
	if strings.IndexByte(path, '%') < 0 && to.RawPath == "" {
		to.Path += path
		return &to, true
	}
	plain, err := url.PathUnescape(path)
	if err != nil {
		return nil, false
	}
	to.RawPath = to.EscapedPath() + path
	to.Path += plain
	return &to, true
}

// do prepares everything that attempts have in common: a hedge may outlive the
// call by a moment and must not look at what is the caller's.
func (c *Client) do(ctx context.Context, call *call, path, query string, body, out any, opts []Option) error {
	var ok bool
	if call.url, ok = c.address(path, query); !ok {
		return fmt.Errorf("upstream %s %s: invalid path", c.name, call.route)
	}
	call.cap = c.timeout
	call.header = http.Header{"Accept": acceptJSON, "User-Agent": userAgent}
	if body != nil {
		raw, ready := body.(json.RawMessage)
		if !ready {
			var err error
			if raw, err = json.Marshal(body); err != nil { // the error may quote the value
				return fmt.Errorf("upstream %s %s: the request cannot be encoded", c.name, call.route)
			}
		}
		call.body = raw
		call.header["Content-Type"] = acceptJSON
	}
	if c.header != nil {
		c.header(ctx, call.header)
	}
	for _, opt := range opts {
		opt(call)
	}
	if c.fairBy != "" {
		call.whose = call.header.Get(c.fairBy)
	}
	ctx = c.begin(ctx, call)
	start := time.Now()
	err := c.run(ctx, call, out)
	c.metrics.observe(call.route, err, time.Since(start))
	call.end(err)
	return err
}
