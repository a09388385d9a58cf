package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// The same upstream id in two tenants is two things (the keys lead with the
// tenant): no error tells one of the other, and no write is dropped.
func TestUniqueKeysDoNotCollideAcrossTenants(t *testing.T) {
	t.Parallel()
	w := newWall(t)
	ctx := testkit.Context(t)
	for _, tb := range tenantTables {
		for _, tenant := range tenants {
			err := postgres.NewTenants(w.app).Tx(ctx, tenant, func(b *pgx.Batch) {
				b.Queue(tb.insertSQL()+" ON CONFLICT DO NOTHING", tenant.UUID(), "same").Exec(func(tag pgconn.CommandTag) error {
					if tag.RowsAffected() != 1 {
						return errors.New("the write was dropped in silence")
					}
					return nil
				})
			})
			if err != nil {
				t.Errorf("%s: %v", tb.name, err)
			}
		}
	}
	// The first decision on a suggestion wins within its tenant.
	err := postgres.NewTenants(w.app).Tx(ctx, tenants[0], func(b *pgx.Batch) {
		b.Queue(`INSERT INTO bff_backoffice.ai_decision_log (tenant_id, suggestion_id, inbox_entry_id, category, severity, outcome, decided_by, device_id, provenance)
			VALUES ($1, 'same', 'i', 'c', 's', 'accepted', 'another operator', 'd', '{}')`, tenants[0].UUID())
	})
	if !postgres.UniqueViolation(err, "ux_ai_decision_once") {
		t.Errorf("second decision: %v, want a duplicate", err)
	}
}

// What a tenant tries with the name of another tenant's row ends as it does with
// a name that no row has: the same rows, the same error to the letter, and the
// same work for the server, so that time does not tell either.
func TestOtherTenantsRowsAreAsIfTheyWereNot(t *testing.T) {
	t.Parallel()
	w := newWall(t)
	ctx := testkit.Context(t)
	const nobody = "00000000-0000-0000-0000-000000000001"
	for _, tb := range tenantTables {
		key, theirs, nothing := "id", "", nobody
		if tb.name == "idempotency" {
			key, nothing = "idem_key", "of-nobody"
		}
		err := w.admin.QueryRow(ctx, "SELECT "+key+"::text FROM "+tb.qualified()+" WHERE "+tb.text+" = $1", "of-"+tenants[1].ULID()).Scan(&theirs)
		if err != nil {
			t.Fatal(err)
		}
		columns, values, _ := strings.Cut(tb.insert, "VALUES (")
		insert := "INSERT INTO " + tb.qualified() + " " + strings.Replace(columns, "(", "("+key+", ", 1) + "VALUES ('%', " + values
		if key == "idem_key" { // the key is $2 already
			insert = "INSERT INTO " + tb.qualified() + " " + strings.Replace(tb.insert, "$2", "'%'||$2", 1)
		}
		for _, sql := range []string{
			"SELECT " + key + " FROM " + tb.qualified() + " WHERE " + key + " = '%'",
			"UPDATE " + tb.qualified() + " SET " + tb.change + " WHERE " + key + " = '%'",
			"DELETE FROM " + tb.qualified() + " WHERE " + key + " = '%'",
			"SELECT 1/(SELECT count(*) FROM " + tb.qualified() + " WHERE " + key + " = '%')",
			"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) SELECT FROM " + tb.qualified() + " WHERE " + key + " = '%'",
			insert,
		} {
			var args []any
			if strings.HasPrefix(sql, "INSERT") {
				args = []any{tenants[0].UUID(), ""}
			}
			got := outcome(ctx, w, strings.ReplaceAll(sql, "%", theirs), args...)
			want := outcome(ctx, w, strings.ReplaceAll(sql, "%", nothing), args...)
			if got = strings.ReplaceAll(got, theirs, nothing); got != want {
				t.Errorf("%s\n another's row: %s\n no row:        %s", sql, got, want)
			}
			if strings.HasPrefix(sql, "INSERT") && got != "INSERT 0 1" {
				t.Errorf("%s: %s", sql, got)
			}
			// A scan would pass over the other tenants' rows.
			if strings.HasPrefix(sql, "EXPLAIN") && !strings.Contains(got, "Index Cond: (tenant_id = ") && !strings.Contains(got, "Index Cond: ((tenant_id = ") {
				t.Errorf("%s: %s", sql, got)
			}
		}
	}
}

// outcome is everything that the first tenant gets to know from a statement.
func outcome(ctx context.Context, w *wall, sql string, args ...any) string {
	var out strings.Builder
	err := undone(ctx, postgres.NewTenants(w.app), tenants[0], func(tx pgx.Tx) error {
		// The tables are so small that a scan would be chosen.
		if _, err := tx.Exec(ctx, "SET LOCAL enable_seqscan = off"); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		for rows.Next() {
			for _, v := range rows.RawValues() {
				out.Write(v)
				out.WriteByte('\n')
			}
		}
		rows.Close()
		out.WriteString(rows.CommandTag().String())
		return rows.Err()
	})
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		pe.File, pe.Line, pe.Routine = "", 0, ""
		return strings.Join([]string{out.String(), pe.Code, pe.Message, pe.Detail, pe.Hint, pe.ConstraintName}, "|")
	}
	if err != nil {
		return "?" + err.Error()
	}
	return out.String()
}
