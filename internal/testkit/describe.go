package testkit

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff/internal/daemon"
)

// CheckDescribedSettings holds docs/settings.md to a service's settings: one table per set of commands that read them.
func CheckDescribedSettings(t *testing.T, service string, all []*daemon.Setting) {
	t.Helper()
	var groups []string
	rows := map[string][]*daemon.Setting{}
	for _, s := range all {
		commands := strings.Join(s.Commands, ", ")
		if rows[commands] == nil {
			groups = append(groups, commands)
		}
		rows[commands] = append(rows[commands], s)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n", service)
	for _, commands := range groups {
		fmt.Fprintf(&b, "\n### %s\n\n| Variable | Flag | Default | Needed by | Meaning |\n|---|---|---|---|---|\n", commands)
		for _, s := range rows[commands] {
			fmt.Fprintf(&b, "| `%s` | `--%s` | %s | %s | %s |\n", strings.Join(s.Variables, "`, `"), s.Flag, shown(s.Default), needed(s), meaning(s))
		}
	}
	CheckSection(t, "settings.md", b.String())
}

func shown(value string) string {
	if value == "" {
		return ""
	}
	return "`" + value + "`"
}

func needed(s *daemon.Setting) string {
	if len(s.Needs) == len(s.Commands) && len(s.Commands) > 1 {
		return "all"
	}
	return strings.Join(s.Needs, ", ")
}

func meaning(s *daemon.Setting) string {
	help := strings.NewReplacer("|", "\\|", "\n", " ").Replace(s.Help)
	if s.Secret {
		help = "**Secret.** " + help
	}
	return help
}

// describedMetric reads what a metric says of itself, which it says in one way only.
var describedMetric = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*")(?:, unit: "[^"]*")?, constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// CheckMetrics holds docs/metrics.md to the metrics that a service registers, those of Go and of the operating system left out.
func CheckMetrics(t *testing.T, service string, registered prometheus.Collector) {
	t.Helper()
	found := make(chan *prometheus.Desc)
	go func() {
		registered.Describe(found)
		close(found)
	}()
	rows := map[string]string{}
	for d := range found {
		m := describedMetric.FindStringSubmatch(d.String())
		if m == nil {
			t.Errorf("cannot read %s", d)
			continue
		}
		name, _ := strconv.Unquote(m[1])
		help, _ := strconv.Unquote(m[2])
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		var labels []string
		for _, l := range strings.FieldsFunc(m[3]+","+m[4], func(r rune) bool { return r == ',' }) {
			l, _, _ = strings.Cut(l, "=")
			labels = append(labels, "`"+l+"`")
		}
		rows[name] = fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, metricKind(name), strings.Join(labels, ", "), strings.ReplaceAll(help, "|", "\\|"))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n| Metric | Kind | Labels | Meaning |\n|---|---|---|---|\n", service)
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		b.WriteString(rows[name])
	}
	CheckSection(t, "metrics.md", b.String())
}

// metricKind tells a metric's kind by its name, as Prometheus wants names to be.
func metricKind(name string) string {
	switch {
	case strings.HasSuffix(name, "_total") && !strings.HasSuffix(name, "_pool_total"):
		return "counter"
	case strings.HasSuffix(name, "_seconds") && !strings.HasSuffix(name, "_lag_seconds") && !strings.HasSuffix(name, "_timestamp_seconds"):
		return "histogram"
	}
	return "gauge"
}
