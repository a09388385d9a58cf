package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

// before is the set without its newest files, as a release before had it.
func before(t *testing.T, set migrations.Set, without int) (older migrations.Set, missing []string) {
	t.Helper()
	names, err := fs.Glob(set.FS, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{}
	for i, name := range names {
		b, err := fs.ReadFile(set.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		if i < len(names)-without {
			files[name] = &fstest.MapFile{Data: b}
		} else {
			missing = append(missing, name[:4])
		}
	}
	set.FS = files
	return set, missing
}

// onState waits for a line of the log that says how the start ended.
type onState struct {
	testkit.Log
	started chan string
}

func (o *onState) Write(b []byte) (int, error) {
	n, err := o.Log.Write(b)
	var line struct{ Msg string }
	if json.Unmarshal(b, &line) == nil && (line.Msg == "ready" || line.Msg == "started, and not ready") {
		o.started <- line.Msg
	}
	return n, err
}

// TestUnmigratedIsNotReady: a process whose schema is behind its files says which is
// missing, and becomes ready when that is applied. It is ready on a schema that is ahead.
func TestUnmigratedIsNotReady(t *testing.T) {
	t.Parallel()
	for name, s := range shapes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, admin := testkit.Context(t), testkit.Postgres(t)
			migrate := func(set migrations.Set) {
				t.Helper()
				if err := postgres.Migrate(ctx, admin, set, postgres.MigrateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			older, missing := before(t, s.Schema, 1)
			migrate(older)
			u, err := url.Parse(admin)
			if err != nil {
				t.Fatal(err)
			}
			q := u.Query()
			q.Set("role", s.role)
			u.RawQuery = q.Encode()

			log := &onState{started: make(chan string, 1)}
			p := &Process{Daemon: daemon.New(daemon.Settings{DrainBudget: time.Minute}, slog.New(slog.NewJSONHandler(log, nil))), Identity: s.Identity}
			if _, err := p.pool(ctx, testkit.Patient(u.String())); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- p.Run(t.Context()) }()
			t.Cleanup(func() {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
			lack := "migration " + missing[0] + " is missing: run migrate"
			if said := <-log.started; said != "started, and not ready" || !strings.Contains(log.String(), "schema: "+lack) {
				t.Errorf("said %q\n%s", said, log.String())
			}
			ready := func(wantStatus int, want string) {
				t.Helper()
				w := httptest.NewRecorder()
				p.Admin().ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/ready", nil))
				var got struct{ Parts map[string]string }
				if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != wantStatus || got.Parts["schema"] != want {
					t.Errorf("%v: %d %s, want %d and the schema %q", err, w.Code, w.Body, wantStatus, want)
				}
			}
			ready(http.StatusServiceUnavailable, lack)

			migrate(s.Schema)
			ready(http.StatusOK, "up")

			superuser := testkit.Patient(admin)
			db, err := postgres.Open(ctx, superuser)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(db.Close)
			exec(t, db, "INSERT INTO "+s.Schema.Schema+".schema_migrations (version_id, is_applied) VALUES (9999, true)")
			ready(http.StatusOK, "up")
		})
	}
}

// TestSchemaWithoutAnAnswer: a server that is away makes nothing of the schema, and one
// that refuses the process does not become another by itself.
func TestSchemaWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	ctx, s := testkit.Context(t), shapes()["text ids"]
	p := &Process{Daemon: daemon.New(daemon.Settings{}, slog.New(slog.DiscardHandler)), Identity: s.Identity}
	check := func(url string) error {
		t.Helper()
		db, err := postgres.Open(ctx, testkit.Patient(url))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(db.Close)
		return p.migrated(db)(ctx)
	}
	if err := check("postgres://127.0.0.1:1/x"); !errors.Is(err, daemon.ErrUnknown) {
		t.Errorf("a server that is away: %v", err)
	}
	admin := testkit.Postgres(t)
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/no_such_database"
	if lack, ok := errors.AsType[daemon.PublicError](check(u.String())); !ok || !strings.Contains(lack.Error(), "refuses") {
		t.Errorf("a database that is not there: %v", lack)
	}
	if lack, ok := errors.AsType[daemon.PublicError](check(admin)); !ok || !bytes.HasPrefix([]byte(lack), []byte("migrations 0001 to ")) {
		t.Errorf("an empty database: %v", lack)
	}
}
