package service

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff/internal/daemon"
)

// DescribeSettings returns a service's settings as the tables of docs/settings.md:
// one per set of commands that read them.
func DescribeSettings(id Identity, cli any) (string, error) {
	all, err := daemon.Describe(cli, id.Name, id.options()...)
	if err != nil {
		return "", err
	}
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
	fmt.Fprintf(&b, "## %s\n", id.Name)
	for _, commands := range groups {
		fmt.Fprintf(&b, "\n### %s\n\n| Variable | Flag | Default | Needed by | Meaning |\n|---|---|---|---|---|\n", commands)
		for _, s := range rows[commands] {
			fmt.Fprintf(&b, "| `%s` | `--%s` | %s | %s | %s |\n", strings.Join(s.Variables, "`, `"), s.Flag, shown(s.Default), needed(s), meaning(s))
		}
	}
	return b.String(), nil
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

// described reads what a metric says of itself, which it says in one way only.
var described = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*")(?:, unit: "[^"]*")?, constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// DescribeMetrics returns the metrics that a process registers as a table of
// docs/metrics.md, those of Go and of the operating system left out.
func DescribeMetrics(p *Process) (string, error) {
	found := make(chan *prometheus.Desc)
	go func() {
		p.Metrics.Describe(found)
		close(found)
	}()
	rows := map[string]string{}
	var errs []error
	for d := range found {
		m := described.FindStringSubmatch(d.String())
		if m == nil {
			errs = append(errs, fmt.Errorf("cannot read %s", d))
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
		rows[name] = fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, kindOf(name), strings.Join(labels, ", "), strings.ReplaceAll(help, "|", "\\|"))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n| Metric | Kind | Labels | Meaning |\n|---|---|---|---|\n", p.Name)
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		b.WriteString(rows[name])
	}
	return b.String(), errors.Join(errs...)
}

// kindOf tells a metric's kind by its name, as Prometheus wants names to be.
func kindOf(name string) string {
	switch {
	case strings.HasSuffix(name, "_total") && !strings.HasSuffix(name, "_pool_total"):
		return "counter"
	case strings.HasSuffix(name, "_seconds") && !strings.HasSuffix(name, "_lag_seconds") && !strings.HasSuffix(name, "_timestamp_seconds"):
		return "histogram"
	}
	return "gauge"
}
