package service

import (
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// A key that has expired and is claimed again at the moment in which it would be pruned
// keeps its claim, without which a request would be carried out twice.
func TestPruneSparesRenewedRow(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	db, err := postgres.Open(ctx, testkit.Patient(testkit.Postgres(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	exec(t, db, `CREATE TABLE claims (key text PRIMARY KEY, expires_at timestamptz NOT NULL, ended boolean NOT NULL)`)
	exec(t, db, `INSERT INTO claims SELECT 'k' || n, now() - interval '1 hour', true FROM generate_series(1, 3) AS n`)
	prune := Prune("claims", 0, DeleteBefore("claims", "key", "expires_at", "ended"))
	testkit.ChangeMeanwhile(t, db, `UPDATE claims SET expires_at = CASE key WHEN 'k1' THEN now() + interval '1 day' ELSE expires_at END, ended = key <> 'k2'`, func() {
		if n, err := prune.Run(ctx, db, time.Now()); n != 1 || err != nil {
			t.Errorf("%d rows pruned, want 1: %v", n, err)
		}
	})
	var left string
	if err := db.QueryRow(ctx, `SELECT string_agg(key, ' ' ORDER BY key) FROM claims`).Scan(&left); err != nil || left != "k1 k2" {
		t.Errorf("left are %s, %v; want k1, which was renewed, and k2, which has not ended", left, err)
	}
}
