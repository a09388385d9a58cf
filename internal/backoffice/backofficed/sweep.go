package backofficed

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/service"
)

const (
	sweepEvery = 5 * time.Minute
	sweepBatch = 500
)

// silent is the condition on a device that stopped reporting before $1.
const silent = `status = 'online' AND (last_heartbeat_at < $1 OR last_heartbeat_at IS NULL AND updated_at < $1)`

// sweepDevices turns devices from online to offline. One without any heartbeat counts
// from when its row was written. Two runs at once share the work: the rows that one
// holds are skipped by the other, and a row that a heartbeat has changed meanwhile is
// looked at again.
const sweepDevices = `UPDATE bff_backoffice.device_sync_status AS d SET status = 'offline', updated_at = $2
	FROM (
		SELECT tenant_id, id FROM bff_backoffice.device_sync_status
		WHERE ` + silent + `
		ORDER BY last_heartbeat_at LIMIT $3 FOR UPDATE SKIP LOCKED
	) AS late
	WHERE d.tenant_id = late.tenant_id AND d.id = late.id
	RETURNING d.tenant_id::text, d.device_id, coalesce(d.property_id::text, ''), coalesce(d.operator_id, ''),
		coalesce(d.app_version, ''), coalesce(d.app_platform, ''), d.last_heartbeat_at`

// sweep is the job that finds devices which have gone silent (DATA_MODEL §9).
type sweep struct {
	table *outbox.Table
	news  *backoffice.Envelopes
	// notices tells open streams; nil in a process that cannot reach them.
	notices backoffice.Notifier
}

func (s sweep) job() service.Job {
	return service.Job{Name: "device-status-sweep", Every: sweepEvery, Run: s.run, Count: countSilent}
}

// countSilent counts the devices that a run would turn.
func countSilent(ctx context.Context, db *pgxpool.Pool, now time.Time) (n int, err error) {
	if err := db.QueryRow(ctx, `SELECT count(*) FROM bff_backoffice.device_sync_status WHERE `+silent, now.Add(-device.OfflineAfter)).Scan(&n); err != nil {
		return 0, fmt.Errorf("count silent devices: %w", err)
	}
	return n, nil
}

func (s sweep) run(ctx context.Context, db *pgxpool.Pool, now time.Time) (int, error) {
	for rows := 0; ; {
		lost, err := s.batch(ctx, db, now)
		rows += len(lost)
		if err != nil {
			return rows, fmt.Errorf("sweep devices: %w", err)
		}
		if s.notices != nil {
			for _, l := range lost {
				_ = s.notices.Notify(ctx, l.Notice(now)) // dashboards show it with their next refresh
			}
		}
		if len(lost) < sweepBatch {
			return rows, nil
		}
	}
}

// batch turns devices and writes their events in one transaction: each is told of
// once, when it turns.
func (s sweep) batch(ctx context.Context, db *pgxpool.Pool, now time.Time) (lost []device.LostDevice, err error) {
	err = postgres.InTx(ctx, db, func(tx pgx.Tx) error {
		found, err := tx.Query(ctx, sweepDevices, now.Add(-device.OfflineAfter), now, sweepBatch)
		if err != nil {
			return err
		}
		if lost, err = pgx.CollectRows(found, scanLost); err != nil {
			return err
		}
		events := make([]bff.Event, 0, len(lost))
		for _, l := range lost {
			e, err := l.Event(s.news, now)
			if err != nil {
				return err
			}
			events = append(events, e)
		}
		if len(events) == 0 {
			return nil
		}
		return s.table.Append(ctx, tx, events...)
	})
	return lost, err
}

func scanLost(row pgx.CollectableRow) (l device.LostDevice, err error) {
	var (
		tenant, device, property string
		heartbeat                *time.Time
	)
	if err := row.Scan(&tenant, &device, &property, &l.Operator, &l.App.Version, &l.App.Platform, &heartbeat); err != nil {
		return l, err
	}
	if heartbeat != nil {
		l.LastHeartbeat = *heartbeat
	}
	if l.Tenant, err = bff.IDFromUUID(bff.PrefixTenant, tenant); err != nil {
		return l, err
	}
	if property != "" {
		if l.Property, err = bff.IDFromUUID(bff.PrefixProperty, property); err != nil {
			return l, err
		}
	}
	l.Device, err = bff.ParseID(bff.PrefixDevice, device)
	return l, err
}
