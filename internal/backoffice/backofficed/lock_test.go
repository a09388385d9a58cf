package backofficed

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/lock"
)

// lockFake is lock-integration.
type lockFake struct {
	mu     sync.Mutex
	orders []lock.Order
	result *lock.Result // nil = it is done at once
	err    error
}

func (l *lockFake) ActOnKey(_ context.Context, o lock.Order) (lock.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.orders = append(l.orders, o)
	if l.result != nil || l.err != nil {
		return *l.result, l.err
	}
	state := lock.LockIssued
	if o.Action == lock.RevokeKey {
		state = lock.LockRevoked
	}
	return lock.Result{State: state, Vendor: "salto", Credential: "lck_1"}, nil
}

func (*lockFake) FindLockAction(context.Context, bff.ID, string) (lock.Result, error) {
	return lock.Result{}, lock.ErrNoLockAction
}

func (l *lockFake) answers(r *lock.Result, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.result, l.err = r, err
}

// calls are the orders since the last look.
func (l *lockFake) calls() []lock.Order {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { l.orders = nil }()
	return l.orders
}

const reservation = "rsv_01JXG9KMGRC638MD0V7C0ZPD0W"

// lock is a good request for a lock action; a revocation has its second factor.
func (s *sender) lock(action, body string) *request {
	s.f.tb.Helper()
	r := s.keyed(base+"/locks/"+reservation+"/"+action+"-key", body)
	r.header.Set("X-Property-Id", house)
	if action == "revoke" {
		r.header.Set("X-Mfa-Attestation", s.attest(backoffice.ScopeLockRevoke, reservation))
	}
	return r
}

// meetLocks meets the answers of lock actions that other operations do not have.
func meetLocks(f *front, s *sender, send func(*request, int)) {
	f.employ("opt_zarif", backoffice.Housekeeper)
	zarif := f.sender("opt_zarif")
	n := f.behindUs
	for _, action := range lock.LockActions() {
		op := string(action)
		f.locks.answers(&lock.Result{State: lock.LockPending, Vendor: "ttlock", Credential: "lck_1"}, nil)
		send(s.lock(op, ""), http.StatusAccepted)
		f.locks.answers(&lock.Result{State: lock.LockFailed, Vendor: "salto", Reason: "battery_low"}, nil)
		send(s.lock(op, ""), http.StatusOK)
		f.locks.answers(&lock.Result{State: lock.LockUnknown}, bff.Errorf(bff.CodeLockOutcomeUnknown, "late"))
		send(s.lock(op, ""), http.StatusGatewayTimeout)
		f.locks.answers(&lock.Result{State: lock.LockFailed, Vendor: "none"}, bff.Errorf(bff.CodeResourceNotFound, "no such reservation"))
		send(s.lock(op, ""), http.StatusNotFound)
		f.locks.answers(nil, nil)
		send(zarif.lock(op, ""), http.StatusForbidden)
		done := s.lock(op, "")
		again := *done
		again.header = done.header.Clone()
		send(done, http.StatusOK)
		n.with(func() { n.answers[f.tenant.String()+again.header.Get("X-Idempotency-Key")].running = true })
		send(&again, http.StatusConflict)
		n.with(func() { n.answers[f.tenant.String()+again.header.Get("X-Idempotency-Key")].digest = [32]byte{1} })
		reused := s.lock(op, "")
		reused.header.Set("X-Idempotency-Key", again.header.Get("X-Idempotency-Key"))
		send(reused, http.StatusUnprocessableEntity)
		keyless := s.lock(op, "")
		keyless.header.Del("X-Idempotency-Key")
		send(keyless, http.StatusPreconditionRequired)
	}
}

func TestLockActions(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{limits: "change=100000,step-up=100000"})
	f.employ("opt_zarif", backoffice.Housekeeper)
	s := f.sender("opt_parwana")
	for _, tc := range []struct {
		name   string
		change func(*request)
		by     *sender
		action string
		want   string // state or code
		calls  int
	}{
		{name: "issue", action: "issue", want: "issued", calls: 1},
		{name: "extend", action: "extend", want: "issued", calls: 1},
		{name: "rebind", action: "rebind", want: "issued", calls: 1},
		{name: "revoke", action: "revoke", want: "revoked", calls: 1},
		{name: "role", action: "issue", by: f.sender("opt_zarif"), want: "ROLE_DENIED"},
		{name: "no property", action: "issue", change: func(r *request) { r.header.Del("X-Property-Id") }, want: "VALIDATION_FAILED"},
		{name: "out of scope", action: "issue", change: func(r *request) { r.header.Set("X-Property-Id", other) }, want: "PROPERTY_SCOPE_DENIED"},
		{name: "two properties", action: "issue", change: func(r *request) { r.path += "?propertyId=" + other; r.proof.URL += "" }, want: "VALIDATION_FAILED"},
		{name: "no second factor", action: "revoke", change: func(r *request) { r.header.Del("X-Mfa-Attestation") }, want: "MFA_REQUIRED"},
		{
			name: "another's second factor", action: "revoke", change: func(r *request) { r.header.Set("X-Mfa-Attestation", "mfa_01JXG9KMGRC638MD0V7C0ZPD0W") },
			want: "MFA_ATTESTATION_INVALID",
		},
		{name: "for another reservation", action: "revoke", change: func(r *request) {
			r.header.Set("X-Mfa-Attestation", s.attest(backoffice.ScopeLockRevoke, "rsv_01JXG9KMGRC638MD0V7C0ZPD0X"))
		}, want: "MFA_ATTESTATION_INVALID"},
	} {
		by := s
		if tc.by != nil {
			by = tc.by
		}
		r := by.lock(tc.action, "")
		if tc.change != nil {
			tc.change(r)
		}
		w := f.send(0, r)
		got := codeOf(w)
		var doc struct{ State, Vendor, AuditID, CredentialID string }
		if got == "OK" {
			if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || doc.Vendor == "" || !strings.HasPrefix(doc.AuditID, "lap_") || doc.CredentialID == "" {
				t.Errorf("%s: %s", tc.name, w.Body)
			}
			got = doc.State
		}
		if calls := f.locks.calls(); got != tc.want || len(calls) != tc.calls {
			t.Errorf("%s: %s %s, %d calls, want %s", tc.name, got, w.Body, len(calls), tc.want)
		}
	}
}

// A refused second factor costs the key nothing, and one that was used passes with
// the same request alone.
func TestRevocationsNeedTheirOwnSecondFactor(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{instances: 2, limits: "change=100000,step-up=100000"})
	s := f.sender("opt_parwana")
	r := s.lock("revoke", "")
	key, factor := r.header.Get("X-Idempotency-Key"), r.header.Get("X-Mfa-Attestation")
	repeat := func(instance int, key, factor string) string {
		t.Helper()
		again := s.lock("revoke", "")
		again.header.Set("X-Idempotency-Key", key)
		again.header.Set("X-Mfa-Attestation", factor)
		return codeOf(f.send(instance, again))
	}
	if got := repeat(0, key, "mfa_x"); got != "MFA_ATTESTATION_INVALID" {
		t.Errorf("a bad factor: %s", got)
	}
	f.locks.answers(&lock.Result{State: lock.LockUnknown}, bff.Errorf(bff.CodeLockOutcomeUnknown, "late"))
	if got := repeat(0, key, factor); got != "LOCK_OUTCOME_UNKNOWN" {
		t.Errorf("a late answer: %s", got)
	}
	f.locks.answers(nil, nil)
	if got := repeat(1, newKey(f), factor); got != "MFA_ATTESTATION_INVALID" {
		t.Errorf("a used factor: %s", got)
	}
	if got := repeat(1, key, factor); got != "OK" {
		t.Errorf("the same request: %s", got)
	}
	if got := repeat(0, key, ""); got != "OK" {
		t.Errorf("once more, without a factor: %s", got)
	}
	var keys []string
	for _, o := range f.locks.calls() {
		keys = append(keys, o.Request)
	}
	if diff := cmp.Diff([]string{keys[0], keys[0]}, keys); diff != "" {
		t.Errorf("calls: %s", diff)
	}
}

func TestLockInputIsChecked(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{limits: "change=100000"})
	s := f.sender("opt_parwana")
	for _, tc := range []struct{ path, body, want string }{
		{"/locks/x/extend-key", `{"validUntil":"soon","guest":1}`, "guest unsupported, reservationId format, validUntil format"},
		{"/locks/" + reservation + "/extend-key", `{"validUntil":"2020-01-01T00:00:00.000Z"}`, "validUntil range"},
		{"/locks/" + reservation + "/issue-key", `{"validUntil":"2099-01-01T00:00:00.000Z"}`, "validUntil unsupported"},
		{"/locks/x/issue-key", ``, "reservationId format"},
	} {
		r := s.keyed(base+tc.path, tc.body)
		r.header.Set("X-Property-Id", house)
		w := f.send(0, r)
		var doc struct {
			Error struct{ Errors []bff.FieldError }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
			t.Errorf("%s: %s", tc.path, w.Body)
		}
		var bad []string
		for _, e := range doc.Error.Errors {
			bad = append(bad, e.Field+" "+e.Code)
		}
		if got := strings.Join(slices.Sorted(slices.Values(bad)), ", "); got != tc.want {
			t.Errorf("%s %s: %s, want %s", tc.path, tc.body, got, tc.want)
		}
	}
	if calls := f.locks.calls(); len(calls) > 0 {
		t.Errorf("%d calls", len(calls))
	}
}

// The vendor is not called for a reservation that is elsewhere, or while that cannot be
// found out; the second factor is not used up for it either.
func TestLockActionsAskWhoseTheReservationIs(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{limits: "change=100000,step-up=100000"})
	s := f.sender("opt_parwana")
	id := bff.MustParseID(bff.PrefixReservation, reservation)
	for _, test := range []struct {
		name  string
		hands func(*handsFake)
		want  string
	}{
		{"of another property", func(h *handsFake) { h.moved[id] = true }, "RESOURCE_NOT_FOUND"},
		{"of another tenant", func(h *handsFake) { h.missing[id] = true }, "RESOURCE_NOT_FOUND"},
		{"late", func(h *handsFake) { h.away = bff.Errorf(bff.CodeUpstreamTimeout, "late") }, "UPSTREAM_UNAVAILABLE"},
		{"away", func(h *handsFake) { h.away = errAway }, "UPSTREAM_UNAVAILABLE"},
	} {
		for _, action := range lock.LockActions() {
			f.hands.change(func(h *handsFake) {
				h.moved, h.missing, h.away = map[bff.ID]bool{}, map[bff.ID]bool{}, nil
				test.hands(h)
			})
			f.behindUs.with(func() { f.behindUs.did = nil })
			r := s.lock(string(action), "")
			if got := codeOf(f.send(0, r)); got != test.want || len(f.locks.calls()) > 0 {
				t.Errorf("%s, %s: %s, or the vendor was called", test.name, action, got)
			}
			f.behindUs.with(func() {
				if did := f.behindUs.did; len(did) != 1 || did[0].Outcome != backoffice.Failed {
					t.Errorf("%s, %s: the ledger says %+v", test.name, action, did)
				}
			})
			f.hands.change(func(h *handsFake) { h.moved, h.missing, h.away = map[bff.ID]bool{}, map[bff.ID]bool{}, nil })
			if again := codeOf(f.send(0, s.again(r, "X-Property-Id"))); test.want == "UPSTREAM_UNAVAILABLE" && again != "OK" {
				t.Errorf("%s, %s, again: %s", test.name, action, again)
			}
			f.locks.calls()
		}
	}
}

// What was done and could not be recorded is unknown, and says so.
func TestUnrecordedLockActionIsUnknown(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	s, n := f.sender("opt_parwana"), f.behindUs
	n.with(func() { n.lost = &bff.Error{Code: bff.CodeServiceUnavailable, Err: errors.New("away")} })
	if got := codeOf(f.send(0, s.lock("issue", ""))); got != "SERVICE_UNAVAILABLE" || len(f.locks.calls()) != 0 {
		t.Errorf("without a ledger: %s", got)
	}
	n.with(func() { n.lost, n.killed = nil, true })
	if got := codeOf(f.send(0, s.lock("issue", ""))); got != "LOCK_OUTCOME_UNKNOWN" || len(f.locks.calls()) != 1 {
		t.Errorf("a ledger that goes away: %s", got)
	}
}
