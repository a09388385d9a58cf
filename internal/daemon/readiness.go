package daemon

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// checkTimeout caps each check of a part. It is shorter than what load balancers wait
// for an answer, a second: a part that hangs must not take the process out of service.
const checkTimeout = 500 * time.Millisecond

// processPart is the process itself among the parts that are ready or not.
const processPart = "process"

// States of a part in the answer of /ready.
const (
	partUp   = "up"
	partDown = "unavailable"
)

// readyAnswer is the body of /ready.
type readyAnswer struct {
	Status string            `json:"status"` // ready, starting, draining or unavailable
	Parts  map[string]string `json:"parts,omitempty"`
}

// serveReady answers whether this process should get traffic.
func (d *Daemon) serveReady(w http.ResponseWriter, r *http.Request) {
	answer, status := readyAnswer{}, http.StatusServiceUnavailable
	switch d.state.Load() {
	case stateStarting:
		answer.Status = "starting"
	case stateDraining:
		answer.Status = "draining"
	default:
		answer, status = readyAnswer{Status: "ready", Parts: d.parted(r.Context())}, http.StatusOK
		for _, c := range d.checks {
			if c.required && answer.Parts[c.name] != partUp {
				answer.Status, status = "unavailable", http.StatusServiceUnavailable
			}
		}
	}
	writeStatus(w, status, answer)
}

// parted returns the state of each part.
func (d *Daemon) parted(ctx context.Context) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var (
		mu     sync.Mutex
		states = map[string]string{}
		wg     sync.WaitGroup
	)
	for _, c := range d.checks {
		wg.Go(func() {
			state := partUp
			if err := c.check(ctx); err != nil {
				d.Log.Warn("a part is unavailable", "part", c.name, "required", c.required, "error", err.Error())
				state = partDown
			}
			mu.Lock()
			defer mu.Unlock()
			states[c.name] = state
		})
	}
	wg.Wait()
	return states
}

// readiness reports what /ready reports, as a metric: a probe that takes an
// instance out of service raises no alert.
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
	put := func(part string, up bool) {
		value := 0.0
		if up {
			value = 1
		}
		out <- prometheus.MustNewConstMetric(r.ready, prometheus.GaugeValue, value, part)
	}
	ready := r.daemon.state.Load() == stateReady
	put(processPart, ready)
	if ready {
		for part, state := range r.daemon.parted(context.Background()) {
			put(part, state == partUp)
		}
	}
}
