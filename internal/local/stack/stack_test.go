package stack

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestStack(t *testing.T) {
	t.Parallel()
	stack, err := Start(testContext(t), Config{PubSub: PubSubConfig{InProcess: true}})
	if err != nil {
		t.Fatal(err)
	}
	if got := query(t, stack.Postgres.URL(), "SELECT current_database()"); got != "melmastoon" {
		t.Errorf("database %q, want melmastoon", got)
	}
	if err := ping(t, stack.Redis.URL()); err != nil {
		t.Error(err)
	}
	dirs := []string{stack.Postgres.dir.path, stack.Redis.dir.path}
	addrs := []string{urlHost(t, stack.Postgres.URL()), stack.Redis.Addr(), stack.PubSub.Host}
	if err := stack.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is left behind", dir)
		}
	}
	for _, addr := range addrs {
		if conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", addr); err == nil {
			t.Errorf("somebody still answers on %s", addr)
			_ = conn.Close()
		}
	}
	if err := stack.Stop(); err != nil {
		t.Errorf("second stop: %v", err)
	}
}

func TestStackFailsWhole(t *testing.T) {
	t.Parallel()
	_, err := Start(testContext(t), Config{Redis: RedisConfig{Program: "no-such-server"}, PubSub: PubSubConfig{InProcess: true}})
	if err == nil || !strings.Contains(err.Error(), "no-such-server") {
		t.Errorf("error %v, want one that names the missing program", err)
	}
}

// The usual ports are taken on many machines.
func TestStackLeavesUsualPortsAlone(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"127.0.0.1:5432", "127.0.0.1:6379", "127.0.0.1:8085"} {
		if l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", addr); err == nil { // taken already: as good
			defer l.Close()
		}
	}
	stack, err := Start(testContext(t), Config{PubSub: PubSubConfig{InProcess: true}})
	if err != nil {
		t.Fatal(err)
	}
	if err := stack.Stop(); err != nil {
		t.Error(err)
	}
}

func TestStackUnprivileged(t *testing.T) {
	t.Parallel()
	dir := publicDir(t)
	if os.Geteuid() == 0 {
		if err := nobody(t).own(dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, dataDir := range []string{"", filepath.Join(dir, "kept")} {
		for range 2 { // the second time on what the first left
			c := startChild(t, childOrder{DataDir: dataDir}, true)
			if c.Error != "" {
				t.Fatal(c.Error)
			}
			query(t, c.PostgresURL, "SELECT 'ok'")
			if err := ping(t, c.RedisURL); err != nil {
				t.Error(err)
			}
			c.finish(t)
		}
	}
}

// A killed parent cannot stop its servers: the kernel does.
func TestServersDieWithTheirParent(t *testing.T) {
	t.Parallel()
	c := startChild(t, childOrder{}, false)
	if c.Error != "" {
		t.Fatal(c.Error)
	}
	query(t, c.PostgresURL, "SELECT 'ok'")
	c.kill(t)
	await(t, "postgres ends", gone(c.PostgresPid))
	await(t, "redis ends", gone(c.RedisPid))

	as, err := serverAccount(superuser, "nobody")
	if err != nil {
		t.Fatal(err)
	}
	await(t, "left-over directories are swept", func() bool {
		sweep(testContext(t), as, orSilent(nil))
		return !exists(c.PostgresDir) && !exists(c.RedisDir)
	})
}

// Where no kernel helps, the next start ends what a killed parent left. The servers are
// in a directory of their own: every process on the machine that starts some sweeps the
// usual one.
func TestSweepEndsOrphans(t *testing.T) {
	root, err := os.MkdirTemp("", "sweep") //nolint:usetesting // t.TempDir is closed to the account of the servers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	if err := os.Chmod(root, 0o755); err != nil { //nolint:gosec // servers run under another account
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", root)
	c := startChild(t, childOrder{SurviveParent: true}, false)
	if c.Error != "" {
		t.Fatal(c.Error)
	}
	if !strings.HasPrefix(c.PostgresDir, root) {
		t.Fatalf("the server is in %s", c.PostgresDir)
	}
	c.kill(t)
	query(t, c.PostgresURL, "SELECT 'ok'") // still there
	if err := ping(t, c.RedisURL); err != nil {
		t.Errorf("redis did not outlive its parent: %v", err)
	}
	as, err := serverAccount(superuser, "nobody")
	if err != nil {
		t.Fatal(err)
	}
	await(t, "orphans end", func() bool {
		sweep(testContext(t), as, orSilent(nil))
		return !exists(c.PostgresDir) && !exists(c.RedisDir) && gone(c.PostgresPid)() && gone(c.RedisPid)()
	})
}

func TestSweepKeepsTheLiving(t *testing.T) {
	t.Parallel()
	as, err := serverAccount("nobody")
	if err != nil {
		t.Fatal(err)
	}
	d, err := tempDir(as)
	if err != nil {
		t.Fatal(err)
	}
	sweep(testContext(t), as, orSilent(nil))
	if !exists(d.path) {
		t.Error("swept a directory that is in use")
	}
	if err := d.close(); err != nil {
		t.Error(err)
	}
	if exists(d.path) {
		t.Error("a closed throw-away directory is still there")
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func urlHost(t *testing.T, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// A program that is being started while a directory is given up has a copy of the lock
// for a moment; the directory is free all the same.
func TestDirIsFreeAfterClose(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d, err := openDir(path)
	if err != nil {
		t.Fatal(err)
	}
	child, err := syscall.Dup(int(d.lock.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(child) })
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	again, err := openDir(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.close(); err != nil {
		t.Error(err)
	}
}
