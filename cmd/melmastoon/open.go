package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

type open struct {
	terminal
	What  string `arg:"" optional:"" default:"pages" help:"pages, reference, errors, booking, hotels, operators, consumer-metrics or backoffice-metrics (default: pages)."`
	Print bool   `help:"Print the address and open nothing."`
}

// Run prints where something is, and opens it where there is a browser.
func (o open) Run(ctx context.Context) error {
	var names []string
	for _, p := range places() {
		names = append(names, p.name)
	}
	at := slices.Index(names, o.What)
	if at < 0 {
		return fmt.Errorf("%q cannot be opened: want one of %s", o.What, strings.Join(names, ", "))
	}
	w, err := o.find()
	if err != nil {
		return err
	}
	place := places()[at]
	url := w.Environment[place.server] + place.path
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
