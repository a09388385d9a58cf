package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff/internal/local/platform"
)

// services keeps the two services running, as a platform would.
type services struct {
	wg   sync.WaitGroup
	quit chan struct{}
}

const (
	// readyTimeout is how long a start may take on a machine that is busy with other
	// things, migrations included. A service that ends is noticed at once.
	readyTimeout = 3 * time.Minute
	// stopTimeout is how long a stop may take.
	stopTimeout = 30 * time.Second
)

// restartPause keeps a service that dies at once from spinning.
const restartPause = 200 * time.Millisecond

func startServices(ctx context.Context, list []platform.Service, env []string, logs string, log *slog.Logger) (*services, error) {
	s := &services{quit: make(chan struct{})}
	exe, err := os.Executable()
	if err != nil {
		return s, fmt.Errorf("find own binary: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	var first []*platform.Process
	for _, svc := range list {
		launch := func() (*platform.Process, error) {
			out, err := os.OpenFile(filepath.Join(logs, svc.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // logs hold no secrets
			if err != nil {
				return nil, err
			}
			defer func() { _ = out.Close() }() // the child has its own descriptor
			return svc.Start([]string{exe, svc.Name, "serve"}, env, out)
		}
		p, err := launch()
		if err != nil {
			return s, err
		}
		first = append(first, p)
		s.wg.Go(func() { s.keep(p, launch, log) })
	}
	began := time.Now()
	for _, p := range first {
		if err := p.AwaitReady(ctx); err != nil {
			return s, fmt.Errorf("%w\n%s", err, endOfLog(filepath.Join(logs, p.Name+".log")))
		}
		log.Info("service ready", "name", p.Name, "at", p.URLs()["MELMASTOON_"+p.Prefix()+"_URL"], "took", time.Since(began))
	}
	return s, nil
}

// shownLog is how much of a log is shown, in lines and in bytes.
const shownLines, shownBytes = 20, 8 << 10

// endOfLog is what a service wrote last. The file itself may be gone in a moment.
func endOfLog(path string) string {
	b, err := os.ReadFile(path) //nolint:gosec // our own log
	if err != nil {
		return "its log cannot be read: " + err.Error()
	}
	b = bytes.TrimSpace(b[max(0, len(b)-shownBytes):])
	if len(b) == 0 {
		return "its log is empty"
	}
	lines := strings.Split(string(b), "\n")
	return "its log ends so:\n  " + strings.Join(lines[max(0, len(lines)-shownLines):], "\n  ")
}

// keep starts a service again whenever it ends by itself.
func (s *services) keep(p *platform.Process, launch func() (*platform.Process, error), log *slog.Logger) {
	for {
		select {
		case <-s.quit:
			if err := p.Stop(stopTimeout); err != nil {
				log.Warn("service did not stop cleanly", "name", p.Name, "error", err.Error())
			}
			return
		case <-p.Done():
		}
		log.Warn("service ended unexpectedly; restarting it", "name", p.Name, "error", fmt.Sprint(p.Err()))
		select {
		case <-s.quit:
			return
		case <-time.After(restartPause):
		}
		next, err := launch()
		if err != nil {
			log.Error("service could not be restarted", "name", p.Name, "error", err.Error())
			return
		}
		p = next
	}
}

func (s *services) stop() {
	close(s.quit)
	s.wg.Wait()
}
