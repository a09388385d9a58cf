package stack

import (
	"errors"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
)

func TestPostgresSettings(t *testing.T) {
	t.Parallel()
	kept := publicDir(t)
	tests := []struct {
		name string
		cfg  PostgresConfig
		want map[string]string
	}{
		{"throw-away", PostgresConfig{}, map[string]string{"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}},
		{"durable", PostgresConfig{Durable: true}, map[string]string{"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}},
		{"kept", PostgresConfig{DataDir: kept}, map[string]string{"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := startPostgres(t, tt.cfg)
			tt.want["TimeZone"] = "UTC"
			tt.want["max_connections"] = "200"
			tt.want["server_encoding"] = "UTF8"
			tt.want["password_encryption"] = "scram-sha-256"
			got := map[string]string{}
			for name := range tt.want {
				got[name] = query(t, p.URL(), "SHOW "+name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

// Every local user can connect to a loopback port: the password is the door.
func TestPostgresAsksForThePassword(t *testing.T) {
	t.Parallel()
	p := startPostgres(t, PostgresConfig{})
	if got := query(t, p.SocketURL(), "SELECT current_user"); got != superuser {
		t.Errorf("through the socket: %q, want %q", got, superuser)
	}
	for _, who := range []*url.Userinfo{url.User(superuser), url.UserPassword(superuser, "guess")} {
		u, err := url.Parse(p.URL())
		if err != nil {
			t.Fatal(err)
		}
		u.User = who
		if conn, err := pgx.Connect(testContext(t), u.String()); err == nil {
			t.Error("connected without the password")
			_ = conn.Close(testContext(t))
		}
	}
	for name, want := range map[string]os.FileMode{passwordName: 0o600, socketName: 0o700, clusterName: 0o700} {
		info, err := os.Stat(p.dir.file(name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("mode of %s is %#o, want %#o", name, got, want)
		}
	}
	if line := commandLine(p.proc.pid()); strings.Contains(line, p.password) {
		t.Error("the process list shows the password")
	}
}

func TestPostgresKeepsData(t *testing.T) {
	t.Parallel()
	cfg := PostgresConfig{DataDir: filepath.Join(publicDir(t), "kept")}
	first := startPostgres(t, cfg)
	query(t, first.URL(), "CREATE TABLE stay AS SELECT 'here' AS word", "SELECT word FROM stay")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := startPostgres(t, cfg)
	if got := query(t, second.URL(), "SELECT word FROM stay"); got != "here" {
		t.Errorf("word %q, want here", got)
	}
	if diff := cmp.Diff(first.URL(), second.URL()); diff != "" {
		t.Errorf("the address changed:\n%s", diff)
	}
	// A port that another process took meanwhile is given up, the data are not.
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", loopback(second.port))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	third := startPostgres(t, cfg)
	if third.port == second.port {
		t.Errorf("port %d is taken", third.port)
	}
	query(t, third.URL(), "SELECT word FROM stay")
}

func TestPostgresRestarts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		end  func(*Postgres) error
	}{
		{"stopped", func(p *Postgres) error { return p.Stop(t.Context()) }},
		{"killed", (*Postgres).Kill},
		{"crashed", func(p *Postgres) error { return syscall.Kill(p.proc.pid(), syscall.SIGKILL) }},
	}
	p := startPostgres(t, PostgresConfig{Durable: true})
	query(t, p.URL(), "CREATE TABLE stay (id serial)", "SELECT 'ok'")
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { //nolint:paralleltest // the server's life, in order
			ctx := testContext(t)
			query(t, p.URL(), "INSERT INTO stay DEFAULT VALUES", "SELECT 'ok'")
			before := p.URL()
			if err := tt.end(p); err != nil {
				t.Fatal(err)
			}
			select {
			case <-p.Done():
			case <-ctx.Done():
				t.Fatal("the server did not end")
			}
			if err := p.Start(ctx); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, p.URL()); diff != "" {
				t.Errorf("the address changed:\n%s", diff)
			}
			if got, want := query(t, p.URL(), "SELECT count(*)::text FROM stay"), strconv.Itoa(i+1); got != want {
				t.Errorf("%s rows, want %s", got, want)
			}
			if err := p.Start(ctx); err != nil {
				t.Errorf("start of a running server: %v", err)
			}
		})
	}
}

// A pid file can outlive its server, and its number can be another process's.
func TestPostgresStalePidFile(t *testing.T) {
	t.Parallel()
	stranger := exec.CommandContext(t.Context(), "sleep", "600")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stranger.Process.Kill()
		_ = stranger.Wait()
	})
	cfg := PostgresConfig{DataDir: filepath.Join(publicDir(t), "kept")}
	p := startPostgres(t, cfg)
	query(t, p.URL(), "CREATE TABLE stay AS SELECT 'here' AS word", "SELECT word FROM stay")
	for _, tt := range []struct{ name, file string }{
		{"number of a stranger", strconv.Itoa(stranger.Process.Pid) + "\n" + p.dir.file(clusterName) + "\n"},
		{"number of nobody", "4194303\n" + p.dir.file(clusterName) + "\n"},
		{"no number", "postmaster\n"},
		{"empty", ""},
	} {
		t.Run(tt.name, func(t *testing.T) { //nolint:paralleltest // one data directory
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			cluster := filepath.Join(cfg.DataDir, clusterName)
			name := filepath.Join(cluster, "postmaster.pid")
			if err := os.WriteFile(name, []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := p.as.own(name); err != nil {
				t.Fatal(err)
			}
			p = startPostgres(t, cfg)
			if got := query(t, p.URL(), "SELECT word FROM stay"); got != "here" {
				t.Errorf("word %q, want here", got)
			}
		})
	}
	if commandLine(stranger.Process.Pid) == "" {
		t.Error("a stranger was killed")
	}
}

func TestPostgresReplacesAnOrphan(t *testing.T) {
	t.Parallel()
	dataDir := filepath.Join(publicDir(t), "kept")
	c := startChild(t, childOrder{DataDir: dataDir, SurviveParent: true}, false)
	if c.Error != "" {
		t.Fatal(c.Error)
	}
	query(t, c.PostgresURL, "CREATE TABLE stay AS SELECT 'here' AS word", "SELECT word FROM stay")
	c.kill(t)
	query(t, c.PostgresURL, "SELECT 'ok'") // the orphan still serves
	p := startPostgres(t, PostgresConfig{DataDir: filepath.Join(dataDir, "postgres")})
	if !gone(c.PostgresPid)() {
		t.Error("the orphan still runs")
	}
	if got := query(t, p.URL(), "SELECT word FROM stay"); got != "here" {
		t.Errorf("word %q, want here", got)
	}
	if diff := cmp.Diff(c.PostgresURL, p.URL()); diff != "" {
		t.Errorf("the address changed:\n%s", diff)
	}
}

func TestPostgresDataDirInUse(t *testing.T) {
	t.Parallel()
	dataDir := filepath.Join(publicDir(t), "kept")
	c := startChild(t, childOrder{DataDir: dataDir}, false)
	if c.Error != "" {
		t.Fatal(c.Error)
	}
	_, err := StartPostgres(testContext(t), PostgresConfig{DataDir: filepath.Join(dataDir, "postgres")})
	inUse, ok := errors.AsType[*InUseError](err)
	if !ok {
		t.Fatalf("error %v, want an InUseError", err)
	}
	if want := "process " + strconv.Itoa(c.cmd.Process.Pid); !strings.Contains(inUse.Error(), want) {
		t.Errorf("%q does not say %q", inUse, want)
	}
	query(t, c.PostgresURL, "SELECT 'ok'") // unharmed
	c.finish(t)
}

// Between the choice of a port and its use another process may take it.
func TestPostgresLosesThePort(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	p := startPostgres(t, PostgresConfig{})
	if err := p.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	lost := p.port
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", loopback(lost))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := p.Start(ctx); err == nil {
		t.Error("started on a port that is taken")
	}
	p.settled = false // as on the first start
	if err := p.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if p.port == lost {
		t.Errorf("port %d is taken", lost)
	}
	query(t, p.URL(), "SELECT 'ok'")
}

func TestPostgresHalfMadeCluster(t *testing.T) {
	t.Parallel()
	dataDir := publicDir(t)
	half := filepath.Join(dataDir, clusterName+".new", "base")
	if err := os.MkdirAll(half, 0o700); err != nil {
		t.Fatal(err)
	}
	p := startPostgres(t, PostgresConfig{DataDir: dataDir})
	query(t, p.URL(), "SELECT 'ok'")
}

// A socket's path holds about a hundred bytes, a directory's many more.
func TestPostgresDeepDataDir(t *testing.T) {
	t.Parallel()
	deep := filepath.Join(publicDir(t), strings.Repeat("deep", 20), `with "quotes", and commas`)
	p := startPostgres(t, PostgresConfig{DataDir: deep})
	query(t, p.SocketURL(), "SELECT 'ok'")
	sockets := p.sockets
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if exists(sockets) {
		t.Errorf("%s is left behind", sockets)
	}
	p = startPostgres(t, PostgresConfig{DataDir: deep})
	query(t, p.URL(), "SELECT 'ok'")
}

func TestPostgresOddDataDir(t *testing.T) {
	t.Parallel()
	odd := filepath.Join(publicDir(t), `a "b", c d`)
	p := startPostgres(t, PostgresConfig{DataDir: odd})
	query(t, p.SocketURL(), "SELECT 'ok'")
}

func TestPostgresNamedServer(t *testing.T) {
	t.Parallel()
	server := startPostgres(t, PostgresConfig{Database: "first"})
	named := startPostgres(t, PostgresConfig{URL: server.URL()})
	if diff := cmp.Diff(server.URL(), named.URL()); diff != "" {
		t.Errorf("URL:\n%s", diff)
	}
	if got := query(t, named.DatabaseURL("postgres"), "SELECT current_database()"); got != "postgres" {
		t.Errorf("database %q, want postgres", got)
	}
	for _, err := range []error{named.Stop(t.Context()), named.Kill(), named.Start(t.Context())} {
		if !errors.Is(err, errNotOurs) {
			t.Errorf("error %v, want %v", err, errNotOurs)
		}
	}
	if err := named.Close(); err != nil {
		t.Error(err)
	}
	query(t, server.URL(), "SELECT 'ok'") // unharmed
}

func TestPostgresRefusals(t *testing.T) {
	t.Parallel()
	other := publicDir(t)
	cluster := filepath.Join(other, clusterName)
	if err := os.Mkdir(cluster, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cluster, "PG_VERSION"), []byte("9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	as, err := serverAccount("nobody")
	if err != nil {
		t.Fatal(err)
	}
	if err := as.own(cluster); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		cfg  PostgresConfig
		want string
	}{
		{"no URL", PostgresConfig{URL: "mysql://u:hidden@127.0.0.1/x"}, "no postgres:// URL"},
		{"malformed URL", PostgresConfig{URL: "postgres://u:hidden@127.0.0.1:port/x"}, "no postgres:// URL"},
		{"nobody there", PostgresConfig{URL: "postgres://u:hidden@127.0.0.1:1/x"}, "connect"},
		{"no programs", PostgresConfig{BinDir: publicDir(t)}, "does not hold initdb"},
		{"cluster of another version", PostgresConfig{DataDir: other}, "made by Postgres 9"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := StartPostgres(testContext(t), tt.cfg)
			if err == nil {
				_ = p.Close()
				t.Fatal("started")
			}
			if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hidden") {
				t.Errorf("error %q, want %q in it and no password", err, tt.want)
			}
		})
	}
}

func TestPathVersion(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]int{
		"/usr/lib/postgresql/15/bin":                         15,
		"/usr/pgsql-16/bin":                                  16,
		"/opt/homebrew/opt/postgresql@17/bin":                17,
		"/opt/homebrew/opt/postgresql/bin":                   0,
		"/Applications/Postgres.app/Contents/Versions/9/bin": 9,
	} {
		if got := pathVersion(path); got != want {
			t.Errorf("pathVersion(%q) = %d, want %d", path, got, want)
		}
	}
}

func TestAccountReaches(t *testing.T) {
	t.Parallel()
	dir := publicDir(t)
	closed := filepath.Join(dir, "closed")
	if err := os.MkdirAll(filepath.Join(closed, "inner"), 0o700); err != nil {
		t.Fatal(err)
	}
	stranger := account{uid: os.Geteuid() + 1, gid: os.Getegid() + 1, drop: true}
	if err := stranger.reaches(dir); err != nil {
		t.Errorf("%s: %v", dir, err)
	}
	if err := stranger.reaches(filepath.Join(closed, "inner")); err == nil || !strings.Contains(err.Error(), closed) {
		t.Errorf("error %v, want one that names %s", err, closed)
	}
	if err := (account{uid: os.Geteuid(), gid: os.Getegid()}).reaches(closed); err != nil {
		t.Errorf("the owner: %v", err)
	}
}
