package consumerd

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/outbox"
)

const (
	// sampleEvery is how old the outbox's figures may be.
	sampleEvery   = 5 * time.Second
	sampleTimeout = 4 * time.Second
)

// outboxFigures reports the state of the outbox, from the one process that
// leads its relay: many processes counting one table would cost as much as the
// work. When the figures cannot be read they are absent, and that is an alert
// of its own; an old number would look healthy.
type outboxFigures struct {
	db    *pgxpool.Pool
	table *outbox.Table
	relay *outbox.Relay
	log   *slog.Logger
	last  atomic.Pointer[outbox.Stats]

	depth, dlq, lag, attempts, leader, published, failed, dead *prometheus.Desc
}

// addOutboxFigures samples the outbox while the process runs.
func addOutboxFigures(d *daemon.Daemon, db *pgxpool.Pool, table *outbox.Table, relay *outbox.Relay, log *slog.Logger) error {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("bff_consumer_outbox_"+name, help, nil, nil)
	}
	f := &outboxFigures{
		db: db, table: table, relay: relay, log: log,
		depth:     desc("depth", "Events that wait to be published."),
		dlq:       desc("dlq_depth", "Events that were given up and wait for a person."),
		lag:       desc("lag_seconds", "Age of the oldest event that waits to be published."),
		attempts:  desc("attempts", "Failed attempts of the worst event that waits to be published."),
		leader:    desc("leader", "1 in the process whose relay publishes."),
		published: desc("published_total", "Events published by this process."),
		failed:    desc("failed_total", "Failed attempts of single events by this process."),
		dead:      desc("dead_lettered_total", "Events given up by this process."),
	}
	if err := d.Metrics.Register(f); err != nil {
		return err
	}
	d.AddLoop("outbox figures", f.run)
	return nil
}

func (f *outboxFigures) run(ctx context.Context) error {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		f.sample(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (f *outboxFigures) sample(ctx context.Context) {
	if !f.relay.Counters().Leader {
		f.last.Store(nil)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	s, err := f.table.Stats(ctx, f.db)
	if err != nil {
		f.last.Store(nil)
		f.log.WarnContext(ctx, "outbox could not be measured", "error", err.Error())
		return
	}
	f.last.Store(&s)
}

// Describe implements prometheus.Collector.
func (f *outboxFigures) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{f.depth, f.dlq, f.lag, f.attempts, f.leader, f.published, f.failed, f.dead} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (f *outboxFigures) Collect(out chan<- prometheus.Metric) {
	put := func(d *prometheus.Desc, kind prometheus.ValueType, v float64) {
		out <- prometheus.MustNewConstMetric(d, kind, v)
	}
	c := f.relay.Counters()
	leads := 0.0
	if c.Leader {
		leads = 1
	}
	put(f.leader, prometheus.GaugeValue, leads)
	put(f.published, prometheus.CounterValue, float64(c.Published))
	put(f.failed, prometheus.CounterValue, float64(c.Failed))
	put(f.dead, prometheus.CounterValue, float64(c.DeadLettered))
	if s := f.last.Load(); s != nil {
		put(f.depth, prometheus.GaugeValue, float64(s.Depth))
		put(f.dlq, prometheus.GaugeValue, float64(s.DLQ))
		put(f.lag, prometheus.GaugeValue, s.Lag.Seconds())
		put(f.attempts, prometheus.GaugeValue, float64(s.MaxAttempts))
	}
}
