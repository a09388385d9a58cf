package backofficestore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"
)

const (
	// countEvery is how often the sessions of the whole fleet are counted, by whichever
	// instance is asked for its metrics then. Counting walks over all keys of the tier.
	countEvery = time.Minute
	// countLifetime is how long a count is reported when no later one succeeds.
	countLifetime = 5 * time.Minute
	countTimeout  = 3 * time.Second
	scanPage      = 1000
)

// SessionCount reports the sessions of all instances as session_active_count. Every
// instance reports the same number; where it is not known, none.
type SessionCount struct {
	sessions *Sessions
	desc     *prometheus.Desc
}

// NewSessionCount returns the collector of the gauge.
func NewSessionCount(s *Sessions, namespace string) *SessionCount {
	return &SessionCount{s, prometheus.NewDesc(namespace+"_session_active_count", "Open sessions of all instances, counted once a minute.", nil, nil)}
}

// Describe implements prometheus.Collector.
func (c *SessionCount) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// Collect implements prometheus.Collector.
func (c *SessionCount) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
	defer cancel()
	if n, err := c.sessions.count(ctx); err == nil { // redis_pool and readiness report a tier that is away
		out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(n))
	}
}

// count returns how many sessions there are: a number of the last minute, or a fresh
// one if it is this instance's turn.
func (s *Sessions) count(ctx context.Context) (int64, error) {
	b, turn, kept := s.client.B, s.keys.Counting(), s.keys.Count()
	err := s.client.Do(ctx, b().Set().Key(turn).Value("").Nx().ExSeconds(int64(countEvery/time.Second)).Build()).Error()
	if rueidis.IsRedisNil(err) { // another instance's, or not yet
		return s.client.Do(ctx, b().Get().Key(kept).Build()).AsInt64()
	}
	if err != nil {
		return 0, err
	}
	found := map[string]struct{}{} // a walk may meet a key twice, and replicas have the same
	for _, node := range s.client.Nodes() {
		for cursor := uint64(0); ; {
			page, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(s.keys.AnySession()).Count(scanPage).Build()).AsScanEntry()
			if err != nil {
				return 0, err
			}
			for _, key := range page.Elements {
				found[strings.Clone(key)] = struct{}{}
			}
			if cursor = page.Cursor; cursor == 0 {
				break
			}
		}
	}
	n := int64(len(found))
	return n, s.client.Do(ctx, b().Set().Key(kept).Value(strconv.FormatInt(n, 10)).ExSeconds(int64(countLifetime/time.Second)).Build()).Error()
}
