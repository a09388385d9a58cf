package backofficed

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff/internal/backoffice/device"
)

const (
	// devicesEvery is how often an instance counts; the count walks over all rows.
	devicesEvery   = time.Minute
	devicesTimeout = 3 * time.Second

	countDevices = `SELECT status, count(*) FROM bff_backoffice.device_sync_status GROUP BY status`
)

// deviceCount reports the devices of all tenants as device_status_count, read as the
// role of jobs. Every instance reports the same; where it is not known, none does.
type deviceCount struct {
	db   *pgxpool.Pool
	desc *prometheus.Desc

	mu    sync.Mutex
	at    time.Time
	known map[string]float64 // by status
}

func newDeviceCount(db *pgxpool.Pool, namespace string) *deviceCount {
	return &deviceCount{
		db:   db,
		desc: prometheus.NewDesc(namespace+"_device_status_count", "Devices of all tenants by status, counted once a minute.", []string{"status"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *deviceCount) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// Collect implements prometheus.Collector.
func (c *deviceCount) Collect(out chan<- prometheus.Metric) {
	for status, n := range c.count(time.Now()) {
		out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, n, status)
	}
}

func (c *deviceCount) count(now time.Time) map[string]float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.at) < devicesEvery {
		return c.known
	}
	ctx, cancel := context.WithTimeout(context.Background(), devicesTimeout)
	defer cancel()
	known := map[string]float64{string(device.DeviceOnline): 0, string(device.DeviceOffline): 0}
	c.at, c.known = now, nil // after a failure too: an outage is asked once a minute
	rows, err := c.db.Query(ctx, countDevices)
	if err != nil {
		return nil // readiness reports a database that is away
	}
	var (
		status string
		n      int64
	)
	_, err = pgx.ForEachRow(rows, []any{&status, &n}, func() error { known[status] = float64(n); return nil })
	if errors.Join(err, rows.Err()) != nil {
		return nil
	}
	c.known = known
	return known
}
