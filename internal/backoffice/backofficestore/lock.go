package backofficestore

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/lock"
	"melmastoon.ghasi.io/bff/internal/outbox"
)

const (
	// noVendor is in the row until lock-integration has said which one it was.
	noVendor = "unknown"

	insertLock = `INSERT INTO bff_backoffice.lock_action_proxy_audit (id, tenant_id, property_id, operator_id, device_id, reservation_id,
			action, vendor, occurred_at, outcome, error_code, mfa_attestation_id, upstream_request_id, upstream_latency_ms, activity_ids,
			attempted_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, '` + noVendor + `', $8, 'failure', $9, $10, $11, 0, ARRAY[$12::uuid], $8)
		ON CONFLICT (tenant_id, upstream_request_id) WHERE state <> 'refused' DO NOTHING`
	// joinLock adds an attempt to a row that an earlier one has left, unless it is
	// settled.
	joinLock = `UPDATE bff_backoffice.lock_action_proxy_audit SET activity_ids = activity_ids || $2::uuid, attempted_at = $3
		WHERE upstream_request_id = $1 AND settled_at IS NULL`
	findLock = `SELECT id::text, action, reservation_id, state, vendor, coalesce(credential_id, ''), coalesce(error_code, '')
		FROM bff_backoffice.lock_action_proxy_audit WHERE upstream_request_id = $1 AND state <> 'refused'`
	// endLock writes what became of an action that is not settled yet, and with a
	// final state how its activities ended, and its events. It returns how many rows it
	// has settled.
	endLock = `WITH settled AS (
			UPDATE bff_backoffice.lock_action_proxy_audit
			SET state = $3, vendor = coalesce($4, vendor), credential_id = coalesce($5, credential_id), outcome = $6, error_code = $7,
				upstream_latency_ms = coalesce($8, upstream_latency_ms), settled_at = $9
			WHERE tenant_id = $1 AND id = $2 AND settled_at IS NULL AND ($11::timestamptz IS NULL OR attempted_at = $11)
			RETURNING activity_ids, settled_at
		), ended AS (
			UPDATE bff_backoffice.operator_activity AS a
			SET outcome = $10, error_code = $7, latency_ms = least(extract(epoch FROM $9::timestamptz - a.occurred_at) * 1000, 2147483647)::int
			WHERE a.tenant_id = $1 AND a.id = ANY (ARRAY(SELECT unnest(activity_ids) FROM settled WHERE settled_at IS NOT NULL))
				AND a.outcome = 'unknown' AND a.category = 'lock'
		)%s
		SELECT count(*) FROM settled`
	// tellLock is the part with the events.
	tellLock = `, published AS (%s WHERE EXISTS (SELECT FROM settled WHERE settled_at IS NOT NULL))`
	// settleArgs is the number of parameters before those of the events.
	settleArgs = 11
)

// auditLock queues the audit row of an attempt. One that an earlier attempt with the key
// has left is read into it.
func (w *effects) auditLock(l *lock.Audit) error {
	a := w.activity
	if a.Property.IsZero() || l.ID.IsZero() || l.Reservation.IsZero() || l.Request == "" {
		return errors.New("audit of a lock action without property, id, reservation or request")
	}
	added := false
	w.batch.Queue(insertLock, l.ID.UUID(), a.Tenant.UUID(), a.Property.UUID(), a.Operator, a.Device.String(), l.Reservation.String(),
		string(l.Action), a.At, string(bff.CodeLockOutcomeUnknown), optional(l.Attestation), l.Request, a.ID.UUID()).
		Exec(func(tag pgconn.CommandTag) error {
			added = tag.RowsAffected() == 1
			return nil
		})
	w.after = append(w.after, func(ctx context.Context, tx pgx.Tx) error {
		if added {
			return nil
		}
		existing, err := joinExisting(ctx, tx, a, l.Request)
		if err != nil {
			return err
		}
		if existing.Action != l.Action || existing.Reservation != l.Reservation {
			// The key is older than what is remembered of requests, and was for something
			// else.
			return bff.Errorf(bff.CodeStaffIdempotencyReused, "this key belongs to another action: send a new key with a new request")
		}
		existing.Tenant, existing.Request, existing.Attestation = l.Tenant, l.Request, l.Attestation
		*l = existing
		return nil
	})
	return nil
}

func joinExisting(ctx context.Context, tx pgx.Tx, a *backoffice.Activity, request string) (lock.Audit, error) {
	var (
		l                       lock.Audit
		id, action, reservation string
	)
	if _, err := tx.Exec(ctx, joinLock, request, a.ID.UUID(), a.At); err != nil {
		return l, err
	}
	err := tx.QueryRow(ctx, findLock, request).Scan(&id, &action, &reservation, &l.State, &l.Vendor, &l.Credential, &l.Reason)
	if err != nil {
		return l, fmt.Errorf("find audit of lock action: %w", err)
	}
	l.Action = lock.Action(action)
	var err1, err2 error
	l.ID, err1 = bff.IDFromUUID(bff.PrefixLockAudit, id)
	l.Reservation, err2 = bff.ParseID(bff.PrefixReservation, reservation)
	return l, errors.Join(err1, err2)
}

// settleLock queues what became of a lock action.
func (w *effects) settleLock(s lock.Settlement) error {
	if s.State == lock.LockUnknown { // the row says so already
		return nil
	}
	if err := ofTenant(s.Tenant, s.Events...); err != nil {
		return err
	}
	sql, args, err := settlement(w.ledger.cfg.Outbox, s)
	if err == nil {
		w.batch.Queue(sql, args...)
	}
	return err
}

// SettleLock writes what became of a lock action, unless it is settled already, and
// with a final state how its activities ended and the events. It reports whether it
// did.
func SettleLock(ctx context.Context, tx pgx.Tx, table *outbox.Table, s lock.Settlement) (bool, error) {
	sql, args, err := settlement(table, s)
	if err != nil {
		return false, err
	}
	n := 0
	if err := tx.QueryRow(ctx, sql, args...).Scan(&n); err != nil {
		return false, fmt.Errorf("settle lock action: %w", err)
	}
	return n == 1, nil
}

// settlement is the statement that writes one, with its events.
func settlement(table *outbox.Table, s lock.Settlement) (string, []any, error) {
	outcome, reason := "failure", optional(s.Reason)
	var settled, latency, attempted any
	if !s.Attempted.IsZero() {
		attempted = s.Attempted
	}
	switch s.State {
	case lock.LockPending:
		reason = string(bff.CodeLockOutcomeUnknown)
	case lock.LockIssued, lock.LockRevoked:
		outcome, reason, settled = "success", nil, s.At
	default:
		settled = s.At
	}
	if s.Latency > 0 {
		latency = min(s.Latency.Milliseconds(), math.MaxInt32)
	}
	args := []any{
		s.Tenant.UUID(), s.ID.UUID(), string(s.State), optional(s.Vendor), optional(s.Credential), outcome, reason,
		latency, settled, string(s.Outcome()), attempted,
	}
	if len(s.Events) == 0 {
		return fmt.Sprintf(endLock, ""), args, nil
	}
	insert, events, err := table.Statement(settleArgs+1, s.Events...)
	return fmt.Sprintf(endLock, fmt.Sprintf(tellLock, insert)), append(args, events...), err
}

// LockRowColumns are what ScanLockRow reads, of the table l.
const LockRowColumns = `l.id::text, l.tenant_id::text, l.property_id::text, l.operator_id, l.device_id, l.reservation_id, l.action, l.state, l.upstream_request_id, l.attempted_at`

// ScanLockRow reads an unsettled row.
func ScanLockRow(row pgx.CollectableRow) (lock.Row, error) {
	var (
		r                                         lock.Row
		id, tenant, property, device, reservation string
		errs                                      [5]error
	)
	err := row.Scan(&id, &tenant, &property, &r.Operator, &device, &reservation, &r.Action, &r.State, &r.Request, &r.AttemptedAt)
	if err != nil {
		return r, err
	}
	r.ID, errs[0] = bff.IDFromUUID(bff.PrefixLockAudit, id)
	r.Tenant, errs[1] = bff.IDFromUUID(bff.PrefixTenant, tenant)
	r.Property, errs[2] = bff.IDFromUUID(bff.PrefixProperty, property)
	r.Device, errs[3] = bff.ParseID(bff.PrefixDevice, device)
	r.Reservation, errs[4] = bff.ParseID(bff.PrefixReservation, reservation)
	return r, errors.Join(errs[:]...)
}

var _ lock.Rows = (*Ledger)(nil)

// FindLockRow implements lock.Rows.
func (l *Ledger) FindLockRow(ctx context.Context, tenant bff.ID, request string) (row *lock.Row, known bool, err error) {
	err = l.cfg.DB.Read(ctx, tenant, func(b *pgx.Batch) {
		row, known = nil, false
		b.Queue(`SELECT EXISTS (SELECT FROM bff_backoffice.lock_action_proxy_audit WHERE upstream_request_id = $1 AND state <> 'refused')`, request).
			QueryRow(func(r pgx.Row) error { return r.Scan(&known) })
		b.Queue(`SELECT `+LockRowColumns+` FROM bff_backoffice.lock_action_proxy_audit AS l WHERE upstream_request_id = $1 AND settled_at IS NULL`, request).
			Query(func(rows pgx.Rows) error {
				found, err := pgx.CollectRows(rows, ScanLockRow)
				if err == nil && len(found) > 0 {
					row = &found[0]
				}
				return err
			})
	})
	if err != nil {
		return nil, false, fmt.Errorf("find lock action: %w", err)
	}
	return row, known, nil
}

// SettleLock implements lock.Rows.
func (l *Ledger) SettleLock(ctx context.Context, s lock.Settlement) error {
	if err := ofTenant(s.Tenant, s.Events...); err != nil {
		return err
	}
	err := l.cfg.DB.InTx(ctx, s.Tenant, func(tx pgx.Tx) error {
		_, err := SettleLock(ctx, tx, l.cfg.Outbox, s)
		return err
	})
	if err == nil {
		l.cfg.Waker.Wake()
	}
	return err
}
