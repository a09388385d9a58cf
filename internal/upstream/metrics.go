package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of one upstream. The vectors are shared by all clients of a registry.
type metrics struct {
	name     string
	routes   sync.Map // route, from our code, → usual
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	retries  *prometheus.CounterVec
	hedges   *prometheus.CounterVec
	drift    *prometheus.CounterVec
	breaker  prometheus.Gauge
	inflight prometheus.Gauge
	limit    prometheus.Gauge
}

func newMetrics(cfg Config) (*metrics, error) {
	reg := cfg.Metrics
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: cfg.Namespace, Name: name, Help: help}, append([]string{"upstream"}, labels...))
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: cfg.Namespace, Name: name, Help: help}, []string{"upstream"})
	}
	m := &metrics{
		name:    cfg.Name,
		calls:   counter("upstream_calls_total", "Calls by outcome: ok, refused, cancelled or the reason of the failure.", "route", "outcome"),
		retries: counter("upstream_retries_total", "Attempts after a failed one.", "route"),
		hedges:  counter("upstream_hedges_total", "Attempts beside a slow one.", "route"),
		drift:   counter("upstream_schema_drift_total", "Answers without a field that they used to have.", "route", "field"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: cfg.Namespace, Name: "upstream_call_duration_seconds",
			Help:    "Calls, retries and hedges included.",
			Buckets: []float64{.002, .005, .01, .025, .05, .1, .2, .4, .6, .8, 1, 1.5, 2.5},
		}, []string{"upstream", "route"}),
	}
	breaker := gauge("circuit_breaker_state", "0 closed, 1 half-open, 2 open.")
	inflight := gauge("upstream_inflight", "Attempts under way.")
	limit := gauge("upstream_concurrency_limit", "Most attempts under way that the limiter allows now.")
	err := errors.Join(
		share(reg, &m.calls), share(reg, &m.duration), share(reg, &m.retries), share(reg, &m.hedges),
		share(reg, &m.drift), share(reg, &breaker), share(reg, &inflight), share(reg, &limit),
	)
	if err != nil {
		return nil, err
	}
	m.breaker, m.inflight, m.limit = breaker.WithLabelValues(cfg.Name), inflight.WithLabelValues(cfg.Name), limit.WithLabelValues(cfg.Name)
	return m, nil
}

// share registers *c, or makes it the same collector of an earlier client.
func share[C prometheus.Collector](reg *prometheus.Registry, c *C) error {
	err := reg.Register(*c)
	if known, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if same, ok := known.ExistingCollector.(C); ok {
			*c = same
			return nil
		}
	}
	return err
}

// Outcomes besides the reasons of failures.
const (
	outcomeOK        = "ok"
	outcomeRefused   = "refused"
	outcomeCancelled = "cancelled"
)

func outcomeOf(err error) string {
	e, ok := errors.AsType[*Error](err)
	switch {
	case err == nil:
		return outcomeOK
	case ok && e.Refused():
		return outcomeRefused
	case ok:
		return string(e.Reason)
	case errors.Is(err, context.Canceled):
		return outcomeCancelled
	}
	return string(Failed)
}

func (m *metrics) observe(route string, err error, took time.Duration) {
	outcome := outcomeOf(err)
	r := m.of(route)
	if outcome == outcomeOK {
		r.ok.Inc()
	} else {
		m.calls.WithLabelValues(m.name, route, outcome).Inc()
	}
	r.duration.Observe(took.Seconds())
}

// usual are the two metrics that every call of a route touches.
type usual struct {
	ok       prometheus.Counter
	duration prometheus.Observer
}

func (m *metrics) of(route string) usual {
	if known, ok := m.routes.Load(route); ok {
		return known.(usual)
	}
	r := usual{m.calls.WithLabelValues(m.name, route, outcomeOK), m.duration.WithLabelValues(m.name, route)}
	m.retries.WithLabelValues(m.name, route) // there from the first call: a rate needs a zero to rise from
	m.hedges.WithLabelValues(m.name, route)
	m.routes.Store(route, r)
	return r
}
