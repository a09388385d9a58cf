package cache

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	s := newTestStore(t, StoreConfig{Namespace: "bff_consumer", Registerer: reg})
	c := newTestCache(t, s)
	src := newSource("body", "tag")
	for range 3 {
		read(t, c, "k", src.fill)
	}
	if err := s.Expire(t.Context(), "tag"); err != nil {
		t.Fatal(err)
	}
	read(t, c, "k", src.fill)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			got[f.GetName()] += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	delete(got, "bff_consumer_cache_fill_duration_seconds") // the refresh may still be under way
	want := map[string]float64{
		"bff_consumer_cache_hit_total":              2,
		"bff_consumer_cache_miss_total":             1,
		"bff_consumer_cache_stale_total":            1,
		"bff_consumer_cache_invalidations_total":    1,
		"bff_consumer_cache_lease_takeover_total":   0,
		"bff_consumer_cache_unkept_total":           0,
		"bff_consumer_singleflight_followers_total": 0,
		"bff_consumer_cache_redis_up":               0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if _, err := NewStore(StoreConfig{Namespace: "bff_consumer", Registerer: reg}); err == nil {
		t.Error("two stores under one name")
	}
}

// TestMadeOfStale fills with a body that was made of something old: neither the
// fill nor what is kept of it counts or is reported as fresh, here or in another
// process.
func TestMadeOfStale(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	c := newTestCache(t, newTestStore(t, StoreConfig{Namespace: "bff_consumer", Registerer: reg}))
	fill := func(context.Context) (Fill, error) { return Fill{Body: []byte("{}"), Stale: true}, nil }
	var entry *Entry
	for range 3 {
		e, st, err := c.Get(t.Context(), "k", fill)
		if err != nil || st.Result != Stale || !st.OfStale {
			t.Fatalf("%+v, %v", st, err)
		}
		w := httptest.NewRecorder()
		e.Serve(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil), st)
		if w.Header().Get("X-Cache") != "STALE" || !strings.HasSuffix(w.Header().Get("Cache-Status"), "; detail=of-stale") {
			t.Errorf("%v", w.Header())
		}
		entry = e
	}
	if _, st, err := c.Kept(t.Context(), "k"); err != nil || st.Result != Stale || !st.OfStale {
		t.Errorf("kept: %+v, %v", st, err)
	}
	if e, err := c.decode("k", entry.encode()); err != nil || !e.old {
		t.Errorf("in another process: %v", err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch n := m.GetCounter().GetValue(); {
			case f.GetName() == "bff_consumer_cache_stale_total" && m.GetLabel()[1].GetValue() == "error":
				if n != 4 {
					t.Errorf("%v stale reads, want 4", n)
				}
			case f.GetName() == "bff_consumer_cache_hit_total", f.GetName() == "bff_consumer_cache_miss_total":
				if n != 0 {
					t.Errorf("%s: %v", f.GetName(), n)
				}
			}
		}
	}
}
