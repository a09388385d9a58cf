package backofficestore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
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
	tellLock = `, told AS (%s WHERE EXISTS (SELECT FROM settled WHERE settled_at IS NOT NULL))`
	// settleArgs is the number of parameters before those of the events.
	settleArgs = 11
)

// addLock sends a batch with the audit row of an attempt, or finds the one of an
// earlier attempt with the same key.
func addLock(ctx context.Context, tx pgx.Tx, b *pgx.Batch, a *backoffice.Activity, l *backoffice.LockAudit) error {
	if a.Property.IsZero() || l.ID.IsZero() || l.Reservation.IsZero() || l.Request == "" {
		return errors.New("audit of a lock action without property, id, reservation or request")
	}
	added := false
	b.Queue(insertLock, l.ID.UUID(), a.Tenant.UUID(), a.Property.UUID(), a.Operator, a.Device.String(), l.Reservation.String(),
		string(l.Action), a.At, string(bff.CodeLockOutcomeUnknown), optional(l.Attestation), l.Request, a.ID.UUID()).
		Exec(func(tag pgconn.CommandTag) error {
			added = tag.RowsAffected() == 1
			return nil
		})
	if err := tx.SendBatch(ctx, b).Close(); err != nil || added {
		return err
	}
	standing, err := joinStanding(ctx, tx, a, l.Request)
	if err != nil {
		return err
	}
	if standing.Action != l.Action || standing.Reservation != l.Reservation {
		// The key is older than what is remembered of requests, and was for something
		// else.
		return bff.Errorf(bff.CodeStaffIdempotencyReused, "this key belongs to another action: send a new key with a new request")
	}
	standing.Request, standing.Attestation = l.Request, l.Attestation
	*l = standing
	return nil
}

func joinStanding(ctx context.Context, tx pgx.Tx, a *backoffice.Activity, request string) (backoffice.LockAudit, error) {
	var (
		l                       backoffice.LockAudit
		id, action, reservation string
	)
	if _, err := tx.Exec(ctx, joinLock, request, a.ID.UUID(), a.At); err != nil {
		return l, err
	}
	err := tx.QueryRow(ctx, findLock, request).Scan(&id, &action, &reservation, &l.State, &l.Vendor, &l.Credential, &l.Reason)
	if err != nil {
		return l, fmt.Errorf("find audit of lock action: %w", err)
	}
	l.Action = backoffice.LockAction(action)
	var err1, err2 error
	l.ID, err1 = bff.IDFromUUID(bff.PrefixLockAudit, id)
	l.Reservation, err2 = bff.ParseID(bff.PrefixReservation, reservation)
	return l, errors.Join(err1, err2)
}

// Settling names the row that is settled, and the events that tell of it.
type Settling struct {
	Tenant, ID bff.ID
	// Attempted, if it is not zero, must be when the last attempt began.
	Attempted time.Time
	Outbox    *outbox.Table
	Events    []bff.Event
}

// SettleLock writes what became of a lock action, unless it is settled already, and
// with a final state how its activities ended and the events. It reports whether it
// did.
func SettleLock(ctx context.Context, tx pgx.Tx, of Settling, r backoffice.LockResult, now time.Time) (bool, error) {
	return settleLock(ctx, tx, &pgx.Batch{}, of, r, now)
}

// settleLock is SettleLock in one round trip with what the batch has already.
func settleLock(ctx context.Context, tx pgx.Tx, b *pgx.Batch, of Settling, r backoffice.LockResult, now time.Time) (bool, error) {
	n := 0
	if r.State != backoffice.LockUnknown { // else the row says so already
		sql, args, err := of.statement(r, now)
		if err != nil {
			return false, err
		}
		b.Queue(sql, args...).QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return false, fmt.Errorf("settle lock action: %w", err)
	}
	return n == 1, nil
}

// statement writes the result with the events.
func (s *Settling) statement(r backoffice.LockResult, now time.Time) (string, []any, error) {
	outcome, reason := "failure", optional(r.Reason)
	var settled, latency, attempted any
	if !s.Attempted.IsZero() {
		attempted = s.Attempted
	}
	switch r.State {
	case backoffice.LockPending:
		reason = string(bff.CodeLockOutcomeUnknown)
	case backoffice.LockIssued, backoffice.LockRevoked:
		outcome, reason, settled = "success", nil, now
	default:
		settled = now
	}
	if r.Latency > 0 {
		latency = min(r.Latency.Milliseconds(), math.MaxInt32)
	}
	args := []any{
		s.Tenant.UUID(), s.ID.UUID(), string(r.State), optional(r.Vendor), optional(r.Credential), outcome, reason,
		latency, settled, string(r.Outcome()), attempted,
	}
	if len(s.Events) == 0 {
		return fmt.Sprintf(endLock, ""), args, nil
	}
	insert, events, err := s.Outbox.Statement(settleArgs+1, s.Events...)
	return fmt.Sprintf(endLock, fmt.Sprintf(tellLock, insert)), append(args, events...), err
}

// LockRowColumns are what ScanLockRow reads, of the table l.
const LockRowColumns = `l.id::text, l.tenant_id::text, l.property_id::text, l.operator_id, l.device_id, l.reservation_id, l.action, l.state, l.upstream_request_id, l.attempted_at`

// ScanLockRow reads an unsettled row.
func ScanLockRow(row pgx.CollectableRow) (backoffice.LockRow, error) {
	var (
		r                                         backoffice.LockRow
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

var _ backoffice.LockRows = (*Ledger)(nil)

// FindLockRow implements backoffice.LockRows.
func (l *Ledger) FindLockRow(ctx context.Context, tenant bff.ID, request string) (row *backoffice.LockRow, known bool, err error) {
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

// SettleLockRow implements backoffice.LockRows.
func (l *Ledger) SettleLockRow(ctx context.Context, row backoffice.LockRow, r backoffice.LockResult, e bff.Event, now time.Time) error {
	if err := ofTenant(row.Tenant, e); err != nil {
		return err
	}
	err := l.cfg.DB.InTx(ctx, row.Tenant, func(tx pgx.Tx) error {
		_, err := SettleLock(ctx, tx, Settling{Tenant: row.Tenant, ID: row.ID, Outbox: l.cfg.Outbox, Events: []bff.Event{e}}, r, now)
		return err
	})
	if err == nil {
		l.cfg.Waker.Wake()
	}
	return err
}
