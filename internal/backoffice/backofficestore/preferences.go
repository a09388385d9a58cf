package backofficestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
)

// keepPreferences never brings an older version back: a slow read may have fetched it
// before a change was made.
const keepPreferences = `INSERT INTO bff_backoffice.operator_preferences AS kept (tenant_id, operator_id, property_id, payload, version, updated_at)
	VALUES ($1, $2, $3, $4, $5, $6)
	ON CONFLICT (tenant_id, operator_id, COALESCE(property_id, '00000000-0000-0000-0000-000000000000'::uuid))
	DO UPDATE SET payload = EXCLUDED.payload, version = EXCLUDED.version, updated_at = EXCLUDED.updated_at
	WHERE kept.version < EXCLUDED.version`

func preferencesArgs(c device.PreferencesCopy) []any {
	o, p := c.Owner, c.Preferences
	return []any{o.Tenant.UUID(), o.Operator, uuidOrNull(o.Property), []byte(p.Payload), p.Version, p.UpdatedAt.Time}
}

// KeepPreferences brings our copy of an operator's preferences up to date.
func (l *Ledger) KeepPreferences(ctx context.Context, c device.PreferencesCopy) error {
	err := l.cfg.DB.Tx(ctx, c.Owner.Tenant, func(b *pgx.Batch) { b.Queue(keepPreferences, preferencesArgs(c)...) })
	if err != nil {
		return fmt.Errorf("keep preferences: %w", err)
	}
	return nil
}

// FindKeptPreferences returns our copy, or CodeResourceNotFound.
func (l *Ledger) FindKeptPreferences(ctx context.Context, o device.PreferencesOwner) (device.Preferences, error) {
	p := device.Preferences{Stale: true}
	found := false
	err := l.cfg.DB.Read(ctx, o.Tenant, func(b *pgx.Batch) {
		b.Queue(`SELECT payload, version, updated_at FROM bff_backoffice.operator_preferences
			WHERE tenant_id = $1 AND operator_id = $2 AND property_id IS NOT DISTINCT FROM $3::uuid`,
			o.Tenant.UUID(), o.Operator, uuidOrNull(o.Property)).QueryRow(func(row pgx.Row) error {
			err := row.Scan((*[]byte)(&p.Payload), &p.Version, &p.UpdatedAt.Time)
			found = err == nil
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			return err
		})
	})
	switch {
	case err != nil:
		return p, fmt.Errorf("find preferences: %w", err)
	case !found:
		return p, bff.Errorf(bff.CodeResourceNotFound, "there is no copy of these preferences")
	}
	return p, nil
}
