// Package metrics evaluates the queries of the dashboards over what this machine's
// services show at /metrics, so that their panels are seen without Prometheus and
// Grafana. It knows the part of PromQL that the dashboards use, and no more: what it does
// not know is an error, which a test finds.
package metrics

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// Every is how often the services are asked.
	Every = 5 * time.Second
	// kept is how much is remembered of each series.
	kept = 15 * time.Minute
	// fresh is how long a value stands for a series that is not told any more.
	fresh      = 30 * time.Second
	maxMetrics = 16 << 20 // of one answer
	maxSeries  = 50_000
)

// series is a metric with its labels, over time.
type series struct {
	labels map[string]string
	at     []int64 // Unix milliseconds
	values []float64
}

// History is what was scraped lately.
type History struct {
	mu     sync.Mutex
	byKey  map[string]*series
	byName map[string][]*series
	rules  map[string][]rule
}

// New returns an empty history. Rules are Prometheus' recording rules, in YAML.
func New(rules ...[]byte) (*History, error) {
	h := &History{byKey: map[string]*series{}, byName: map[string][]*series{}, rules: map[string][]rule{}}
	for _, text := range rules {
		if err := h.learn(text); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// client asks the services of this machine; Scrape bounds the time.
var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}

// Scrape asks a service for its metrics.
func (h *History) Scrape(ctx context.Context, url, job string, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, Every)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	return h.Read(io.LimitReader(res.Body, maxMetrics), job, now)
}

// Read keeps what a service shows.
func (h *History) Read(text io.Reader, job string, now time.Time) error {
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	h.mu.Lock()
	defer h.mu.Unlock()
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		if at < 0 {
			return fmt.Errorf("metrics of %s: %q", job, line)
		}
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return fmt.Errorf("metrics of %s: %q", job, line)
		}
		key := job + " " + line[:at]
		s := h.byKey[key]
		if s == nil {
			if len(h.byKey) >= maxSeries {
				continue
			}
			sel, err := parseSelector(line[:at])
			if err != nil {
				return err
			}
			s = &series{labels: map[string]string{"job": job, "instance": job}}
			for _, m := range sel.matchers {
				s.labels[m.label] = m.value
			}
			h.byKey[key] = s
			h.byName[sel.name] = append(h.byName[sel.name], s)
		}
		s.at, s.values = append(s.at, now.UnixMilli()), append(s.values, value)
		if old := now.Add(-kept).UnixMilli(); s.at[0] < old && len(s.at)%32 == 0 {
			n := sort.Search(len(s.at), func(i int) bool { return s.at[i] >= old })
			s.at, s.values = slices.Clone(s.at[n:]), slices.Clone(s.values[n:])
		}
	}
	return lines.Err()
}

// Line is one line of a plot.
type Line struct {
	Labels map[string]string
	Points [][2]float64 // seconds since 1970, value
}

// Plot evaluates a query from one moment to another.
func (h *History) Plot(query string, from, to time.Time, step time.Duration) ([]Line, error) {
	e, err := parse(query)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	byLabels := map[string]*Line{}
	for at := from; !at.After(to); at = at.Add(step) {
		v, err := e.eval(&moment{History: h, ms: at.UnixMilli()})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", query, err)
		}
		for _, s := range v.samples {
			key := signature(s.labels, nil)
			l := byLabels[key]
			if l == nil {
				l = &Line{Labels: s.labels}
				byLabels[key] = l
			}
			if !math.IsNaN(s.v) && !math.IsInf(s.v, 0) { // which no plot shows
				l.Points = append(l.Points, [2]float64{float64(at.UnixMilli()) / 1000, s.v})
			}
		}
	}
	var out []Line
	for _, key := range slices.Sorted(maps.Keys(byLabels)) {
		out = append(out, *byLabels[key])
	}
	return out, nil
}

// Legend names a line as Grafana does: {{label}} is the label's value.
func Legend(format string, labels map[string]string) string {
	for name, value := range labels {
		format = strings.ReplaceAll(format, "{{"+name+"}}", value)
	}
	return format
}
