package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"melmastoon.ghasi.io/bff/internal/local/sim"
)

type fault struct {
	terminal
	List  faultList  `cmd:"" default:"1" help:"List what misbehaves."`
	Set   faultSet   `cmd:"" help:"Make an upstream misbehave from now on."`
	Clear faultClear `cmd:"" help:"Heal every upstream, or one."`
}

// url finds the simulator.
func (f *fault) url() (string, error) {
	w, err := f.find()
	if err != nil {
		return "", err
	}
	return w.Environment["MELMASTOON_SIM_URL"] + "/_sim/faults", nil
}

type faultList struct{}

func (faultList) Run(ctx context.Context, f *fault) error {
	url, err := f.url()
	if err != nil {
		return err
	}
	var now struct{ Faults []sim.ActiveFault }
	if err := ask(ctx, http.MethodGet, url, nil, &now); err != nil {
		return err
	}
	if len(now.Faults) == 0 {
		fmt.Println("All upstreams are well.")
		return nil
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, f := range now.Faults {
		route := f.Route
		if route == "" {
			route = "every route"
		}
		_, _ = fmt.Fprintf(out, "%s\t%s\t%s\n", f.Upstream, route, f.Text)
	}
	return out.Flush()
}

type faultSet struct {
	Upstream string        `arg:"" help:"Name of an upstream, such as pricing, or '*' for all."`
	Route    string        `help:"Only this route, such as 'POST /v1/pricing/quotes/preview' (default: all)."`
	Latency  time.Duration `help:"How much slower it answers, such as 300ms."`
	Jitter   time.Duration `help:"And up to this much more."`
	Rate     *float64      `placeholder:"SHARE" help:"Share of calls that fail, such as 0.5."`
	Status   int           `help:"The status with which calls fail (default: 503); without --rate all do."`
	Hang     bool          `help:"It never answers."`
	Garbage  bool          `help:"It answers 200 with what is no JSON."`
	Done     bool          `help:"It does its work first: what fails is the answer."`
}

func (s faultSet) Run(ctx context.Context, f *fault) error {
	if known := sim.Upstreams(); s.Upstream != "*" && !slices.Contains(known, s.Upstream) {
		return fmt.Errorf("there is no upstream %q: want '*' or one of %s", s.Upstream, strings.Join(known, ", "))
	}
	url, err := f.url()
	if err != nil {
		return err
	}
	set := sim.Fault{
		Upstream: s.Upstream, Route: s.Route, LatencyMs: int(s.Latency.Milliseconds()), JitterMs: int(s.Jitter.Milliseconds()),
		ErrorRate: s.Rate, Status: s.Status, Hang: s.Hang, Garbage: s.Garbage, Done: s.Done,
	}
	if (sim.Fault{Upstream: set.Upstream, Route: set.Route, Done: set.Done}) == set {
		set.Status = http.StatusServiceUnavailable // a fault without more is an outage
	}
	if err := ask(ctx, http.MethodPost, url, set, nil); err != nil {
		if isRefused(err) {
			return fmt.Errorf("%w\n'docs/upstreams.md' names the upstreams and their routes", err)
		}
		return err
	}
	fmt.Printf("%s: %s. 'melmastoon fault clear' ends it.\n", s.Upstream, set)
	return nil
}

type faultClear struct {
	Upstream string `arg:"" optional:"" help:"Only this upstream (default: all)."`
}

func (c faultClear) query() string {
	if c.Upstream == "" {
		return ""
	}
	return "?upstream=" + url.QueryEscape(c.Upstream)
}

func (c faultClear) Run(ctx context.Context, f *fault) error {
	at, err := f.url()
	if err != nil {
		return err
	}
	if err := ask(ctx, http.MethodDelete, at+c.query(), nil, nil); err != nil {
		return err
	}
	return (faultList{}).Run(ctx, f)
}
