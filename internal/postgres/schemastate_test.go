package postgres_test

import (
	"testing"

	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

// A database whose roles may not see what is applied, as one that another tool has
// migrated, is behind until migrate has run; it has nothing else to do there.
func TestMigrateLetsRolesSeeWhatIsApplied(t *testing.T) {
	t.Parallel()
	set := migrations.Backoffice()
	url := migrated(t, set)
	for _, role := range set.Logins {
		db := openPool(t, postgres.Config{URL: asRole(t, url, role)})
		for _, want := range []string{"", "which migrations are applied can not be read: run migrate", ""} {
			if want != "" {
				if _, err := connect(t, url).Exec(testkit.Context(t), "REVOKE ALL ON bff_backoffice.schema_migrations FROM "+role); err != nil {
					t.Fatal(err)
				}
			} else if err := postgres.Migrate(testkit.Context(t), url, set, postgres.MigrateOptions{}); err != nil {
				t.Fatal(err)
			}
			if s, err := postgres.InspectMigrations(testkit.Context(t), db, set); err != nil || s.Lack() != want {
				t.Errorf("%s: %q, %v, want %q", role, s.Lack(), err, want)
			}
		}
	}
}
