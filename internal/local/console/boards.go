package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strconv"
	"time"

	"melmastoon.ghasi.io/bff/internal/local/metrics"
)

// target is a query of a panel, and how its lines are called.
type target struct {
	Expr   string `json:"expr"`
	Legend string `json:"legendFormat"`
}

// board is a dashboard with its queries.
type board struct {
	Dashboard
	targets [][]target // by panel
}

// vitals are the figures of the first screen: requests, times, hits, outbox, streams.
func vitals(services []Service) board {
	b := board{Dashboard: Dashboard{Name: "vitals", Title: "Vitals"}}
	add := func(title, unit, expr string) {
		var targets []target
		for _, svc := range services {
			targets = append(targets, target{fmt.Sprintf(expr, svc.Namespace), svc.Name})
		}
		b.panel(Panel{Title: title, Unit: unit}, targets)
	}
	add("Requests", "reqps", `sum(rate(%s_request_total[$__rate_interval]))`)
	add("p50", "s", `histogram_quantile(0.5, sum by (le) (rate(%s_request_duration_seconds_bucket[$__rate_interval])))`)
	add("p99", "s", `histogram_quantile(0.99, sum by (le) (rate(%s_request_duration_seconds_bucket[$__rate_interval])))`)
	add("Hit share", "percentunit", `sum(rate(%[1]s_cache_hit_total[$__rate_interval])) / (sum(rate(%[1]s_cache_hit_total[$__rate_interval])) + sum(rate(%[1]s_cache_miss_total[$__rate_interval])))`)
	add("Outbox lag", "s", `max(%s_outbox_lag_seconds)`)
	b.panel(Panel{Title: "Open streams", Unit: "none"}, []target{{"sum(bff_backoffice_sse_active_connections)", "streams"}})
	return b
}

func (b *board) panel(p Panel, targets []target) {
	p.Queries = []string{}
	for _, t := range targets {
		p.Queries = append(p.Queries, t.Expr)
	}
	b.Panels, b.targets = append(b.Panels, p), append(b.targets, targets)
}

// readBoards reads the dashboards of a deployment and the rules that they rest on.
func (c *Console) readBoards() error {
	var rules [][]byte
	names, err := fs.Glob(c.cfg.Files, "alerts/*-slo.yaml")
	if err != nil {
		return err
	}
	for _, name := range names {
		b, err := fs.ReadFile(c.cfg.Files, name)
		if err != nil {
			return err
		}
		rules = append(rules, b)
	}
	if c.history, err = metrics.New(rules...); err != nil {
		return err
	}
	c.boards = append(c.boards, vitals(c.cfg.Services))
	names, err = fs.Glob(c.cfg.Files, "grafana/*.json")
	for _, name := range names {
		err = errors.Join(err, c.readBoard(name))
	}
	return err
}

func (c *Console) readBoard(name string) error {
	text, err := fs.ReadFile(c.cfg.Files, name)
	if err != nil {
		return err
	}
	var file struct {
		UID, Title string
		Panels     []struct {
			Type, Title, Description string
			Targets                  []target
			FieldConfig              struct{ Defaults struct{ Unit string } }
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	b, row := board{Dashboard: Dashboard{Name: file.UID, Title: file.Title}}, ""
	for _, p := range file.Panels {
		if p.Type == "row" {
			row = p.Title
			continue
		}
		b.panel(Panel{Title: p.Title, Row: row, Text: p.Description, Unit: p.FieldConfig.Defaults.Unit}, p.Targets)
	}
	c.boards = append(c.boards, b)
	return nil
}

func (c *Console) dashboards(w http.ResponseWriter, _ *http.Request) {
	c.collect()
	out := []Dashboard{}
	for _, b := range c.boards {
		out = append(out, b.Dashboard)
	}
	answer(w, http.StatusOK, out)
}

const (
	mostMinutes = 15
	plotPoints  = 90 // of a line
)

func (c *Console) figures(w http.ResponseWriter, r *http.Request) {
	i := slices.IndexFunc(c.boards, func(b board) bool { return b.Name == r.PathValue("name") })
	if i < 0 {
		refuse(w, http.StatusNotFound, "NOT_FOUND", "there is no such dashboard: GET /_up/dashboards lists them")
		return
	}
	minutes, err := strconv.Atoi(r.URL.Query().Get("minutes"))
	if err != nil || minutes < 1 || minutes > mostMinutes {
		minutes = mostMinutes
	}
	c.collect()
	now := time.Now()
	out := Figures{At: now.UTC(), Panels: [][]Series{}}
	for _, targets := range c.boards[i].targets {
		lines := []Series{}
		for _, t := range targets {
			span := time.Duration(minutes) * time.Minute
			plotted, err := c.history.Plot(t.Expr, now.Add(-span), now, span/plotPoints)
			if err != nil {
				refuse(w, http.StatusInternalServerError, "INTERNAL", err.Error())
				return
			}
			for _, l := range plotted {
				lines = append(lines, Series{Name: metrics.Legend(t.Legend, l.Labels), Points: l.Points})
			}
		}
		out.Panels = append(out.Panels, lines)
	}
	answer(w, http.StatusOK, out)
}

// now evaluates a query at this moment, by the value of its one label.
func (c *Console) now(query string) map[string]float64 {
	at := time.Now()
	lines, err := c.history.Plot(query, at, at, time.Second)
	if err != nil {
		return nil // a query of our own, which a test has seen
	}
	out := map[string]float64{}
	for _, l := range lines {
		for _, p := range l.Points {
			key := ""
			for _, v := range l.Labels {
				key = v
			}
			out[key] = p[1]
		}
	}
	return out
}
