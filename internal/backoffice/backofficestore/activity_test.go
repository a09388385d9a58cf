package backofficestore_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficestore"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// walk reads a list to its end, and does something before each page but the first.
func (d *desk) walk(t *testing.T, tenant bff.ID, q audit.ActivityQuery, between func()) []backoffice.Activity {
	t.Helper()
	var all []backoffice.Activity
	for {
		page, err := d.ListActivities(testkit.Context(t), tenant, q)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Items...)
		if page.Next == nil {
			return all
		}
		if len(page.Items) != q.Limit {
			t.Fatalf("a page of %d that is not the last", len(page.Items))
		}
		q.After = *page.Next
		between()
	}
}

// What is recorded when the first page is read is on one of the pages, once, whatever
// is recorded meanwhile and at whatever moments; that is on at most one.
func TestActivityPagesNeitherSkipNorRepeat(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	ctx := testkit.Context(t)
	tenant, property, now := id(bff.PrefixTenant), id(bff.PrefixProperty), time.Now().UTC().Truncate(time.Second).Add(-10*time.Minute)
	add := func(n int, at func(i int) time.Time) map[bff.ID]bool {
		added := map[bff.ID]bool{}
		var did []backoffice.Activity
		for i := range n {
			a := checkIn(tenant, at(i))
			a.Property, a.Outcome = property, backoffice.Unknown
			added[a.ID], did = true, append(did, a)
		}
		if err := d.Record(ctx, did); err != nil {
			t.Error(err)
		}
		return added
	}
	// Five at each moment, a microsecond apart: pages end between equals.
	before := add(60, func(i int) time.Time { return now.Add(time.Duration(i/5) * time.Microsecond) })
	later := map[bff.ID]bool{}
	list := d.walk(t, tenant, audit.ActivityQuery{Property: property, Limit: 7}, func() {
		maps.Copy(later, add(5, func(i int) time.Time { return now.Add(time.Duration(i*3) * time.Microsecond) }))
		// Outcomes are filled in, which rewrites rows and moves none.
		if _, err := d.admin.Exec(ctx, `UPDATE bff_backoffice.operator_activity SET outcome = 'success', latency_ms = 7
			WHERE id IN (SELECT id FROM bff_backoffice.operator_activity WHERE outcome = 'unknown' LIMIT 5)`); err != nil {
			t.Error(err)
		}
	})
	shown := map[bff.ID]int{}
	for i, a := range list {
		if shown[a.ID]++; !before[a.ID] && !later[a.ID] {
			t.Errorf("%s was not recorded for this property", a.ID)
		}
		if i > 0 && list[i-1].At.Before(a.At) {
			t.Errorf("%s is newer than the one before it", a.ID)
		}
	}
	for id := range before {
		if shown[id] != 1 {
			t.Errorf("%s, of before, was shown %d times", id, shown[id])
		}
	}
	for id := range later {
		if shown[id] > 1 {
			t.Errorf("%s, of later, was shown %d times", id, shown[id])
		}
	}
}

func TestActivityFilters(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	ctx := testkit.Context(t)
	tenant, property, now := id(bff.PrefixTenant), id(bff.PrefixProperty), time.Now().UTC().Truncate(time.Second).Add(-10*time.Minute+123456*time.Microsecond)
	add := func(owner bff.ID, name string, after time.Duration, change func(*backoffice.Activity)) backoffice.Activity {
		a := checkIn(owner, now.Add(after))
		a.Property, a.Action = property, name
		change(&a)
		if err := d.Record(ctx, []backoffice.Activity{a}); err != nil {
			t.Fatal(err)
		}
		return a
	}
	nothing := func(*backoffice.Activity) {}
	add(tenant, "first", 0, nothing)
	add(tenant, "other operator", time.Second, func(a *backoffice.Activity) { a.Operator = "opt_2" })
	add(tenant, "other resource", 2*time.Second, func(a *backoffice.Activity) { a.Resource.ID = "rsv_2" })
	add(tenant, "other kind", 3*time.Second, func(a *backoffice.Activity) { a.Resource.Kind = "folio" })
	denied := add(tenant, "denied", 4*time.Second, func(a *backoffice.Activity) {
		a.Resource = backoffice.Resource{}
		*a = a.Ended(bff.Errorf(bff.CodeRoleDenied, "no"), a.At.Add(12*time.Millisecond))
	})
	// None of these is in the property's ledger.
	add(tenant, "other property", 0, func(a *backoffice.Activity) { a.Property = id(bff.PrefixProperty) })
	add(tenant, "no property", 0, func(a *backoffice.Activity) { a.Property = bff.ID{} })
	add(id(bff.PrefixTenant), "other tenant", 0, nothing)
	all := []string{"denied", "other kind", "other resource", "other operator", "first"}
	for name, test := range map[string]struct {
		query audit.ActivityQuery
		want  []string
	}{
		"all":         {audit.ActivityQuery{}, all},
		"operator":    {audit.ActivityQuery{Operator: "opt_2"}, []string{"other operator"}},
		"kind":        {audit.ActivityQuery{Resource: backoffice.Resource{Kind: "reservation"}}, []string{"other resource", "other operator", "first"}},
		"kind and id": {audit.ActivityQuery{Resource: backoffice.Resource{Kind: "reservation", ID: "rsv_1"}}, []string{"other operator", "first"}},
		"id":          {audit.ActivityQuery{Resource: backoffice.Resource{ID: "rsv_1"}}, []string{"other kind", "other operator", "first"}},
		"from":        {audit.ActivityQuery{From: now.Add(3 * time.Second)}, all[:2]},
		"to":          {audit.ActivityQuery{To: now.Add(3 * time.Second)}, all[2:]},
		"from and to": {audit.ActivityQuery{From: now.Add(time.Second), To: now.Add(2 * time.Second)}, []string{"other operator"}},
		"all of them": {
			audit.ActivityQuery{From: now, To: now.Add(time.Hour), Operator: "opt_1", Resource: backoffice.Resource{Kind: "folio", ID: "rsv_1"}},
			[]string{"other kind"},
		},
		"nothing there": {audit.ActivityQuery{Operator: "opt_3"}, nil},
	} {
		for _, limit := range []int{1, 2, 50} {
			test.query.Property, test.query.Limit = property, limit
			var got []string
			for _, a := range d.walk(t, tenant, test.query, func() {}) {
				got = append(got, a.Action)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s, %d a page: %s", name, limit, diff)
			}
		}
	}
	page, err := d.ListActivities(ctx, tenant, audit.ActivityQuery{Property: property, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	want := denied
	want.Session, want.Roles, want.Context = bff.ID{}, nil, "" // are not shown
	if diff := cmp.Diff([]backoffice.Activity{want}, page.Items, cmp.Comparer(func(a, b bff.ID) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

// A page is read from an index that leads with the tenant: what it costs depends on its
// length, not on how long the ledger is.
func TestActivityPagesAreReadFromAnIndex(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	ctx := testkit.Context(t)
	tenant, property := id(bff.PrefixTenant), id(bff.PrefixProperty)
	if _, err := d.admin.Exec(ctx, `INSERT INTO bff_backoffice.operator_activity
			(id, tenant_id, property_id, operator_id, device_id, session_id, occurred_at, category, action, resource_kind, resource_id, outcome)
		SELECT gen_random_uuid(), CASE WHEN i % 2 = 0 THEN $1::uuid ELSE gen_random_uuid() END, CASE WHEN i % 20 = 0 THEN $2::uuid ELSE gen_random_uuid() END, 'opt_' || i % 50, 'dev', 'bos', now() - i * interval '1 minute',
			'reservation', 'check_in', 'reservation', 'rsv_' || i % 4000, 'success' FROM generate_series(1, 20000) AS i`, tenant.UUID(), property.UUID()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.admin.Exec(ctx, `ANALYZE bff_backoffice.operator_activity`); err != nil {
		t.Fatal(err)
	}
	// What the index can do, and not what the planner thinks of a small table that old transactions keep from being vacuumed.
	if _, err := d.admin.Exec(ctx, `SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off`, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	after := audit.ActivityPosition{At: time.Now().Add(-time.Hour), ID: id(bff.PrefixActivity)}
	for name, test := range map[string]struct {
		query   audit.ActivityQuery
		filters bool // in the index, without rows
	}{
		"the first page":      {audit.ActivityQuery{}, false},
		"a later page":        {audit.ActivityQuery{After: after}, false},
		"between two moments": {audit.ActivityQuery{From: time.Now().Add(-24 * time.Hour), To: time.Now()}, false},
		"one resource":        {audit.ActivityQuery{Resource: backoffice.Resource{Kind: "reservation", ID: "rsv_20"}, After: after}, true},
		"one operator":        {audit.ActivityQuery{Operator: "opt_20"}, true},
	} {
		test.query.Property, test.query.Limit = property, 50
		sql, args := backofficestore.ListActivitiesStatement(tenant, test.query)
		rows, err := d.admin.Query(ctx, "EXPLAIN "+sql, args...)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		plan := strings.Join(lines, "\n")
		sorted := strings.HasPrefix(plan, "Sort") || strings.Contains(plan, "->  Sort")
		if strings.Contains(plan, "Seq Scan") || !strings.Contains(plan, "_tenant_id_property_id_occurred_at_") ||
			test.filters && !strings.Contains(plan, "Index Only Scan") || !test.filters && sorted {
			t.Errorf("%s:\n%s", name, plan)
		}
	}
}
