package backofficestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/batch"
	"melmastoon.ghasi.io/bff/internal/idempotency"
	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/postgres"
)

// LedgerConfig is what the ledger stands on.
type LedgerConfig struct {
	DB     *postgres.Tenants
	Outbox *outbox.Table
	Waker  outbox.Waker // tells a relay that there is something to publish
	// TakeOver is the age at which a claim's process must have died; 0 = a minute.
	TakeOver time.Duration
}

// Ledger implements the domain's Journal and Mutations in Postgres.
type Ledger struct {
	cfg    LedgerConfig
	writer *batch.Writer[entry]
	once   *idempotency.Store
}

var (
	_ backoffice.Journal   = (*Ledger)(nil)
	_ backoffice.Mutations = (*Ledger)(nil)
)

const (
	commitEntries = 200  // of one transaction
	maxWaiting    = 5000 // entries; beyond that Postgres is as good as away
	commitTimeout = 5 * time.Second
)

// NewLedger returns a Ledger.
func NewLedger(cfg LedgerConfig) *Ledger {
	l := &Ledger{cfg: cfg}
	l.writer = batch.New(batch.Config[entry]{
		Write: l.commit, Refused: postgres.Refused, Weight: func(e entry) int { return 1 + len(e.did) }, Size: commitEntries, Most: maxWaiting,
		Timeout: commitTimeout,
	})
	l.once = l.newOnce()
	return l
}

// entry is what one caller records of one tenant.
type entry struct {
	tenant bff.ID
	did    []backoffice.Activity
	events func(*pgx.Batch)
}

// Record commits activities with their events. Those of concurrent requests, of
// whichever tenants, share one transaction.
func (l *Ledger) Record(ctx context.Context, did []backoffice.Activity, events ...bff.Event) error {
	tenant, err := tenantOf(did, events)
	if err != nil {
		return err
	}
	queue, err := l.queued(tenant, events)
	if err != nil {
		return err
	}
	if err := l.writer.Add(ctx, entry{tenant, did, queue}); err != nil {
		return undone(fmt.Errorf("record activity: %w", err))
	}
	return nil
}

// tenantOf is whose all activities are; without any, whose the first event is.
func tenantOf(did []backoffice.Activity, events []bff.Event) (bff.ID, error) {
	if len(did) == 0 {
		if len(events) == 0 || events[0].Envelope.TenantID == nil {
			return bff.ID{}, errors.New("record activity: of no tenant")
		}
		return bff.ParseID(bff.PrefixTenant, *events[0].Envelope.TenantID)
	}
	for i := range did {
		if did[i].Tenant != did[0].Tenant {
			return bff.ID{}, errors.New("record activity: of several tenants")
		}
	}
	return did[0].Tenant, nil
}

// undone codes a failure to record what was therefore not done.
func undone(err error) error {
	err = postgres.Durable(err)
	if e, ok := errors.AsType[*bff.Error](err); ok && e.Code == bff.CodeServiceUnavailable && e.Detail == "" {
		e.Detail = "this cannot be recorded right now and is not done: try again shortly"
	}
	return err
}

// Close commits what waits and refuses the rest.
func (l *Ledger) Close(ctx context.Context) error { return l.writer.Close(ctx) }

// queued returns what appends the events in a transaction of the tenant.
func (l *Ledger) queued(tenant bff.ID, events []bff.Event) (func(*pgx.Batch), error) {
	if len(events) == 0 {
		return func(*pgx.Batch) {}, nil
	}
	sql, args, err := l.statement(tenant, 1, events...)
	if err != nil {
		return nil, err
	}
	return func(b *pgx.Batch) { b.Queue(sql+" ON CONFLICT DO NOTHING", args...) }, nil
}

// statement is the outbox's, for events of the tenant. Those that speak of another are
// refused: the outbox has no row level security.
func (l *Ledger) statement(tenant bff.ID, first int, events ...bff.Event) (string, []any, error) {
	if err := ofTenant(tenant, events...); err != nil {
		return "", nil, err
	}
	return l.cfg.Outbox.Statement(first, events...)
}

// ofTenant refuses events of another tenant.
func ofTenant(tenant bff.ID, events ...bff.Event) error {
	for i := range events {
		if t := events[i].Envelope.TenantID; t == nil || *t != tenant.String() {
			return fmt.Errorf("event %s is not of the tenant whose activity it tells of", events[i].Envelope.Subject)
		}
	}
	return nil
}

// commit writes entries of several tenants in one transaction. It may be repeated:
// what is there already is left alone, so that a lost answer does no harm.
func (l *Ledger) commit(ctx context.Context, entries []entry) error {
	var parts []postgres.Part
	for _, e := range entries {
		parts = append(parts, postgres.Part{Tenant: e.tenant, Queue: func(b *pgx.Batch) {
			for i := range e.did {
				b.Queue(insertActivity, activityArgs(e.did[i], nil)...)
			}
			e.events(b)
		}})
	}
	err := l.cfg.DB.Each(ctx, parts)
	if postgres.Unavailable(err) && ctx.Err() == nil {
		err = l.cfg.DB.Each(ctx, parts) // the pool may have lent a dead connection
	}
	if err != nil {
		return err
	}
	l.cfg.Waker.Wake()
	return nil
}

const (
	insertActivity = `INSERT INTO bff_backoffice.operator_activity (id, tenant_id, property_id, operator_id, device_id, session_id, roles,
			occurred_at, category, action, resource_kind, resource_id, outcome, latency_ms, error_code, context_hash, key_hash, pressed_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
		ON CONFLICT (tenant_id, id, occurred_at) DO NOTHING`
	// endActivity leaves an activity alone that has ended with the row of its lock action. The moment names the month.
	endActivity = `UPDATE bff_backoffice.operator_activity SET outcome = $3, latency_ms = $4, error_code = $5
		WHERE id = $1 AND occurred_at = $2 AND outcome = 'unknown'`
)

// activityArgs are those of insertActivity; keyHash is nil for what has no key.
func activityArgs(a backoffice.Activity, keyHash any) []any {
	roles := a.Roles
	if roles == nil {
		roles = []string{}
	}
	return append([]any{
		a.ID.UUID(), a.Tenant.UUID(), uuidOrNull(a.Property), a.Operator, a.Device.String(), a.Session.String(), roles,
		a.At, a.Category, a.Action, optional(a.Resource.Kind), optional(a.Resource.StoredID()),
	}, append(ending(a), optional(a.Context), keyHash, momentOrNull(a.Pressed))...)
}

// momentOrNull is nil for no moment.
func momentOrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

// ending is how an activity ended: outcome, latency and code.
func ending(a backoffice.Activity) []any {
	var latency any
	if a.Latency > 0 || a.Outcome != backoffice.Unknown {
		latency = a.Latency.Milliseconds()
	}
	return []any{string(a.Outcome), latency, optional(string(a.Code))}
}

// uuidOrNull is nil for no id.
func uuidOrNull(id bff.ID) any {
	if id.IsZero() {
		return nil
	}
	return id.UUID()
}

// optional is nil for an empty text.
func optional(s string) any {
	if s == "" {
		return nil
	}
	return s
}
