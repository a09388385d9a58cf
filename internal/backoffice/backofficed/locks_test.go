package backofficed

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficestore"
	"melmastoon.ghasi.io/bff/internal/backoffice/lock"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

// vendors are lock-integration: one tenant's locks answer only when all others were
// asked for, and then say nothing; the others' say that the key was issued.
type vendors struct {
	lock.Integration

	slow bff.ID

	mu     sync.Mutex
	asked  map[bff.ID]int
	others int           // that are yet to be asked for
	free   chan struct{} // closed when they were
}

func (v *vendors) FindLockAction(ctx context.Context, tenant bff.ID, _ string) (lock.Result, error) {
	v.mu.Lock()
	v.asked[tenant]++
	if tenant != v.slow {
		if v.others--; v.others == 0 {
			close(v.free)
		}
	}
	v.mu.Unlock()
	if tenant == v.slow {
		select {
		case <-v.free:
			return lock.Result{}, errors.New("no answer")
		case <-ctx.Done():
			return lock.Result{}, ctx.Err()
		}
	}
	return lock.Result{State: lock.LockIssued, Vendor: "salto", Credential: "lck_1"}, nil
}

// A tenant with many actions whose vendor does not answer holds up no other: theirs are
// settled in the same run, however many they are, and its own when it answers again.
func TestSlowVendorHoldsUpNoOtherTenant(t *testing.T) {
	t.Parallel()
	address := testkit.PostgresTemplate(t, "bff_backoffice", func(dsn string) error {
		return postgres.Migrate(testkit.Context(t), dsn, migrations.Backoffice(), postgres.MigrateOptions{})
	})
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	super, err := postgres.Open(t.Context(), testkit.Patient(address))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(super.Close)
	q := u.Query()
	q.Set("role", migrations.BackofficeJobs)
	u.RawQuery = q.Encode()
	jobs, err := postgres.Open(t.Context(), testkit.Patient(u.String()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(jobs.Close)

	ctx, now := testkit.Context(t), time.Now()
	slow, busy, quiet := bff.NewID(bff.PrefixTenant, now), bff.NewID(bff.PrefixTenant, now), bff.NewID(bff.PrefixTenant, now)
	rows := map[bff.ID]int{slow: 30, busy: 30, quiet: 1}
	for tenant, n := range rows {
		// The slow ones have waited for longest.
		if _, err := super.Exec(ctx, `INSERT INTO bff_backoffice.lock_action_proxy_audit (id, tenant_id, property_id, operator_id, device_id, reservation_id, action, vendor,
				occurred_at, attempted_at, outcome, error_code, upstream_request_id, upstream_latency_ms)
			SELECT gen_random_uuid(), $1, gen_random_uuid(), 'opt_1', $4, $5, 'issue', 'unknown', $2, $2, 'failure', 'LOCK_OUTCOME_UNKNOWN', gen_random_uuid()::text, 0 FROM generate_series(1, $3)`,
			tenant.UUID(), now.Add(-time.Minute-time.Duration(n)*time.Second), n, bff.NewID(bff.PrefixDevice, now).String(), "rsv_01JXG9KMGRC638MD0V7C0ZPD0W"); err != nil {
			t.Fatal(err)
		}
	}
	v := &vendors{slow: slow, asked: map[bff.ID]int{}, others: rows[busy] + rows[quiet], free: make(chan struct{})}
	job := newReconciler(backofficestore.OutboxTable(), reconcilerParts{backoffice.NewEnvelopes("test"), new(noticed), v, slog.New(slog.DiscardHandler)}, "test")
	unsettled := func() map[bff.ID]int {
		t.Helper()
		left := map[bff.ID]int{}
		for tenant := range rows {
			var n int
			if err := super.QueryRow(
				ctx, `SELECT count(*) FROM bff_backoffice.lock_action_proxy_audit WHERE tenant_id = $1 AND settled_at IS NULL`, tenant.UUID(),
			).Scan(&n); err != nil {
				t.Fatal(err)
			}
			left[tenant] = n
		}
		return left
	}
	same := cmp.Comparer(func(a, b bff.ID) bool { return a == b })

	settled, err := job.run(ctx, jobs, now)
	if err == nil || settled != rows[busy]+rows[quiet] {
		t.Errorf("settled %d, %v", settled, err)
	}
	if diff := cmp.Diff(map[bff.ID]int{slow: rows[slow], busy: 0, quiet: 0}, unsettled(), same); diff != "" {
		t.Errorf("left while one vendor does not answer (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[bff.ID]int{slow: 1, busy: rows[busy], quiet: rows[quiet]}, v.asked, same); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}

	v.slow, v.others = bff.ID{}, -1
	if settled, err := job.run(ctx, jobs, now.Add(time.Minute)); err != nil || settled != rows[slow] {
		t.Errorf("settled %d, %v; want %d", settled, err, rows[slow])
	}
	if diff := cmp.Diff(map[bff.ID]int{slow: 0, busy: 0, quiet: 0}, unsettled(), same); diff != "" {
		t.Errorf("left when it answers again (-want +got):\n%s", diff)
	}
}
