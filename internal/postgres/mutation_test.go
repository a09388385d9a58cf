package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff/internal/testkit"
)

// policy is a row of pg_policies.
type policy struct {
	Table, Name, Permissive, Command string
	Roles                            string // as a list
	Using, Check                     *string
}

func (w *wall) policies(t *testing.T) []policy {
	t.Helper()
	rows, err := w.admin.Query(testkit.Context(t), `SELECT tablename::text, policyname::text, permissive, cmd, array_to_string(roles, ', '), qual, with_check
		FROM pg_policies WHERE schemaname = 'bff_backoffice' ORDER BY 1, 2`)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[policy])
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func (p policy) on() string { return p.Name + " ON bff_backoffice." + p.Table }

func (p policy) create() string {
	sql := "CREATE POLICY " + p.on() + " AS " + p.Permissive + " FOR " + p.Command + " TO " + p.Roles
	if p.Using != nil {
		sql += " USING (" + *p.Using + ")"
	}
	if p.Check != nil {
		sql += " WITH CHECK (" + *p.Check + ")"
	}
	return sql
}

// weaker lists statements each of which drops the policy or lets more through.
func (p policy) weaker() []string {
	alter := "ALTER POLICY " + p.on()
	out := []string{"DROP POLICY " + p.on()}
	if p.Using != nil && *p.Using != "true" {
		out = append(out, alter+" USING (true)")
	}
	if p.Check != nil && *p.Check != "true" {
		out = append(out, alter+" WITH CHECK (true)")
	}
	if p.Permissive == "PERMISSIVE" && p.Roles != "public" {
		out = append(out, alter+" TO PUBLIC")
	}
	if p.Using != nil && strings.Contains(*p.Using, "app.tenant_id") {
		out = append(out, fmt.Sprintf("%s USING (%s OR NULLIF(current_setting('app.tenant_id', true), '') IS NULL)", alter, *p.Using))
	}
	return out
}

// Take any one policy away, or weaken it, and what is promised of its table no
// longer holds: otherwise the promises prove nothing.
func TestIsolationNoticesEveryWeakerPolicy(t *testing.T) {
	t.Parallel()
	w := newWall(t)
	// Parts are alike, and one without rows shows nothing.
	parts := slices.DeleteFunc(w.parts(t), func(tb table) bool { return strings.HasPrefix(tb.jobs, "0 ") })
	byName := map[string]table{}
	for _, tb := range slices.Concat(tenantTables, parts) {
		byName[tb.name] = tb
	}
	all := slices.DeleteFunc(w.policies(t), func(p policy) bool { return byName[p.Table].name == "" })
	notices := func(tb table, breach string) {
		t.Helper()
		w.exec(t, breach)
		if len(w.broken(testkit.Context(t), tb)) == 0 {
			t.Errorf("%s: no promise is broken", breach)
		}
	}
	mutants := 0
	for _, p := range all {
		young := strings.HasSuffix(byName[p.Table].jobs, " 0")
		for _, breach := range p.weaker() {
			if part := strings.HasPrefix(p.Table, "operator_activity_"); part && young != strings.HasSuffix(breach, "USING (true)") {
				continue // a part with old rows alone can not show that young ones are protected, nor the reverse
			}
			mutants++
			notices(byName[p.Table], breach)
			w.exec(t, "DROP POLICY IF EXISTS "+p.on())
			w.exec(t, p.create())
		}
	}
	for _, tb := range tenantTables {
		for breach, mend := range map[string]string{
			"ALTER TABLE %s DISABLE ROW LEVEL SECURITY":                      "ALTER TABLE %s ENABLE ROW LEVEL SECURITY",
			"ALTER TABLE %s NO FORCE ROW LEVEL SECURITY":                     "ALTER TABLE %s FORCE ROW LEVEL SECURITY",
			"CREATE POLICY beside ON %s USING (true)":                        "DROP POLICY beside ON %s",
			"CREATE POLICY beside ON %s FOR SELECT USING (true)":             "DROP POLICY beside ON %s",
			"CREATE POLICY beside ON %s FOR INSERT WITH CHECK (true)":        "DROP POLICY beside ON %s",
			"GRANT DELETE ON %s TO bff_backoffice_app":                       "REVOKE DELETE ON %s FROM bff_backoffice_app",
			"GRANT INSERT ON %s TO bff_backoffice_jobs":                      "REVOKE INSERT ON %s FROM bff_backoffice_jobs",
			"CREATE POLICY beside ON %s TO bff_backoffice_jobs USING (true)": "DROP POLICY beside ON %s",
		} {
			if strings.Contains(breach, "beside ON %s TO") && strings.HasSuffix(tb.jobs, " denied denied") {
				continue // without a grant to change or remove it opens nothing
			}
			mutants++
			notices(tb, fmt.Sprintf(breach, tb.qualified()))
			w.exec(t, fmt.Sprintf(mend, tb.qualified()))
		}
	}
	t.Logf("%d mutants of %d policies", mutants, len(all))
	after := slices.DeleteFunc(w.policies(t), func(p policy) bool { return byName[p.Table].name == "" })
	if diff := cmp.Diff(all, after); diff != "" {
		t.Errorf("policies were not mended (-before +after):\n%s", diff)
	}
	for _, tb := range slices.Concat(promises, parts) {
		for _, what := range w.broken(testkit.Context(t), tb) {
			t.Errorf("not mended: %s", what)
		}
	}
}
