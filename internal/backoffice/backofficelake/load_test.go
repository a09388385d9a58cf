package backofficelake_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff/internal/backoffice/backofficelake"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// shelf is a warehouse that may be away.
type shelf struct {
	mu    sync.Mutex
	away  bool
	files map[string]int // how often each file was loaded
	into  map[string]string
	// refuse is what is said of a file; nil = it is loaded.
	refuse func(path string) error
}

func (s *shelf) Load(_ context.Context, t backofficelake.Target, f backofficelake.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return errAway
	}
	if s.refuse != nil {
		if err := s.refuse(f.Path); err != nil {
			return err
		}
	}
	s.files[f.Path]++
	s.into[t.Table] = t.Moment
	return nil
}

func (s *shelf) set(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

var errAway = errors.New("the warehouse is away")

// Files are loaded by the run that exports them or, if the warehouse is away, by the
// next; nothing is pruned before, and nothing loaded twice.
func TestExportsAreLoaded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := testkit.Context(t)
	f.activity(tenantA, now.Add(-91*day), "success")
	f.activity(tenantB, now, "denied")
	f.run(f.Lake) // without a warehouse: what was exported before is loaded, too
	f.activity(tenantA, now.Add(-92*day), "success")
	to := &shelf{away: true, files: map[string]int{}, into: map[string]string{}}
	cfg := f.config()
	cfg.Loader = to
	lake := backofficelake.New(cfg)
	for _, j := range lake.Jobs()[:2] { // the chain's and the activities'
		if _, err := j.Run(ctx, f.jobs, now); !errors.Is(err, errAway) {
			t.Errorf("%s: %v, want %v", j.Name, err, errAway)
		}
	}
	const old = `SELECT count(*) FROM bff_backoffice.operator_activity WHERE occurred_at < now() - interval '90 days'`
	if n := f.count(old); n != 1 {
		t.Errorf("%d old rows, want the one that is not loaded", n)
	}
	to.set(false)
	f.run(lake)
	f.run(lake)
	if n := f.count(old); n != 0 {
		t.Errorf("%d old rows are left", n)
	}
	if n := f.count(`SELECT count(*) FROM bff_backoffice.audit_exports WHERE loaded_at IS NULL`); n != 0 {
		t.Errorf("%d exports are not loaded", n)
	}
	if diff := cmp.Diff(map[string]string{"operator_activity": "occurred_at", backofficelake.ChainTable: "sealed_at"}, to.into); diff != "" {
		t.Error(diff)
	}
	want := map[string]int{}
	for _, path := range listFiles(t, f.dir) {
		if strings.HasSuffix(path, ".parquet") {
			want[path] = 1
		}
	}
	if diff := cmp.Diff(want, to.files); diff != "" || len(want) < 4 {
		t.Errorf("files (-exported +loaded):\n%s", diff)
	}
}

// Of many exports two are refused for good and one for now. The others are loaded and
// pruned as if nothing were, what is refused is not pruned, and the run says so. What was
// refused for good is not tried again until an operator wants it, and pruned when it is
// loaded or waived.
func TestRefusedExportsHoldUpNoOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := testkit.Context(t)
	var (
		asked    = map[string]int{} // how often the files of each export were refused
		accepted = map[string]bool{}
	)
	said := map[string]*backofficelake.Refusal{
		"1": {Detail: "not a file", Final: true}, "3": {Detail: "no right"}, "4": {Detail: "a column too many", Final: true},
	}
	to := &shelf{files: map[string]int{}, into: map[string]string{}, refuse: func(path string) error {
		first := firstOf(path)
		if r := said[first]; r != nil && !accepted[first] {
			asked[first]++
			return r
		}
		return nil
	}}
	cfg := f.config()
	cfg.Loader = to
	export := backofficelake.New(cfg).Jobs()[1]
	run := func(want error) {
		t.Helper()
		if _, err := export.Run(ctx, f.jobs, now); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	// State is the positions of rows that are left, how often files were refused, and what
	// operators are told.
	type state struct {
		Left    []int64
		Asked   map[string]int
		Refused []string
	}
	check := func(when string, want state) {
		t.Helper()
		got := state{Asked: maps.Clone(asked)}
		rows, err := f.super.Query(ctx, `SELECT c.pos - 1 FROM bff_backoffice.operator_activity t JOIN bff_backoffice.audit_chain c ON c.row_id = t.id ORDER BY 1`)
		if err == nil {
			got.Left, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		}
		if err != nil {
			t.Fatal(err)
		}
		all, err := backofficelake.Refused(ctx, f.jobs)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			got.Refused = append(got.Refused, fmt.Sprintf("%s/%d %d %s", r.Table, r.First, r.Rows, r.Detail[strings.Index(r.Detail, ": ")+2:]))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}

	for i := range 6 { // an export each
		f.activity(tenantA, now.Add(-91*day), "success")
		var want error
		if i > 0 {
			want = backofficelake.ErrRefused
		}
		run(want)
	}
	check("refused", state{
		Left: []int64{1, 3, 4}, Asked: map[string]int{"1": 1, "3": 3, "4": 1},
		Refused: []string{"operator_activity/1 1 not a file", "operator_activity/4 1 a column too many"},
	})
	accepted["3"] = true
	run(backofficelake.ErrRefused)
	check("one that was refused for now is loaded", state{
		Left: []int64{1, 4}, Asked: map[string]int{"1": 1, "3": 3, "4": 1},
		Refused: []string{"operator_activity/1 1 not a file", "operator_activity/4 1 a column too many"},
	})
	accepted["1"] = true
	if err := backofficelake.RetryRefused(ctx, f.jobs); err != nil {
		t.Fatal(err)
	}
	run(backofficelake.ErrRefused)
	check("tried again", state{Left: []int64{4}, Asked: map[string]int{"1": 1, "3": 3, "4": 2}, Refused: []string{"operator_activity/4 1 a column too many"}})
	if err := backofficelake.WaiveRefused(ctx, f.jobs, "operator_activity", 1); err == nil {
		t.Error("an export was waived that is loaded")
	}
	if err := backofficelake.WaiveRefused(ctx, f.jobs, "operator_activity", 4); err != nil {
		t.Error(err)
	}
	run(nil)
	check("waived", state{Left: []int64{}, Asked: map[string]int{"1": 1, "3": 3, "4": 2}})
}

// firstOf is the position that an export is behind, from the name of a file.
func firstOf(path string) string {
	name, _, _ := strings.Cut(path[strings.LastIndex(path, "/")+1:], "-")
	return strings.TrimLeft(name, "0")
}
