package stack

import (
	"errors"
	"net"
	"net/url"
	"os"
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

func TestPostgresDataDirInUse(t *testing.T) {
	t.Parallel()
	dataDir := filepath.Join(publicDir(t), "kept")
	c := startChild(t, childOrder{DataDir: dataDir})
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
