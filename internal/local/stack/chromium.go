package stack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

var chromiumBrowser = program{
	names: []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome"}, pkg: "chromium",
	help: `no Chromium was found, with which the tests play browsers. Install it with
  Debian:  sudo apt-get install -y --no-install-recommends chromium
  Fedora:  sudo dnf install -y chromium
  Ubuntu:  sudo snap install chromium, or Google's own package of Chrome
  macOS:   brew install --cask chromium, and its program in PATH`,
}

const chromiumWork = "work"

// ChromiumConfig describes a browser.
type ChromiumConfig struct {
	// URL is the first page.
	URL string
	// NoInstall forbids installing Chromium when there is none.
	NoInstall bool
	// Logger receives progress; nil is silence.
	Logger *slog.Logger
}

// Chromium is a running browser without a window and with an empty profile. Every
// host name leads it to this machine, and it believes every certificate: a test
// plays any number of sites, and nothing leaves the machine.
type Chromium struct {
	// DevTools is host:port of its own interface: GET /json/list lists the open pages.
	DevTools string

	log  *slog.Logger
	dir  *dir
	proc *process
}

// StartChromium starts a browser. The context bounds the start alone: it runs until
// [Chromium.Close], or until this process ends.
func StartChromium(ctx context.Context, cfg ChromiumConfig) (*Chromium, error) {
	c := &Chromium{log: orSilent(cfg.Logger)}
	if err := c.create(ctx, cfg); err != nil {
		return nil, fmt.Errorf("start chromium: %w", errors.Join(err, c.Close()))
	}
	return c, nil
}

func (c *Chromium) create(ctx context.Context, cfg ChromiumConfig) error {
	begin := time.Now()
	path, err := chromiumBrowser.find(ctx, cfg.NoInstall, c.log)
	if err != nil {
		return err
	}
	as, err := serverAccount("nobody")
	if err != nil {
		return err
	}
	sweep(ctx, as, c.log)
	if c.dir, err = tempDir(as); err != nil {
		return err
	}
	work, err := c.dir.sub(chromiumWork, as)
	if err != nil {
		return err
	}
	ctx, cancel := startContext(ctx, "chromium")
	defer cancel()
	profile := filepath.Join(work, "profile")
	last := "--user-data-dir=" + profile
	c.proc, err = run(command{
		path: path, dir: work, home: work, logFile: c.dir.file("chromium.log"), as: as, onDeath: syscall.SIGKILL,
		args: []string{
			cfg.URL, "--headless", "--disable-gpu", "--no-first-run", "--no-default-browser-check", "--disable-background-networking",
			"--disable-component-update", "--disable-sync", "--disable-quic", "--disable-extensions", "--disable-breakpad",
			"--no-sandbox",            // it needs rights that containers do not give, and the pages are the test's own
			"--disable-dev-shm-usage", // containers have little of it
			"--host-resolver-rules=MAP * 127.0.0.1", "--ignore-certificate-errors",
			"--remote-debugging-port=0", // its file says that the browser is up
			last,
		},
	})
	if err != nil {
		return err
	}
	if err := noteProcess(c.dir, c.proc, last); err != nil {
		return err
	}
	err = c.proc.awaitReady(ctx, func() bool {
		b, err := os.ReadFile(filepath.Join(profile, "DevToolsActivePort")) //nolint:gosec // in our own directory
		port, _, written := strings.Cut(string(b), "\n")
		c.DevTools = net.JoinHostPort("127.0.0.1", port)
		return err == nil && written
	})
	if err == nil {
		c.log.InfoContext(ctx, "chromium ready", "took", time.Since(begin))
	}
	return err
}

// Close ends the browser and removes its profile.
func (c *Chromium) Close() error {
	var err error
	if c.proc != nil {
		err = c.proc.end(context.Background(), syscall.SIGTERM)
		_ = syscall.Kill(-c.proc.pid(), syscall.SIGKILL) // what is left of its processes; none is as good
	}
	if c.dir == nil {
		return err
	}
	// One of them may still have put a file into a directory that was just emptied.
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	emptied := until(ctx, func() (bool, error) { return os.RemoveAll(c.dir.file(chromiumWork)) == nil, nil })
	return errors.Join(err, emptied, c.dir.close())
}
