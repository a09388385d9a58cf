package stack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff/internal/pause"
)

// Names inside a Postgres directory.
const (
	clusterName  = "data"     // what initdb makes
	socketName   = "run"      // the Unix socket
	passwordName = "password" // of the superuser, over TCP
	portName     = "port"     // of the last start
	superuser    = "postgres"
)

// PostgresConfig describes a Postgres server. The zero value is a throw-away one.
type PostgresConfig struct {
	// URL names a server that is already there: nothing is started.
	URL string
	// BinDir holds initdb and postgres; empty has them found.
	BinDir string
	// DataDir keeps the data between starts. Empty is a throw-away server: in
	// a temporary directory, without regard for a crash of the machine.
	DataDir string
	// Durable makes a throw-away server write as safely as a kept one.
	Durable bool
	// Settings are more settings of the server, each name=value.
	Settings []string
	// Copy fills the data directory from another server; nil = the server is new.
	Copy *PostgresCopy
	// Database is created when missing; empty is "melmastoon".
	Database string
	// NoInstall forbids installing Postgres when there is none.
	NoInstall bool
	// Logger hears about progress; nil is silence.
	Logger *slog.Logger

	surviveParent bool // tests of orphans
}

// PostgresCopy says where a server has its data from: it is a standby, or what a backup
// is restored to. It has the roles and passwords of the other.
type PostgresCopy struct {
	Of *Postgres
	// Command is the program, of the server's or of the system, with the arguments that
	// fill an empty directory. It runs as the server's account.
	Command func(into string) []string
}

// Standby is a copy that follows the other server until it is promoted.
func (p *Postgres) Standby() *PostgresCopy {
	return &PostgresCopy{Of: p, Command: func(into string) []string {
		return []string{"pg_basebackup", "--pgdata=" + into, "--write-recovery-conf", "--checkpoint=fast", "--dbname=" + p.socketURL("postgres")}
	}}
}

// Directory makes a directory for the server's account that goes with the server, for
// its archive or its backups.
func (p *Postgres) Directory(name string) (string, error) { return p.dir.sub(name, p.as) }

// Run runs a program of the server's, or of the system, as its account.
func (p *Postgres) Run(ctx context.Context, name string, args ...string) error {
	path := filepath.Join(p.bin, name)
	if !isProgram(path) {
		found, err := exec.LookPath(name)
		if err != nil {
			return err
		}
		path = found
	}
	if out, err := p.runAsServer(ctx, p.sockets, path, args...); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Postgres is a server: ours, or one that the caller named.
type Postgres struct {
	cfg PostgresConfig
	log *slog.Logger

	dir       *dir // nil when the caller named the server
	socketDir *dir // where dir's path is too long for a socket
	bin       string
	as        account
	sockets   string
	password  string
	port      int

	mu      sync.Mutex
	proc    *process
	settled bool // it has run on this port: the URL is out and must stay true
}

// StartPostgres finds, or starts, a server and its database. The context
// bounds the start alone: the server runs until [Postgres.Close], or until
// this process ends.
func StartPostgres(ctx context.Context, cfg PostgresConfig) (*Postgres, error) {
	if cfg.Database == "" {
		cfg.Database = "melmastoon"
	}
	p := &Postgres{cfg: cfg, log: orSilent(cfg.Logger)}
	var err error
	if cfg.URL != "" {
		err = p.probe(ctx)
	} else {
		err = p.create(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", errors.Join(err, p.Close()))
	}
	return p, nil
}

// probe checks a server that the caller named.
func (p *Postgres) probe(ctx context.Context) error {
	u, err := url.Parse(p.cfg.URL)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return errors.New("the given address is no postgres:// URL") // it may hold a password: not repeated
	}
	ctx, cancel := startContext(ctx, "postgres")
	defer cancel()
	return p.session(ctx, p.cfg.URL, func(c *pgx.Conn) error { return c.Ping(ctx) })
}

// create brings up a server of our own.
func (p *Postgres) create(ctx context.Context) error {
	begin := time.Now()
	if err := p.open(ctx); err != nil {
		return err
	}
	sweep(ctx, p.as, p.log)
	ctx, cancel := startContext(ctx, "postgres")
	defer cancel()
	if err := p.initialise(ctx); err != nil {
		return err
	}
	if err := stopOrphanPostgres(ctx, p.dir.file(clusterName)); err != nil {
		return err
	}
	if err := p.Start(ctx); err != nil {
		return err
	}
	if err := p.prepare(ctx); err != nil {
		return err
	}
	p.log.InfoContext(ctx, "postgres ready", "port", p.port, "dir", p.dir.path, "took", time.Since(begin))
	return nil
}

// open finds the programs, the account and the directories.
func (p *Postgres) open(ctx context.Context) (err error) {
	if p.cfg.DataDir == "" {
		return p.openTemporary(ctx)
	}
	// The lock first: nothing in the directory is true before we hold it.
	if p.dir, err = openDir(p.cfg.DataDir); err != nil {
		return err
	}
	cluster := p.dir.file(clusterName)
	version, err := os.ReadFile(filepath.Join(cluster, "PG_VERSION")) //nolint:gosec // our own directory
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if p.bin, err = postgresPrograms(ctx, p.cfg, "", p.log); err != nil {
			return err
		}
		if p.as, err = serverAccount(superuser, "nobody"); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("read cluster: %w", err)
	default:
		if p.as, err = ownerAccount(cluster); err != nil {
			return err
		}
		if p.bin, err = postgresPrograms(ctx, p.cfg, strings.TrimSpace(string(version)), p.log); err != nil {
			return err
		}
	}
	if err := p.as.reaches(p.dir.path); err != nil {
		return fmt.Errorf("%w: choose another data directory, such as /var/lib/melmastoon", err)
	}
	holder := p.dir
	// Too long for a socket, or with the character that separates hosts in a URL.
	if len(p.dir.file(socketName+"/.s.PGSQL.65535")) > maxSocketPath || strings.Contains(p.dir.path, ",") {
		if p.socketDir, err = tempDir(p.as); err != nil {
			return err
		}
		holder = p.socketDir
	}
	p.sockets, err = holder.sub(socketName, p.as)
	return err
}

func (p *Postgres) openTemporary(ctx context.Context) (err error) {
	if p.bin, err = postgresPrograms(ctx, p.cfg, "", p.log); err != nil {
		return err
	}
	if p.as, err = serverAccount(superuser, "nobody"); err != nil {
		return err
	}
	if p.dir, err = tempDir(p.as); err != nil {
		return err
	}
	p.sockets, err = p.dir.sub(socketName, p.as)
	return err
}

// initialise makes the cluster where there is none. It is made under another
// name first: a half-made cluster of an interrupted start must not be taken
// for a whole one.
func (p *Postgres) initialise(ctx context.Context) error {
	cluster := p.dir.file(clusterName)
	if _, err := os.Stat(cluster); err == nil {
		return nil
	}
	if _, err := user.LookupId(strconv.Itoa(p.as.uid)); err != nil {
		return fmt.Errorf("initdb needs a user with a name: %w", err)
	}
	if err := os.RemoveAll(p.dir.file(clusterName + ".new")); err != nil {
		return err
	}
	fresh, err := p.dir.sub(clusterName+".new", p.as)
	if err != nil {
		return err
	}
	if err := p.fill(ctx, fresh); err != nil {
		return err
	}
	return os.Rename(fresh, cluster)
}

// initdb makes a cluster in an empty directory.
func (p *Postgres) initdb(ctx context.Context, into string) error {
	args := append(p.initdbArgs(), "--pgdata="+into)
	if p.careless() {
		args = append(args, "--no-sync")
	}
	if out, err := p.runAsServer(ctx, into, filepath.Join(p.bin, "initdb"), args...); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// initdbArgs describe a cluster. Any local user can connect to a loopback port, so that
// asks for the password; the socket lies in a directory only its owner can enter. A
// throw-away server is sent the password itself, and computes the 4,096 hashes that
// SCRAM would have its clients do for each connection, which is most of the time of
// connecting for a client under the race detector.
func (p *Postgres) initdbArgs() []string {
	host := "password"
	if p.cfg.DataDir != "" {
		host = "scram-sha-256"
	}
	return []string{"--username=" + superuser, "--encoding=UTF8", "--locale=C", "--no-instructions", "--auth-local=trust", "--auth-host=" + host}
}

// runAsServer runs a program to its end under the server's account.
func (p *Postgres) runAsServer(ctx context.Context, dir, path string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // a program we found
	cmd.Dir, cmd.Env = dir, serverEnv("/")
	cmd.SysProcAttr = sysProcAttr(p.as, syscall.SIGKILL)
	runtime.LockOSThread() // see run: the death signal belongs to the thread
	defer runtime.UnlockOSThread()
	return cmd.CombinedOutput()
}

// careless is a server whose data is thrown away at the end.
func (p *Postgres) careless() bool { return p.cfg.DataDir == "" && !p.cfg.Durable }

// Start starts the server again, on the same port and the same data, after
// [Postgres.Stop], [Postgres.Kill] or an end of its own.
func (p *Postgres) Start(ctx context.Context) error {
	if p.dir == nil {
		return errNotOurs
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proc.running() {
		return nil
	}
	ctx, cancel := startContext(ctx, "postgres")
	defer cancel()
	if p.port == 0 {
		p.port = p.lastPort(ctx)
	}
	for attempt := 1; ; attempt++ {
		if p.port == 0 {
			port, err := freePort(ctx)
			if err != nil {
				return err
			}
			p.port = port
		}
		err := p.launch(ctx)
		if err == nil {
			p.settled = true
			return nil
		}
		// Two causes pass by themselves: another process took the port, and
		// the children of a killed server take a moment to notice.
		exit, early := errors.AsType[*exitError](err)
		taken := early && strings.Contains(exit.log, "could not create any TCP/IP sockets")
		lingering := early && strings.Contains(exit.log, "is still in use")
		if attempt == 10 || !taken && !lingering {
			return err
		}
		if taken && !p.settled {
			p.port = 0
			continue
		}
		if !pause.For(ctx, 100*time.Millisecond) {
			return err
		}
	}
}

// launch runs the server once and waits until it takes connections.
func (p *Postgres) launch(ctx context.Context) error {
	cluster := p.dir.file(clusterName)
	settings := []string{
		"listen_addresses=127.0.0.1",
		"port=" + strconv.Itoa(p.port),
		`unix_socket_directories="` + strings.ReplaceAll(p.sockets, `"`, `""`) + `"`,
		"max_connections=200",
		"shared_buffers=64MB",
		"timezone=UTC",
		"log_timezone=UTC",
		"password_encryption=scram-sha-256",
		// In the data directory, not in /dev/shm: nothing outlives the directory.
		"dynamic_shared_memory_type=mmap",
		"logging_collector=off",
	}
	if p.careless() {
		settings = append(settings, "fsync=off", "synchronous_commit=off", "full_page_writes=off",
			"wal_level=minimal", "max_wal_senders=0")
	}
	args := []string{"-D", cluster}
	for _, s := range append(settings, p.cfg.Settings...) {
		args = append(args, "-c", s)
	}
	c := command{
		path: filepath.Join(p.bin, "postgres"), args: args, dir: cluster,
		logFile: p.dir.file("postgres.log"), as: p.as,
		onDeath: syscall.SIGINT, // fast shutdown
	}
	if p.cfg.surviveParent {
		c.onDeath = 0
	}
	proc, err := run(c)
	if err != nil {
		return err
	}
	pidFile := filepath.Join(cluster, "postmaster.pid")
	err = proc.awaitReady(ctx, func() bool {
		// Like pg_ctl: the eighth line is the server's own word on its state.
		pid, lines, err := readPid(pidFile)
		if err != nil || pid != proc.pid() || len(lines) < 8 {
			return false
		}
		state := strings.TrimSpace(lines[7])
		return state == "ready" || state == "standby" && p.cfg.Copy != nil
	})
	if err != nil {
		return err
	}
	p.proc = proc
	return nil
}

// prepare sees to the password and the database of a server that just came up.
func (p *Postgres) prepare(ctx context.Context) error {
	if p.cfg.Copy != nil {
		p.password = p.cfg.Copy.Of.password
		return nil
	}
	name := p.dir.file(passwordName)
	saved, err := os.ReadFile(name) //nolint:gosec // our own directory
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read password: %w", err)
	}
	p.password = strings.TrimSpace(string(saved))
	return p.session(ctx, p.socketURL("postgres"), func(c *pgx.Conn) error {
		if p.password == "" {
			secret := newPassword()
			if _, err := c.Exec(ctx, "ALTER ROLE "+superuser+" PASSWORD '"+secret+"'"); err != nil {
				return errors.New("set password: refused") // the server's answer may quote the statement
			}
			if err := os.WriteFile(name, []byte(secret+"\n"), 0o600); err != nil {
				return fmt.Errorf("keep password: %w", err)
			}
			p.password = secret
		}
		if !p.dir.temporary {
			if err := os.WriteFile(p.dir.file(portName), []byte(strconv.Itoa(p.port)), 0o600); err != nil {
				return fmt.Errorf("keep port: %w", err)
			}
		}
		var there bool
		err := c.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", p.cfg.Database).Scan(&there)
		if err != nil || there {
			return err
		}
		_, err = c.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{p.cfg.Database}.Sanitize())
		return err
	})
}

// lastPort is the port of the last start, if it is free: then addresses that
// people noted stay true.
func (p *Postgres) lastPort(ctx context.Context) int {
	raw, err := os.ReadFile(p.dir.file(portName))
	if err != nil {
		return 0
	}
	port, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || port < portLow || port >= portHigh || !canBind(ctx, port) {
		return 0
	}
	return port
}

func (p *Postgres) session(ctx context.Context, address string, do func(*pgx.Conn) error) error {
	c, err := pgx.Connect(ctx, address)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	return errors.Join(do(c), c.Close(ctx))
}

// URL is the superuser's way into the database.
func (p *Postgres) URL() string { return p.DatabaseURL(p.cfg.Database) }

// DatabaseURL is the superuser's way into another database of the server.
func (p *Postgres) DatabaseURL(database string) string {
	if p.dir == nil {
		if database == p.cfg.Database {
			return p.cfg.URL
		}
		u, err := url.Parse(p.cfg.URL) // parsed before, by probe
		if err != nil {
			return ""
		}
		u.Path = "/" + database
		return u.String()
	}
	return (&url.URL{
		Scheme: "postgres", User: url.UserPassword(superuser, p.password),
		Host: loopback(p.port), Path: "/" + database, RawQuery: "sslmode=disable",
	}).String()
}

// SocketURL is like [Postgres.URL] through the Unix socket, for the user who
// owns the server; for a server that the caller named it is its URL.
func (p *Postgres) SocketURL() string {
	if p.dir == nil {
		return p.cfg.URL
	}
	return p.socketURL(p.cfg.Database)
}

func (p *Postgres) socketURL(database string) string {
	q := url.Values{"host": {p.sockets}, "port": {strconv.Itoa(p.port)}, "sslmode": {"disable"}}
	query := strings.ReplaceAll(q.Encode(), "+", "%20") // a plus is a plus to Postgres clients
	return (&url.URL{Scheme: "postgres", User: url.User(superuser), Path: "/" + database, RawQuery: query}).String()
}

// Done is closed when the server that runs now has ended, wanted or not. It is
// nil, and so never ready, for a server that the caller named.
func (p *Postgres) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proc == nil {
		return nil
	}
	return p.proc.done
}

// Stop ends the server in order: sessions are cut, everything is written. The
// data stay for [Postgres.Start], even those of a throw-away server.
func (p *Postgres) Stop(ctx context.Context) error { return p.end(ctx, syscall.SIGINT) }

// Kill ends the server as a crash would: nothing is written, the next start
// has to recover. Every process of the server is gone when it returns.
func (p *Postgres) Kill() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return p.end(ctx, syscall.SIGQUIT)
}

func (p *Postgres) end(ctx context.Context, sig syscall.Signal) error {
	if p.dir == nil {
		return errNotOurs
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proc == nil {
		return nil
	}
	return p.proc.end(ctx, sig)
}

// Close stops the server, if it is ours, and gives up its directory.
func (p *Postgres) Close() error {
	if p.dir == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	sig := syscall.SIGINT
	if p.dir.temporary {
		sig = syscall.SIGQUIT // the data is thrown away: a checkpoint would be wasted
	}
	err := errors.Join(p.end(ctx, sig), p.dir.close())
	if p.socketDir != nil {
		err = errors.Join(err, p.socketDir.close())
	}
	return err
}

var errNotOurs = errors.New("the server was not started here, so it is not ours to start or stop")

// stopOrphanPostgres ends a server that a dead process left running in our
// own directory, and clears a pid file that would keep a new one from starting.
func stopOrphanPostgres(ctx context.Context, cluster string) error {
	name := filepath.Join(cluster, "postmaster.pid")
	pid, _, err := readPid(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		ours := func() bool {
			line := commandLine(pid)
			program, args, _ := strings.Cut(line, " ")
			return filepath.Base(program) == "postgres" && strings.HasPrefix(args, "-D "+cluster+" ")
		}
		// Fast, then immediate, then without asking.
		if err := endStranger(ctx, pid, ours, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL); err != nil {
			return err
		}
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			// Dead: Postgres sees that for itself, and with the file in place
			// it also sees children of the dead server that still write.
			return nil
		}
	}
	// The number belongs to another process by now, or to a zombie, or there is
	// none: Postgres would take the cluster for a running one and refuse.
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
