package outbox

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	// sampleEvery bounds the age of the sampled metrics.
	sampleEvery   = 5 * time.Second
	sampleTimeout = 4 * time.Second
)

// Collector reports the state of the outbox as metrics. Depth, lag and attempts
// are sampled only by the process that leads the relay: many processes counting
// one table would cost as much as the relay's own work. While a sample fails,
// its metrics are absent, which an alert can notice; an old number would look
// healthy.
type Collector struct {
	db    *pgxpool.Pool
	relay *Relay
	log   *slog.Logger
	last  atomic.Pointer[Stats]

	depth, held, dlq, lag, attempts, leader, published, failed, dead, topicDown *prometheus.Desc
}

// NewCollector returns a Collector of the relay's table. Register it, and Run it
// while the process lives.
func NewCollector(namespace string, db *pgxpool.Pool, relay *Relay, log *slog.Logger) *Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "outbox", name), help, labels, nil)
	}
	return &Collector{
		db: db, relay: relay, log: log,
		depth:     desc("depth", "Events that wait to be published."),
		held:      desc("held", "Events among them that wait for another attempt or for their topic."),
		dlq:       desc("dlq_depth", "Events that were given up and wait for a person."),
		lag:       desc("lag_seconds", "Age of the oldest event that waits to be published."),
		attempts:  desc("attempts", "Failed attempts of the worst event that waits to be published."),
		leader:    desc("leader", "1 in the process whose relay publishes."),
		published: desc("published_total", "Events published by this process."),
		failed:    desc("failed_total", "Failed attempts of single events by this process."),
		dead:      desc("dead_lettered_total", "Events given up by this process."),
		topicDown: desc("topic_down", "1 for a topic that is missing or forbidden: its events wait.", "topic"),
	}
}

// Run samples the table until ctx ends.
func (c *Collector) Run(ctx context.Context) error {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		c.sample(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (c *Collector) sample(ctx context.Context) {
	if !c.relay.Counters().Leader {
		c.last.Store(nil)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	table := c.relay.cfg.Table
	s, err := table.Stats(ctx, c.db)
	if err != nil {
		c.last.Store(nil)
		c.log.WarnContext(ctx, "outbox metrics could not be sampled, depth and lag are absent", "table", table.name, "error", err.Error())
		return
	}
	c.last.Store(&s)
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.depth, c.held, c.dlq, c.lag, c.attempts, c.leader, c.published, c.failed, c.dead, c.topicDown} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	put := func(d *prometheus.Desc, kind prometheus.ValueType, v float64) {
		out <- prometheus.MustNewConstMetric(d, kind, v)
	}
	counters := c.relay.Counters()
	leads := 0.0
	if counters.Leader {
		leads = 1
	}
	put(c.leader, prometheus.GaugeValue, leads)
	put(c.published, prometheus.CounterValue, float64(counters.Published))
	put(c.failed, prometheus.CounterValue, float64(counters.Failed))
	put(c.dead, prometheus.CounterValue, float64(counters.DeadLettered))
	for _, topic := range c.relay.TopicsDown() {
		out <- prometheus.MustNewConstMetric(c.topicDown, prometheus.GaugeValue, 1, topic)
	}
	if s := c.last.Load(); s != nil {
		put(c.depth, prometheus.GaugeValue, float64(s.Depth))
		put(c.held, prometheus.GaugeValue, float64(s.Held))
		put(c.dlq, prometheus.GaugeValue, float64(s.DLQ))
		put(c.lag, prometheus.GaugeValue, s.Lag.Seconds())
		put(c.attempts, prometheus.GaugeValue, float64(s.MaxAttempts))
	}
}
