package backofficestore_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"sync"
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
}
