package daemon

import (
	"context"
	"errors"
	"log/slog"
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

// States of a part in the answer of /ready; a PublicError stands for itself.
const (
	partUp      = "up"
	partDown    = "unavailable"
	partUnknown = "unknown"
)

// PublicError is the error of a check whose words /ready shows: it holds no secret. Those of
// any other may hold a password.
type PublicError string

func (e PublicError) Error() string { return string(e) }

// ErrUnknown is what a check returns that could not be made because another part is
// away, which that part's own check tells. Nothing follows from it.
var ErrUnknown = errors.New("not known")

// stateOf is what /ready says of a part.
func stateOf(err error) string {
	if public, ok := errors.AsType[PublicError](err); ok {
		return string(public)
	}
	switch {
	case err == nil:
		return partUp
	case errors.Is(err, ErrUnknown):
		return partUnknown
	}
	return partDown
}

// namedCheck is the check of one part, and since when that is away.
type namedCheck struct {
	name     string
	check    Check
	required bool

	mu     sync.Mutex
	since  time.Time // zero = it is not away
	logged time.Time
	asked  int // since then
}

// remindEvery is how often the log says that a part is still away. Probes and scrapes
// ask every second.
const remindEvery = time.Minute

// note logs that a part went, once a minute that it is still away, and that it is back.
func (c *namedCheck) note(log *slog.Logger, err error, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case errors.Is(err, ErrUnknown):
	case err == nil && !c.since.IsZero():
		log.Info("dependency available again", "part", c.name, "away_ms", now.Sub(c.since).Milliseconds())
		c.since = time.Time{}
	case err == nil:
	case c.since.IsZero():
		log.Warn("dependency unavailable", "part", c.name, "required", c.required, "error", err.Error())
		c.since, c.logged, c.asked = now, now, 0
	default:
		if c.asked++; now.Sub(c.logged) >= remindEvery {
			log.Warn(
				"dependency still unavailable", "part", c.name, "required", c.required, "away_ms", now.Sub(c.since).Milliseconds(), "asked", c.asked, "error",
				err.Error(),
			)
			c.logged, c.asked = now, 0
		}
	}
}

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
		if len(d.lacking(answer.Parts)) > 0 {
			answer.Status, status = "unavailable", http.StatusServiceUnavailable
		}
	}
	writeStatus(w, status, answer)
}

// lacking names the parts without which the process must get no traffic.
func (d *Daemon) lacking(states map[string]string) []string {
	var names []string
	for _, c := range d.checks {
		if state := states[c.name]; c.required && state != partUp && state != partUnknown {
			names = append(names, c.name+": "+state)
		}
	}
	return names
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
			err := c.check(ctx)
			c.note(d.Log, err, time.Now())
			mu.Lock()
			defer mu.Unlock()
			states[c.name] = stateOf(err)
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
			if state != partUnknown {
				put(part, state == partUp)
			}
		}
	}
}
