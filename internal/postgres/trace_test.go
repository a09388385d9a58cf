package postgres_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/trace"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/internal/tracing/tracingtest"
)

// TestStatementsAreSpans: one for each round trip, with operation and table and
// nothing of the text and the parameters; none outside of what is recorded.
func TestStatementsAreSpans(t *testing.T) {
	t.Parallel()
	plain := testkit.Context(t)
	db := openPool(t, postgres.Config{URL: testkit.Postgres(t), Traced: true})
	if _, err := db.Exec(plain, "CREATE TABLE t (id int PRIMARY KEY, word text)"); err != nil {
		t.Fatal(err)
	}
	tracer, spans := tracingtest.New(1)
	ctx, _ := tracer.Begin(plain, "request", trace.SpanKindServer)
	if n := len(spans.Started()); n != 1 {
		t.Fatalf("%d spans of statements that are not recorded", n-1)
	}
	if err := postgres.InTx(ctx, db, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO t VALUES ($1, $2)", 1, "secret")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := db.QueryRow(ctx, "SELECT id FROM t WHERE word = 'secret'").Scan(&n); err != nil {
		t.Fatal(err)
	}
	if err := db.QueryRow(ctx, "SELECT id FROM t WHERE word = $1", "nothing").Scan(&n); err == nil {
		t.Fatal("found nothing")
	}
	if _, err := db.Exec(ctx, "INSERT INTO t VALUES (1, 'secret')"); err == nil {
		t.Fatal("a key was taken twice")
	}
	tenant := bff.MustParseID(bff.PrefixTenant, "tnt_01H8YN7QV4D8KZ4F8Y5CK4MV3D")
	if err := postgres.NewTenants(db).Tx(ctx, tenant, func(b *pgx.Batch) { b.Queue("DELETE FROM t WHERE word = $1", "secret") }); err != nil {
		t.Fatal(err)
	}
	if err := postgres.NewTenants(db).InTx(ctx, tenant, func(pgx.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"postgres BEGIN: db.operation.name=BEGIN db.system.name=postgresql",
		"postgres INSERT t: db.collection.name=t db.operation.name=INSERT db.system.name=postgresql",
		"postgres COMMIT: db.operation.name=COMMIT db.system.name=postgresql",
		"postgres SELECT t: db.collection.name=t db.operation.name=SELECT db.system.name=postgresql",
		"postgres SELECT t: db.collection.name=t db.operation.name=SELECT db.system.name=postgresql",
		"postgres INSERT t: db.collection.name=t db.operation.name=INSERT db.system.name=postgresql error.type=23505",
		"postgres BATCH DELETE t: db.collection.name=t db.operation.batch.size=2 db.operation.name=BATCH DELETE db.system.name=postgresql",
		"postgres BEGIN: db.operation.name=BEGIN db.system.name=postgresql",
		"postgres COMMIT: db.operation.name=COMMIT db.system.name=postgresql",
	}
	if diff := cmp.Diff(want, spans.Lines()); diff != "" {
		t.Error(diff)
	}
}
