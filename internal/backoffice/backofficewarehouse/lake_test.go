package backofficewarehouse_test

import (
	"context"
	"encoding/base64"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficelake"
	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

// openJobs opens a database as the role of jobs, with activities of one tenant.
func openJobs(t *testing.T) *pgxpool.Pool {
	t.Helper()
	address := testkit.PostgresTemplate(t, "bff_backoffice", func(dsn string) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return postgres.Migrate(ctx, dsn, migrations.Backoffice(), postgres.MigrateOptions{})
	})
	u := mustParse(t, address)
	u.RawQuery = url.Values{"role": {migrations.BackofficeJobs}}.Encode() + "&" + u.RawQuery
	var pools [2]*pgxpool.Pool
	for i, a := range []string{address, u.String()} {
		db, err := postgres.Open(t.Context(), testkit.Patient(a))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(db.Close)
		pools[i] = db
	}
	_, err := pools[0].Exec(testkit.Context(t), `INSERT INTO bff_backoffice.operator_activity (tenant_id, operator_id, device_id, session_id, occurred_at, category, action, outcome)
		SELECT $1, 'o', 'd', 's', now() - n * interval '20 days', 'folio', 'charge', 'success' FROM generate_series(1, 8) AS n`, bff.NewID(bff.PrefixTenant, time.Now()).UUID())
	if err == nil { // the rows are no forgeries
		_, err = pools[0].Exec(testkit.Context(t), `UPDATE bff_backoffice.audit_cursors SET passed_at = NULL`)
	}
	if err != nil {
		t.Fatal(err)
	}
	return pools[1]
}

// A lake in Google Cloud Storage is exported, loaded into BigQuery and verified, also where a retention policy keeps every object.
func TestLakeInTheCloud(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]bool{"free": false, "kept": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testLake(t, kept)
		})
	}
}

func testLake(t *testing.T, kept bool) {
	t.Helper()
	ctx, db := testkit.Context(t), openJobs(t)
	storage, open := openStorage(t)
	storage.set(func() { storage.kept = kept })
	fake, warehouse := openBigQuery(t, "gs://the-lake")
	keys, err := audit.ParseAuditKeys([]string{"test-1:" + base64.StdEncoding.EncodeToString(make([]byte, 32))})
	if err != nil {
		t.Fatal(err)
	}
	lake := backofficelake.New(backofficelake.Config{
		Outbox: outbox.NewTable(outbox.Shape{
			Name: "bff_backoffice.outbox", Archive: "bff_backoffice.outbox_archive", UUID: true,
			Topic: "subject", Envelope: "envelope", Created: "enqueued_at", Key: func(*bff.Envelope) string { return "" },
		}),
		News: backoffice.NewEnvelopes("test"), Log: slog.New(slog.DiscardHandler), Bucket: open, Loader: warehouse,
		Keys: func(context.Context) (*audit.Keys, error) { return keys, nil },
	})
	for range 2 {
		for _, j := range lake.Jobs() {
			if _, err := j.Run(ctx, db, time.Now()); err != nil {
				t.Fatalf("%s: %v", j.Name, err)
			}
		}
	}
	loaded, _ := fake.outcome()
	if slices.Sort(loaded); len(loaded) < 6 || len(slices.Compact(loaded)) != len(loaded) { // five months and the chain
		t.Errorf("loaded %d files, or one of them twice: %v", len(loaded), loaded)
	}
	for _, from := range loaded {
		if !storage.has(strings.TrimPrefix(from, "gs://the-lake/")) {
			t.Errorf("%s was loaded and is not there", from)
		}
	}
	bucket, err := open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bucket.Close() }() // only read
	report, err := (&backofficelake.Verifier{DB: db, Bucket: bucket, Keys: keys, Now: time.Now()}).Verify(ctx)
	if err != nil || len(report.Findings) > 0 || len(report.Tenants) != 1 || report.Tenants[0].Exported != 8 {
		t.Errorf("verified: %+v, %v", report, err)
	}
}
