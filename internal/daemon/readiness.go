package daemon

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

// readiness reports what /ready reports, as a metric: a probe that takes an
// instance out of service tells nobody.
type readiness struct {
	daemon *Daemon
	ready  *prometheus.Desc
}

func newReadiness(d *Daemon) *readiness {
	return &readiness{d, prometheus.NewDesc("service_ready", "1 for each part that is ready to serve; process is the process itself.", []string{"part"}, nil)}
}

// Describe implements prometheus.Collector.
func (r *readiness) Describe(out chan<- *prometheus.Desc) { out <- r.ready }

// Collect implements prometheus.Collector. It asks the parts, as /ready does.
func (r *readiness) Collect(out chan<- prometheus.Metric) {
	bad := r.daemon.unready(context.Background())
	put := func(part string) {
		value := 1.0
		if _, unready := bad[part]; unready {
			value = 0
		}
		out <- prometheus.MustNewConstMetric(r.ready, prometheus.GaugeValue, value, part)
	}
	put(processPart)
	if r.daemon.ready.Load() {
		for _, c := range r.daemon.checks {
			put(c.name)
		}
	}
}
