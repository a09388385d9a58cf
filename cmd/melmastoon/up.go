package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/local/pages"
	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/local/stack"
	"melmastoon.ghasi.io/bff/internal/web"
	"melmastoon.ghasi.io/bff/internal/world"
)

type up struct {
	servers
	Data    string `env:"MELMASTOON_HOME" placeholder:"DIR" help:"Where data stay between runs (default: a directory of this user)."`
	Verbose bool   `short:"v" help:"Say more of what is being started."`

	ConsumerListen           string `env:"BFF_CONSUMER_LISTEN" placeholder:"ADDR" help:"Address of bff-consumer, such as 127.0.0.1:7181 (default: the usual port, or a free one if that is taken)."`
	ConsumerInternalListen   string `env:"BFF_CONSUMER_INTERNAL_LISTEN" placeholder:"ADDR" help:"The same, of its calls for other services."`
	ConsumerAdminListen      string `env:"BFF_CONSUMER_ADMIN_LISTEN" placeholder:"ADDR" help:"The same, of its health and metrics."`
	BackofficeListen         string `env:"BFF_BACKOFFICE_LISTEN" placeholder:"ADDR" help:"Address of bff-backoffice."`
	BackofficeInternalListen string `env:"BFF_BACKOFFICE_INTERNAL_LISTEN" placeholder:"ADDR" help:"The same, of its calls for other services."`
	BackofficeAdminListen    string `env:"BFF_BACKOFFICE_ADMIN_LISTEN" placeholder:"ADDR" help:"The same, of its health and metrics."`

	Defence    string     `enum:"on,watch,off" default:"watch" env:"BFF_CONSUMER_BOT_DEFENCE" help:"Bot defence of bff-consumer: watch judges and refuses nothing, so that test browsers are served; on has the limits and the defence of production; off judges nothing."`
	Lan        bool       `help:"Serve guests' pages to phones on this network, over plain http; cookies go without Secure."`
	Clock      time.Time  `placeholder:"MOMENT" help:"What the clocks of all hotels are set to, such as 2026-11-18T20:05:00Z, to see another day or hour at the staff's desks (default: now)."`
	LanAddress netip.Addr `placeholder:"ADDRESS" env:"MELMASTOON_LAN_ADDRESS" help:"This machine's address for --lan (default: its private one)."`

	command []string
	host    string // of what guests' browsers reach
}

// servers that run already can be named.
type servers struct {
	PostgresURL string `env:"MELMASTOON_UP_POSTGRES_URL" placeholder:"URL" help:"A running Postgres to use, as a superuser and with the database in the URL (default: a private one is started)."`
	RedisURL    string `env:"MELMASTOON_UP_REDIS_URL" placeholder:"URL" help:"A running Redis to use (default: a private one is started)."`
}

func (s servers) config(log *slog.Logger) stack.Config {
	return stack.Config{Logger: log, Postgres: stack.PostgresConfig{URL: s.PostgresURL}, Redis: stack.RedisConfig{URL: s.RedisURL}}
}

// throwaway reports whether the run is for one command only.
func (u up) throwaway() bool { return len(u.command) > 0 }

// housesAhead is how far the hotels' clocks are ahead of this machine's.
func (u up) housesAhead() time.Duration {
	if u.Clock.IsZero() {
		return 0
	}
	return time.Until(u.Clock).Round(time.Second)
}

// startTimeout covers an installation of Postgres and Redis on a fresh machine.
const startTimeout = 15 * time.Minute

// usualPort is a port that people know by heart; a throw-away run takes none.
func (u up) usualPort(port string) string {
	if u.throwaway() {
		return ""
	}
	return port
}

// Run starts everything and stops it again.
func (u up) Run(ctx context.Context) (err error) {
	ctx, stopSignals := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stopSignals()
	started := time.Now()

	u.host = "127.0.0.1"
	if u.Lan {
		addr, err := lanAddress(u.LanAddress)
		if err != nil {
			return err
		}
		u.host = addr.String()
	}
	home, err := u.home()
	if err != nil {
		return err
	}
	defer func() {
		if u.throwaway() {
			err = errors.Join(err, os.RemoveAll(home))
		}
	}()
	level := slog.LevelInfo
	switch {
	case u.Verbose:
		level = slog.LevelDebug
	case u.throwaway(): // what the command prints is what is wanted
		level = slog.LevelWarn
	}
	out := newPrinter(os.Stderr, level)
	log := slog.New(out)

	startCtx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	cfg := u.config(log)
	if !u.throwaway() {
		cfg.DataDir = filepath.Join(home, "data")
	}
	done := out.step("starting Postgres, Redis and Pub/Sub")
	stack, err := stack.Start(startCtx, cfg)
	done()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stack.Stop()) }()

	endTurn := platform.AwaitTurn(startCtx)
	defer endTurn()
	ln, taken, err := platform.ListenOn(u.host, platform.Index, u.usualPort(platform.IndexPort))
	if err != nil {
		return err
	}
	site := pages.Serve(ln)
	defer func() { err = errors.Join(err, site.Close()) }()
	if taken != nil {
		out.say(taken.String())
	}

	ahead := u.housesAhead()
	simulated := sim.Config{PublicURL: site.URL, HousesAhead: ahead}
	if !u.throwaway() {
		simulated.SignIns = filepath.Join(home, "sign-ins.json")
	}
	sim, err := platform.ServeUpstreams(startCtx, u.usualPort(platform.SimulatedPort), simulated, stack.PubSub.Host, stack.PubSub.ProjectID)
	if err != nil {
		return err
	}
	if sim.Taken != nil {
		out.say(sim.Taken.String())
	}
	defer func() { err = errors.Join(err, sim.Close()) }()
	log.Info("simulated upstreams ready", "at", sim.URL)
	site.Handle("GET /media/", sim.Handler()) // browsers reach the pages, and need not reach the simulator

	env, list, err := u.environment(home, stack, sim.URL)
	if err != nil {
		return err
	}
	if ahead != 0 {
		env["MELMASTOON_HOUSES_AHEAD"] = ahead.String()
	}
	env["MELMASTOON_PAGES_URL"], env[world.WorldEnv] = site.URL, home
	// Proofs of desks that reach the staff service through the pages name their address.
	staff := env["MELMASTOON_BACKOFFICE_URL"] + "," + site.URL + "," + strings.Replace(site.URL, "//127.0.0.1:", "//localhost:", 1)
	env["BFF_BACKOFFICE_PUBLIC_URLS"] = cmp.Or(os.Getenv("BFF_BACKOFFICE_PUBLIC_URLS"), staff)
	for name, value := range platform.Traced(site.URL) {
		env[name] = cmp.Or(os.Getenv(name), value)
	}
	env["MELMASTOON_ERRORS_URL"] = cmp.Or(os.Getenv("MELMASTOON_ERRORS_URL"), site.URL+"/errors/")
	logs := filepath.Join(home, "logs")
	self := world.World{Home: home, PID: os.Getpid(), Since: started, Logs: logs, Environment: env}
	up, err := newConsole(startCtx, self, sim, !u.throwaway())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, up.Close()) }()
	if err := errors.Join(mountPages(site, env), mountBooking(site, env), mountPlatform(site, env, sim, up)); err != nil {
		return err
	}
	for _, svc := range list {
		for _, t := range svc.Taken {
			out.say(t.String())
		}
	}
	own := platform.Pairs(env)
	if u.throwaway() { // the log is deleted at the end: only errors are worth the disk
		own = append(own, "MELMASTOON_LOG_LEVEL=warn")
	}
	if err := os.MkdirAll(logs, 0o755); err != nil { //nolint:gosec // logs hold no secrets and no personal data
		return err
	}
	done = out.step("starting bff-consumer and bff-backoffice")
	running, err := startServices(startCtx, list, own, logs, log)
	done()
	endTurn() // all ports are bound
	defer running.stop()
	if err != nil {
		return err
	}

	withdraw, err := self.Announce()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, withdraw()) }()
	if u.throwaway() {
		env = maps.Clone(env)                                     // the console reads it
		env["MELMASTOON_DESK_DIR"] = filepath.Join(home, deskDir) // tokens of this run are of no use later
		return u.runCommand(ctx, env)
	}
	if err := welcome(os.Stdout, u.Lan, env, time.Since(started), logs); err != nil {
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
	for name, value := range u.oneMachine() {
		env[name] = cmp.Or(os.Getenv(name), value)
	}
	var taken *platform.Taken
	if u.ConsumerListen == "" && u.Lan {
		if u.ConsumerListen, taken, err = freeOn(u.host, u.usualPort(lanPort)); err != nil {
			return nil, nil, err
		}
	}
	list := []platform.Service{
		{Name: "bff-consumer", Public: u.ConsumerListen, Internal: u.ConsumerInternalListen, Admin: u.ConsumerAdminListen},
		{Name: "bff-backoffice", Public: u.BackofficeListen, Internal: u.BackofficeInternalListen, Admin: u.BackofficeAdminListen},
	}
	if taken != nil {
		list[0].Taken = append(list[0].Taken, *taken)
	}
	for i := range list {
		if list[i], err = list[i].Place(!u.throwaway()); err != nil {
			return nil, nil, err
		}
		maps.Copy(env, list[i].URLs())
	}
	return env, list, nil
}

// oneMachine are the settings of a machine on which front ends are developed: their
// pages may call from every origin on it, and browsers that tests drive are served like
// any other. All clients share one address there, and many one program. What those
// share is a hundred times a session's share instead of five times, sharing it is no
// sign of a bot, and what one of them did is hardly held against the others. A
// session's own limits are as in production. With the defence on, all of it is.
func (u up) oneMachine() map[string]string {
	set := map[string]string{
		"BFF_CONSUMER_ALLOWED_ORIGINS":   web.Loopback,
		"BFF_BACKOFFICE_ALLOWED_ORIGINS": web.Loopback,
		"BFF_CONSUMER_BOT_DEFENCE":       u.Defence,
		// The pages pass requests on, and say for whom.
		"BFF_CONSUMER_TRUSTED_PROXIES":   u.machine(),
		"BFF_BACKOFFICE_TRUSTED_PROXIES": u.machine(),
	}
	if u.Defence != "on" {
		set["BFF_CONSUMER_LIMITS"] = "ip=100,fingerprint=100"
		set["BFF_CONSUMER_BOT_WEIGHTS"] = "crowd=0;no-cookies=0;made-up=0;misdeeds=0.1;" +
			"fast=0.1;faster=0.1;steady=0;steadier=0;steadiest=0.1"
	}
	if u.Lan {
		set["BFF_CONSUMER_ALLOWED_ORIGINS"] += "," + web.OriginsOfHost(u.host)
		set["BFF_CONSUMER_PLAIN_COOKIES"] = "true"
	}
	return set
}

// machine are the addresses of this machine that its pages call from.
func (u up) machine() string {
	if u.Lan {
		return "127.0.0.0/8," + u.host + "/32"
	}
	return "127.0.0.0/8"
}

// home returns the directory of this run.
func (u up) home() (string, error) {
	if u.throwaway() {
		return os.MkdirTemp("", "melmastoon-run-")
	}
	return world.MakeHome(u.Data)
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
