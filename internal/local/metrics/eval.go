package metrics

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// sample is a value with labels; vector is many of them, or one number.
type sample struct {
	labels map[string]string
	v      float64
}

type vector struct {
	samples []sample
	scalar  bool
}

func number(v float64) vector { return vector{samples: []sample{{v: v}}, scalar: true} }

// moment is when an expression is evaluated.
type moment struct {
	*History
	ms int64
}

type expr interface {
	eval(m *moment) (vector, error)
}

// rule is a recording rule: it is evaluated when its name is asked for.
type rule struct {
	labels map[string]string
	expr   expr
}

func (h *History) learn(text []byte) error {
	var file struct {
		Groups []struct {
			Rules []struct {
				Record, Expr string
				Labels       map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return err
	}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if r.Record == "" {
				continue
			}
			e, err := parse(r.Expr)
			if err != nil {
				return fmt.Errorf("%s: %w", r.Record, err)
			}
			h.rules[r.Record] = append(h.rules[r.Record], rule{r.Labels, e})
		}
	}
	return nil
}

type matcher struct {
	label, op, value string
	re               *regexp.Regexp
}

func (m *matcher) matches(labels map[string]string) bool {
	v := labels[m.label]
	switch m.op {
	case "=":
		return v == m.value
	case "!=":
		return v != m.value
	case "=~":
		return m.re.MatchString(v)
	default:
		return !m.re.MatchString(v)
	}
}

// selector chooses series, at a moment or over a time before it.
type selector struct {
	name     string
	matchers []matcher
	window   time.Duration // 0: at the moment
}

func (s *selector) chosen(h *History) (out []*series) {
next:
	for _, x := range h.byName[s.name] {
		for i := range s.matchers {
			if !s.matchers[i].matches(x.labels) {
				continue next
			}
		}
		out = append(out, x)
	}
	return out
}

func (s *selector) eval(m *moment) (vector, error) {
	if rules := m.rules[s.name]; rules != nil {
		var out vector
		for _, r := range rules {
			v, err := r.expr.eval(m)
			if err != nil {
				return vector{}, err
			}
			for _, x := range v.samples {
				labels := maps.Clone(r.labels)
				if labels == nil {
					labels = map[string]string{}
				}
				maps.Copy(labels, x.labels)
				out.samples = append(out.samples, sample{labels, x.v})
			}
		}
		return out, nil
	}
	var out vector
	for _, x := range s.chosen(m.History) {
		i := sort.Search(len(x.at), func(i int) bool { return x.at[i] > m.ms }) - 1
		if i >= 0 && m.ms-x.at[i] <= fresh.Milliseconds() {
			out.samples = append(out.samples, sample{x.labels, x.values[i]})
		}
	}
	return out, nil
}

// call is a function.
type call struct {
	name string
	args []expr
}

func (c *call) eval(m *moment) (vector, error) {
	switch c.name {
	case "time":
		return number(float64(m.ms) / 1000), nil
	case "vector":
		v, err := c.args[0].eval(m)
		v.scalar = false
		return v, err
	case "rate":
		s, ok := c.args[0].(*selector)
		if !ok || s.window == 0 {
			return vector{}, fmt.Errorf("rate of what is no range")
		}
		return s.rate(m), nil
	case "avg_over_time":
		s, ok := c.args[0].(*selector)
		if !ok || s.window == 0 {
			return vector{}, fmt.Errorf("average of what is no range")
		}
		return s.average(m)
	case "histogram_quantile":
		q, err := c.args[0].eval(m)
		if err != nil {
			return vector{}, err
		}
		v, err := c.args[1].eval(m)
		return quantile(q.samples[0].v, v), err
	}
	return vector{}, fmt.Errorf("function %s is not known", c.name)
}

// rate is the increase per second; a counter that falls has begun anew.
func (s *selector) rate(m *moment) (out vector) {
	for _, x := range s.chosen(m.History) {
		from := sort.Search(len(x.at), func(i int) bool { return x.at[i] > m.ms-s.window.Milliseconds() })
		to := sort.Search(len(x.at), func(i int) bool { return x.at[i] > m.ms })
		if to-from < 2 {
			continue
		}
		grown := 0.0
		for i := from + 1; i < to; i++ {
			if d := x.values[i] - x.values[i-1]; d >= 0 {
				grown += d
			} else {
				grown += x.values[i]
			}
		}
		out.samples = append(out.samples, sample{x.labels, grown * 1000 / float64(x.at[to-1]-x.at[from])})
	}
	return out
}

// average is that of what the selector was every half minute, as far as it is known.
func (s *selector) average(m *moment) (vector, error) {
	sums, counts, out := map[string]float64{}, map[string]float64{}, map[string]map[string]string{}
	at := *s
	at.window = 0
	const step = 30 * time.Second
	for back := time.Duration(0); back < min(s.window, kept); back += step {
		v, err := at.eval(&moment{m.History, m.ms - back.Milliseconds()})
		if err != nil {
			return vector{}, err
		}
		for _, x := range v.samples {
			key := signature(x.labels, nil)
			out[key] = x.labels
			sums[key] += x.v
			counts[key]++
		}
	}
	var result vector
	for key, labels := range out {
		result.samples = append(result.samples, sample{labels, sums[key] / counts[key]})
	}
	return result, nil
}

// quantile interpolates within the bucket that the quantile falls into.
func quantile(q float64, v vector) (out vector) {
	type bucket struct{ le, count float64 }
	groups, labels := map[string][]bucket{}, map[string]map[string]string{}
	for _, s := range v.samples {
		le, err := strconv.ParseFloat(s.labels["le"], 64)
		if err != nil {
			continue
		}
		rest := maps.Clone(s.labels)
		delete(rest, "le")
		key := signature(rest, nil)
		groups[key], labels[key] = append(groups[key], bucket{le, s.v}), rest
	}
	for key, buckets := range groups {
		slices.SortFunc(buckets, func(a, b bucket) int { return int(math.Copysign(1, a.le-b.le)) })
		all := buckets[len(buckets)-1].count
		if all == 0 || len(buckets) < 2 {
			continue
		}
		i := min(sort.Search(len(buckets), func(i int) bool { return buckets[i].count >= q*all }), len(buckets)-1)
		below := bucket{}
		if i > 0 {
			below = buckets[i-1]
		}
		value := buckets[i].le
		switch {
		case math.IsInf(value, 1):
			value = below.le
		case buckets[i].count > below.count:
			value = below.le + (value-below.le)*(q*all-below.count)/(buckets[i].count-below.count)
		}
		out.samples = append(out.samples, sample{labels[key], value})
	}
	return out
}

// aggregate is sum by (…) and its like.
type aggregate struct {
	op string
	by []string
	of expr
}

func (a *aggregate) eval(m *moment) (vector, error) {
	v, err := a.of.eval(m)
	if err != nil {
		return vector{}, err
	}
	groups := map[string]*sample{}
	var order []string
	for _, s := range v.samples {
		key := signature(s.labels, a.by)
		value := s.v
		if a.op == "count" {
			value = 1
		}
		g := groups[key]
		if g == nil {
			labels := map[string]string{}
			for _, name := range a.by {
				labels[name] = s.labels[name]
			}
			groups[key], order = &sample{labels, value}, append(order, key)
			continue
		}
		switch a.op {
		case "max":
			g.v = max(g.v, value)
		case "min":
			g.v = min(g.v, value)
		default:
			g.v += value
		}
	}
	var out vector
	for _, key := range order {
		out.samples = append(out.samples, *groups[key])
	}
	return out, nil
}

// signature tells label sets apart; only is nil for all labels.
func signature(labels map[string]string, only []string) string {
	if only == nil {
		only = slices.Sorted(maps.Keys(labels))
	}
	var b strings.Builder
	for _, name := range only {
		b.WriteString(name + "\x00" + labels[name] + "\x00")
	}
	return b.String()
}

// binary is an operator between two sides, whose samples meet where all labels are alike.
type binary struct {
	op          string
	boolean     bool // a comparison answers 1 or 0
	left, right expr
}

func (b *binary) eval(m *moment) (vector, error) {
	l, err := b.left.eval(m)
	if err != nil {
		return vector{}, err
	}
	r, err := b.right.eval(m)
	if err != nil {
		return vector{}, err
	}
	right := map[string]float64{}
	for _, s := range r.samples {
		right[signature(s.labels, nil)] = s.v
	}
	if b.op == "or" {
		for _, s := range l.samples {
			delete(right, signature(s.labels, nil))
		}
		for _, s := range r.samples {
			if _, left := right[signature(s.labels, nil)]; left {
				l.samples = append(l.samples, s)
			}
		}
		return l, nil
	}
	out := vector{scalar: l.scalar && r.scalar}
	keep := func(labels map[string]string, x, y float64) {
		v, compares, holds := b.apply(x, y)
		switch {
		case !compares:
		case !b.boolean && !holds:
			return
		case b.boolean && !holds:
			v = 0
		case b.boolean:
			v = 1
		}
		out.samples = append(out.samples, sample{labels, v})
	}
	switch {
	case r.scalar:
		for _, s := range l.samples {
			keep(s.labels, s.v, r.samples[0].v)
		}
	case l.scalar:
		for _, s := range r.samples {
			keep(s.labels, l.samples[0].v, s.v)
		}
	default:
		for _, s := range l.samples {
			if y, ok := right[signature(s.labels, nil)]; ok {
				keep(s.labels, s.v, y)
			}
		}
	}
	return out, nil
}

func (b *binary) apply(x, y float64) (v float64, compares, holds bool) {
	switch b.op {
	case "+":
		return x + y, false, false
	case "-":
		return x - y, false, false
	case "*":
		return x * y, false, false
	case "/":
		return x / y, false, false
	case ">":
		return x, true, x > y
	default:
		return x, true, x < y
	}
}

type literal float64

func (n literal) eval(*moment) (vector, error) { return number(float64(n)), nil }
