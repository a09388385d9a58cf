package service

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/pubsub"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

// shape is a service with an outbox, in each of the two forms that tables have.
type shape struct {
	Identity
	role string // of relay and jobs
}

func shapes() map[string]shape {
	jobs := []Job{{Name: "sweep"}, {Name: "export"}}
	receives := []pubsub.Subscription{{Name: "test.tenant", Topic: "melmastoon.tenant.suspended.v1"}}
	publishes := []string{"melmastoon.test.wishlist.added.v1", "melmastoon.test.click.recorded.v1"}
	return map[string]shape{
		"text ids": {Identity{Name: "test", Schema: migrations.Consumer(), Jobs: jobs, Receives: receives, Publishes: publishes, Outbox: outbox.NewTable(outbox.Shape{
			Name: "bff_consumer.outbox", Topic: "topic", Envelope: "headers", Created: "created_at", Retained: true,
			Key: func(*bff.Envelope) string { return "" },
		})}, migrations.ConsumerApp},
		"uuids": {Identity{Name: "test", Schema: migrations.Backoffice(), Isolated: true, Outbox: outbox.NewTable(outbox.Shape{
			Name: "bff_backoffice.outbox", Archive: "bff_backoffice.outbox_archive", UUID: true,
			Topic: "subject", Envelope: "envelope", Created: "enqueued_at", Key: func(*bff.Envelope) string { return "" },
		})}, migrations.BackofficeJobs},
	}
}

// open returns the service's migrated database as relay and jobs see it.
func (s shape) open(t *testing.T) *pgxpool.Pool {
	t.Helper()
	u, err := url.Parse(testkit.PostgresTemplate(t, s.Schema.Schema, func(dsn string) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return postgres.Migrate(ctx, dsn, s.Schema, postgres.MigrateOptions{})
	}))
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("role", s.role)
	u.RawQuery = q.Encode()
	db, err := postgres.Open(t.Context(), testkit.Patient(u.String()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// add puts n events into the outbox and returns their ids.
func (s shape) add(t *testing.T, db *pgxpool.Pool, n int) []bff.ID {
	t.Helper()
	var (
		ids    []bff.ID
		events []bff.Event
	)
	for range n {
		id := bff.NewID(bff.PrefixEvent, time.Now())
		ids = append(ids, id)
		events = append(events, bff.Event{
			Envelope: bff.Envelope{
				EventID: id.String(), Subject: "melmastoon.test.click.recorded.v1", RetentionClass: bff.RetentionOperational,
			}, Payload: json.RawMessage(`{}`),
		})
	}
	if err := s.Outbox.Append(testkit.Context(t), db, events...); err != nil {
		t.Fatal(err)
	}
	return ids
}

func exec(t *testing.T, db *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(testkit.Context(t), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	for name, s := range shapes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, db, table := testkit.Context(t), s.open(t), s.Outbox
			ids := s.add(t, db, 5)
			exec(t, db, `UPDATE `+table.Name()+` SET dlq = true, attempts = 10, last_error = E'refused\nsecond line'`)
			waiting := s.add(t, db, 1)

			letters, err := table.DeadLetters(ctx, db, 100)
			if err != nil || len(letters) != 5 {
				t.Fatalf("%d dead letters, %v", len(letters), err)
			}
			var out bytes.Buffer
			if err := printDeadLetters(&out, letters); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{ids[0].String(), "melmastoon.test.click.recorded.v1", "10", "refused\n"} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in:\n%s", want, &out)
				}
			}
			if n, err := replay(ctx, db, table, ids[:1]); n != 1 || err != nil {
				t.Errorf("replay one: %d %v", n, err)
			}
			if n, err := drop(ctx, db, table, append(ids[1:2:2], waiting...)); n != 1 || err != nil {
				t.Errorf("drop one, and one that is no dead letter: %d %v", n, err)
			}
			if n, err := replay(ctx, db, table, nil); n != 3 || err != nil {
				t.Errorf("replay all: %d %v", n, err)
			}
			exec(t, db, `UPDATE `+table.Name()+` SET dlq = true WHERE id = (SELECT id FROM `+table.Name()+` LIMIT 1)`)
			if n, err := drop(ctx, db, table, nil); n != 1 || err != nil {
				t.Errorf("drop all: %d %v", n, err)
			}
			var left int
			if err := db.QueryRow(ctx, `SELECT count(*) FROM `+table.Name()+` WHERE NOT dlq`).Scan(&left); err != nil || left != 4 {
				t.Errorf("%d rows wait, %v; want 4", left, err)
			}
		})
	}
}

func TestChosen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]chosen{
		"nothing": {}, "both": {All: true, IDs: []string{"evt_01H8YN7QV4D8KZ4F8Y5CK4MV3D"}}, "no id": {IDs: []string{"x"}},
	} {
		if _, err := c.read(); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestPrinter(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(map[string]any{
		"envelope": map[string]any{"occurredAt": "2026\x1b[2J", "sessionId": "gms_1"}, "payload": map[string]any{"kind": "map-pin"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	(&printer{w: &out}).event(pubsub.Delivery{Topic: "t.v1", Data: data})
	if want := "2026[2J t.v1 gms_1\n  {\n    \"kind\": \"map-pin\"\n  }\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	out.Reset()
	(&printer{w: &out, colours: true}).event(pubsub.Delivery{Topic: "t.v1", Data: []byte("\x1b]0;x\x07")})
	if s := out.String(); !strings.Contains(s, "\x1b[1;36mt.v1\x1b[0m") || strings.Contains(s, "\x07") {
		t.Errorf("%q", s)
	}
	out.Reset()
	lines := &printer{w: &out, lines: true}
	lines.event(pubsub.Delivery{Topic: "t.v1", Data: []byte("{\"envelope\": {},\n \"payload\": {}}")})
	lines.event(pubsub.Delivery{Topic: "t.v1", Data: []byte("tea\x1b\n")})
	if want := `{"envelope":{},"payload":{}}` + "\n" + `{"data":"tea\u001b\n","topic":"t.v1"}` + "\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	id := shapes()["text ids"].Identity
	for want, subjects := range map[int][]string{1: {"wishlist"}, 2: {"wishlist", "tenant"}, 3: nil} {
		if got, err := (&Tail{Subject: subjects}).wanted(id.topics()); err != nil || len(got) != want {
			t.Errorf("%v: %v %v, want %d", subjects, got, err, want)
		}
	}
	if _, err := (&Tail{Subject: []string{"nonsense"}}).wanted(id.topics()); err == nil {
		t.Error("an unknown subject was accepted")
	}
}

func TestChooseJobs(t *testing.T) {
	t.Parallel()
	id := shapes()["text ids"].Identity
	for name, want := range map[string]int{"all": 2, "prune": 2, "export": 1} {
		if got, err := id.choose(name); err != nil || len(got) != want {
			t.Errorf("%s: %d jobs, %v; want %d", name, len(got), err, want)
		}
	}
	if _, err := id.choose("nonsense"); err == nil || !strings.Contains(err.Error(), "sweep, export") {
		t.Errorf("unknown job: %v", err)
	}
}

// The relay of an isolated service must not fall back to the role of requests,
// which sees no row: it would publish nothing, without an error.
func TestJobsRole(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		settings DatabaseSettings
		isolated bool
		want     string
	}{
		"own role":           {DatabaseSettings{PostgresURL: "a", JobsPostgresURL: "b"}, false, "b"},
		"the application's":  {DatabaseSettings{PostgresURL: "a"}, false, "a"},
		"isolated, own role": {DatabaseSettings{PostgresURL: "a", JobsPostgresURL: "b"}, true, "b"},
		"isolated, no role":  {DatabaseSettings{PostgresURL: "a"}, true, ""},
		"nothing":            {DatabaseSettings{}, false, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := tc.settings.jobsURL(Identity{Isolated: tc.isolated})
			if got != tc.want || (err != nil) != (tc.want == "") {
				t.Errorf("got %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

// A session's lock or LISTEN through a pooler would be lost without an error.
func TestPoolerNeedsADirectWay(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		settings DatabaseSettings
		want     bool
	}{
		{DatabaseSettings{PostgresURL: "postgres://a"}, true},
		{DatabaseSettings{PostgresURL: "postgres://a", PostgresPooler: postgres.NoPooler}, true},
		{DatabaseSettings{PostgresURL: "postgres://a", PostgresPooler: postgres.TransactionPooler}, false},
		{DatabaseSettings{PostgresURL: "postgres://a", PostgresPooler: postgres.TransactionPooler, JobsPostgresURL: "postgres://b"}, true},
	} {
		if err := test.settings.validate(); (err == nil) != test.want {
			t.Errorf("pooler %q: %v", test.settings.PostgresPooler, err)
		}
		if _, err := test.settings.jobsURL(Identity{}); (err == nil) != test.want {
			t.Errorf("relay with pooler %q: %v", test.settings.PostgresPooler, err)
		}
	}
}

// TestPort: the platform's PORT places the public listener, and nothing else, unless a
// setting or a flag does.
func TestPort(t *testing.T) {
	for _, tt := range []struct{ port, setting, flag, want, wantError string }{
		{want: ":8081"},
		{port: "8080", want: ":8080"},
		{port: "8080", setting: "127.0.0.1:7000", want: "127.0.0.1:7000"},
		{port: "8080", setting: ":7000", flag: ":6000", want: ":6000"},
		{port: "http", wantError: "PORT: must be the number of a port"},
		{port: "0", wantError: "PORT: must be the number of a port"},
		{port: "http", setting: ":7000", want: ":7000"},
	} {
		t.Setenv("PORT", tt.port)
		args := []string{"serve"}
		if tt.flag != "" {
			args = append(args, "--listen", tt.flag)
		}
		if t.Setenv("BFF_TEST_LISTEN", tt.setting); tt.setting == "" {
			_ = os.Unsetenv("BFF_TEST_LISTEN") // t.Setenv puts it back
		}
		var cli struct {
			Serve listening `cmd:""`
		}
		id := Identity{Name: "test", Prefix: "BFF_TEST", Listen: ":8081", InternalListen: "127.0.0.1:8181", AdminListen: "127.0.0.1:9081"}
		_, err := Parse(id, &cli, args)
		if tt.wantError != "" {
			if err == nil || err.Error() != tt.wantError {
				t.Errorf("%+v: %v", tt, err)
			}
			continue
		}
		if err != nil || cli.Serve.Listen != tt.want || cli.Serve.AdminListen != id.AdminListen || cli.Serve.InternalListen != id.InternalListen {
			t.Errorf("%+v: listens at %q, %v", tt, cli.Serve.Listen, err)
		}
	}
}

// listening is a command that only listens.
type listening struct{ ListenSettings }

func (l *listening) Validate() error { return l.validate() }
