package backofficestore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
	"melmastoon.ghasi.io/bff/internal/postgres"
)

var _ audit.Activities = (*Ledger)(nil)

// ListActivities returns a page of a property's activities. What a page shows has been
// committed, and its place is fixed by columns that are never updated: whatever was there
// when the first page was read is on one of the pages, once.
func (l *Ledger) ListActivities(ctx context.Context, tenant bff.ID, q audit.ActivityQuery) (audit.ActivityPage, error) {
	sql, args := listActivities(tenant, q)
	var page audit.ActivityPage
	err := l.cfg.DB.Read(ctx, tenant, func(b *pgx.Batch) {
		page = audit.ActivityPage{} // a read that is repeated starts over
		b.Queue(sql, args...).Query(func(rows pgx.Rows) error {
			var err error
			page.Items, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (backoffice.Activity, error) {
				return scanActivity(row, tenant, q.Property)
			})
			return err
		})
	})
	if err != nil {
		return page, unread(fmt.Errorf("list activities: %w", err))
	}
	if len(page.Items) > q.Limit {
		page.Items = page.Items[:q.Limit]
		last := page.Items[q.Limit-1]
		page.Next = &audit.ActivityPosition{At: last.At, ID: last.ID}
	}
	return page, nil
}

// listActivities is the statement of a query, with one row more than the page has. The
// index of a property's page has what it can be filtered by: a rare resource costs
// entries of that index, and rows for the page alone.
func listActivities(tenant bff.ID, q audit.ActivityQuery) (string, []any) {
	const (
		columns = `a.id, a.occurred_at, a.operator_id, a.device_id, a.category, a.action, COALESCE(a.resource_kind, ''), COALESCE(a.resource_id, ''),
			a.outcome, COALESCE(a.error_code, ''), COALESCE(a.latency_ms, 0), a.pressed_at`
		ledger = `bff_backoffice.operator_activity AS a`
		order  = `a.occurred_at DESC, a.id DESC`
	)
	from, to := bound(q.From, pgtype.NegativeInfinity), bound(q.To, pgtype.Infinity)
	var before [16]byte // no id is less: activities of the moment To are left out
	if q.After != (audit.ActivityPosition{}) {
		to, before = bound(q.After.At, pgtype.Finite), q.After.ID.Bytes()
	}
	args := []any{tenant.UUID(), q.Property.UUID(), from, to, pgtype.UUID{Bytes: before, Valid: true}, q.Limit + 1}
	var filters strings.Builder
	for _, filter := range []struct{ column, value string }{
		{"operator_id", q.Operator}, {"resource_kind", q.Resource.Kind}, {"resource_id", q.Resource.ID},
	} {
		if filter.value != "" {
			args = append(args, filter.value)
			fmt.Fprintf(&filters, " AND a.%s = $%d", filter.column, len(args))
		}
	}
	// The months that are read are known by occurred_at alone.
	page := ` FROM ` + ledger + ` WHERE a.tenant_id = $1 AND a.property_id = $2 AND a.occurred_at >= $3 AND a.occurred_at <= $4
		AND (a.occurred_at, a.id) < ($4, $5)` + filters.String() + ` ORDER BY ` + order + ` LIMIT $6`
	if filters.Len() == 0 {
		return `SELECT ` + columns + page, args
	}
	return `WITH page AS MATERIALIZED (SELECT a.id, a.occurred_at` + page + `) SELECT ` + columns + ` FROM page
		JOIN ` + ledger + ` ON a.tenant_id = $1 AND a.id = page.id AND a.occurred_at = page.occurred_at ORDER BY ` + order, args
}

// bound is a moment, or without one the end of time on that side.
func bound(t time.Time, without pgtype.InfinityModifier) pgtype.Timestamptz {
	if t.IsZero() {
		return pgtype.Timestamptz{InfinityModifier: without, Valid: true}
	}
	return pgtype.Timestamptz{Time: t, Valid: true}
}

func scanActivity(row pgx.CollectableRow, tenant, property bff.ID) (backoffice.Activity, error) {
	var (
		a       = backoffice.Activity{Tenant: tenant, Property: property}
		id      pgtype.UUID
		device  string
		latency int64
		pressed *time.Time
	)
	err := row.Scan(
		&id, &a.At, &a.Operator, &device, &a.Category, &a.Action, &a.Resource.Kind, &a.Resource.ID, (*string)(&a.Outcome), (*string)(&a.Code), &latency, &pressed,
	)
	if err != nil {
		return a, err
	}
	if pressed != nil {
		a.Pressed = pressed.UTC()
	}
	a.At, a.Latency = a.At.UTC(), time.Duration(latency)*time.Millisecond
	a.ID = bff.IDFromBytes(bff.PrefixActivity, id.Bytes)
	a.Device, err = bff.ParseID(bff.PrefixDevice, device)
	return a, err
}

// unread codes a failure to read the ledger.
func unread(err error) error {
	err = postgres.Durable(err)
	if e, ok := errors.AsType[*bff.Error](err); ok && e.Code == bff.CodeServiceUnavailable && e.Detail == "" {
		e.Detail = "the ledger cannot be read right now: try again shortly"
	}
	return err
}
