package drills_test

import (
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// An instance of each service that leads, runs its jobs and has more clients than
// connections has 16 of these at most: thirty are within the 500 of DATA_MODEL §6.
func TestProofConnectionsOfOneInstance(t *testing.T) {
	t.Parallel()
	if !long(t) {
		return
	}
	server := testkit.NewPostgres(t, false)
	f := newFleet(t, func(p *platform.Places) { p.PostgresURL = server.URL() })
	f.jobs = true
	db, err := postgres.Open(t.Context(), testkit.Patient(server.URL()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	f.start()
	for range 12 {
		t.Cleanup(f.load())
	}
	most, ran := map[string]int{}, 0
	testkit.Until(t, "every job has run, and clients were served", func() bool {
		for service := range strings.FieldsSeq("consumer backoffice") {
			n := 17
			for tries := 0; n > 16 && tries < 3; tries++ { // the server may not have noticed yet that one is closed
				if err := db.QueryRow(testkit.Context(t), `SELECT count(*) FROM pg_stat_activity WHERE usename LIKE 'bff_' || $1 || '%'`, service).Scan(&n); err != nil {
					t.Fatal(err)
				}
			}
			most[service] = max(most[service], n)
		}
		if err := db.QueryRow(testkit.Context(t), `SELECT count(*) FROM bff_backoffice.job_runs`).Scan(&ran); err != nil {
			t.Fatal(err)
		}
		return ran >= 12 && len(f.soFar()["bff_backoffice.alert_ack_log"]) > 20*some
	})
	f.unbroken()
	if most["consumer"] > 16 || most["backoffice"] > 16 || most["consumer"] < 12 || most["backoffice"] < 12 {
		t.Errorf("connections: %v, want at most 16, and a load that needs 12", most)
	}
	t.Log(most, ran, "jobs")
}
