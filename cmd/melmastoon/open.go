package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

type open struct {
	terminal
	What  string `arg:"" optional:"" default:"pages" help:"pages, hotels, operators, consumer-metrics, backoffice-metrics (default: pages)."`
	Print bool   `help:"Print the address and open nothing."`
}

// places are what can be opened: the variable of a server, and a path below it.
var places = map[string][2]string{
	"pages":              {"MELMASTOON_PAGES_URL", "/"},
	"hotels":             {"MELMASTOON_SIM_URL", "/_sim/catalog"},
	"operators":          {"MELMASTOON_SIM_URL", "/_sim/operators"},
	"consumer-metrics":   {"MELMASTOON_CONSUMER_ADMIN_URL", "/metrics"},
	"backoffice-metrics": {"MELMASTOON_BACKOFFICE_ADMIN_URL", "/metrics"},
}

// Run prints where something is, and opens it where there is a browser.
func (o open) Run(ctx context.Context) error {
	place, ok := places[o.What]
	if !ok {
		return fmt.Errorf("%q cannot be opened: want one of %s", o.What, strings.Join(slices.Sorted(maps.Keys(places)), ", "))
	}
	w, err := o.find()
	if err != nil {
		return err
	}
	url := w.Environment[place[0]] + place[1]
	fmt.Println(url)
	if program := opener(); program != "" && !o.Print {
		return exec.CommandContext(ctx, program, url).Run() //nolint:gosec // our own address, in the user's browser
	}
	return nil
}

// opener is the program that opens addresses on a desktop; empty where there is none.
func opener() string {
	name := "xdg-open"
	switch {
	case runtime.GOOS == "darwin":
		name = "open"
	case os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "":
		return ""
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}
