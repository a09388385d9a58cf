// Package testkit gives tests real servers. It is for tests alone: no program
// may import it.
//
// The shared servers start with the first test of a process that asks for
// them and die with the process; what they leave on disk is swept by the next
// start. A server that cannot start fails the test: it is never skipped, as a
// skipped test proves nothing.
package testkit

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff/internal/local/stack"
	"melmastoon.ghasi.io/bff/internal/postgres"
)

// Servers to use instead of starting shared ones.
const (
	PostgresURLEnv = "MELMASTOON_TEST_POSTGRES_URL"
	RedisURLEnv    = "MELMASTOON_TEST_REDIS_URL"
	EmulatorEnv    = "MELMASTOON_TEST_PUBSUB_EMULATOR"
)

const (
	// startTimeout covers an installation of missing programs.
	startTimeout = 5 * time.Minute
	callTimeout  = 2 * time.Minute
	// deadlineMargin is what a test needs to say what went wrong, and to
	// clean up, before the test binary is killed.
	deadlineMargin = 5 * time.Second
)

// maxTest is how long a test may take.
var maxTest = Proof(5*time.Minute, 30*time.Minute)

// Context ends with the test, and in time before the deadline of the run.
func Context(t testing.TB) context.Context {
	t.Helper()
	end := time.Now().Add(maxTest)
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, ok := d.Deadline(); ok && deadline.Add(-deadlineMargin).Before(end) {
			end = deadline.Add(-deadlineMargin)
		}
	}
	ctx, cancel := context.WithDeadline(t.Context(), end)
	t.Cleanup(cancel)
	return ctx
}

// Postgres makes an empty database on the shared server and returns the
// superuser's URL. The database goes with the test.
func Postgres(t testing.TB) string {
	t.Helper()
	return sharedCluster(t).database(t, "template0")
}

// PostgresTemplate makes a database that is a copy of a template, which
// prepare fills once per process: migrate once, copy per test.
func PostgresTemplate(t testing.TB, name string, prepare func(url string) error) string {
	t.Helper()
	c := sharedCluster(t)
	template, err := c.template(name, prepare)
	if err != nil {
		t.Fatalf("prepare template database %s: %v", name, err)
	}
	return c.database(t, template)
}

// Patient is the configuration of a test's own pool. The timeouts of production are a
// few seconds: on a machine with other work they would end the test, not what it tests.
func Patient(url string) postgres.Config {
	return postgres.Config{URL: url, ConnectTimeout: callTimeout, StatementTimeout: callTimeout, LockTimeout: callTimeout, IdleInTransactionTimeout: callTimeout}
}

// NewPostgres starts a server for one test, to be stopped and killed at will.
// A durable one survives that with every committed transaction.
func NewPostgres(t testing.TB, durable bool) *stack.Postgres {
	t.Helper()
	p, err := stack.StartPostgres(t.Context(), stack.PostgresConfig{Durable: durable})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeServer(t, p) })
	return p
}

// PgBouncer starts a pooler in transaction mode before the shared Postgres server
// for one test, with two server connections per role and database. Users are the
// passwords that the roles have on the server. The function returned leads a URL
// of that server through the pooler.
func PgBouncer(t testing.TB, users map[string]string) func(direct string) string {
	t.Helper()
	b, err := stack.StartPgBouncer(t.Context(), stack.PgBouncerConfig{ServerURL: sharedCluster(t).admin, Users: users})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeServer(t, b) })
	return b.URL
}

// Promtool returns the path of Prometheus's tool that tests alert rules.
func Promtool(t testing.TB) string {
	t.Helper()
	path, err := stack.Promtool(t.Context(), false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Chromium opens a page in a real browser for one test: without a window, with an
// empty profile, and with every host name leading to this machine.
func Chromium(t testing.TB, url string) *stack.Chromium {
	t.Helper()
	c, err := stack.StartChromium(t.Context(), stack.ChromiumConfig{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeServer(t, c) })
	return c
}

// Redis returns the URL of the shared server. Tests keep apart by key prefix.
func Redis(t testing.TB) string {
	t.Helper()
	r, err := sharedRedis()
	if err != nil {
		t.Fatal(err)
	}
	return r.URL()
}

// NewRedis starts a server for one test, to be flushed and killed at will.
func NewRedis(t testing.TB) *stack.Redis {
	t.Helper()
	r, err := stack.StartRedis(t.Context(), stack.RedisConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeServer(t, r) })
	return r
}

// RedisCluster starts a cluster of three masters for one test and returns the
// URLs of its nodes.
func RedisCluster(t testing.TB) []string {
	t.Helper()
	c, err := stack.StartRedisCluster(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeServer(t, c) })
	return c.URLs()
}

// PubSub starts a server in this process for one test. The host speaks gRPC
// without TLS and credentials.
func PubSub(t testing.TB) (host, project string) {
	t.Helper()
	p, err := stack.StartPubSub(t.Context(), stack.PubSubConfig{InProcess: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeServer(t, p) })
	return p.Host, p.ProjectID
}

// EachPubSub runs a test against the server in this process, which stands in for Pub/Sub everywhere else, and against the emulator that
// EmulatorEnv names, if it does.
func EachPubSub(t *testing.T, test func(t *testing.T, host, project string)) {
	t.Helper()
	t.Run("in-process", func(t *testing.T) {
		t.Parallel()
		host, project := PubSub(t)
		test(t, host, project)
	})
	if host := os.Getenv(EmulatorEnv); host != "" {
		t.Run("emulator", func(t *testing.T) {
			t.Parallel()
			test(t, host, "test-"+strings.ToLower(rand.Text()[:12])) // a project keeps tests apart
		})
	}
}

func closeServer(t testing.TB, server interface{ Close() error }) {
	t.Helper()
	if err := server.Close(); err != nil {
		t.Errorf("close server: %v", err)
	}
}

// The process's servers; a test binary has nowhere else to keep them.
var (
	sharedRedis = sync.OnceValues(func() (*stack.Redis, error) {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		return stack.StartRedis(ctx, stack.RedisConfig{URL: os.Getenv(RedisURLEnv)})
	})
	sharedPostgres = sync.OnceValues(newCluster)
)

func sharedCluster(t testing.TB) *cluster {
	t.Helper()
	c, err := sharedPostgres()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// databasePrefix marks our databases on a server that is not ours.
const databasePrefix = "mt_"

// cluster is the shared Postgres server. Its databases carry a token of this
// process, whose advisory lock is held for as long as the process lives: on a
// server that outlives us, the next process sees from the lock what is left over.
type cluster struct {
	server *stack.Postgres
	token  string
	admin  string // URL of the maintenance database
	keeper *pgx.Conn

	mu        sync.Mutex
	templates map[string]func() (string, error)
}

func newCluster() (*cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	server, err := stack.StartPostgres(ctx, stack.PostgresConfig{URL: os.Getenv(PostgresURLEnv)})
	if err != nil {
		return nil, err
	}
	c := &cluster{
		server: server, token: strings.ToLower(rand.Text()[:12]), admin: server.DatabaseURL("postgres"),
		templates: map[string]func() (string, error){},
	}
	if c.keeper, err = pgx.Connect(ctx, c.admin); err != nil {
		return nil, fmt.Errorf("connect to test server: %w", err)
	}
	if _, err := c.keeper.Exec(ctx, "SELECT pg_advisory_lock(hashtextextended($1, 0))", c.token); err != nil {
		return nil, fmt.Errorf("lock test databases: %w", err)
	}
	return c, c.sweep(ctx)
}

// sweep drops databases of processes that are gone.
func (c *cluster) sweep(ctx context.Context) error {
	rows, err := c.keeper.Query(ctx, "SELECT datname FROM pg_database WHERE starts_with(datname, $1)", databasePrefix)
	if err != nil {
		return fmt.Errorf("list test databases: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("list test databases: %w", err)
	}
	for _, name := range names {
		token, _, _ := strings.Cut(strings.TrimPrefix(name, databasePrefix), "_")
		var gone bool
		err := c.keeper.QueryRow(ctx, "SELECT pg_try_advisory_lock(hashtextextended($1, 0))", token).Scan(&gone)
		if err != nil {
			return fmt.Errorf("sweep test databases: %w", err)
		}
		if !gone {
			continue
		}
		if err := drop(ctx, c.keeper, name); err != nil {
			return fmt.Errorf("sweep test databases: %w", err)
		}
		if _, err := c.keeper.Exec(ctx, "SELECT pg_advisory_unlock(hashtextextended($1, 0))", token); err != nil {
			return fmt.Errorf("sweep test databases: %w", err)
		}
	}
	return nil
}

// database copies a template for one test.
func (c *cluster) database(t testing.TB, template string) string {
	t.Helper()
	name := c.newName()
	err := c.do(Context(t), func(ctx context.Context, conn *pgx.Conn) error {
		return create(ctx, conn, name, template)
	})
	if err != nil {
		t.Fatalf("create test database: %v", err)
	}
	t.Cleanup(func() {
		// The test's own context has ended by now.
		if err := c.do(context.Background(), func(ctx context.Context, conn *pgx.Conn) error {
			return drop(ctx, conn, name)
		}); err != nil {
			t.Errorf("drop test database: %v", err)
		}
	})
	return c.server.DatabaseURL(name)
}

// template returns the name of a template database, filling it the first time.
func (c *cluster) template(name string, prepare func(url string) error) (string, error) {
	c.mu.Lock()
	made, ok := c.templates[name]
	if !ok {
		made = sync.OnceValues(func() (string, error) { return c.fill(prepare) })
		c.templates[name] = made
	}
	c.mu.Unlock()
	return made()
}

func (c *cluster) fill(prepare func(url string) error) (string, error) {
	name := c.newName()
	err := c.do(context.Background(), func(ctx context.Context, conn *pgx.Conn) error {
		return create(ctx, conn, name, "template0")
	})
	if err != nil {
		return "", err
	}
	if err := prepare(c.server.DatabaseURL(name)); err != nil {
		return "", err
	}
	return name, c.do(context.Background(), func(ctx context.Context, conn *pgx.Conn) error {
		// A session that prepare left open would block every copy.
		if _, err := conn.Exec(ctx, "ALTER DATABASE "+quote(name)+" ALLOW_CONNECTIONS false"); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
		return err
	})
}

func (c *cluster) newName() string {
	return databasePrefix + c.token + "_" + strings.ToLower(rand.Text()[:12])
}

func (c *cluster) do(ctx context.Context, work func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.admin)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // the work is done
	return work(ctx, conn)
}

func create(ctx context.Context, conn *pgx.Conn, name, template string) error {
	_, err := conn.Exec(ctx, "CREATE DATABASE "+quote(name)+" TEMPLATE "+quote(template))
	return err
}

func drop(ctx context.Context, conn *pgx.Conn, name string) error {
	_, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+quote(name)+" WITH (FORCE)")
	return err
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }
