package backofficestore_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

const key = "01H8YN7QV4D8KZ4F8Y5CK4MV3A"

// upstream is a service that carries out mutations, each key once.
type upstream struct {
	mu    sync.Mutex
	calls int
	done  map[string]int // version by key
}

func (u *upstream) call(key string) backoffice.Answer {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.calls++
	if u.done == nil {
		u.done = map[string]int{}
	}
	if u.done[key] == 0 {
		u.done[key] = len(u.done) + 1
	}
	return backoffice.Answer{Status: http.StatusOK, Receipt: backoffice.NewReceipt(map[string]any{
		"reservationId": "rsv_1", "status": "checked_in", "version": u.done[key], "guestName": "Zarghuna Ahmadzai",
	})}
}

// attempt is a whole request: claim, call, outcome.
func (d *desk) attempt(t *testing.T, u *upstream, a backoffice.Activity, o backoffice.Once, failure error) (backoffice.Answer, error) {
	t.Helper()
	m, earlier, err := d.BeginMutation(testkit.Context(t), backoffice.Attempt{Activity: a, Once: o})
	if err != nil {
		return backoffice.Answer{}, err
	}
	if earlier != nil {
		return *earlier, nil
	}
	defer m.Release()
	answer := backoffice.Answer{}
	if failure == nil {
		answer = u.call(o.Key)
	}
	return m.Finish(testkit.Context(t), backoffice.Finished{
		At: a.At.Add(50 * time.Millisecond), Answer: answer, Failure: failure, Events: []bff.Event{told(a.Tenant, a.At)},
	})
}

func body(t *testing.T, a backoffice.Answer) string {
	t.Helper()
	b, err := json.Marshal(a.Receipt)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const outcomes = `SELECT concat_ws(' ', outcome, latency_ms, error_code) FROM bff_backoffice.operator_activity ORDER BY occurred_at, id`

func TestMutationHappensOnce(t *testing.T) {
	t.Parallel()
	d, u := openDesk(t), &upstream{}
	now := time.Now()
	a := checkIn(id(bff.PrefixTenant), now)
	o := pressed(key, 1)
	first, err := d.attempt(t, u, a, o, nil)
	if err != nil || first.Replayed {
		t.Fatalf("%+v, %v", first, err)
	}
	// Again, also at another device of the operator.
	repeated := checkIn(a.Tenant, now.Add(time.Second))
	repeated.Device = id(bff.PrefixDevice)
	again, err := d.attempt(t, u, repeated, o, nil)
	if err != nil || !again.Replayed || again.Status != first.Status || body(t, again) != body(t, first) {
		t.Errorf("again: %+v, %v", again, err)
	}
	if want := `{"reservationId":"rsv_1","status":"checked_in","version":1}`; body(t, again) != want {
		t.Errorf("%s, want %s", body(t, again), want)
	}
	if _, err := d.attempt(t, u, a, pressed(key, 2), nil); bff.CodeOf(err) != bff.CodeStaffIdempotencyReused {
		t.Errorf("another body: %v", err)
	}
	// The same key of another tenant is another request.
	if got, err := d.attempt(t, u, checkIn(id(bff.PrefixTenant), now.Add(2*time.Second)), o, nil); err != nil || got.Replayed || u.calls != 2 {
		t.Errorf("another tenant: %+v, %v, %d calls", got, err, u.calls)
	}
	if diff := cmp.Diff([]string{"success 50", "success 50"}, d.rows(t, outcomes)); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
	if got := d.rows(t, "SELECT response::text FROM bff_backoffice.idempotency WHERE response::text LIKE '%uest%'"); len(got) > 0 {
		t.Errorf("stored %v", got)
	}
}

// A key belongs to the operator who made it, whether its request runs, was cut off or was
// answered: another operator neither reads its receipt nor takes it over.
func TestKeysBelongToTheirOperator(t *testing.T) {
	t.Parallel()
	d, u := openDesk(t), &upstream{}
	now := time.Now()
	own := checkIn(id(bff.PrefixTenant), now)
	other := own
	other.ID, other.Operator = id(bff.PrefixActivity), "opt_2"
	o := pressed(key, 1)
	refused := func(when string) {
		t.Helper()
		if _, err := d.attempt(t, u, other, o, nil); bff.CodeOf(err) != bff.CodeStaffIdempotencyReused {
			t.Errorf("%s: %v", when, err)
		}
	}
	m, earlier, err := d.BeginMutation(testkit.Context(t), backoffice.Attempt{Activity: own, Once: o})
	if err != nil || earlier != nil {
		t.Fatal(earlier, err)
	}
	refused("while it runs")
	m.Release()
	refused("after it was cut off")
	own.ID = id(bff.PrefixActivity)
	if answer, err := d.attempt(t, u, own, o, nil); err != nil || answer.Replayed {
		t.Fatalf("its own: %+v, %v", answer, err)
	}
	refused("after it was answered")
	if u.calls != 1 {
		t.Errorf("%d calls", u.calls)
	}
}

// Of many at once one is carried out; the others are told to come back.
func TestConcurrentDuplicatesAreRefused(t *testing.T) {
	t.Parallel()
	d, u := openDesk(t), &upstream{}
	now := time.Now()
	tenant := id(bff.PrefixTenant)
	o := pressed(key, 1)
	m, earlier, err := d.BeginMutation(testkit.Context(t), backoffice.Attempt{Activity: checkIn(tenant, now), Once: o})
	if err != nil || earlier != nil {
		t.Fatal(earlier, err)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			_, err := d.attempt(t, u, checkIn(tenant, now), o, nil)
			var e *bff.Error
			if !errors.As(err, &e) || e.Code != bff.CodeStaffIdempotencyInFlight || e.RetryAfter == 0 || !e.Code.Info().Retriable {
				t.Errorf("a duplicate: %v, want in flight", err)
			}
		})
	}
	wg.Wait()
	if _, err := m.Finish(testkit.Context(t), backoffice.Finished{At: now, Answer: u.call(key)}); err != nil {
		t.Fatal(err)
	}
	var replayed atomic.Int32
	for range 20 {
		wg.Go(func() {
			if got, err := d.attempt(t, u, checkIn(tenant, now), o, nil); err != nil || !got.Replayed {
				t.Errorf("afterwards: %+v, %v", got, err)
			}
			replayed.Add(1)
		})
	}
	wg.Wait()
	if u.calls != 1 || replayed.Load() != 20 {
		t.Errorf("%d calls", u.calls)
	}
	if got := d.rows(t, outcomes); len(got) != 1 {
		t.Errorf("ledger %v: a refused duplicate is no action", got)
	}
}

// A process that dies after the call leaves a claim and an honest entry. After a
// minute the same request takes over, and the service behind, which has the key,
// does nothing twice.
func TestCrashedMutationIsTakenOver(t *testing.T) {
	t.Parallel()
	d, u := openDesk(t), &upstream{}
	now := time.Now()
	tenant := id(bff.PrefixTenant)
	o := pressed(key, 1)
	dead, _, err := d.BeginMutation(testkit.Context(t), backoffice.Attempt{Activity: checkIn(tenant, now), Once: o})
	if err != nil {
		t.Fatal(err)
	}
	u.call(key) // and the process is gone: neither Finish nor Release
	if got := d.rows(t, outcomes); !cmp.Equal(got, []string{"unknown"}) {
		t.Errorf("ledger %v", got)
	}
	if _, err := d.attempt(t, u, checkIn(tenant, now.Add(59*time.Second)), o, nil); bff.CodeOf(err) != bff.CodeStaffIdempotencyInFlight {
		t.Errorf("after 59 s: %v, want in flight", err)
	}
	if _, err := d.attempt(t, u, checkIn(tenant, now.Add(time.Minute)), pressed(key, 2), nil); bff.CodeOf(err) != bff.CodeStaffIdempotencyReused {
		t.Errorf("another body after a minute: %v, want reused", err)
	}
	got, err := d.attempt(t, u, checkIn(tenant, now.Add(time.Minute)), o, nil)
	if err != nil || got.Replayed || len(u.done) != 1 || u.calls != 2 {
		t.Errorf("after a minute: %+v, %v; %d calls, %d effects", got, err, u.calls, len(u.done))
	}
	// Were it not dead but slow, it would be told what its heir was told.
	late, err := dead.Finish(testkit.Context(t), backoffice.Finished{At: now.Add(2 * time.Minute), Answer: u.call(key)})
	if err != nil || !late.Replayed || body(t, late) != body(t, got) {
		t.Errorf("the old holder: %+v, %v", late, err)
	}
	if got := d.rows(t, outcomes); !cmp.Equal(got, []string{"success 120000", "success 50"}) {
		t.Errorf("ledger %v", got)
	}
}

// What is final is stored, with its code; what another attempt may change is not.
func TestOnlyFinalOutcomesAreStored(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	tenant := id(bff.PrefixTenant)
	now := time.Now()
	for i, tc := range []struct {
		failure    error
		wantStored bool
		wantLedger string
	}{
		{bff.Errorf(bff.CodeSuggestionAlreadyDecided, "decided by another"), true, "failure 50 " + string(bff.CodeSuggestionAlreadyDecided)},
		{bff.Errorf(bff.CodeResourceNotFound, "no such reservation"), true, "failure 50 " + string(bff.CodeResourceNotFound)},
		{bff.FieldErrors{{Field: "amount", Code: bff.FieldRange}}.Err(), true, "failure 50 " + string(bff.CodeValidationFailed)},
		{bff.Errorf(bff.CodeUpstreamTimeout, "late"), false, "unknown 50 " + string(bff.CodeUpstreamTimeout)},
		{bff.Errorf(bff.CodeUpstreamUnavailable, "away"), false, "failure 50 " + string(bff.CodeUpstreamUnavailable)},
		{bff.Errorf(bff.CodeStaffIdempotencyInFlight, "there, too"), false, "failure 50 " + string(bff.CodeStaffIdempotencyInFlight)},
		{bff.Errorf(bff.CodeMFARequired, "step up"), false, "denied 50 " + string(bff.CodeMFARequired)},
		{errors.New("bug"), false, "failure 50 " + string(bff.CodeInternal)},
	} {
		u := &upstream{}
		o := pressed(bff.NewID(bff.PrefixRequest, now).ULID(), 1)
		a := checkIn(tenant, now.Add(time.Duration(i)*time.Second))
		if _, err := d.attempt(t, u, a, o, tc.failure); !errors.Is(err, tc.failure) {
			t.Errorf("%v: told %v", tc.failure, err)
		}
		if got := d.rows(
			t, `SELECT concat_ws(' ', outcome, latency_ms, error_code) FROM bff_backoffice.operator_activity WHERE id = $1`, a.ID.UUID(),
		); len(got) != 1 || got[0] != tc.wantLedger {
			t.Errorf("%v: ledger %q, want %q", tc.failure, got, tc.wantLedger)
		}
		other := checkIn(tenant, a.At)
		if _, err := d.attempt(t, u, other, pressed(o.Key, 2), nil); bff.CodeOf(err) != bff.CodeStaffIdempotencyReused {
			t.Errorf("%v: then another body: %v, want reused", tc.failure, err)
		}
		// Sent again: the stored refusal to the letter, or another attempt, at once.
		again, err := d.attempt(t, u, checkIn(tenant, a.At), o, nil)
		switch {
		case tc.wantStored:
			if diff := cmp.Diff(asError(t, tc.failure), asError(t, err)); diff != "" || u.calls != 0 {
				t.Errorf("%v: repeated (-want +got):\n%s%d calls", tc.failure, diff, u.calls)
			}
		case err != nil || again.Replayed || u.calls != 1:
			t.Errorf("%v: repeated: %+v, %v, %d calls", tc.failure, again, err, u.calls)
		}
	}
}

func asError(t *testing.T, err error) bff.Error {
	t.Helper()
	e, ok := errors.AsType[*bff.Error](err)
	if !ok {
		t.Fatalf("%v has no code", err)
	}
	return *e
}

// A client that hangs up does not undo what was done for it.
func TestOutcomeIsKeptWhenTheClientIsGone(t *testing.T) {
	t.Parallel()
	d, u := openDesk(t), &upstream{}
	now := time.Now()
	tenant := id(bff.PrefixTenant)
	o := pressed(key, 1)
	ctx, hangUp := context.WithCancel(testkit.Context(t))
	m, _, err := d.BeginMutation(ctx, backoffice.Attempt{Activity: checkIn(tenant, now), Once: o})
	if err != nil {
		t.Fatal(err)
	}
	hangUp()
	if _, err := m.Finish(ctx, backoffice.Finished{At: now, Answer: u.call(key)}); err != nil {
		t.Error(err)
	}
	if got, err := d.attempt(t, u, checkIn(tenant, now), o, nil); err != nil || !got.Replayed {
		t.Errorf("%+v, %v", got, err)
	}
}

// Without Postgres no mutation begins: the service behind is not called.
func TestNoMutationWithoutTheLedger(t *testing.T) {
	t.Parallel()
	ledger := openLedger(t, "postgres://127.0.0.1:1/nowhere")
	now := time.Now()
	a := checkIn(id(bff.PrefixTenant), now)
	if _, _, err := ledger.BeginMutation(
		testkit.Context(t), backoffice.Attempt{Activity: a, Once: pressed(key, 0)},
	); bff.CodeOf(err) != bff.CodeServiceUnavailable {
		t.Errorf("begin: %v, want %s", err, bff.CodeServiceUnavailable)
	}
	if err := ledger.Record(testkit.Context(t), []backoffice.Activity{a}); bff.CodeOf(err) != bff.CodeServiceUnavailable {
		t.Errorf("add: %v, want %s", err, bff.CodeServiceUnavailable)
	}
}
