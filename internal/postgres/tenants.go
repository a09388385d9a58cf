package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
)

// Tenants is the way to a database whose rows belong to tenants. Each of its
// transactions says whose it is, and row level security holds it to that. It
// does not lend its connections: a statement without a tenant cannot be sent.
type Tenants struct{ db *pgxpool.Pool }

// NewTenants returns the way through a pool, which should be open with
// RequireIsolation.
func NewTenants(db *pgxpool.Pool) *Tenants { return &Tenants{db} }

// InTx is the package's InTx with the tenant set for its length, for work whose
// later statements depend on earlier answers; Tx needs one round trip only.
func (t *Tenants) InTx(ctx context.Context, tenant bff.ID, fn func(pgx.Tx) error) error {
	if err := checkTenant(tenant); err != nil {
		return err
	}
	// One round trip for both. The tenant is written as hexadecimal from 16 bytes:
	// nothing of a caller's text gets into the statement.
	begin := "begin; select set_config('app.tenant_id', '" + tenant.UUID() + "', true)"
	return inTx(ctx, t.db, pgx.TxOptions{BeginQuery: begin}, fn)
}

// Tx runs the queued statements as one transaction of the tenant in one round
// trip: everything is sent before anything is answered. The statements therefore
// can not depend on each other's results in Go (use one statement with a CTE, or
// InTx), and an error returned by a result callback, such as pgx.ErrNoRows, does
// not undo the transaction: only an error of a statement does. A lost answer is
// ErrOutcomeUnknown.
func (t *Tenants) Tx(ctx context.Context, tenant bff.ID, queue func(*pgx.Batch)) error {
	return t.Each(ctx, []Part{{tenant, queue}})
}

// Part is what one tenant has in a transaction of several.
type Part struct {
	Tenant bff.ID
	Queue  func(*pgx.Batch)
}

// Each is Tx for work of several tenants that shares one commit, such as a batch
// of log entries: one transaction, one round trip, and each part's statements see
// and write the rows of its own tenant alone.
func (t *Tenants) Each(ctx context.Context, parts []Part) error {
	return t.pipeline(ctx, setTenant, parts, func(err error) error {
		if severed(err) || errors.Is(err, context.Canceled) {
			return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		}
		return err
	})
}

// Read is Tx for statements that only read, and the server holds them to it. It
// may therefore be sent again when a pooled connection turns out to be dead.
func (t *Tenants) Read(ctx context.Context, tenant bff.ID, queue func(*pgx.Batch)) error {
	parts := []Part{{tenant, queue}}
	same := func(err error) error { return err }
	err := t.pipeline(ctx, setTenantReadOnly, parts, same)
	if err != nil && severed(err) && ctx.Err() == nil {
		err = t.pipeline(ctx, setTenantReadOnly, parts, same)
	}
	return err
}

const (
	setTenant         = `SELECT set_config('app.tenant_id', $1, true)`
	setTenantReadOnly = `SELECT set_config('app.tenant_id', $1, true), set_config('transaction_read_only', 'on', true)`
)

func (t *Tenants) pipeline(ctx context.Context, set string, parts []Part, lost func(error) error) error {
	for _, p := range parts {
		if err := checkTenant(p.Tenant); err != nil {
			return err
		}
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	return retry(ctx, func() error {
		conn, err := t.db.Acquire(ctx)
		if err != nil {
			return fmt.Errorf("acquire: %w", err)
		}
		defer conn.Release()
		// Until its single Sync a pipeline is one implicit transaction: the setting
		// lives exactly as long as the statements behind it.
		var b pgx.Batch
		for _, p := range parts {
			b.Queue(set, p.Tenant.UUID())
			p.Queue(&b)
		}
		if err := conn.SendBatch(ctx, &b).Close(); err != nil {
			return lost(err)
		}
		return nil
	})
}

func checkTenant(tenant bff.ID) error {
	if tenant.Prefix() != bff.PrefixTenant {
		return errors.New("tenant transaction: not a tenant id")
	}
	return nil
}
