package backofficestore_test

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/lock"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

// lockAttempt is an attempt at a lock action.
func lockAttempt(tenant bff.ID, action lock.Action, now time.Time) backoffice.Attempt {
	a := checkIn(tenant, now)
	a.Category, a.Action = "lock", string(action)
	return backoffice.Attempt{
		Activity: a, Once: pressed(key, 1),
		Effect: &lock.Audit{
			ID: id(bff.PrefixLockAudit), Tenant: tenant, Action: action, Reservation: reservation, Request: bff.MustParseID(bff.PrefixRequest, "req_"+key).UUID(),
			Result: lock.Result{State: lock.LockUnknown},
		},
	}
}

var reservation = bff.MustParseID(bff.PrefixReservation, "rsv_01H8YN7QV4D8KZ4F8Y5CK4MV3A")

// auditOf is the audit row of an attempt at a lock action.
func auditOf(at backoffice.Attempt) *lock.Audit {
	l, _ := at.Effect.(*lock.Audit)
	return l
}

// settled is what becomes of an attempt's action.
func settled(at backoffice.Attempt, r lock.Result) lock.Settlement {
	return lock.Settlement{
		Result: r, Tenant: at.Activity.Tenant, ID: auditOf(at).ID, At: at.Activity.At, Events: []bff.Event{told(at.Activity.Tenant, time.Now())},
	}
}

// done is how an attempt ends whose action was done.
func done(at backoffice.Attempt, r lock.Result) backoffice.Finished {
	return backoffice.Finished{
		At: at.Activity.At.Add(50 * time.Millisecond), Effects: []backoffice.Effect{settled(at, r)}, Outcome: r.Outcome(),
		Answer: backoffice.Answer{Status: http.StatusOK, Receipt: backoffice.NewReceipt(map[string]any{"state": string(r.State), "vendor": r.Vendor})},
	}
}

const audits = `SELECT concat_ws(' ', state, outcome, error_code, cardinality(activity_ids), settled_at IS NOT NULL) FROM bff_backoffice.lock_action_proxy_audit ORDER BY occurred_at, id`

// The row stands before the call, an attempt that takes over joins it, and it is
// settled with the activities of both.
func TestLockAuditIsOnePerKey(t *testing.T) {
	t.Parallel()
	d, ctx, now := openDesk(t), testkit.Context(t), time.Now()
	d.atAnyTime(t)
	tenant := id(bff.PrefixTenant)
	first := lockAttempt(tenant, lock.RevokeKey, now)
	if _, _, err := d.BeginMutation(ctx, first); err != nil { // and its process dies
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"unknown failure " + string(bff.CodeLockOutcomeUnknown) + " 1 f"}, d.rows(t, audits)); diff != "" {
		t.Error(diff)
	}
	second := lockAttempt(tenant, lock.RevokeKey, now.Add(time.Minute))
	m, earlier, err := d.BeginMutation(ctx, second)
	if err != nil || earlier != nil || auditOf(second).ID != auditOf(first).ID {
		t.Fatalf("%v %v, audit %s, want %s", earlier, err, auditOf(second).ID, auditOf(first).ID)
	}
	if _, err := m.Finish(ctx, done(second, lock.Result{State: lock.LockRevoked, Vendor: "salto"})); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"revoked success 2 t"}, d.rows(t, audits)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"success", "success"}, d.rows(t, `SELECT outcome FROM bff_backoffice.operator_activity`)); diff != "" {
		t.Error(diff)
	}
	// A day later the ledger says what it did. Without its trace, which the release before
	// did not leave, the audit does: it is not done again, and nothing else is under the
	// same key.
	third := lockAttempt(tenant, lock.RevokeKey, now.Add(26*time.Hour))
	if _, _, err := d.BeginMutation(ctx, third); bff.CodeOf(err) != bff.CodeStaffIdempotencyExpired || asError(t, err).Known.Outcome != "success" {
		t.Errorf("after a day: %v", err)
	}
	if _, err := d.admin.Exec(ctx, `UPDATE bff_backoffice.operator_activity SET key_hash = NULL`); err != nil {
		t.Fatal(err)
	}
	m, _, err = d.BeginMutation(ctx, third)
	if err != nil || auditOf(third).State != lock.LockRevoked || auditOf(third).Vendor != "salto" {
		t.Fatalf("%+v, %v", auditOf(third), err)
	}
	m.Release()
	other := lockAttempt(tenant, lock.IssueKey, now.Add(27*time.Hour))
	if _, _, err := d.BeginMutation(ctx, other); bff.CodeOf(err) != bff.CodeStaffIdempotencyReused {
		t.Errorf("another action: %v", err)
	}
}

// What was refused before the call does not bind the key.
func TestRefusedLockActionLeavesTheKey(t *testing.T) {
	t.Parallel()
	d, ctx, now := openDesk(t), testkit.Context(t), time.Now()
	tenant := id(bff.PrefixTenant)
	for i := range 2 {
		at := lockAttempt(tenant, lock.RevokeKey, now.Add(time.Duration(i)*time.Second))
		m, earlier, err := d.BeginMutation(ctx, at)
		if err != nil || earlier != nil {
			t.Fatal(earlier, err)
		}
		refused := settled(at, lock.Result{State: lock.LockRefused, Reason: string(bff.CodeMFARequired)})
		refused.Events = nil
		end := backoffice.Finished{
			At: now, Failure: bff.Errorf(bff.CodeMFARequired, "step up"), Outcome: backoffice.Denied, Code: bff.CodeMFARequired,
			Effects: []backoffice.Effect{refused},
		}
		if i == 1 {
			end = done(at, lock.Result{State: lock.LockRevoked, Vendor: "salto"})
		}
		if _, err := m.Finish(ctx, end); err != nil && bff.CodeOf(err) != bff.CodeMFARequired {
			t.Fatal(err)
		}
	}
	want := []string{"refused failure " + string(bff.CodeMFARequired) + " 1 t", "revoked success 1 t"}
	if diff := cmp.Diff(want, d.rows(t, audits)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"denied", "success"}, d.rows(t, `SELECT outcome FROM bff_backoffice.operator_activity ORDER BY occurred_at`)); diff != "" {
		t.Error(diff)
	}
	if got := d.rows(t, `SELECT id::text FROM bff_backoffice.outbox`); len(got) != 1 {
		t.Errorf("%d events", len(got))
	}
}

// The request, the vendor's event and the job settle an action at once: one of them
// does, and one event is published.
func TestLockActionIsSettledOnce(t *testing.T) {
	t.Parallel()
	d, ctx, now := openDesk(t), testkit.Context(t), time.Now()
	tenant := id(bff.PrefixTenant)
	at := lockAttempt(tenant, lock.IssueKey, now)
	m, _, err := d.BeginMutation(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	row, known, err := d.FindLockRow(ctx, tenant, auditOf(at).Request)
	if err != nil || !known || row == nil {
		t.Fatalf("%v %v %v", row, known, err)
	}
	if _, known, err := d.FindLockRow(ctx, id(bff.PrefixTenant), auditOf(at).Request); known || err != nil {
		t.Errorf("another tenant's: %v %v", known, err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := d.SettleLock(ctx, settled(at, lock.Result{State: lock.LockIssued, Vendor: "salto"})); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Go(func() {
		if _, err := m.Finish(ctx, done(at, lock.Result{State: lock.LockIssued, Vendor: "salto"})); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	if diff := cmp.Diff([]string{"issued success 1 t"}, d.rows(t, audits)); diff != "" {
		t.Error(diff)
	}
	if got := d.rows(t, `SELECT id::text FROM bff_backoffice.outbox`); len(got) != 1 {
		t.Errorf("%d events", len(got))
	}
	if row, known, err := d.FindLockRow(ctx, tenant, auditOf(at).Request); row != nil || !known || err != nil {
		t.Errorf("settled: %v %v %v", row, known, err)
	}
	// A later word changes nothing.
	if err := d.SettleLock(ctx, settled(at, lock.Result{State: lock.LockFailed, Reason: "tamper"})); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"issued success 1 t"}, d.rows(t, audits)); diff != "" {
		t.Error(diff)
	}
}

// An attempt that ends without an outcome does not take back what the vendor has reported
// meanwhile.
func TestLateAttemptLeavesTheOutcome(t *testing.T) {
	t.Parallel()
	d, ctx, now := openDesk(t), testkit.Context(t), time.Now()
	at := lockAttempt(id(bff.PrefixTenant), lock.IssueKey, now)
	m, _, err := d.BeginMutation(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.SettleLock(ctx, settled(at, lock.Result{State: lock.LockIssued, Vendor: "salto"})); err != nil {
		t.Fatal(err)
	}
	late := settled(at, lock.Result{State: lock.LockUnknown})
	late.Events = nil
	if _, err := m.Finish(ctx, backoffice.Finished{
		At: now, Failure: bff.Errorf(bff.CodeUpstreamTimeout, "late"), Outcome: backoffice.Unknown, Code: bff.CodeUpstreamTimeout, Effects: []backoffice.Effect{late},
	}); bff.CodeOf(err) != bff.CodeUpstreamTimeout {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"success"}, d.rows(t, `SELECT outcome FROM bff_backoffice.operator_activity`)); diff != "" {
		t.Error(diff)
	}
}

// atOnce is lock-integration, without the way to it.
type atOnce struct{}

func (atOnce) ActOnKey(context.Context, lock.Order) (lock.Result, error) {
	return lock.Result{State: lock.LockIssued, Vendor: "salto", Credential: "lck_01H8YN7QV4D8KZ4F8Y5CK4MV3A", Latency: time.Millisecond}, nil
}

func (atOnce) FindLockAction(context.Context, bff.ID, string) (lock.Result, error) {
	return lock.Result{}, lock.ErrNoLockAction
}

// here is the property that every reservation is at.
var here = id(bff.PrefixProperty)

func (atOnce) FindProperty(context.Context, bff.ID, *backoffice.Action, bff.ID) (bff.ID, error) {
	return here, nil
}

// BenchmarkLockAction is the goal "a lock action's own cost is at most 1.3 of two plain
// transactions": the whole of it, from the visit to the answer, with a vendor that
// answers at once, and two transactions that write the same rows on the same server
// with one statement after the other. They take turns in one run; ratio is ours by
// theirs.
func BenchmarkLockAction(b *testing.B) {
	const slice = 10
	admin := testkit.PostgresTemplate(b, "bff_backoffice", migrate)
	ledger := openLedger(b, admin)
	u, err := url.Parse(admin)
	if err != nil {
		b.Fatal(err)
	}
	u.User = url.UserPassword(migrations.BackofficeApp, password)
	db, err := postgres.Open(b.Context(), testkit.Patient(u.String()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(db.Close)
	locks := lock.NewLocks(lock.LocksConfig{Integration: atOnce{}, Resources: atOnce{}, Mutations: ledger, News: backoffice.NewEnvelopes("bench"), Now: time.Now})
	tenant := id(bff.PrefixTenant)
	visit := &backoffice.Visit{
		Session:  backoffice.Session{ID: id(bff.PrefixBackofficeLogin), Tenant: tenant, Operator: "opt_1", Device: id(bff.PrefixDevice)},
		Member:   &backoffice.Member{Roles: []backoffice.Role{backoffice.FrontDesk}},
		Property: here, Request: backoffice.Occasion{RequestID: id(bff.PrefixRequest)},
	}
	ours := func() {
		k := id(bff.PrefixRequest)
		_, _, err := locks.Act(b.Context(), visit, lock.Request{
			Order: lock.Order{Tenant: tenant, Property: visit.Property, Reservation: reservation, Action: lock.IssueKey, Request: k.UUID()},
			Once:  pressed(k.ULID(), 1),
		}, time.Now())
		if err != nil {
			b.Fatal(err)
		}
	}
	timed := func(do func()) float64 {
		began := time.Now()
		for range slice {
			do()
		}
		return float64(time.Since(began)) / slice
	}
	theirs := func() { plain(b, db, tenant) }
	fill(b, admin, tenant)
	for range 20 { // until the server has settled on its plans
		timed(ours)
		timed(theirs)
	}
	var own, other []float64
	for b.Loop() {
		own, other = append(own, timed(ours)), append(other, timed(theirs))
	}
	slices.Sort(own)
	slices.Sort(other)
	b.ReportMetric(own[0]/other[0], "ratio") // of the undisturbed slices
	b.ReportMetric(own[len(own)/2]/other[len(other)/2], "median-ratio")
	b.ReportMetric(own[0], "ns/action")
	b.ReportMetric(0, "ns/op")
}

// fill gives the tenant the rows of a while, so that the server plans as it does for
// tables in use: it reads a table of a few pages as a whole, whatever the indexes.
func fill(b *testing.B, admin string, tenant bff.ID) {
	b.Helper()
	db := connect(b, admin)
	for _, sql := range []string{
		`INSERT INTO bff_backoffice.operator_activity (tenant_id, property_id, operator_id, device_id, session_id, roles, occurred_at, category, action, resource_kind, resource_id, outcome, context_hash)
			SELECT $1, gen_random_uuid(), 'o', 'd', 's', '{front_desk}', now(), 'lock', 'issue', 'reservation', 'rsv_' || n, 'success', 'x' FROM generate_series(1, 20000) AS n`,
		`INSERT INTO bff_backoffice.lock_action_proxy_audit (tenant_id, property_id, operator_id, device_id, reservation_id, action, vendor, outcome, upstream_request_id, upstream_latency_ms, state, settled_at)
			SELECT $1, gen_random_uuid(), 'o', 'd', 'rsv_' || n, 'issue', 'salto', 'success', n, 0, 'issued', now() FROM generate_series(1, 20000) AS n`,
		`INSERT INTO bff_backoffice.idempotency (tenant_id, idem_key, request_hash, response, status_code, device_id, operator_id)
			SELECT $1, n, 'h', '{}', 200, 'd', 'o' FROM generate_series(1, 20000) AS n`,
	} {
		if _, err := db.Exec(b.Context(), sql, tenant.UUID()); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := db.Exec(b.Context(), "ANALYZE"); err != nil {
		b.Fatal(err)
	}
}

// plain writes the rows of a lock action in two transactions.
func plain(b *testing.B, db *pgxpool.Pool, tenant bff.ID) {
	b.Helper()
	now, k := time.Now(), id(bff.PrefixRequest)
	activity, audit := id(bff.PrefixActivity).UUID(), id(bff.PrefixLockAudit).UUID()
	inTx := func(statements ...[]any) {
		tx, err := db.Begin(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		for _, s := range append([][]any{{`SELECT set_config('app.tenant_id', $1, true)`, tenant.UUID()}}, statements...) {
			sql, _ := s[0].(string)
			if _, err := tx.Exec(b.Context(), sql, s[1:]...); err != nil {
				b.Fatal(err)
			}
		}
		if err := tx.Commit(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	inTx(
		[]any{`INSERT INTO bff_backoffice.idempotency (tenant_id, idem_key, request_hash, response, status_code, device_id, operator_id, created_at, expires_at, state, claimed_at, claim_token)
			VALUES ($1, $2, 'h', '{}', 0, 'd', 'o', $3, $4, 'in_flight', $3, gen_random_uuid())`, tenant.UUID(), k.String(), now, now.Add(24 * time.Hour)},
		[]any{`INSERT INTO bff_backoffice.operator_activity (id, tenant_id, property_id, operator_id, device_id, session_id, roles, occurred_at, category, action, resource_kind, resource_id, outcome, context_hash)
			VALUES ($1, $2, gen_random_uuid(), 'o', 'd', 's', '{front_desk}', $3, 'lock', 'issue', 'reservation', $4, 'unknown', 'x')`, activity, tenant.UUID(), now, reservation.String()},
		[]any{`INSERT INTO bff_backoffice.lock_action_proxy_audit (id, tenant_id, property_id, operator_id, device_id, reservation_id, action, vendor, occurred_at, outcome, error_code, upstream_request_id, upstream_latency_ms, activity_ids)
			VALUES ($1, $2, gen_random_uuid(), 'o', 'd', $3, 'issue', 'unknown', $4, 'failure', 'LOCK_OUTCOME_UNKNOWN', $5, 0, ARRAY[$6::uuid])`, audit, tenant.UUID(), reservation.String(), now, k.UUID(), activity},
	)
	inTx(
		[]any{
			`UPDATE bff_backoffice.idempotency SET status_code = 200, response = '{"state":"issued"}', state = 'done' WHERE tenant_id = $1 AND idem_key = $2`,
			tenant.UUID(), k.String(),
		},
		[]any{`UPDATE bff_backoffice.lock_action_proxy_audit SET state = 'issued', vendor = 'salto', credential_id = 'lck_1', outcome = 'success', error_code = NULL, upstream_latency_ms = 1, settled_at = $3
			WHERE tenant_id = $1 AND id = $2`, tenant.UUID(), audit, now},
		[]any{`UPDATE bff_backoffice.operator_activity SET outcome = 'success', latency_ms = 1 WHERE tenant_id = $1 AND id = $2`, tenant.UUID(), activity},
		[]any{
			`INSERT INTO bff_backoffice.outbox (id, subject, payload, envelope) VALUES (gen_random_uuid(), 'melmastoon.bff.backoffice.lock_action.proxied.v1', $1, $1)`,
			`{"auditId":"` + audit + `"}`,
		},
	)
}
