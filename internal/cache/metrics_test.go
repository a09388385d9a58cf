package cache

import (
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
