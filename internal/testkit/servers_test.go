package testkit_test

import (
	"crypto/rand"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff/internal/testkit"
)

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(testkit.Context(t), url)
	if err != nil {
		t.Fatal(err)
	}
	// Left open on purpose: dropping the database must not wait for it.
	return conn
}

func TestPostgresDatabasesAreApart(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	first, second := testkit.Postgres(t), testkit.Postgres(t)
	if first == second {
		t.Fatal("two calls returned the same database")
	}
	a, b := connect(t, first), connect(t, second)
	if _, err := a.Exec(ctx, "CREATE TABLE stay (id int)"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Exec(ctx, "CREATE TABLE stay (id int)"); err != nil {
		t.Errorf("the second database is not empty: %v", err)
	}
}

func TestPostgresDatabaseGoesWithTheTest(t *testing.T) {
	t.Parallel()
	var url string
	t.Run("user", func(t *testing.T) { //nolint:paralleltest // the parent looks at what it leaves
		url = testkit.Postgres(t)
		connect(t, url)
	})
	_, err := pgx.Connect(testkit.Context(t), url)
	if err == nil || !strings.Contains(err.Error(), "3D000") {
		t.Errorf("connect to a dropped database: %v, want code 3D000", err)
	}
}

func TestPostgresTemplateIsPreparedOnce(t *testing.T) {
	t.Parallel()
	var prepared atomic.Int32
	name := "once" + rand.Text() // a second run in the same process has its own
	prepare := func(url string) error {
		prepared.Add(1)
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			return err
		}
		// Not closed: a careless prepare must not block the copies.
		_, err = conn.Exec(t.Context(), "CREATE TABLE stay (id int); INSERT INTO stay VALUES (7)")
		return err
	}
	for range 4 {
		t.Run("copy", func(t *testing.T) {
			t.Parallel()
			ctx := testkit.Context(t)
			conn := connect(t, testkit.PostgresTemplate(t, name, prepare))
			// Every copy must see the template's row, not another copy's.
			if _, err := conn.Exec(ctx, "UPDATE stay SET id = id + 1"); err != nil {
				t.Fatal(err)
			}
			var id int
			if err := conn.QueryRow(ctx, "SELECT id FROM stay").Scan(&id); err != nil {
				t.Fatal(err)
			}
			if id != 8 {
				t.Errorf("id = %d, want 8", id)
			}
		})
	}
	t.Cleanup(func() {
		if got := prepared.Load(); got != 1 {
			t.Errorf("prepared %d times, want 1", got)
		}
	})
}

// fatalTB records a failure instead of ending the test.
type fatalTB struct {
	testing.TB
	failed chan string
}

func (f fatalTB) Fatalf(string, ...any) {
	f.failed <- "fatal"
	runtime.Goexit() // like Fatalf
}

func TestPostgresTemplateFailureIsFatal(t *testing.T) {
	t.Parallel()
	f := fatalTB{TB: t, failed: make(chan string, 1)}
	go testkit.PostgresTemplate(f, "broken", func(string) error { return errors.New("no such migration") })
	select {
	case <-f.failed:
	case <-testkit.Context(t).Done():
		t.Error("a template that cannot be prepared must fail the test")
	}
}

func TestRedisIsShared(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(testkit.Redis(t), testkit.Redis(t)); diff != "" {
		t.Errorf("two servers:\n%s", diff)
	}
	if own := testkit.NewRedis(t); own.URL() == testkit.Redis(t) {
		t.Error("NewRedis returned the shared server")
	}
}

func TestNewPostgresSurvivesKill(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server := testkit.NewPostgres(t, true)
	conn := connect(t, server.URL())
	if _, err := conn.Exec(ctx, "CREATE TABLE stay (id int)"); err != nil {
		t.Fatal(err)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, server.URL()).Exec(ctx, "SELECT id FROM stay"); err != nil {
		t.Error(err)
	}
}

func TestRedisCluster(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	urls := testkit.RedisCluster(t)
	if len(urls) != 3 {
		t.Fatalf("%d nodes, want 3", len(urls))
	}
	option, err := rueidis.ParseURL(urls[0])
	if err != nil {
		t.Fatal(err)
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	err = client.Do(ctx, client.B().Mset().KeyValue().KeyValue("{ssn_1}:a", "1").KeyValue("{ssn_1}:b", "2").Build()).Error()
	if err != nil {
		t.Error(err)
	}
}

func TestPubSubIsFresh(t *testing.T) {
	t.Parallel()
	a, project := testkit.PubSub(t)
	b, _ := testkit.PubSub(t)
	if a == b || project == "" {
		t.Errorf("hosts %s and %s, project %q: want two hosts and a project", a, b, project)
	}
}

func TestContextEndsBeforeTheRun(t *testing.T) {
	t.Parallel()
	got, ok := testkit.Context(t).Deadline()
	if !ok {
		t.Fatal("no deadline")
	}
	if end, ok := t.Deadline(); ok && !got.Before(end) {
		t.Errorf("deadline %v is not before the run's %v", got, end)
	}
}
