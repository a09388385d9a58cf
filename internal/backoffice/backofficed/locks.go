package backofficed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficeevents"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficestore"
	"melmastoon.ghasi.io/bff/internal/backoffice/lock"
	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/service"
)

const (
	reconcileEvery = 30 * time.Second // a process looks every minute, give or take half
	// reconcileAgain is after how long an action is asked for again; less than the
	// time between two looks.
	reconcileAgain = 20 * time.Second
	// reconcileShare is how many actions of a tenant are asked for before others have
	// their turn, and reconcileTenants how many tenants have it at once: a vendor that
	// answers slowly, or a tenant with thousands of actions, holds up no other.
	reconcileShare   = 5
	reconcileTenants = 16
	reconcileBudget  = 45 * time.Second
)

// dueLocks are the tenants with actions whose outcome is unknown.
const dueLocks = `SELECT tenant_id::text FROM bff_backoffice.lock_action_proxy_audit
	WHERE settled_at IS NULL AND attempted_at < $1 AND (asked_at IS NULL OR asked_at < $2)
	GROUP BY tenant_id ORDER BY min(coalesce(asked_at, attempted_at))`

// leaseLocks takes some of a tenant's actions, so that no other instance asks for them
// now. A row that another has taken meanwhile is left to it.
const leaseLocks = `UPDATE bff_backoffice.lock_action_proxy_audit AS l SET asked_at = $1
	FROM (
		SELECT tenant_id, id FROM bff_backoffice.lock_action_proxy_audit
		WHERE tenant_id = $4 AND settled_at IS NULL AND attempted_at < $2 AND (asked_at IS NULL OR asked_at < $3)
		ORDER BY asked_at NULLS FIRST, attempted_at LIMIT $5
	) AS due
	WHERE l.tenant_id = due.tenant_id AND l.id = due.id AND l.settled_at IS NULL AND (l.asked_at IS NULL OR l.asked_at < $3)
	RETURNING ` + backofficestore.LockRowColumns

// reconciler asks lock-integration what became of actions whose outcome is unknown.
type reconciler struct {
	reconcilerParts

	table   *outbox.Table
	settled *prometheus.CounterVec
	overdue prometheus.Counter
}

// newReconciler returns a reconciler that works with parts and counts as namespace.
func newReconciler(table *outbox.Table, on reconcilerParts, namespace string) *reconciler {
	r := &reconciler{
		table: table, reconcilerParts: on,
		settled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "lock_action_settled_total", Help: "Lock actions whose outcome the job has found out, by state.",
		}, []string{"state"}),
		overdue: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "lock_action_overdue_total",
			Help: "How often the job has asked for a lock action whose outcome has been unknown for ten minutes.",
		}),
	}
	for _, s := range []lock.State{lock.LockIssued, lock.LockRevoked, lock.LockFailed, lock.LockPending} {
		r.settled.WithLabelValues(string(s))
	}
	return r
}

// reconcilerParts are what the reconciler works with.
type reconcilerParts struct {
	news        *backoffice.Envelopes
	notices     backoffice.Notifier
	integration lock.Integration
	log         *slog.Logger
}

func (r *reconciler) job() service.Job {
	return service.Job{Name: "lock-action-reconcile", Every: reconcileEvery, Run: r.run}
}

// run asks for every action that is due, the tenants in turn. A tenant that cannot be
// asked for is left for the next run, and so is what the time does not suffice for.
func (r *reconciler) run(ctx context.Context, db *pgxpool.Pool, now time.Time) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, reconcileBudget)
	defer cancel()
	found, err := db.Query(ctx, dueLocks, now.Add(-lock.LockCallTime), now.Add(-reconcileAgain))
	if err != nil {
		return 0, fmt.Errorf("reconcile lock actions: %w", err)
	}
	tenants, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (id bff.ID, err error) {
		var uuid string
		if err := row.Scan(&uuid); err != nil {
			return id, err
		}
		return bff.IDFromUUID(bff.PrefixTenant, uuid)
	})
	if err != nil || len(tenants) == 0 {
		return 0, err
	}
	queue := make(chan bff.ID, len(tenants)) // has room for all: one that is put back was taken before
	for _, t := range tenants {
		queue <- t
	}
	var (
		settled, left atomic.Int64
		g             errgroup.Group
	)
	left.Store(int64(len(tenants)))
	for range min(reconcileTenants, len(tenants)) {
		g.Go(func() (first error) {
			for tenant := range queue {
				n, more, err := r.turn(ctx, db, tenant, now)
				settled.Add(int64(n))
				switch {
				case more:
					queue <- tenant
				case left.Add(-1) == 0:
					close(queue)
				}
				if first == nil {
					first = err
				}
			}
			return first
		})
	}
	err = g.Wait()
	return int(settled.Load()), err
}

// turn asks for some of a tenant's actions. It reports whether there may be more.
func (r *reconciler) turn(ctx context.Context, db *pgxpool.Pool, tenant bff.ID, now time.Time) (settled int, more bool, err error) {
	rows, err := r.lease(ctx, db, tenant, now)
	if err == nil {
		settled, err = r.askTenant(ctx, db, rows, now)
	}
	switch {
	case ctx.Err() != nil:
		return settled, false, nil //nolint:nilerr // the time is up, and what is left is for the next run
	case err != nil:
		r.log.WarnContext(ctx, "lock-integration could not be asked what became of lock actions, their outcome stays unknown until the next run",
			"tenantId", tenant.String(), "error", err.Error())
		return settled, false, fmt.Errorf("reconcile lock actions: %w", err)
	}
	return settled, len(rows) == reconcileShare, nil
}

func (r *reconciler) lease(ctx context.Context, db *pgxpool.Pool, tenant bff.ID, now time.Time) ([]lock.Row, error) {
	found, err := db.Query(ctx, leaseLocks, now, now.Add(-lock.LockCallTime), now.Add(-reconcileAgain), tenant.UUID(), reconcileShare)
	if err != nil {
		return nil, err
	}
	rows, err := pgx.CollectRows(found, backofficestore.ScanLockRow)
	for i := range rows {
		if now.Sub(rows[i].AttemptedAt) >= lock.LockOverdue {
			r.overdue.Inc()
		}
	}
	return rows, err
}

func (r *reconciler) askTenant(ctx context.Context, db *pgxpool.Pool, rows []lock.Row, now time.Time) (settled int, err error) {
	for _, row := range rows {
		found, err := r.integration.FindLockAction(ctx, row.Tenant, row.Request)
		if err != nil && !errors.Is(err, lock.ErrNoLockAction) {
			return settled, err
		}
		result := row.Asked(found, err, now)
		if result.State == lock.LockUnknown {
			continue
		}
		done, err := r.settle(ctx, db, row, result, now)
		if err != nil {
			return settled, err
		}
		if done {
			settled++
			r.settled.WithLabelValues(string(result.State)).Inc()
		}
		if done && result.State.Settled() {
			if err := r.notices.Notify(ctx, row.Notice(result, now)); err != nil {
				r.log.WarnContext(ctx, "notifying streams of a settled lock action failed: clients learn it from the key's own event or by asking",
					"auditId", row.ID.String(), "error", err.Error())
			}
		}
	}
	return settled, nil
}

// settle writes what became of an action with its event, in one transaction.
func (r *reconciler) settle(ctx context.Context, db *pgxpool.Pool, row lock.Row, result lock.Result, now time.Time) (done bool, err error) {
	s, err := row.Settlement(r.news, result, now)
	if err != nil {
		return false, err
	}
	s.Attempted = row.AttemptedAt
	err = postgres.InTx(ctx, db, func(tx pgx.Tx) error {
		done, err = backofficestore.SettleLock(ctx, tx, r.table, s)
		return err
	})
	return done, err
}

// reportedLocks settles lock actions by events.
type reportedLocks struct {
	settler *lock.Settler
	log     *slog.Logger
	// unaudited counts actions of this service that have no audit row.
	unaudited prometheus.Counter
}

var _ backofficeevents.Locks = (*reportedLocks)(nil)

func newReportedLocks(p *service.Process, s *lock.Settler) *reportedLocks {
	r := &reportedLocks{settler: s, log: p.Log, unaudited: prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: p.Namespace, Name: "lock_action_unaudited_total", Help: "Lock actions that lock-integration reports as asked for by this service and that have no audit row.",
	})}
	p.Metrics.MustRegister(r.unaudited)
	return r
}

// SettleLock implements backofficeevents.Locks.
func (r *reportedLocks) SettleLock(ctx context.Context, tenant bff.ID, request string, result lock.Result) error {
	known, err := r.settler.Settle(ctx, tenant, request, result, time.Now())
	if err == nil && !known {
		r.unaudited.Inc()
		r.log.ErrorContext(ctx, "lock-integration reports an action of this service that has no audit row", "tenantId", tenant.String(), "requestKey", request)
	}
	return err
}
