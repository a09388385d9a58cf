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
	"sync"
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
	checks   []namedCheck
	ready    atomic.Bool
	failed   chan error
}

type part struct {
	name  string
	start func(ctx context.Context) error
	stop  func(ctx context.Context) error
}

type namedCheck struct {
	name  string
	check Check
}

// New returns a Daemon without parts.
func New(settings Settings, log *slog.Logger) *Daemon {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	d := &Daemon{Log: log, Metrics: reg, settings: settings, failed: make(chan error, 16)}
	reg.MustRegister(newReadiness(d))
	return d
}

// Add registers a part. Either function may be nil. Start returns when the
// part is usable; it must not block for the part's whole life.
func (d *Daemon) Add(name string, start, stop func(ctx context.Context) error) {
	d.parts = append(d.parts, part{name: name, start: start, stop: stop})
}

// AddCheck registers a condition of readiness.
func (d *Daemon) AddCheck(name string, check Check) {
	d.checks = append(d.checks, namedCheck{name, check})
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

	started := time.Now()
	for i, p := range d.parts {
		if p.start == nil {
			continue
		}
		if err := p.start(ctx); err != nil {
			return errors.Join(fmt.Errorf("start %s: %w", p.name, err), d.stop(d.parts[:i]))
		}
	}
	d.ready.Store(true)
	d.Log.Info("ready", "after", time.Since(started).Round(time.Millisecond).String())

	var cause error
	select {
	case <-ctx.Done():
	case cause = <-d.failed:
		d.Log.Error("a part failed", "error", cause.Error())
	}
	unhook() // a second Ctrl-C ends the process at once
	d.ready.Store(false)
	return errors.Join(cause, d.stop(d.parts))
}

func (d *Daemon) stop(parts []part) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), d.settings.DrainBudget,
		errors.New("the drain budget is spent"))
	defer cancel()
	select {
	case <-time.After(d.settings.DrainDelay):
	case <-ctx.Done():
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

// checkTimeout caps each readiness check; the balancer asks again soon.
const checkTimeout = time.Second

// processPart is the process itself among the parts that are ready or not.
const processPart = "process"

// unready returns what keeps the process from being ready, by part.
func (d *Daemon) unready(ctx context.Context) map[string]string {
	if !d.ready.Load() {
		return map[string]string{processPart: "starting or draining"}
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var (
		mu  sync.Mutex
		bad = map[string]string{}
		wg  sync.WaitGroup
	)
	for _, c := range d.checks {
		wg.Go(func() {
			if err := c.check(ctx); err != nil {
				d.Log.Warn("not ready", "part", c.name, "error", err.Error())
				mu.Lock()
				defer mu.Unlock()
				bad[c.name] = "unavailable"
			}
		})
	}
	wg.Wait()
	return bad
}
