package backofficelake_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff/internal/backoffice/backofficelake"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// shelf is a warehouse that may be away.
type shelf struct {
	mu    sync.Mutex
	away  bool
	files map[string]int // how often each file was loaded
	into  map[string]string
}

func (s *shelf) Load(_ context.Context, t backofficelake.Target, f backofficelake.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return errAway
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

func TestWarehouseIsLinked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, lake, warehouse, want string }{
		{"no URL", "gs://bucket", "bigquery://%zz", "warehouse-url: it or lake-url is no URL"},
		{"not in this program", "gs://bucket", "elsewhere://project/dataset", `warehouse-url: this program can not load into "elsewhere", want bigquery://project/dataset`},
	} {
		if _, err := backofficelake.OpenLoader(tt.lake, tt.warehouse); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
	if l, err := backofficelake.OpenLoader("file:///lake", ""); l != nil || err != nil {
		t.Errorf("without: %v, %v", l, err)
	}
}
