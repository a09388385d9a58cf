// Package daemon is the life of a process: configuration, logs, traces,
// metrics and health, an ordered start and the reverse stop within one budget.
// It knows nothing of hotels and nothing of what the parts do.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Check says whether a part can do its work now.
type Check func(ctx context.Context) error

// Daemon runs the parts of one process. Parts start in the order in which they
// were added and stop in the reverse order; a part that fails while running
// stops the whole process, so that the platform starts a fresh one.
type Daemon struct {
	Log     *slog.Logger
	Metrics *prometheus.Registry

	settings Settings
	parts    []part
	checks   []*namedCheck
	drains   []func() // of the servers
	state    atomic.Int32
	failed   chan error
	after    func(time.Duration) <-chan time.Time // time.After
}

type part struct {
	name  string
	start func(ctx context.Context) error
	stop  func(ctx context.Context) error
}

// States of the process.
const (
	stateStarting int32 = iota
	stateReady
	stateDraining
)

// New returns a Daemon without parts.
func New(settings Settings, log *slog.Logger) *Daemon {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	d := &Daemon{Log: log, Metrics: reg, settings: settings, failed: make(chan error, 16), after: time.After}
	reg.MustRegister(newReadiness(d))
	return d
}

// Add registers a part. Either function may be nil. Start returns when the
// part is usable; it must not block for the part's whole life.
func (d *Daemon) Add(name string, start, stop func(ctx context.Context) error) {
	d.parts = append(d.parts, part{name: name, start: start, stop: stop})
}

// AddCheck registers a part whose state is reported. The process gets traffic
// without it: if all instances share the part, taking them all out of service turns
// what works without it into an outage as well.
func (d *Daemon) AddCheck(name string, check Check) {
	d.checks = append(d.checks, &namedCheck{name: name, check: check})
}

// Require registers a part without which the process must get no traffic.
func (d *Daemon) Require(name string, check Check) {
	d.checks = append(d.checks, &namedCheck{name: name, check: check, required: true})
}

// AddLoop registers a part that runs until its context is cancelled. An error
// before that fails the process.
func (d *Daemon) AddLoop(name string, loop func(ctx context.Context) error) {
	done := make(chan struct{})
	life, end := context.WithCancel(context.Background())
	d.Add(name, func(context.Context) error {
		go func() {
			defer close(done)
			// Should the loop panic, the process dies with what led to it in its log.
			defer flush(d.Log)
			if err := loop(life); err != nil && life.Err() == nil {
				d.fail(fmt.Errorf("%s: %w", name, err))
			}
		}()
		return nil
	}, func(ctx context.Context) error {
		end()
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

func (d *Daemon) fail(err error) {
	select {
	case d.failed <- err:
	default:
	}
}

// Run starts every part, serves until ctx ends, SIGINT or SIGTERM arrives or a
// part fails, and stops them all.
func (d *Daemon) Run(ctx context.Context) error {
	ctx, unhook := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer unhook()
	defer buffered(d.Log)()
	tuneHeap()

	started, build := time.Now(), ThisBuild()
	d.Log.Info("starting", "version", build.Version, "revision", build.Revision, "go", build.Go)
	for i, p := range d.parts {
		if p.start == nil {
			continue
		}
		if err := p.start(ctx); err != nil {
			return errors.Join(fmt.Errorf("start %s: %w", p.name, err), d.stop(d.parts[:i]))
		}
	}
	d.state.Store(stateReady)
	if lacking := d.lacking(d.parted(ctx)); len(lacking) > 0 {
		d.Log.Warn("started, and not ready", "after_ms", time.Since(started).Milliseconds(), "lacking", strings.Join(lacking, "; "))
	} else {
		d.Log.Info("ready", "after_ms", time.Since(started).Milliseconds())
	}

	var cause error
	select {
	case <-ctx.Done():
	case cause = <-d.failed:
		d.Log.Error("component failed, shutting down", "error", cause.Error())
	}
	unhook() // a second Ctrl-C ends the process at once
	return errors.Join(cause, d.stop(d.parts))
}

// stop ends the parts. A process that was ready first gives load balancers the time
// to notice: it is not ready any more, its answers close their connections, and all
// else goes on.
func (d *Daemon) stop(parts []part) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), d.settings.DrainBudget,
		errors.New("the drain budget is spent"))
	defer cancel()
	if d.state.Swap(stateDraining) == stateReady && len(d.drains) > 0 {
		d.Log.Info("draining", "for_ms", d.settings.DrainDelay.Milliseconds())
		for _, drain := range d.drains {
			drain()
		}
		select {
		case <-d.after(d.settings.DrainDelay):
		case <-ctx.Done():
		}
	}
	var errs []error
	for _, p := range slices.Backward(parts) {
		if p.stop == nil {
			continue
		}
		if err := p.stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", p.name, err))
		}
	}
	d.Log.Info("stopped")
	return errors.Join(errs...)
}
