package deploy_test

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// metric is what docs/metrics.md says of one.
type metric struct {
	kind   string
	labels []string
}

func metricsOf(t *testing.T, service string) map[string]metric {
	t.Helper()
	all := map[string]metric{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([a-z]+) \\| ([^|]*) \\|").FindAllStringSubmatch(section(t, "metrics.md", service), -1) {
		labels := regexp.MustCompile("[a-z_]+").FindAllString(m[3], -1)
		all[m[1]] = metric{m[2], append(labels, "job", "instance")} // those of every scrape
		if m[2] == "histogram" {
			all[m[1]+"_bucket"] = metric{"bucket", append(slices.Clone(labels), "le")}
			all[m[1]+"_count"], all[m[1]+"_sum"] = metric{"counter", labels}, metric{"counter", labels}
		}
	}
	return all
}

var (
	series   = regexp.MustCompile(`\b(?:bff_(?:consumer|backoffice)_[a-z0-9_]+|service_ready|listener_[a-z_]+|trace_[a-z_]+)\b(?:\{([^}]*)\})?`)
	recorded = regexp.MustCompile(`\bbff_(?:consumer|backoffice):[a-z0-9_:]+`)
	grouping = regexp.MustCompile(`\bby \(([^)]*)\)`)
	matcher  = regexp.MustCompile(`([a-z_]+)(?:=~|!=|!~|=)"`)
)

// checkQuery reports what a query names that there is not.
func checkQuery(t *testing.T, where, expr string, known map[string]metric, rules string) {
	t.Helper()
	labels := map[string]bool{}
	for _, m := range series.FindAllStringSubmatch(expr, -1) {
		name, _, _ := strings.Cut(m[0], "{")
		found, ok := known[name]
		if !ok || found.kind == "histogram" {
			t.Errorf("%s: there is no series %s", where, name)
		}
		if rated := strings.Contains(expr, "rate("+name); rated != (found.kind == "counter" || found.kind == "bucket") {
			t.Errorf("%s: %s is a %s", where, name, found.kind)
		}
		for _, l := range found.labels {
			labels[l] = true
		}
		for _, l := range matcher.FindAllStringSubmatch(m[1], -1) {
			if !slices.Contains(found.labels, l[1]) {
				t.Errorf("%s: %s has no label %s", where, name, l[1])
			}
		}
	}
	for _, name := range recorded.FindAllString(expr, -1) {
		if !strings.Contains(rules, "record: "+name+"\n") {
			t.Errorf("%s: no rule records %s", where, name)
		}
	}
	for _, by := range grouping.FindAllStringSubmatch(expr, -1) {
		for l := range strings.SplitSeq(by[1], ", ") {
			if !labels[l] {
				t.Errorf("%s: nothing in it has a label %s", where, l)
			}
		}
	}
}

func TestDashboards(t *testing.T) {
	t.Parallel()
	var rules strings.Builder
	for _, f := range files(t, "alerts/*-slo.yaml") {
		rules.WriteString(read(t, f))
	}
	for _, file := range files(t, "grafana/*.json") {
		type query struct{ Expr string }
		var board struct {
			UID         string
			Annotations struct{ List []query }
			Panels      []struct {
				ID      int
				Type    string
				Title   string
				Targets []query
			}
		}
		if err := json.Unmarshal([]byte(read(t, file)), &board); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		known := metricsOf(t, serviceOf(file))
		if board.UID != serviceOf(file) || len(board.Panels) < 30 || len(known) < 50 {
			t.Errorf("%s: uid %s, %d panels, %d metrics", file, board.UID, len(board.Panels), len(known))
		}
		seen := map[int]bool{}
		for _, p := range board.Panels {
			where := filepath.Base(file) + ": " + p.Title
			if seen[p.ID] || p.Type != "row" && len(p.Targets) == 0 {
				t.Errorf("%s: has no query, or the id of another", where)
			}
			seen[p.ID] = true
			for _, q := range p.Targets {
				checkQuery(t, where, q.Expr, known, rules.String())
			}
		}
		for _, q := range board.Annotations.List {
			checkQuery(t, "annotations", q.Expr, known, rules.String())
		}
	}
}
