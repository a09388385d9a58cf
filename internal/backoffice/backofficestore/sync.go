package backofficestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/postgres"
)

var _ device.SyncRecords = (*Devices)(nil)

// keepCursor never brings an older version back: an answer of sync-service may be
// late. A device without heartbeats counts as offline from now on if none comes.
const keepCursor = `INSERT INTO bff_backoffice.device_sync_status AS d (id, tenant_id, device_id, last_pull_cursor, last_push_ack, cursor_version, updated_at)
	VALUES ($1, $2, $3, $4, $5, $6, $7)
	ON CONFLICT (tenant_id, device_id) DO UPDATE SET
		last_pull_cursor = excluded.last_pull_cursor, last_push_ack = excluded.last_push_ack, cursor_version = excluded.cursor_version
	WHERE d.cursor_version <= excluded.cursor_version`

func cursorArgs(c device.CursorCopy, at time.Time) []any {
	return []any{
		bff.NewID(bff.PrefixDeviceSync, at).UUID(), c.Tenant.UUID(), c.Device.String(), c.Cursor.PullCursor, c.Cursor.PushAck, c.Cursor.Version, at,
	}
}

// RecordHandshake implements device.SyncRecords. A cursor that is itself our copy
// is not kept again.
func (d *Devices) RecordHandshake(ctx context.Context, h device.Handshake, e bff.Event) error {
	queue, err := d.ledger.queued(h.Tenant, []bff.Event{e})
	if err != nil {
		return err
	}
	err = d.ledger.cfg.DB.Tx(ctx, h.Tenant, func(b *pgx.Batch) {
		if !h.Cursor.Stale {
			b.Queue(keepCursor, cursorArgs(device.CursorCopy{Tenant: h.Tenant, Device: h.Device, Cursor: h.Cursor}, h.At)...)
		}
		b.Queue(`UPDATE bff_backoffice.device_sync_status SET last_sync_handshake_at = greatest(last_sync_handshake_at, $3), operator_id = $4
			WHERE tenant_id = $1 AND device_id = $2`, h.Tenant.UUID(), h.Device.String(), h.At, h.Operator)
		queue(b)
	})
	if err != nil {
		return postgres.Durable(fmt.Errorf("record handshake: %w", err))
	}
	d.ledger.cfg.Waker.Wake()
	return nil
}

// FindKeptCursor returns our copy of a cursor, or CodeResourceNotFound.
func (d *Devices) FindKeptCursor(ctx context.Context, tenant, dev bff.ID) (device.SyncCursor, error) {
	c := device.SyncCursor{Stale: true}
	found := false
	err := d.ledger.cfg.DB.Read(ctx, tenant, func(b *pgx.Batch) {
		b.Queue(`SELECT coalesce(last_pull_cursor, ''), coalesce(last_push_ack, ''), cursor_version FROM bff_backoffice.device_sync_status
			WHERE tenant_id = $1 AND device_id = $2 AND cursor_version > 0`, tenant.UUID(), dev.String()).QueryRow(func(row pgx.Row) error {
			err := row.Scan(&c.PullCursor, &c.PushAck, &c.Version)
			found = err == nil
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			return err
		})
	})
	switch {
	case err != nil:
		return c, fmt.Errorf("find cursor: %w", err)
	case !found:
		return c, bff.Errorf(bff.CodeResourceNotFound, "there is no copy of this cursor")
	}
	return c, nil
}
