package doctor

import (
	"io/fs"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/service"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

// TestMigrationsAreExamined: check and doctor name what is not applied, and are content with
// a schema that is ahead.
func TestMigrationsAreExamined(t *testing.T) {
	t.Parallel()
	for _, set := range []migrations.Set{migrations.Consumer(), migrations.Backoffice()} {
		t.Run(set.Schema, func(t *testing.T) {
			t.Parallel()
			ctx, admin := testkit.Context(t), testkit.Postgres(t)
			u, err := url.Parse(admin)
			if err != nil {
				t.Fatal(err)
			}
			u.RawQuery += "&role=" + set.Logins[0]
			examined := func(set migrations.Set, want Verdict, text string) {
				t.Helper()
				settings := &service.Settings{DatabaseSettings: service.DatabaseSettings{PostgresURL: daemon.Secret(u.String())}}
				for command, add := range map[string]func(*Examination){"check": (*Examination).connections, "doctor": (*Examination).servers} {
					x := NewExamination(service.Identity{Name: "test", Schema: set}, settings, Settings{Timeout: time.Minute})
					add(x)
					for _, c := range x.checks {
						if c.Name != "migrations" {
							continue
						}
						found := x.run(ctx, c)
						if len(found) != 1 || found[0].Verdict != want || !strings.Contains(found[0].Found, text) {
							t.Errorf("%s: %+v, want %s with %q", command, found, want, text)
						}
					}
					x.close()
				}
			}
			newer, files := set, fstest.MapFS{"9998_create_more.sql": {}}
			names, err := fs.Glob(set.FS, "*.sql")
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				files[name] = &fstest.MapFile{} // by its name
			}
			newer.FS = files
			if err := postgres.Migrate(ctx, admin, set, postgres.MigrateOptions{}); err != nil {
				t.Fatal(err)
			}
			examined(newer, Wrong, "migration 9998 is missing: run migrate")
			newest := names[len(names)-1][:4]
			examined(set, OK, "all up to "+newest+" are applied")

			newer.FS = fstest.MapFS{
				"9998_create_more.sql": {Data: []byte("-- +goose Up\nCREATE TABLE " + set.Schema + ".more (id uuid PRIMARY KEY);\n")},
				"9999_add_more.sql":    {Data: []byte("-- +goose Up\nALTER TABLE " + set.Schema + ".outbox ADD COLUMN more text;\n")},
			}
			if err := postgres.Migrate(ctx, admin, newer, postgres.MigrateOptions{}); err != nil {
				t.Fatal(err)
			}
			examined(set, OK, "the schema is ahead by migrations 9998 to 9999, 2 in all")
		})
	}
}
