package backofficehttp_test

import (
	"context"
	"net/http"
	"sync"

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
