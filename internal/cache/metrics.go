package cache

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// storeMetrics are what all caches of a store count.
type storeMetrics struct {
	hits, misses, stale, followers, takeovers, unkept *prometheus.CounterVec
	fills                                             *prometheus.HistogramVec
	redisErrors                                       *prometheus.CounterVec
	redisUp                                           prometheus.Gauge
	invalidations                                     *prometheus.CounterVec
}

func newStoreMetrics(namespace string, reg prometheus.Registerer) (*storeMetrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	}
	m := &storeMetrics{
		hits:          counter("cache_hit_total", "Reads served from the cache while fresh, by tier.", "cache", "tier"),
		misses:        counter("cache_miss_total", "Reads that waited for a fill.", "cache"),
		stale:         counter("cache_stale_total", "Reads served stale: while refreshing, or because a fill failed.", "cache", "reason"),
		followers:     counter("singleflight_followers_total", "Reads and flights that waited for another's fill.", "cache", "scope"),
		takeovers:     counter("cache_lease_takeover_total", "Leases taken over from a holder that did not finish.", "cache"),
		unkept:        counter("cache_unkept_total", "Fills that were too large or had too many tags to keep.", "cache"),
		redisErrors:   counter("cache_redis_errors_total", "Redis calls that failed.", "op"),
		invalidations: counter("cache_invalidations_total", "Tags invalidated or expired by this process.", "kind"),
		fills: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "cache_fill_duration_seconds", Help: "Duration of fills.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"cache", "outcome"}),
		redisUp: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "cache_redis_up", Help: "Whether the shared tier is in use.",
		}),
	}
	if reg == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.hits, m.misses, m.stale, m.followers, m.takeovers, m.unkept,
		m.fills, m.redisErrors, m.redisUp, m.invalidations,
	} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}

// cacheMetrics are resolved once, so that a hit does not look labels up.
type cacheMetrics struct {
	hitMemory, hitRedis, miss        prometheus.Counter
	staleRefreshing, staleError      prometheus.Counter
	followersProcess, followersRedis prometheus.Counter
	takeovers, unkept                prometheus.Counter
	fillOK, fillNegative, fillFailed prometheus.Observer
}

func (m *storeMetrics) of(cache string) cacheMetrics {
	return cacheMetrics{
		hitMemory: m.hits.WithLabelValues(cache, "memory"), hitRedis: m.hits.WithLabelValues(cache, "redis"),
		miss:             m.misses.WithLabelValues(cache),
		staleRefreshing:  m.stale.WithLabelValues(cache, "refreshing"),
		staleError:       m.stale.WithLabelValues(cache, "error"),
		followersProcess: m.followers.WithLabelValues(cache, "process"),
		followersRedis:   m.followers.WithLabelValues(cache, "redis"),
		takeovers:        m.takeovers.WithLabelValues(cache), unkept: m.unkept.WithLabelValues(cache),
		fillOK:       m.fills.WithLabelValues(cache, "ok"),
		fillNegative: m.fills.WithLabelValues(cache, "negative"),
		fillFailed:   m.fills.WithLabelValues(cache, "failed"),
	}
}
