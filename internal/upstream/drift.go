package upstream

import (
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// driftLogEvery keeps a renamed field from flooding the log: every answer
// lacks it.
const driftLogEvery = time.Minute

// drift makes missing fields loud.
type drift struct {
	name    string
	metrics *metrics
	log     *slog.Logger

	plans sync.Map // reflect.Type → []required

	mu     sync.Mutex
	logged map[[2]string]time.Time // by route and field, both from our code
}

func newDrift(cfg Config, m *metrics) *drift {
	return &drift{name: cfg.Name, metrics: m, log: cfg.Log, logged: map[[2]string]time.Time{}}
}

func (d *drift) report(route, field string) {
	d.metrics.drift.WithLabelValues(d.name, route, field).Inc()
	d.mu.Lock()
	key, now := [2]string{route, field}, time.Now()
	last, seen := d.logged[key]
	due := !seen || now.Sub(last) >= driftLogEvery
	if due {
		d.logged[key] = now
	}
	d.mu.Unlock()
	if due {
		d.log.Warn("upstream schema drift: required field missing", "upstream", d.name, "route", route, "field", field)
	}
}

// check reports the fields tagged `upstream:"required"` that are empty in the
// value behind out, each once, however many elements of a list lack it.
//
// Empty is the zero value: a field whose zero means something (a count, a
// flag) is a pointer in a wire type, or goes without the tag. An empty list
// that was sent is not nil, so it is not missing.
func (d *drift) check(route string, out any) {
	v := reflect.ValueOf(out)
	plan := d.plan(v.Type())
	if len(plan) == 0 {
		return
	}
	var missing map[string]bool
	walk(v, plan, func(field string) {
		if missing[field] {
			return
		}
		if missing == nil {
			missing = map[string]bool{}
		}
		missing[field] = true
		d.report(route, field)
	})
}

// required is a field to look at, or to look into.
type required struct {
	index  int
	name   string
	tagged bool
	inside []required
}

func (d *drift) plan(t reflect.Type) []required {
	if known, ok := d.plans.Load(t); ok {
		return known.([]required)
	}
	plan := fields(t, "", nil)
	d.plans.Store(t, plan)
	return plan
}

// fields lists what matters within t; path stops types that contain themselves.
func fields(t reflect.Type, prefix string, path []reflect.Type) []required {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	if slices.Contains(path, t) {
		return nil
	}
	path = append(path, t)
	var plan []required
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() && !f.Anonymous {
			continue
		}
		r := required{index: i, name: prefix + wireName(f), tagged: f.Tag.Get("upstream") == "required"}
		below := r.name + "."
		if f.Anonymous && f.Tag.Get("json") == "" {
			below = prefix
		}
		if r.inside = fields(f.Type, below, path); r.tagged || len(r.inside) > 0 {
			plan = append(plan, r)
		}
	}
	return plan
}

func wireName(f reflect.StructField) string {
	if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
		return name
	}
	return f.Name
}

func walk(v reflect.Value, plan []required, missing func(field string)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			walk(v.Elem(), plan, missing)
		}
	case reflect.Slice:
		for i := range v.Len() {
			walk(v.Index(i), plan, missing)
		}
	case reflect.Struct:
		for _, r := range plan {
			f := v.Field(r.index)
			if r.tagged && f.IsZero() {
				missing(r.name)
			} else if len(r.inside) > 0 {
				walk(f, r.inside, missing)
			}
		}
	}
}
