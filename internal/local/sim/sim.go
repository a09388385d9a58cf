// Package sim simulates the platform services that are not ours —
// search-aggregation, pricing, property, theme-config, tenant, iam and the
// services behind the staff console — over HTTP, on one deterministic data
// set. docs/upstreams.md is its contract.
//
// It behaves like real services do: it has latency, refuses bad input, and,
// through the control interface under /_sim, it counts calls, fails on demand
// and publishes events. It knows nothing of the services that call it, but for the two
// topics of the staff console that its services listen to.
package sim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
)

// Publisher sends one event to a topic.
type Publisher interface {
	Publish(ctx context.Context, topic string, data []byte, orderingKey string) error
}

// Config is what a Sim can be told. The zero value works.
type Config struct {
	// Seed picks the data set; 0 means 1.
	Seed uint64
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Publisher receives the events of POST /_sim/events. Without one they
	// only act on the simulator itself.
	Publisher Publisher
	// Latency by upstream name. Nil means DefaultLatency; an empty map, none.
	Latency map[string]Latency
	// ProjectionLag is how long search-aggregation keeps listing a tenant
	// after its suspension; 0 means ten minutes, negative means none.
	ProjectionLag time.Duration
	// PublicURL is the base of media addresses, without a trailing slash.
	// Empty means that of the request.
	PublicURL string
	// HouseTime stops the clocks in the houses at this time of day, for tests
	// that look twice; 0 lets their day go on.
	HouseTime time.Duration
	// HousesAhead is how far the houses' clocks are ahead of Now.
	// SignIns is a file that keeps refresh tokens for the next run; empty = they end with this one.
	SignIns     string
	HousesAhead time.Duration
	// Issuer is the iss claim of access tokens.
	Issuer string
}

// Latency is how long an upstream thinks: Base plus up to Jitter.
type Latency struct{ Base, Jitter time.Duration }

// DefaultLatency is a healthy platform in one region.
func DefaultLatency() map[string]Latency {
	const ms = time.Millisecond
	m := map[string]Latency{}
	for _, name := range Upstreams() {
		m[name] = Latency{4 * ms, 4 * ms}
	}
	m["search-aggregation"] = Latency{9 * ms, 6 * ms}
	m["pricing"] = Latency{7 * ms, 5 * ms}
	m["property"] = Latency{5 * ms, 4 * ms}
	m["theme-config"] = Latency{3 * ms, 2 * ms}
	m["tenant"] = Latency{3 * ms, 2 * ms}
	return m
}

// Upstreams lists the simulated services by name, which is also their prefix.
func Upstreams() []string {
	return []string{
		"search-aggregation", "pricing", "property", "theme-config", "tenant", "iam",
		"reservation", "inventory", "housekeeping", "maintenance", "billing", "lock",
		"ai-orchestrator", "notification", "analytics", "staff", "sync",
	}
}

// Sim is the platform in one process. All its methods may be called at once.
type Sim struct {
	cfg  Config
	data *dataset
	iam  *iam
	mux  *http.ServeMux

	calls  calls
	faults faults
	state  state
	staff  staffState
	// hearers are the services that listen to a topic.
	hearers map[string]hearer
	closed  chan struct{}
	once    sync.Once
}

// New builds the data set and the routes.
func New(cfg Config) (*Sim, error) {
	if cfg.Seed == 0 {
		cfg.Seed = 1
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Latency == nil {
		cfg.Latency = DefaultLatency()
	}
	if cfg.ProjectionLag == 0 {
		cfg.ProjectionLag = 10 * time.Minute
	}
	if cfg.Issuer == "" {
		cfg.Issuer = "https://iam.melmastoon.ghasi.io"
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("simulate upstreams: %w", err)
	}
	data, err := sharedData(cfg.Seed, bff.DateOf(cfg.Now()))
	if err != nil {
		return nil, fmt.Errorf("simulate upstreams: %w", err)
	}
	s := &Sim{cfg: cfg, data: data, mux: http.NewServeMux(), closed: make(chan struct{})}
	if s.iam, err = newIAM(cfg); err != nil {
		return nil, fmt.Errorf("simulate upstreams: %w", err)
	}
	s.faults.seed = cfg.Seed
	s.state.init(data, cfg.Now())
	s.staff.init()
	s.searchRoutes()
	s.pricingRoutes()
	s.propertyRoutes()
	s.tenantRoutes()
	s.iamRoutes()
	s.staffRoutes()
	s.controlRoutes()
	return s, nil
}

func (c Config) validate() error {
	var bad []error
	known := Upstreams()
	for name, l := range c.Latency {
		if !slices.Contains(known, name) {
			bad = append(bad, fmt.Errorf("latency of %q: no such upstream", name))
		}
		if l.Base < 0 || l.Jitter < 0 {
			bad = append(bad, fmt.Errorf("latency of %q: negative", name))
		}
	}
	if strings.HasSuffix(c.PublicURL, "/") {
		bad = append(bad, errors.New("public URL: ends in a slash"))
	}
	if c.HouseTime < 0 || c.HouseTime >= 24*time.Hour {
		bad = append(bad, errors.New("house time: no time of day"))
	}
	return errors.Join(bad...)
}

// Handler serves every upstream under its prefix, /media and /_sim.
func (s *Sim) Handler() http.Handler { return withCORS(s.mux) }

// Close lets hanging calls go. The simulator answers on.
func (s *Sim) Close() { s.once.Do(func() { close(s.closed) }) }

// mediaBase is where the caller can fetch pictures.
func (s *Sim) mediaBase(r *http.Request) string {
	if s.cfg.PublicURL != "" {
		return s.cfg.PublicURL
	}
	return "http://" + r.Host
}
