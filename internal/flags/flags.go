package flags

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Source is a place where flags are kept. Load is never called twice at once.
type Source interface {
	// Name labels metrics and logs.
	Name() string
	// Load returns every flag the source holds, as text.
	Load(ctx context.Context) (map[string]string, error)
}

// Watcher is a source that knows when it has changed.
type Watcher interface {
	// Watch calls changed whenever there may be something new, until ctx ends.
	// changed does not block.
	Watch(ctx context.Context, changed func())
}

// Config of flags.
type Config struct {
	// Sources in layers: the last that has a flag decides.
	Sources []Source
	// Every is how often sources are read without being told; 0 means 5 s.
	Every time.Duration
	// Timeout caps one reading of a source; 0 means 2 s.
	Timeout   time.Duration
	Metrics   *prometheus.Registry // nil: measured, not exported
	Namespace string
	Log       *slog.Logger // nil: silent
}

// Flags answers with the current values.
type Flags struct {
	cfg      Config
	snapshot atomic.Pointer[map[string]value]
	bools    atomic.Pointer[map[string]bool] // what Bools returns
	push     chan struct{}
	failures *prometheus.CounterVec
	stale    *prometheus.GaugeVec
	mismatch *prometheus.CounterVec

	refreshing sync.Mutex
	layers     []layer // under refreshing
}

// layer is the last good reading of a source.
type layer struct {
	source Source
	values map[string]value
	failed bool
}

// New returns flags that all have their defaults until the first Refresh.
func New(cfg Config) (*Flags, error) {
	var errs []error
	seen := map[string]bool{}
	for _, s := range cfg.Sources {
		if seen[s.Name()] {
			errs = append(errs, fmt.Errorf("two sources named %s", s.Name()))
		}
		seen[s.Name()] = true
	}
	if cfg.Every < 0 || cfg.Timeout < 0 {
		errs = append(errs, errors.New("negative duration"))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("flags: %w", errors.Join(errs...))
	}
	if cfg.Every == 0 {
		cfg.Every = 5 * time.Second
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 2 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Metrics == nil {
		cfg.Metrics = prometheus.NewRegistry()
	}
	f := &Flags{
		cfg:  cfg,
		push: make(chan struct{}, 1),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: cfg.Namespace, Name: "flags_source_failures_total", Help: "Failed reads of a source.",
		}, []string{"source"}),
		stale: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: cfg.Namespace, Name: "flags_source_stale", Help: "1 while a source cannot be read and its last good values are used.",
		}, []string{"source"}),
		mismatch: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: cfg.Namespace, Name: "flags_type_mismatch_total", Help: "Reads answered with the default because the value has the wrong type.",
		}, []string{"flag"}),
	}
	if err := errors.Join(cfg.Metrics.Register(f.failures), cfg.Metrics.Register(f.stale), cfg.Metrics.Register(f.mismatch)); err != nil {
		return nil, fmt.Errorf("flags: metrics: %w", err)
	}
	for _, s := range cfg.Sources {
		f.layers = append(f.layers, layer{source: s})
		f.stale.WithLabelValues(s.Name()).Set(0)
	}
	f.snapshot.Store(&map[string]value{})
	f.bools.Store(&map[string]bool{})
	return f, nil
}

// Bool returns a flag's value, or the default if no source has one that reads
// as a boolean.
func (f *Flags) Bool(name string, def bool) bool {
	v, ok := (*f.snapshot.Load())[name]
	if !ok {
		return def
	}
	if v.is&isBool == 0 {
		return mistyped(f, name, def)
	}
	return v.boolean
}

// Int is Bool for whole numbers.
func (f *Flags) Int(name string, def int64) int64 {
	v, ok := (*f.snapshot.Load())[name]
	if !ok {
		return def
	}
	if v.is&isInt == 0 {
		return mistyped(f, name, def)
	}
	return v.integer
}

// Float is Bool for numbers.
func (f *Flags) Float(name string, def float64) float64 {
	v, ok := (*f.snapshot.Load())[name]
	if !ok {
		return def
	}
	if v.is&isFloat == 0 {
		return mistyped(f, name, def)
	}
	return v.float
}

// String is Bool for texts.
func (f *Flags) String(name, def string) string {
	if v, ok := (*f.snapshot.Load())[name]; ok {
		return v.text
	}
	return def
}

// Bools returns every flag that reads as a boolean. The map is shared and must not be
// changed.
func (f *Flags) Bools() map[string]bool { return *f.bools.Load() }

// mistyped counts a flag whose value has the wrong type. The name comes from
// the caller's code, so the label stays bounded.
func mistyped[T any](f *Flags, name string, def T) T {
	f.mismatch.WithLabelValues(name).Inc()
	return def
}

// Run keeps the flags fresh until ctx ends.
func (f *Flags) Run(ctx context.Context) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	for _, s := range f.cfg.Sources {
		if w, ok := s.(Watcher); ok {
			watching.Go(func() { w.Watch(ctx, f.wake) })
		}
	}
	tick := time.NewTicker(f.cfg.Every)
	defer tick.Stop()
	for {
		_ = f.Refresh(ctx) // logged and counted there; old values stand
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-f.push:
		}
	}
}

func (f *Flags) wake() {
	select {
	case f.push <- struct{}{}:
	default:
	}
}

// Refresh reads every source once. Its error tells which could not be read:
// their last good values stay.
func (f *Flags) Refresh(ctx context.Context) error {
	f.refreshing.Lock()
	defer f.refreshing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Timeout)
	defer cancel()
	errs := make([]error, len(f.layers))
	var loading sync.WaitGroup
	for i := range f.layers {
		loading.Go(func() { errs[i] = f.load(ctx, &f.layers[i]) })
	}
	loading.Wait()

	merged := map[string]value{}
	for _, l := range f.layers {
		maps.Copy(merged, l.values)
	}
	if changed := diff(*f.snapshot.Load(), merged); len(changed) > 0 {
		f.snapshot.Store(&merged)
		bools := map[string]bool{}
		for name, v := range merged {
			if v.is&isBool != 0 {
				bools[name] = v.boolean
			}
		}
		f.bools.Store(&bools)
		f.cfg.Log.Info("flags changed", "flags", changed)
	}
	return errors.Join(errs...)
}

func (f *Flags) load(ctx context.Context, l *layer) error {
	name := l.source.Name()
	texts, err := l.source.Load(ctx)
	if err == nil && len(texts) > maxFlags {
		err = fmt.Errorf("more than %d flags", maxFlags)
	}
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) { // we are stopping
			return err
		}
		f.failures.WithLabelValues(name).Inc()
		f.stale.WithLabelValues(name).Set(1)
		if !l.failed { // one line per outage
			f.cfg.Log.Warn("flags could not be read, keeping the last good ones", "source", name, "error", err.Error())
		}
		l.failed = true
		return fmt.Errorf("flags from %s: %w", name, err)
	}
	if l.failed {
		f.cfg.Log.Info("flags can be read again", "source", name)
	}
	l.failed = false
	f.stale.WithLabelValues(name).Set(0)
	values := make(map[string]value, len(texts))
	for flag, text := range texts {
		if len(text) <= maxValue && len(flag) <= maxValue {
			values[flag] = parse(text)
		}
	}
	l.values = values
	return nil
}

// diff names what differs, sorted.
func diff(before, after map[string]value) []string {
	var changed []string
	for name, v := range after {
		if old, ok := before[name]; !ok || old.text != v.text {
			changed = append(changed, name)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return changed
}
