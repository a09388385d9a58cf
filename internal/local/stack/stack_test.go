package stack

import (
	"net"
	"net/url"
	"os"
	"strings"
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

// A killed parent cannot stop its servers: the kernel does.
func TestServersDieWithTheirParent(t *testing.T) {
	t.Parallel()
	c := startChild(t, childOrder{})
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
	c := startChild(t, childOrder{SurviveParent: true})
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
