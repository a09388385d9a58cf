package backofficelake_test

import (
	"testing"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// Rows that are not where a page of entries has the rest: one that was written again and
// sealed twice, one that was written again and is sealed once, one of a transaction that
// began long before it was sealed. All are exported as they were sealed, with what
// Postgres says of their arrays.
func TestExportFindsEveryRow(t *testing.T) {
	t.Parallel()
	f := &sealed{fixture: newFixture(t)}
	ctx := testkit.Context(t)
	late := f.begin(bff.NewID(bff.PrefixActivity, now), now)
	var rows []bff.ID
	for range 5 {
		rows = append(rows, f.activity(tenantA, now, "success"))
	}
	for _, roles := range []string{
		`'{}'`, `ARRAY[NULL, '', 'NULL']`, `ARRAY[['a', 'b'], ['c', NULL]]`, `'[5:6]={x,y}'::text[]`,
		`ARRAY[E'é 客 \U0001F511 "\\ / \n\r\t\b\f\x01\x1f\x7f <>&', ', ']`,
	} {
		f.exec(`UPDATE bff_backoffice.operator_activity SET roles = `+roles+` WHERE id = $1`, rows[0].UUID())
		rows = append(rows[1:], rows[0])
	}
	_, _, lock := f.one(tenantB, now)
	f.exec(`UPDATE bff_backoffice.lock_action_proxy_audit SET outcome = 'success', error_code = NULL, state = 'issued', settled_at = now()`)
	seal := func() {
		if _, err := f.Seal(ctx, f.jobs, now); err != nil {
			t.Fatal(err)
		}
	}
	seal()
	if err := late.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	f.exec(`UPDATE bff_backoffice.operator_activity SET session_id = session_id WHERE id = $1`, rows[2].UUID())
	seal()
	f.exec(`UPDATE bff_backoffice.lock_action_proxy_audit SET asked_at = now()`)
	f.run(f.Lake)
	for _, want := range []struct {
		row     bff.ID
		entries int
	}{{rows[0], 1}, {rows[2], 2}, {lock, 1}} {
		if n := f.count(`SELECT count(*) FROM bff_backoffice.audit_chain WHERE row_id = $1`, want.row.UUID()); n != want.entries {
			t.Errorf("%s was sealed %d times, want %d", want.row, n, want.entries)
		}
	}
	if findings, report := f.verify(noHeads); findings != nil {
		t.Errorf("%v", report.Findings)
	}
	if n := f.count(`SELECT sum(rows)::int - (SELECT count(*) FROM bff_backoffice.audit_chain) FROM bff_backoffice.audit_exports WHERE tab <> 'audit_chain'`); n != 0 {
		t.Errorf("%d rows more were exported than sealed", n)
	}
}
