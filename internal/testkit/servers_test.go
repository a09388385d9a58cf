package testkit

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"
)

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(Context(t), url)
	if err != nil {
		t.Fatal(err)
	}
	// Left open on purpose: dropping the database must not wait for it.
	return conn
}

func TestPostgresDatabasesAreApart(t *testing.T) {
	t.Parallel()
	ctx := Context(t)
	first, second := Postgres(t), Postgres(t)
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
		url = Postgres(t)
		connect(t, url)
	})
	_, err := pgx.Connect(Context(t), url)
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
			ctx := Context(t)
			conn := connect(t, PostgresTemplate(t, name, prepare))
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

func TestTemplateThatFails(t *testing.T) {
	t.Parallel()
	broken, name := errors.New("no such migration"), "broken"+rand.Text()
	for range 2 { // the failure is kept: no test gets a half-filled template
		_, err := sharedCluster(t).template(name, func(string) error { return broken })
		if !errors.Is(err, broken) {
			t.Errorf("error %v, want %v", err, broken)
		}
	}
}

func TestRedisIsShared(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(Redis(t), Redis(t)); diff != "" {
		t.Errorf("two servers:\n%s", diff)
	}
	if own := NewRedis(t); own.URL() == Redis(t) {
		t.Error("NewRedis returned the shared server")
	}
}

func TestNewPostgresSurvivesKill(t *testing.T) {
	t.Parallel()
	ctx := Context(t)
	server := NewPostgres(t, true)
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
	ctx := Context(t)
	urls := RedisCluster(t)
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
	a, project := PubSub(t)
	b, _ := PubSub(t)
	if a == b || project == "" {
		t.Errorf("hosts %s and %s, project %q: want two hosts and a project", a, b, project)
	}
}

func TestContextEndsBeforeTheRun(t *testing.T) {
	t.Parallel()
	got, ok := Context(t).Deadline()
	if !ok {
		t.Fatal("no deadline")
	}
	if end, ok := t.Deadline(); ok && !got.Before(end) {
		t.Errorf("deadline %v is not before the run's %v", got, end)
	}
}

// On a server that outlives the process, databases of dead processes go, and
// those of living ones stay.
func TestNamedServerIsSwept(t *testing.T) {
	ctx := Context(t)
	t.Setenv(PostgresURLEnv, NewPostgres(t, false).URL())
	start := func() *cluster {
		t.Helper()
		c, err := newCluster()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.template("any", func(string) error { return nil }); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.keeper.Close(context.Background()) })
		return c
	}
	living, dead := start(), start()
	if err := dead.keeper.Close(ctx); err != nil {
		t.Fatal(err)
	}
	// The server hears of the end of a session a moment later.
	for {
		latest := start()
		rows, err := latest.keeper.Query(ctx, "SELECT datname FROM pg_database WHERE starts_with(datname, $1)", databasePrefix)
		if err != nil {
			t.Fatal(err)
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Join(names, " ")
		if !strings.Contains(all, living.token) {
			t.Fatal("the database of a living process was dropped")
		}
		if !strings.Contains(all, dead.token) {
			return
		}
		if ctx.Err() != nil {
			t.Fatal("the database of a dead process is still there")
		}
	}
}
