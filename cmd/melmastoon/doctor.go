package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/local/stack"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/world"
)

type doctor struct {
	servers
	Install bool `help:"Install what is missing, where this user may."`
	Up      bool `help:"Leave out what only the tests need: PgBouncer, promtool and Chromium."`
}

// Run finds the servers' programs and starts each once, which is the only
// proof that they work.
func (d doctor) Run(ctx context.Context) (err error) {
	out := newPrinter(os.Stderr, slog.LevelInfo)
	cfg := d.config(slog.New(out))
	cfg.NoInstall = !d.Install
	done := out.step("looking for Postgres and Redis")
	servers, err := stack.Start(ctx, cfg)
	done()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, servers.Stop()) }()
	versions, err := serverVersions(ctx, servers)
	if err != nil {
		return err
	}
	fmt.Printf("%s and Pub/Sub start on this machine.\n", versions)
	if d.Up {
		return nil
	}
	fmt.Println(daemon.ThisBuild().Line("melmastoon"))
	for _, port := range platform.Usual() {
		state := "is free"
		if port.Holder != "" {
			state = "is taken (" + port.Holder + "): 'up' would take another one"
		}
		fmt.Printf("port %s, of %s, %s\n", port.Port, port.For, state)
	}
	if err := tellSpace(); err != nil {
		return err
	}
	return d.forTests(ctx, servers)
}

// forTests starts what only the tests need.
func (d doctor) forTests(ctx context.Context, servers *stack.Stack) error {
	pooler, err := stack.StartPgBouncer(ctx, stack.PgBouncerConfig{ServerURL: servers.Postgres.URL(), NoInstall: !d.Install})
	if err != nil {
		return err
	}
	if err := pooler.Close(); err != nil {
		return err
	}
	if _, err := stack.Promtool(ctx, !d.Install, nil); err != nil {
		return err
	}
	browser, err := stack.StartChromium(ctx, stack.ChromiumConfig{URL: "about:blank", NoInstall: !d.Install})
	if err != nil {
		return err
	}
	if err := browser.Close(); err != nil {
		return err
	}
	fmt.Println("PgBouncer and Chromium start and promtool is there, for the tests.")
	return nil
}

// versionTimeout bounds a question to a server that has just started.
const versionTimeout = 30 * time.Second

// serverVersions asks the servers what they are.
func serverVersions(ctx context.Context, servers *stack.Stack) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, servers.Postgres.URL())
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	var version string
	if err := conn.QueryRow(ctx, "SHOW server_version").Scan(&version); err != nil {
		return "", err
	}
	client, err := redis.Open(redis.Config{URL: servers.Redis.URL(), Tier: "doctor", Timeout: versionTimeout})
	if err != nil {
		return "", err
	}
	defer client.Close()
	nodes, err := redis.Inspect(ctx, client)
	if err != nil || len(nodes) == 0 {
		return "", errors.Join(errors.New("redis did not tell its version"), err)
	}
	return fmt.Sprintf("Postgres %s, Redis %s", version, nodes[0].Version), nil
}

// littleSpace is what a database that has just been made takes, several times.
const littleSpace = 1 << 30

// tellSpace says how much room the data have.
func tellSpace() error {
	home, err := world.Home(os.Getenv(world.HomeEnv))
	if err != nil {
		return err
	}
	at := home
	for { // it may not be made yet
		if _, err := os.Stat(at); err == nil || at == filepath.Dir(at) { //nolint:gosec // the user's own directory
			break
		}
		at = filepath.Dir(at)
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(at, &fs); err != nil {
		return fmt.Errorf("free space of %s: %w", at, err)
	}
	free := fs.Bavail * uint64(fs.Bsize) //nolint:gosec,unconvert // its type differs between systems
	note := ""
	if free < littleSpace {
		note = ": too little, " + world.HomeEnv + " can name another directory"
	}
	fmt.Printf("%.1f GB are free for data in %s%s\n", float64(free)/(1<<30), home, note)
	return nil
}
