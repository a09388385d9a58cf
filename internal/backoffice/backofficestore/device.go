package backofficestore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/idempotency"
	"melmastoon.ghasi.io/bff/internal/postgres"
)

// Devices keeps what devices report, in the same database and outbox as the ledger.
type Devices struct{ ledger *Ledger }

var _ device.Records = (*Devices)(nil)

// NewDevices returns Devices.
func NewDevices(l *Ledger) *Devices { return &Devices{l} }

// recordHeartbeat locks the device's row before it reads the status: of two
// heartbeats at once only one finds the device offline. An empty queue of the device
// ends the hints that it gave. The pull cursor of a heartbeat is what the device
// believes: once sync-service's own is known it stays.
const recordHeartbeat = `WITH before AS MATERIALIZED (
		SELECT status FROM bff_backoffice.device_sync_status WHERE tenant_id = $1 AND device_id = $2 FOR UPDATE
	), seen AS (
		INSERT INTO bff_backoffice.device_sync_status AS d (id, tenant_id, device_id, property_id, operator_id, last_heartbeat_at,
			last_pull_cursor, app_version, app_platform, installer_channel, network_profile, status, updated_at)
		SELECT $3::uuid, $1, $2, $4::uuid, $5, $6::timestamptz, $7::text, $8, $9, $10, $11, 'online', $6::timestamptz
			FROM (VALUES (1)) AS one LEFT JOIN before ON true
		ON CONFLICT (tenant_id, device_id) DO UPDATE SET
			property_id = coalesce(excluded.property_id, d.property_id), operator_id = excluded.operator_id,
			last_heartbeat_at = greatest(d.last_heartbeat_at, excluded.last_heartbeat_at),
			last_pull_cursor = CASE WHEN d.cursor_version > 0 THEN d.last_pull_cursor ELSE coalesce(excluded.last_pull_cursor, d.last_pull_cursor) END,
			app_version = excluded.app_version, app_platform = excluded.app_platform, installer_channel = excluded.installer_channel,
			network_profile = excluded.network_profile, status = 'online', updated_at = excluded.updated_at,
			pending_hints = CASE WHEN $12::int = 0 THEN '[]'::jsonb ELSE d.pending_hints END
		RETURNING 1
	), published AS (%s WHERE EXISTS (SELECT FROM before WHERE status = 'offline'))
	SELECT EXISTS (SELECT FROM before WHERE status = 'offline') FROM seen`

// heartbeatArgs is the number of parameters before those of the event.
const heartbeatArgs = 12

// RecordHeartbeat implements device.Records, in one round trip.
func (d *Devices) RecordHeartbeat(ctx context.Context, s device.Seen, cameOnline bff.Event, reported ...bff.Event) (bool, error) {
	insert, event, err := d.ledger.statement(s.Tenant, heartbeatArgs+1, cameOnline)
	if err != nil {
		return false, err
	}
	queue, err := d.ledger.queued(s.Tenant, reported)
	if err != nil {
		return false, err
	}
	args := append([]any{
		s.Tenant.UUID(), s.Device.String(), bff.NewID(bff.PrefixDeviceSync, s.At).UUID(), uuidOrNull(s.Property), s.Operator, s.At,
		optional(s.PullCursor), s.App.Version, s.App.Platform, s.InstallerChannel, s.NetworkProfile, s.PendingHints,
	}, event...)
	var wasOffline bool
	err = d.ledger.cfg.DB.Tx(ctx, s.Tenant, func(b *pgx.Batch) {
		b.Queue(fmt.Sprintf(recordHeartbeat, insert), args...).QueryRow(func(row pgx.Row) error { return row.Scan(&wasOffline) })
		queue(b)
	})
	if err != nil {
		return false, postgres.Durable(fmt.Errorf("record heartbeat: %w", err))
	}
	if wasOffline || len(reported) > 0 {
		d.ledger.cfg.Waker.Wake()
	}
	return wasOffline, nil
}

const (
	insertHints = `INSERT INTO bff_backoffice.offline_action_queue_hints (id, tenant_id, device_id, operator_id, reported_at, payload, app_version)
		VALUES ($1, $2, $3, $4, $5, $6::jsonb, $7) ON CONFLICT (tenant_id, id) DO NOTHING`
	pendHints = `INSERT INTO bff_backoffice.device_sync_status AS d (id, tenant_id, device_id, operator_id, pending_hints, updated_at)
		VALUES ($1, $2, $3, $4, $6::jsonb, $5)
		ON CONFLICT (tenant_id, device_id) DO UPDATE SET pending_hints = excluded.pending_hints, operator_id = excluded.operator_id`
)

// AddHints implements device.Records. The newest report is also what the
// device's own row says.
func (d *Devices) AddHints(ctx context.Context, r device.HintReport, o backoffice.Once) (backoffice.Answer, error) {
	payload, err := json.Marshal(r.Hints)
	if err != nil {
		return backoffice.Answer{}, err
	}
	claim, earlier, err := d.ledger.begin(ctx, idempotency.Request{
		Owner: []string{r.Tenant.UUID()}, By: []string{r.Device.String(), r.Operator}, Key: o.Key, Digest: o.Digest,
	}, o, r.At, nil)
	if err != nil {
		return backoffice.Answer{}, undone(fmt.Errorf("add hints: %w", err))
	}
	if earlier != nil {
		return stored(*earlier)
	}
	defer claim.Release()
	answer := backoffice.Answer{Status: 202, Receipt: backoffice.NewReceipt(map[string]any{"hintId": r.ID, "reportedAt": bff.At(r.At)})}
	kept, err := idempotency.NewAnswer(answer.Status, answer.Receipt)
	if err != nil {
		return backoffice.Answer{}, err
	}
	err = d.ledger.cfg.DB.InTx(ctx, r.Tenant, func(tx pgx.Tx) error {
		if err := claim.Record(ctx, tx, kept); err != nil {
			return err
		}
		var b pgx.Batch
		b.Queue(insertHints, r.ID.UUID(), r.Tenant.UUID(), r.Device.String(), r.Operator, r.At, string(payload), r.App.Version)
		b.Queue(pendHints, bff.NewID(bff.PrefixDeviceSync, r.At).UUID(), r.Tenant.UUID(), r.Device.String(), r.Operator, r.At, string(payload))
		return tx.SendBatch(ctx, &b).Close()
	})
	kept, _, err = claim.Settle(ctx, kept, err)
	if err != nil {
		return backoffice.Answer{}, undone(fmt.Errorf("add hints: %w", err))
	}
	return stored(kept)
}
