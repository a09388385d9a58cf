package backofficed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficeevents"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficestore"
	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/service"
)

const (
	reconcileEvery = 30 * time.Second // a process looks every minute, give or take half
	// reconcileAgain is after how long an action is asked for again; less than the
	// time between two looks.
	reconcileAgain = 20 * time.Second
	reconcileBatch = 200
	// reconcileShare is how many rows of a batch one tenant may have, and
	// reconcileTenants how many tenants are asked for at once: a vendor that answers
	// slowly holds up its own tenants.
	reconcileShare   = 20
	reconcileTenants = 16
	reconcileBudget  = 45 * time.Second
)

// leaseLocks takes actions whose outcome is unknown, so that no other instance asks
// for them now. A row that another has taken meanwhile is left to it.
const leaseLocks = `UPDATE bff_backoffice.lock_action_proxy_audit AS l SET asked_at = $1
	FROM (
		SELECT tenant_id, id, turn, attempted_at FROM (
			SELECT tenant_id, id, attempted_at, row_number() OVER (PARTITION BY tenant_id ORDER BY asked_at NULLS FIRST, attempted_at) AS turn
			FROM bff_backoffice.lock_action_proxy_audit
			WHERE settled_at IS NULL AND attempted_at < $2 AND (asked_at IS NULL OR asked_at < $3)
		) AS all_due WHERE turn <= $4 ORDER BY turn, attempted_at LIMIT $5
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
	for _, s := range []backoffice.LockState{backoffice.LockIssued, backoffice.LockRevoked, backoffice.LockFailed, backoffice.LockPending} {
		r.settled.WithLabelValues(string(s))
	}
	return r
}

// reconcilerParts are what the reconciler works with.
type reconcilerParts struct {
	news        *backoffice.Newsroom
	notices     backoffice.Notifier
	integration backoffice.LockIntegration
	log         *slog.Logger
}

func (r *reconciler) job() service.Job {
	return service.Job{Name: "lock-action-reconcile", Every: reconcileEvery, Run: r.run}
}

func (r *reconciler) run(ctx context.Context, db *pgxpool.Pool, now time.Time) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, reconcileBudget)
	defer cancel()
	for settled := 0; ; {
		rows, err := r.lease(ctx, db, now)
		if err != nil {
			return settled, fmt.Errorf("reconcile lock actions: %w", err)
		}
		n, err := r.ask(ctx, db, rows, now)
		settled += n
		if err != nil || len(rows) < reconcileBatch {
			return settled, err
		}
	}
}

func (r *reconciler) lease(ctx context.Context, db *pgxpool.Pool, now time.Time) ([]backoffice.LockRow, error) {
	found, err := db.Query(ctx, leaseLocks, now, now.Add(-backoffice.LockCallTime), now.Add(-reconcileAgain), reconcileShare, reconcileBatch)
	if err != nil {
		return nil, err
	}
	rows, err := pgx.CollectRows(found, backofficestore.ScanLockRow)
	for i := range rows {
		if now.Sub(rows[i].AttemptedAt) >= backoffice.LockOverdue {
			r.overdue.Inc()
		}
	}
	return rows, err
}

// ask asks for every row, the tenants beside each other. A tenant whose call fails is
// left for the next run: one that hangs would hold up its others, too.
func (r *reconciler) ask(ctx context.Context, db *pgxpool.Pool, rows []backoffice.LockRow, now time.Time) (int, error) {
	byTenant := map[bff.ID][]backoffice.LockRow{}
	for _, row := range rows {
		byTenant[row.Tenant] = append(byTenant[row.Tenant], row)
	}
	settled := make(chan int, len(byTenant))
	var g errgroup.Group
	g.SetLimit(reconcileTenants)
	for tenant, rows := range byTenant {
		g.Go(func() error {
			n, err := r.askTenant(ctx, db, rows, now)
			settled <- n
			if err != nil {
				r.log.WarnContext(ctx, "lock-integration could not be asked what became of lock actions, their outcome stays unknown until the next run",
					"tenantId", tenant.String(), "error", err.Error())
			}
			return err
		})
	}
	err := g.Wait()
	close(settled)
	sum := 0
	for n := range settled {
		sum += n
	}
	return sum, err
}

func (r *reconciler) askTenant(ctx context.Context, db *pgxpool.Pool, rows []backoffice.LockRow, now time.Time) (settled int, err error) {
	for _, row := range rows {
		found, err := r.integration.FindLockAction(ctx, row.Tenant, row.Request)
		if err != nil && !errors.Is(err, backoffice.ErrNoLockAction) {
			return settled, err
		}
		result := row.Asked(found, err, now)
		if result.State == backoffice.LockUnknown {
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
				r.log.WarnContext(ctx, "a settled lock action could not be told to streams: clients learn it from the key's own event or by asking",
					"auditId", row.ID.String(), "error", err.Error())
			}
		}
	}
	return settled, nil
}

// settle writes what became of an action with its event, in one transaction.
func (r *reconciler) settle(ctx context.Context, db *pgxpool.Pool, row backoffice.LockRow, result backoffice.LockResult, now time.Time) (done bool, err error) {
	e, err := r.news.LockSettled(row, result, now)
	if err != nil {
		return false, err
	}
	err = postgres.InTx(ctx, db, func(tx pgx.Tx) error {
		done, err = backofficestore.SettleLock(ctx, tx, backofficestore.Settling{
			Tenant: row.Tenant, ID: row.ID, Attempted: row.AttemptedAt, Outbox: r.table, Events: []bff.Event{e},
		}, result, now)
		return err
	})
	return done, err
}

// reportedLocks settles lock actions by events.
type reportedLocks struct {
	settler *backoffice.LockSettler
	log     *slog.Logger
	// unaudited counts actions of this service that have no audit row.
	unaudited prometheus.Counter
}

var _ backofficeevents.Locks = (*reportedLocks)(nil)

func newReportedLocks(p *service.Process, s *backoffice.LockSettler) *reportedLocks {
	r := &reportedLocks{settler: s, log: p.Log, unaudited: prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: p.Namespace, Name: "lock_action_unaudited_total", Help: "Lock actions that lock-integration reports as asked for by this service and that have no audit row.",
	})}
	p.Metrics.MustRegister(r.unaudited)
	return r
}

// SettleLock implements backofficeevents.Locks.
func (r *reportedLocks) SettleLock(ctx context.Context, tenant bff.ID, request string, result backoffice.LockResult) error {
	known, err := r.settler.Settle(ctx, tenant, request, result, time.Now())
	if err == nil && !known {
		r.unaudited.Inc()
		r.log.ErrorContext(ctx, "lock-integration reports an action of this service that has no audit row", "tenantId", tenant.String(), "requestKey", request)
	}
	return err
}
