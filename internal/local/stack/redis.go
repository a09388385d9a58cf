package stack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff/internal/pause"
)

// redisPidName holds process id and port of a running server.
const redisPidName = "redis.pid"

var redisServer = program{
	names: []string{"redis-server", "valkey-server"}, pkg: "redis-server",
	help: `no Redis server program (redis-server or valkey-server) was found. Install one with
  Debian, Ubuntu:  sudo apt-get install -y --no-install-recommends redis-server
  Fedora:          sudo dnf install -y valkey
  macOS:           brew install redis
or name a running server: MELMASTOON_UP_REDIS_URL for 'make run' and 'melmastoon up', MELMASTOON_TEST_REDIS_URL for the tests`,
}

// RedisConfig describes a Redis server. The zero value is a throw-away one.
type RedisConfig struct {
	// URL names a server that is already there: nothing is started.
	URL string
	// Program is the server program; empty has it found.
	Program string
	// MaxMemory, such as "256mb", and MaxMemoryPolicy, such as "allkeys-lfu",
	// are the server's settings of those names; empty leaves its defaults: no
	// limit, and no eviction.
	MaxMemory       string
	MaxMemoryPolicy string
	// NoInstall forbids installing Redis when there is none.
	NoInstall bool
	// Logger hears about progress; nil is silence.
	Logger *slog.Logger

	cluster       bool
	replicaOf     *Redis // follows that one
	sentinelOf    *Redis // is no server, and watches over that one and its replicas
	password      string // shared by the nodes of a cluster, or by a server with its replicas and sentinels
	surviveParent bool   // tests of orphans
}

// Redis is a server: ours, or one that the caller named. Ours keeps nothing on
// disk: stopped and started again it is empty.
type Redis struct {
	cfg RedisConfig
	log *slog.Logger

	dir      *dir // nil when the caller named the server
	program  string
	as       account
	work     string // the server's working directory
	password string
	port     int

	mu      sync.Mutex
	proc    *process
	settled bool // it has run on this port: the URL is out and must stay true
}

// StartRedis finds, or starts, a server. The context bounds the start alone:
// the server runs until [Redis.Close], or until this process ends.
func StartRedis(ctx context.Context, cfg RedisConfig) (*Redis, error) {
	r := &Redis{cfg: cfg, log: orSilent(cfg.Logger)}
	var err error
	if cfg.URL != "" {
		err = r.probe(ctx)
	} else {
		err = r.create(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("start redis: %w", errors.Join(err, r.Close()))
	}
	return r, nil
}

// probe checks a server that the caller named.
func (r *Redis) probe(ctx context.Context) error {
	option, err := rueidis.ParseURL(r.cfg.URL)
	if err != nil {
		return errors.New("the given address is no redis:// URL") // it may hold a password: not repeated
	}
	ctx, cancel := startContext(ctx, "redis")
	defer cancel()
	option.DisableCache = true
	client, err := rueidis.NewClient(option)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer client.Close()
	return client.Do(ctx, client.B().Ping().Build()).Error()
}

// create brings up a server of our own.
func (r *Redis) create(ctx context.Context) (err error) {
	begin := time.Now()
	if r.program, err = redisProgram(ctx, r.cfg, r.log); err != nil {
		return err
	}
	if r.as, err = serverAccount("redis", "valkey", "nobody"); err != nil {
		return err
	}
	sweep(ctx, r.as, r.log)
	if r.dir, err = tempDir(r.as); err != nil {
		return err
	}
	if r.work, err = r.dir.sub("work", r.as); err != nil {
		return err
	}
	if r.password = r.cfg.password; r.password == "" {
		r.password = newPassword()
	}
	if err := r.Start(ctx); err != nil {
		return err
	}
	r.log.InfoContext(ctx, "redis ready", "port", r.port, "took", time.Since(begin))
	return nil
}

// redisProgram is the configured server program, or one that is found.
func redisProgram(ctx context.Context, cfg RedisConfig, log *slog.Logger) (string, error) {
	if cfg.Program != "" {
		path, err := exec.LookPath(cfg.Program)
		if err != nil {
			return "", fmt.Errorf("redis program: %w", err)
		}
		return path, nil
	}
	return redisServer.find(ctx, cfg.NoInstall, log)
}

// Start starts the server again, empty but on the same port, after
// [Redis.Stop], [Redis.Kill] or an end of its own.
func (r *Redis) Start(ctx context.Context) error {
	if r.dir == nil {
		return errNotOurs
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.proc.running() {
		return nil
	}
	ctx, cancel := startContext(ctx, "redis")
	defer cancel()
	for attempt := 1; ; attempt++ {
		if r.port == 0 {
			port, err := r.freePort(ctx)
			if err != nil {
				return err
			}
			r.port = port
		}
		err := r.launch(ctx)
		if err == nil {
			r.settled = true
			return nil
		}
		exit, early := errors.AsType[*exitError](err)
		if taken := early && strings.Contains(exit.log, "Address already in use"); attempt == 10 || !taken {
			return err
		}
		if !r.settled {
			r.port = 0
			continue
		}
		if !pause.For(ctx, 100*time.Millisecond) {
			return err
		}
	}
}

func (r *Redis) freePort(ctx context.Context) (int, error) {
	if r.cfg.cluster {
		return freePort(ctx, busOffset)
	}
	return freePort(ctx)
}

// launch runs the server once and waits until it answers.
func (r *Redis) launch(ctx context.Context) error {
	c := command{
		path: r.program, args: []string{"-"}, dir: r.work,
		stdin:   r.settings(), // not as arguments: those every user can read
		logFile: r.dir.file("redis.log"), as: r.as,
		onDeath: syscall.SIGTERM,
	}
	if r.cfg.sentinelOf != nil { // it writes what it knows into its file
		file := filepath.Join(r.work, "sentinel.conf")
		if err := errors.Join(os.WriteFile(file, []byte(c.stdin), 0o600), r.as.own(file)); err != nil {
			return err
		}
		c.args, c.stdin = []string{file, "--sentinel"}, ""
	}
	if r.cfg.surviveParent {
		c.onDeath = 0
	}
	proc, err := run(c)
	if err != nil {
		return err
	}
	if err := proc.awaitReady(ctx, func() bool { return r.answers(ctx) }); err != nil {
		return err
	}
	r.proc = proc
	note := fmt.Sprintf("%d\n%d\n", proc.pid(), r.port)
	return os.WriteFile(r.dir.file(redisPidName), []byte(note), 0o600)
}

// settings is the server's configuration file.
func (r *Redis) settings() string {
	lines := []string{
		"bind 127.0.0.1",
		"port " + strconv.Itoa(r.port),
		"requirepass " + r.password,
		"dir " + strconv.Quote(r.work),
		"daemonize no",
	}
	if of := r.cfg.sentinelOf; of != nil {
		return strings.Join(append(lines,
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d %d", masterSet, of.port, sentinels/2+1),
			"sentinel auth-pass "+masterSet+" "+r.password,
			"sentinel sentinel-pass "+r.password,
			"sentinel down-after-milliseconds "+masterSet+" 1000",
			"sentinel failover-timeout "+masterSet+" 10000",
		), "\n") + "\n"
	}
	lines = append(lines, "masterauth "+r.password, `save ""`, "appendonly no")
	if of := r.cfg.replicaOf; of != nil {
		lines = append(lines, fmt.Sprintf("replicaof 127.0.0.1 %d", of.port), "repl-diskless-sync-delay 0")
	}
	if r.cfg.MaxMemory != "" {
		lines = append(lines, "maxmemory "+r.cfg.MaxMemory)
	}
	if r.cfg.MaxMemoryPolicy != "" {
		lines = append(lines, "maxmemory-policy "+r.cfg.MaxMemoryPolicy)
	}
	if r.cfg.cluster {
		lines = append(lines, "cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-node-timeout 2000")
	}
	return strings.Join(lines, "\n") + "\n"
}

// answers asks with our password, so that a stranger who took the port first
// is not mistaken for our server.
func (r *Redis) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 250*time.Millisecond) // then asked again
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.Addr())
	if err != nil {
		return false
	}
	defer conn.Close() //nolint:errcheck // a probe
	if deadline, ok := ctx.Deadline(); ok && conn.SetDeadline(deadline) != nil {
		return false
	}
	if _, err := fmt.Fprintf(conn, "AUTH %s\r\nPING\r\n", r.password); err != nil {
		return false
	}
	lines := bufio.NewScanner(conn)
	for _, want := range []string{"+OK", "+PONG"} {
		if !lines.Scan() || lines.Text() != want {
			return false
		}
	}
	return true
}

// URL is the address with the password.
func (r *Redis) URL() string {
	if r.dir == nil {
		return r.cfg.URL
	}
	return (&url.URL{Scheme: "redis", User: url.UserPassword("", r.password), Host: r.Addr(), Path: "/0"}).String()
}

// Addr is host and port of a server of ours.
func (r *Redis) Addr() string { return loopback(r.port) }

// Done is closed when the server that runs now has ended, wanted or not. It is
// nil, and so never ready, for a server that the caller named.
func (r *Redis) Done() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.proc == nil {
		return nil
	}
	return r.proc.done
}

// Stop ends the server in order.
func (r *Redis) Stop(ctx context.Context) error { return r.end(ctx, syscall.SIGTERM) }

// Kill ends the server as a crash would.
func (r *Redis) Kill() error { return r.end(context.Background(), syscall.SIGKILL) }

func (r *Redis) end(ctx context.Context, sig syscall.Signal) error {
	if r.dir == nil {
		return errNotOurs
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.proc == nil {
		return nil
	}
	return r.proc.end(ctx, sig)
}

// Close stops the server, if it is ours, and removes its directory.
func (r *Redis) Close() error {
	if r.dir == nil {
		return nil
	}
	return errors.Join(r.end(context.Background(), syscall.SIGKILL), r.dir.close())
}

// stopOrphanRedis ends a server that a dead process left running. A Redis
// shows its address in its process title: ours is known by our random port.
func stopOrphanRedis(ctx context.Context, pidFile string) error {
	pid, lines, err := readPid(pidFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || len(lines) < 2 {
		return err
	}
	port, err := strconv.Atoi(lines[1])
	if err != nil {
		return err
	}
	ours := func() bool {
		line := commandLine(pid)
		return strings.Contains(line, "-server "+loopback(port))
	}
	return endStranger(ctx, pid, ours, syscall.SIGTERM, syscall.SIGKILL)
}
