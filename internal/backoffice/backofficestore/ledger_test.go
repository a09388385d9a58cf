package backofficestore_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

func TestActivityIsKeptAsItHappened(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	now := time.Now().UTC().Truncate(time.Second).Add(-10 * time.Minute)
	tenant := id(bff.PrefixTenant)
	a := checkIn(tenant, now).Ended(nil, now.Add(123*time.Millisecond))
	event := told(tenant, now)
	if err := d.Record(testkit.Context(t), []backoffice.Activity{a}, event); err != nil {
		t.Fatal(err)
	}
	denied := checkIn(tenant, now.Add(time.Second)).Ended(bff.Errorf(bff.CodeRoleDenied, "no"), now.Add(2*time.Second))
	denied.Property, denied.Resource.ID = bff.ID{}, "Zarghuna Ahmadzai"
	if err := d.Record(testkit.Context(t), []backoffice.Activity{denied}); err != nil {
		t.Fatal(err)
	}
	const all = `SELECT concat_ws(' ', id, tenant_id, coalesce(property_id::text, '-'), operator_id, device_id, session_id, roles, occurred_at AT TIME ZONE 'UTC',
		category, action, resource_kind, resource_id, outcome, latency_ms, error_code, context_hash) FROM bff_backoffice.operator_activity ORDER BY occurred_at`
	text := func(a backoffice.Activity, property, resource, rest string) string {
		return strings.Join([]string{
			a.ID.UUID(), tenant.UUID(), property, "opt_1", a.Device.String(), a.Session.String(), "{front_desk}",
			a.At.Format("2006-01-02 15:04:05"), "reservation check_in reservation", resource, rest, a.Context,
		}, " ")
	}
	want := []string{
		text(a, a.Property.UUID(), "rsv_1", "success 123"),
		text(denied, "-", "malformed", "denied 1000 "+string(bff.CodeRoleDenied)),
	}
	if diff := cmp.Diff(want, d.rows(t, all)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := d.rows(t, `SELECT envelope ->> 'eventId' FROM bff_backoffice.outbox`); len(got) != 1 || got[0] != event.Envelope.EventID {
		t.Errorf("events %v", got)
	}
	// An event of another tenant is refused, and nothing is written.
	if err := d.Record(testkit.Context(t), []backoffice.Activity{checkIn(tenant, now)}, told(id(bff.PrefixTenant), now)); err == nil {
		t.Error("an event of another tenant was accepted")
	}
	if err := d.Record(testkit.Context(t), []backoffice.Activity{checkIn(tenant, now), checkIn(id(bff.PrefixTenant), now)}); err == nil {
		t.Error("activities of two tenants were accepted")
	}
	if err := d.Record(testkit.Context(t), nil); err == nil {
		t.Error("nothing of no tenant was accepted")
	}
	if got := d.rows(t, all); len(got) != 2 {
		t.Errorf("%d rows", len(got))
	}
}

// While a commit is under way, entries of all tenants gather for the next one. One
// that the server refuses fails alone.
func TestActivitiesShareACommit(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	ctx := testkit.Context(t)
	tenants := []bff.ID{id(bff.PrefixTenant), id(bff.PrefixTenant), id(bff.PrefixTenant)}
	// The first commit waits for this lock, the rest for the first.
	lock, err := d.admin.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec(ctx, "LOCK bff_backoffice.operator_activity IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	const callers = 60
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			a := checkIn(tenants[i%len(tenants)], time.Now())
			if i == callers/2 {
				a.Outcome = "no such outcome"
			}
			errs[i] = d.Record(ctx, []backoffice.Activity{a})
		})
		for blocked := i > 0; !blocked; { // the first is alone in its commit
			const waits = `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'bff_backoffice.operator_activity'::regclass)`
			if err := lock.QueryRow(ctx, waits).Scan(&blocked); err != nil {
				t.Fatal(err)
			}
		}
	}
	for d.Waiting() < 2*(callers-1) { // each weighs itself and its activity
		if ctx.Err() != nil {
			t.Fatal("the callers do not gather")
		}
		runtime.Gosched()
	}
	if err := lock.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	failed := 0
	for i, err := range errs {
		if err != nil {
			failed++
			if i != callers/2 {
				t.Errorf("caller %d: %v", i, err)
			}
		}
	}
	if failed != 1 {
		t.Errorf("%d callers failed, want the one with the bad entry", failed)
	}
	got := d.rows(t, "SELECT count(*)::text FROM bff_backoffice.operator_activity GROUP BY tenant_id ORDER BY 1")
	if want := []string{"19", "20", "20"}; !cmp.Equal(got, want) {
		t.Errorf("rows per tenant %v, want %v", got, want)
	}
}

// Whatever was acknowledged is there after the server was killed again and again.
func TestProofLedgerLosesNothing(t *testing.T) {
	t.Parallel()
	kills := testkit.Proof(1, 50)
	server := testkit.NewPostgres(t, true)
	admin := server.DatabaseURL("postgres")
	if err := migrate(admin); err != nil {
		t.Fatal(err)
	}
	ledger := openLedger(t, admin)
	ctx := t.Context()
	var (
		mu           sync.Mutex
		acknowledged = map[string]bool{}
		wg           sync.WaitGroup
	)
	stop := make(chan struct{})
	progress := make(chan struct{}, 1)
	for range 4 {
		tenant := id(bff.PrefixTenant)
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				a := checkIn(tenant, time.Now())
				err := ledger.Record(ctx, []backoffice.Activity{a}, told(tenant, a.At))
				if err != nil && bff.CodeOf(err) != bff.CodeServiceUnavailable {
					t.Errorf("while the server is away: %v", err)
					return
				}
				if err == nil {
					mu.Lock()
					acknowledged[a.ID.UUID()] = true
					mu.Unlock()
					select {
					case progress <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	for range kills {
		for range 20 {
			select {
			case <-progress:
			case <-ctx.Done():
				t.Fatal(ctx.Err())
			}
		}
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := server.Start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
	d := &desk{admin: connect(t, admin)}
	var missing []error
	stored := map[string]bool{}
	for _, row := range d.rows(t, "SELECT id::text FROM bff_backoffice.operator_activity") {
		stored[row] = true
	}
	for id := range acknowledged {
		if !stored[id] {
			missing = append(missing, fmt.Errorf("acknowledged, and lost: %s", id))
		}
	}
	if err := errors.Join(missing...); err != nil {
		t.Error(err)
	}
	if n := d.rows(t, "SELECT count(*)::text FROM bff_backoffice.outbox"); n[0] != fmt.Sprint(len(stored)) {
		t.Errorf("%d entries, but %s events", len(stored), n[0])
	}
	t.Logf("%d acknowledged, %d stored, %d kills", len(acknowledged), len(stored), kills)
}
