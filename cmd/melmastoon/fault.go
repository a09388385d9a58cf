package main

import (
	"context"
	"fmt"
	"net/http"
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
	Clear faultClear `cmd:"" help:"Heal every upstream."`
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
	var now struct{ Faults []sim.Fault }
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
		_, _ = fmt.Fprintf(out, "%s\t%s\t%s\n", f.Upstream, route, describeFault(f))
	}
	return out.Flush()
}

// describeFault says what a fault does.
func describeFault(f sim.Fault) string {
	var does []string
	if f.LatencyMs > 0 || f.JitterMs > 0 {
		does = append(does, fmt.Sprintf("%d to %d ms slower", f.LatencyMs, f.LatencyMs+f.JitterMs))
	}
	if f.ErrorRate != nil || f.Status != 0 {
		share, status := 1.0, http.StatusServiceUnavailable
		if f.ErrorRate != nil {
			share = *f.ErrorRate
		}
		if f.Status != 0 {
			status = f.Status
		}
		does = append(does, fmt.Sprintf("%g%% fail with %d", 100*share, status))
	}
	if f.Hang {
		does = append(does, "never answers")
	}
	if f.Garbage {
		does = append(does, "answers with garbage")
	}
	if f.Done {
		does = append(does, "after the work is done")
	}
	if len(does) == 0 {
		return "nothing"
	}
	return strings.Join(does, ", ")
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
	if describeFault(sim.Fault{
		LatencyMs: set.LatencyMs, JitterMs: set.JitterMs, ErrorRate: set.ErrorRate, Status: set.Status, Hang: set.Hang, Garbage: set.Garbage,
	}) == "nothing" {
		set.Status = http.StatusServiceUnavailable // a fault without more is an outage
	}
	if err := ask(ctx, http.MethodPost, url, set, nil); err != nil {
		if isRefused(err) {
			return fmt.Errorf("%w\n'docs/upstreams.md' names the upstreams and their routes", err)
		}
		return err
	}
	fmt.Printf("%s: %s. 'melmastoon fault clear' ends it.\n", s.Upstream, describeFault(set))
	return nil
}

type faultClear struct{}

func (faultClear) Run(ctx context.Context, f *fault) error {
	url, err := f.url()
	if err != nil {
		return err
	}
	if err := ask(ctx, http.MethodDelete, url, nil, nil); err != nil {
		return err
	}
	fmt.Println("All upstreams are well.")
	return nil
}
