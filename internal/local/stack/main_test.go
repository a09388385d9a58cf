package stack

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// childEnv makes the test binary a process that starts a stack, says so, and
// stops it when its input ends: a parent that tests can kill.
const childEnv = "LOCALSTACK_TEST_CHILD"

// patience is for servers that start on a machine with much other work.
const patience = 5 * time.Minute

type childOrder struct {
	DataDir       string
	SurviveParent bool
}

type childReport struct {
	Error       string
	PostgresPid int
	PostgresURL string
	PostgresDir string
	RedisPid    int
	RedisURL    string
	RedisDir    string
}

func TestMain(m *testing.M) {
	if order := os.Getenv(childEnv); order != "" {
		if err := childMain(order); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func childMain(raw string) error {
	var order childOrder
	if err := json.Unmarshal([]byte(raw), &order); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stack, err := Start(ctx, Config{
		DataDir:  order.DataDir,
		Postgres: PostgresConfig{surviveParent: order.SurviveParent},
		Redis:    RedisConfig{surviveParent: order.SurviveParent},
	})
	if err != nil {
		return json.NewEncoder(os.Stdout).Encode(childReport{Error: err.Error()})
	}
	report := childReport{
		PostgresPid: stack.Postgres.proc.pid(), PostgresURL: stack.Postgres.URL(), PostgresDir: stack.Postgres.dir.path,
		RedisPid: stack.Redis.proc.pid(), RedisURL: stack.Redis.URL(), RedisDir: stack.Redis.dir.path,
	}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return stack.Stop()
}

// child is such a process.
type child struct {
	childReport
	cmd   *exec.Cmd
	stdin io.Closer
}

func startChild(t *testing.T, order childOrder) *child {
	t.Helper()
	raw, err := json.Marshal(order)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), childEnv+"="+string(raw))
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: cmd, stdin: stdin}
	t.Cleanup(func() { c.kill(t) })
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatalf("child said nothing: %v", err)
	}
	if err := json.Unmarshal(line, &c.childReport); err != nil {
		t.Fatal(err)
	}
	return c
}

// finish lets the child stop its servers.
func (c *child) finish(t *testing.T) {
	t.Helper()
	if err := c.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Wait(); err != nil {
		t.Fatalf("child: %v", err)
	}
}

// kill ends the child as nothing can prepare for.
func (c *child) kill(t *testing.T) {
	t.Helper()
	if c.cmd.ProcessState != nil {
		return
	}
	if err := c.cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = c.cmd.Wait() // "signal: killed"
}

// publicDir is a temporary directory that other users can pass through;
// t.TempDir is not, when the system's temporary directory is private.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "stack-test-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// await fails the test when a condition outside of it does not come true.
func await(t *testing.T, what string, ready func() bool) {
	t.Helper()
	if err := until(testContext(t), func() (bool, error) { return ready(), nil }); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// gone is the end of a process, a zombie that is not reaped included.
func gone(pid int) func() bool {
	return func() bool { return commandLine(pid) == "" }
}

func startPostgres(t *testing.T, cfg PostgresConfig) *Postgres {
	t.Helper()
	p, err := StartPostgres(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func startRedis(t *testing.T, cfg RedisConfig) *Redis {
	t.Helper()
	r, err := StartRedis(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// query runs statements and returns the single value of the last one.
func query(t *testing.T, url string, statements ...string) string {
	t.Helper()
	ctx := testContext(t)
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	var value string
	for i, s := range statements {
		if i < len(statements)-1 {
			_, err = conn.Exec(ctx, s)
		} else {
			err = conn.QueryRow(ctx, s).Scan(&value)
		}
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	return value
}
