package web

import (
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Label is one more label of request_total and errors_total.
type Label interface {
	Name() string
	// Of returns the value of an answered request. It bounds how many there are.
	Of(r *Request) string
}

type metrics struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inflight prometheus.Gauge
	errors   *prometheus.CounterVec
	// unreadable counts requests whose clients share the limits of their proxy.
	unreadable prometheus.Counter
	label      Label // nil = none
}

func newMetrics(reg *prometheus.Registry, ns string, label Label) metrics {
	labels := func(names ...string) []string {
		if label != nil {
			names = append(names, label.Name())
		}
		return names
	}
	m := metrics{
		label: label,
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: ns, Name: "request_total", Help: "Requests by route and status.",
		}, labels("route", "status")),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: ns, Name: "request_duration_seconds", Help: "Time from the first byte read to the last written.",
			// Every objective of either service is a boundary, so that what misses it is counted exactly.
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .08, .1, .2, .25, .3, .4, .5, .6, .8, 1.1, 2.5, 5, 25},
		}, []string{"route"}),
		inflight: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: ns, Name: "request_inflight", Help: "Requests being answered now.",
		}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: ns, Name: "errors_total", Help: "Failed requests by code of the error registry.",
		}, labels("route", "code")),
		unreadable: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: ns, Name: "forwarded_unreadable_total", Help: "Requests through a trusted proxy whose X-Forwarded-For names no address.",
		}),
	}
	// Two servers of one process (public and internal) share the series.
	m.total = register(reg, m.total)
	m.duration = register(reg, m.duration)
	m.inflight = register(reg, m.inflight)
	m.errors = register(reg, m.errors)
	m.unreadable = register(reg, m.unreadable)
	return m
}

func register[C prometheus.Collector](reg *prometheus.Registry, c C) C {
	if err := reg.Register(c); err != nil {
		if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
			if existing, same := already.ExistingCollector.(C); same {
				return existing
			}
		}
		panic(err) // a wrong metric definition is a programming error, seen at start
	}
	return c
}

// of returns the series of one route.
func (m metrics) of(name string) *routeMetrics {
	return &routeMetrics{metrics: m, route: name}
}

// routeMetrics holds the series of a route that have been needed, because
// finding one by its labels costs more than counting in it. A series begins
// with its first request.
type routeMetrics struct {
	metrics
	route string
	timed atomic.Pointer[prometheus.Observer]
	seen  atomic.Pointer[[]statusCounter] // a route answers with few different statuses
}

type statusCounter struct {
	status int
	prometheus.Counter
}

func (m *routeMetrics) observe(r *Request, status int, code string, took time.Duration) {
	m.timer().Observe(took.Seconds())
	if m.label != nil {
		value := m.label.Of(r)
		m.total.WithLabelValues(m.route, strconv.Itoa(status), value).Inc()
		if code != "" {
			m.errors.WithLabelValues(m.route, code, value).Inc()
		}
		return
	}
	m.counter(status).Inc()
	if code != "" {
		m.errors.WithLabelValues(m.route, code).Inc()
	}
}

func (m *routeMetrics) timer() prometheus.Observer {
	if t := m.timed.Load(); t != nil {
		return *t
	}
	t := m.duration.WithLabelValues(m.route)
	m.timed.Store(&t)
	return t
}

func (m *routeMetrics) counter(status int) prometheus.Counter {
	seen := m.seen.Load()
	if seen != nil {
		for _, c := range *seen {
			if c.status == status {
				return c.Counter
			}
		}
	}
	added := statusCounter{status, m.total.WithLabelValues(m.route, strconv.Itoa(status))}
	var more []statusCounter
	if seen != nil {
		more = append(more, *seen...)
	}
	more = append(more, added)
	m.seen.CompareAndSwap(seen, &more) // if another request was faster, the next one adds it
	return added.Counter
}
