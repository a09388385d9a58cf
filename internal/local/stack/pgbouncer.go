package stack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	pgbouncerConfig = "pgbouncer.ini"
	pgbouncerUsers  = "users.txt"
)

var pgbouncerServer = program{
	names: []string{"pgbouncer"}, pkg: "pgbouncer",
	help: `no PgBouncer was found. Install it with
  Debian, Ubuntu:  sudo apt-get install -y --no-install-recommends pgbouncer
  Fedora:          sudo dnf install -y pgbouncer
  macOS:           brew install pgbouncer`,
}

// PgBouncerConfig describes a PgBouncer in transaction mode before a Postgres
// server: each transaction of a client runs on whichever server connection is
// free.
type PgBouncerConfig struct {
	// ServerURL is a superuser's way into the server behind it; every database
	// of that server can be reached.
	ServerURL string
	// Users are the passwords of the roles that clients log in as, which are
	// those roles' passwords on the server too. The superuser is added.
	Users map[string]string
	// PoolSize is how many server connections a role has in a database; zero
	// is two.
	PoolSize int
	// NoInstall forbids installing PgBouncer when there is none.
	NoInstall bool
	// Logger receives progress; nil is silence.
	Logger *slog.Logger
}

// PgBouncer is a running pooler.
type PgBouncer struct {
	server *url.URL
	log    *slog.Logger
	dir    *dir
	proc   *process
	port   int
}

// StartPgBouncer starts a pooler. The context bounds the start alone: it runs
// until [PgBouncer.Close], or until this process ends.
func StartPgBouncer(ctx context.Context, cfg PgBouncerConfig) (*PgBouncer, error) {
	server, err := url.Parse(cfg.ServerURL)
	if err != nil || server.Hostname() == "" || server.User == nil {
		return nil, errors.New("start pgbouncer: the server's address is no postgres:// URL with host and user")
	}
	b := &PgBouncer{server: server, log: orSilent(cfg.Logger)}
	if err := b.create(ctx, cfg); err != nil {
		return nil, fmt.Errorf("start pgbouncer: %w", errors.Join(err, b.Close()))
	}
	return b, nil
}

func (b *PgBouncer) create(ctx context.Context, cfg PgBouncerConfig) error {
	begin := time.Now()
	path, err := pgbouncerServer.find(ctx, cfg.NoInstall, b.log)
	if err != nil {
		return err
	}
	as, err := serverAccount("postgres", "nobody") // it refuses to run as root
	if err != nil {
		return err
	}
	sweep(ctx, as, b.log)
	if b.dir, err = tempDir(as); err != nil {
		return err
	}
	work, err := b.dir.sub("work", as)
	if err != nil {
		return err
	}
	if err := writeFor(as, filepath.Join(work, pgbouncerUsers), b.users(cfg.Users)); err != nil {
		return err
	}
	ctx, cancel := startContext(ctx, "pgbouncer")
	defer cancel()
	for attempt := 1; ; attempt++ {
		if b.port, err = freePort(ctx); err != nil {
			return err
		}
		if err := writeFor(as, filepath.Join(work, pgbouncerConfig), b.settings(work, cfg.PoolSize)); err != nil {
			return err
		}
		err = b.launch(ctx, path, work, as)
		exit, early := errors.AsType[*exitError](err)
		if taken := early && strings.Contains(exit.log, "Address already in use"); attempt < 10 && taken {
			continue
		}
		if err == nil {
			b.log.InfoContext(ctx, "pgbouncer ready", "port", b.port, "took", time.Since(begin))
		}
		return err
	}
}

// users is the list of roles, with passwords as they are: the pooler has to
// prove them to the server.
func (b *PgBouncer) users(passwords map[string]string) string {
	all := map[string]string{}
	maps.Copy(all, passwords) // passwords may be nil, so no Clone
	if password, ok := b.server.User.Password(); ok {
		all[b.server.User.Username()] = password
	}
	quoted := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
	lines := make([]string, 0, len(all))
	for role, password := range all {
		lines = append(lines, quoted(role)+" "+quoted(password))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// settings is a plain configuration of a pooler: nothing in it makes life easier
// for the clients, such as a list of startup parameters to overlook.
func (b *PgBouncer) settings(work string, size int) string {
	if size == 0 {
		size = 2
	}
	port := b.server.Port()
	if port == "" {
		port = "5432"
	}
	return fmt.Sprintf(`[databases]
* = host=%s port=%s

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
pool_mode = transaction
default_pool_size = %d
max_client_conn = 500
server_tls_sslmode = prefer
`, b.server.Hostname(), port, b.port, filepath.Join(work, pgbouncerUsers), size)
}

func (b *PgBouncer) launch(ctx context.Context, path, work string, as account) error {
	config := filepath.Join(work, pgbouncerConfig)
	proc, err := run(command{
		path: path, args: []string{config}, dir: work, logFile: b.dir.file("pgbouncer.log"), as: as, onDeath: syscall.SIGTERM,
	})
	if err != nil {
		return err
	}
	if err := proc.awaitReady(ctx, func() bool { return b.answers(ctx) }); err != nil {
		return err
	}
	b.proc = proc
	return noteProcess(b.dir, proc, config)
}

// answers runs a statement through the pooler on the server.
func (b *PgBouncer) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // then asked again
	defer cancel()
	c, err := pgx.Connect(ctx, b.URL(b.server.String()))
	if err != nil {
		return false
	}
	_, err = c.Exec(ctx, "SELECT 1")
	return errors.Join(err, c.Close(ctx)) == nil
}

// URL leads a URL of the server, whichever its role and database, through the
// pooler.
func (b *PgBouncer) URL(direct string) string {
	u, err := url.Parse(direct)
	if err != nil {
		return ""
	}
	u.Host = loopback(b.port)
	return u.String()
}

// Close stops the pooler and removes its directory.
func (b *PgBouncer) Close() error {
	var err error
	if b.proc != nil {
		err = b.proc.end(context.Background(), syscall.SIGTERM) // at once; SIGINT would wait for clients
	}
	if b.dir != nil {
		err = errors.Join(err, b.dir.close())
	}
	return err
}

// writeFor writes a file that belongs to the account alone.
func writeFor(as account, path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	return as.own(path)
}
