package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/local/pages"
	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/local/stack"
)

type up struct {
	Data    string `env:"MELMASTOON_HOME" help:"Where data stay between runs (default: a directory of this user)."`
	Verbose bool   `short:"v" help:"Say what is being started."`

	command []string
}

// throwaway reports whether the run is for one command only.
func (u up) throwaway() bool { return len(u.command) > 0 }

// pagesPort is where a browser finds the index, while it is free.
const pagesPort = "8080"

// usualPort is a port that people know by heart; a throw-away run takes none.
func (u up) usualPort(port string) string {
	if u.throwaway() {
		return ""
	}
	return port
}

// startTimeout covers an installation of Postgres and Redis on a fresh machine.
const startTimeout = 5 * time.Minute

// Run starts everything and stops it again.
func (u up) Run(ctx context.Context) (err error) {
	ctx, stopSignals := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stopSignals()
	started := time.Now()

	home, err := u.home()
	if err != nil {
		return err
	}
	defer func() {
		if u.throwaway() {
			err = errors.Join(err, os.RemoveAll(home))
		}
	}()

	level := slog.LevelWarn
	if u.Verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))

	startCtx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	cfg := stack.Config{Logger: log}
	if !u.throwaway() {
		cfg.DataDir = filepath.Join(home, "data")
	}
	stack, err := stack.Start(startCtx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stack.Stop()) }()

	sim, err := platform.ServeUpstreams(startCtx, sim.Config{}, stack.PubSub.Host, stack.PubSub.ProjectID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sim.Close()) }()

	ln, taken, err := platform.Listen("the index of pages", u.usualPort(pagesPort))
	if err != nil {
		return err
	}
	site := pages.Serve(ln)
	defer func() { err = errors.Join(err, site.Close()) }()

	env, list, err := u.environment(home, stack, sim.URL)
	if err != nil {
		return err
	}
	env["MELMASTOON_PAGES_URL"] = site.URL
	mountPages(site, env)
	own := platform.Pairs(env)
	if u.throwaway() { // the log is deleted at the end: only errors are worth the disk
		own = append(own, "MELMASTOON_LOG_LEVEL=warn")
	}
	logs := filepath.Join(home, "logs")
	if err := os.MkdirAll(logs, 0o755); err != nil { //nolint:gosec // logs hold no secrets and no personal data
		return err
	}
	running, err := startServices(startCtx, list, own, logs, log)
	defer running.stop()
	if err != nil {
		return err
	}

	if u.throwaway() {
		env["MELMASTOON_DESK_DIR"] = filepath.Join(home, deskDir) // tokens of this run are of no use later
		return u.runCommand(ctx, env)
	}
	withdraw, err := platform.Running{
		ConsumerURL: env["MELMASTOON_CONSUMER_URL"], BackofficeURL: env["MELMASTOON_BACKOFFICE_URL"], SimURL: env["MELMASTOON_SIM_URL"],
	}.Announce(home)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, withdraw()) }()
	if taken != nil {
		list[0].Taken = append(list[0].Taken, *taken)
	}
	for _, svc := range list {
		for _, t := range svc.Taken {
			fmt.Println(t)
		}
	}
	if err := welcome(os.Stdout, env, time.Since(started), logs); err != nil {
		return err
	}
	<-ctx.Done()
	stopSignals() // a second Ctrl-C ends at once
	fmt.Println("\nStopping.")
	return nil
}

// environment gathers what the services and the user's command need to know.
func (u up) environment(home string, stack *stack.Stack, simURL string) (map[string]string, []platform.Service, error) {
	keys, err := platform.LoadSecrets(filepath.Join(home, "secrets.json"), time.Now())
	if err != nil {
		return nil, nil, err
	}
	env, err := platform.Places{
		Name: "local", PostgresURL: stack.Postgres.URL(), RedisURL: stack.Redis.URL(),
		PubSubHost: stack.PubSub.Host, PubSubProject: stack.PubSub.ProjectID, SimURL: simURL, Secrets: keys,
		LakeURL: "file://" + filepath.ToSlash(filepath.Join(home, "lake")),
	}.Environment()
	if err != nil {
		return nil, nil, err
	}
	for name, value := range oneMachine() {
		if os.Getenv(name) == "" {
			env[name] = value
		}
	}
	var list []platform.Service
	for _, name := range []string{"bff-consumer", "bff-backoffice"} {
		svc, err := platform.NewService(name, !u.throwaway())
		if err != nil {
			return nil, nil, err
		}
		maps.Copy(env, svc.URLs())
		list = append(list, svc)
	}
	return env, list, nil
}

// oneMachine are the settings of a machine on which front ends are developed: their
// pages may call from every origin on it. All clients share one address there, and
// many with one program. What those share is a hundred times a session's
// share instead of five times, sharing it is no sign of a bot, and what one of
// them did is hardly held against the others. A session's own limits are as in
// production, and floods, false names and failed challenges weigh what they do there.
func oneMachine() map[string]string {
	return map[string]string{
		"BFF_CONSUMER_ALLOWED_ORIGINS":   "loopback",
		"BFF_BACKOFFICE_ALLOWED_ORIGINS": "loopback",
		"BFF_CONSUMER_LIMITS":            "ip=100,fingerprint=100",
		"BFF_CONSUMER_BOT_WEIGHTS": "crowd=0;no-cookies=0;made-up=0;misdeeds=0.1;" +
			"fast=0.1;faster=0.1;steady=0;steadier=0;steadiest=0.1",
	}
}

// home returns the directory of this run.
func (u up) home() (string, error) {
	if u.throwaway() {
		return os.MkdirTemp("", "melmastoon-run-")
	}
	dir, err := platform.Home(u.Data)
	if err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755) //nolint:gosec // the database's user must pass through it; what is secret in it has its own mode
}

// runCommand runs the user's command and reports its exit status as ours.
func (u up) runCommand(ctx context.Context, env map[string]string) error {
	cmd := exec.CommandContext(ctx, u.command[0], u.command[1:]...) //nolint:gosec // running the user's command is the purpose
	cmd.Env = append(os.Environ(), platform.Pairs(env)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		status := exit.ExitCode()
		if status < 0 { // ended by a signal: say so as a shell does
			status = 128
			if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
				status += int(ws.Signal())
			}
		}
		return &daemon.ExitError{Status: status}
	}
	if err != nil {
		return fmt.Errorf("run %s: %w", u.command[0], err)
	}
	return nil
}
