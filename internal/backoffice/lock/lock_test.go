package lock_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficetest"
	"melmastoon.ghasi.io/bff/internal/backoffice/lock"
)

// lockDesk is one operator's attempts at one lock action: the audit row that they share,
// and how each was finished.
type lockDesk struct {
	row      *lock.Audit         // of the first attempt
	activity backoffice.Activity // of the last one
	finished []backoffice.Finished
	calls    int

	result  lock.Result // of lock-integration
	failure error
	kept    error // of Finish

	attestation backoffice.Attestation

	property bff.ID // that the reservation is at
	away     error  // why that cannot be told
}

func (d *lockDesk) FindProperty(context.Context, bff.ID, *backoffice.Action, bff.ID) (bff.ID, error) {
	return d.property, d.away
}

func (d *lockDesk) BeginMutation(_ context.Context, a backoffice.Attempt) (backoffice.Mutation, *backoffice.Answer, error) {
	d.activity = a.Activity
	audit, _ := a.Effect.(*lock.Audit)
	if d.row == nil {
		row := *audit
		d.row = &row
	}
	*audit = *d.row
	return lockAttempt{d}, nil, nil
}

type lockAttempt struct{ *lockDesk }

func (a lockAttempt) Finish(_ context.Context, f backoffice.Finished) (backoffice.Answer, error) {
	a.finished = append(a.finished, f)
	if a.kept != nil {
		return backoffice.Answer{}, a.kept
	}
	a.row.Result = settlementOf(f).Result
	return f.Answer, f.Failure
}

func (lockAttempt) Release() {}

// settlementOf is what an attempt at a lock action writes of it.
func settlementOf(f backoffice.Finished) lock.Settlement {
	s, _ := f.Effects[0].(lock.Settlement)
	return s
}

func (d *lockDesk) ActOnKey(context.Context, lock.Order) (lock.Result, error) {
	d.calls++
	return d.result, d.failure
}

func (*lockDesk) FindLockAction(context.Context, bff.ID, string) (lock.Result, error) {
	return lock.Result{}, lock.ErrNoLockAction
}

func (*lockDesk) AddAttestation(context.Context, backoffice.Attestation) error { return nil }

func (d *lockDesk) FindAttestation(_ context.Context, _, id bff.ID) (backoffice.Attestation, error) {
	if id != d.attestation.ID {
		return backoffice.Attestation{}, backoffice.ErrNoAttestation
	}
	return d.attestation, nil
}

func (d *lockDesk) UseAttestation(_ context.Context, _ backoffice.Attestation, usedFor string) (bool, error) {
	d.attestation.UsedFor = usedFor
	return true, nil
}

// lockVisit is a visit with a second factor for revoking a key.
func lockVisit(d *lockDesk, now time.Time) (*backoffice.Visit, lock.Request) {
	v := &backoffice.Visit{Session: backoffice.Session{
		ID: bff.NewID(bff.PrefixBackofficeLogin, now), Tenant: bff.NewID(bff.PrefixTenant, now), Operator: "opt_1", Device: bff.NewID(bff.PrefixDevice, now),
	}, Member: &backoffice.Member{Roles: []backoffice.Role{backoffice.FrontDesk}}, Property: bff.NewID(bff.PrefixProperty, now)}
	r := lock.Request{
		Order: lock.Order{
			Tenant: v.Session.Tenant, Property: v.Property, Reservation: bff.NewID(bff.PrefixReservation, now), Action: lock.RevokeKey, Request: "request",
		},
		Once: backoffice.Once{Key: "key"},
	}
	d.attestation = backoffice.Attestation{
		ID: bff.NewID(bff.PrefixMFA, now), Tenant: v.Session.Tenant, Operator: v.Session.Operator, Device: v.Session.Device, Session: v.Session.ID,
		Scope: backoffice.ScopeLockRevoke, Resource: r.Order.Reservation.String(), ExpiresAt: now.Add(backoffice.AttestationLifetime),
	}
	r.Attestation = d.attestation.ID.String()
	return v, r
}

// checkLockEvent holds the event of a lock action to its audit row.
func checkLockEvent(t *testing.T, e bff.Event, v *backoffice.Visit, row *lock.Audit, r lock.Result) {
	t.Helper()
	var told lock.ActionProxied
	if err := json.Unmarshal(e.Payload, &told); err != nil {
		t.Fatal(err)
	}
	if told.AuditID != row.ID || told.ReservationID != row.Reservation || told.Action != row.Action || told.State != r.State || told.Outcome != r.Outcome() ||
		told.Vendor != r.Vendor || told.CredentialID != r.Credential || told.Reason != r.Reason {
		t.Errorf("told %+v of %+v, %+v", told, row, r)
	}
	backofficetest.CheckEnvelope(t, e, v)
}

// The client is told the state, the vendor and the key, and why it failed.
func TestLockAnswers(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 17, 10, 0, 0, 0, time.UTC)
	for want, result := range map[string]lock.Result{
		`{"auditId":"AUDIT","credentialId":"lck_1","state":"revoked","vendor":"salto"}`: {
			State: lock.LockRevoked, Vendor: "salto", Credential: "lck_1", Reason: "none",
		},
		`{"auditId":"AUDIT","reason":"battery_low","state":"failed","vendor":"salto"}`: {State: lock.LockFailed, Vendor: "salto", Reason: "battery_low"},
		`{"auditId":"AUDIT","state":"pending","vendor":"salto"}`:                       {State: lock.LockPending, Vendor: "salto"},
	} {
		d := &lockDesk{result: result}
		v, r := lockVisit(d, now)
		d.property = v.Property
		locks := lock.NewLocks(lock.LocksConfig{
			Integration: d, Resources: d, Mutations: d, Attestations: d, News: backoffice.NewEnvelopes("test"), Now: func() time.Time { return now },
		})
		answer, _, err := locks.Act(t.Context(), v, r, now)
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(answer.Receipt)
		if err != nil || strings.ReplaceAll(string(got), d.row.ID.String(), "AUDIT") != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
	// A key that is issued needs no second factor, and its row names none.
	d := &lockDesk{result: lock.Result{State: lock.LockIssued}}
	v, r := lockVisit(d, now)
	d.property, r.Order.Action = v.Property, lock.IssueKey
	locks := lock.NewLocks(lock.LocksConfig{
		Integration: d, Resources: d, Mutations: d, Attestations: d, News: backoffice.NewEnvelopes("test"), Now: func() time.Time { return now },
	})
	if _, result, err := locks.Act(t.Context(), v, r, now); err != nil || result.State != lock.LockIssued || d.row.Attestation != "" ||
		d.attestation.UsedFor != "" {
		t.Errorf("%+v, %v, row %+v", result, err, d.row)
	}
}

// What becomes of a lock action is what the regulated audit says of it, what the client
// is told, and whether an event leaves: in all attempts at it.
func TestLockActs(t *testing.T) {
	t.Parallel()
	hangs := &bff.Error{Code: bff.CodeUpstreamTimeout}
	type attempt struct {
		result      lock.Result // of lock-integration, if it is called
		failure     error
		attestation string // instead of the good one
		kept        error  // why the end of the attempt is not kept

		wantState   lock.State
		wantOutcome backoffice.Outcome
		wantCode    bff.Code // of the answer; empty = an answer
		wantStatus  int
		wantEvents  int
		wantCalls   int
	}
	unknown := lock.Result{State: lock.LockUnknown}
	revoked := lock.Result{State: lock.LockRevoked, Vendor: "salto", Credential: "lck_1"}
	first := attempt{
		result: unknown, failure: hangs, wantState: lock.LockUnknown, wantOutcome: backoffice.Unknown, wantCode: bff.CodeUpstreamTimeout, wantCalls: 1,
	}
	for name, attempts := range map[string][]attempt{
		"done": {{result: revoked, wantState: lock.LockRevoked, wantOutcome: backoffice.Succeeded, wantStatus: 200, wantEvents: 1, wantCalls: 1}},
		"failed": {{
			result:    lock.Result{State: lock.LockFailed, Vendor: "salto", Reason: "battery_low"},
			wantState: lock.LockFailed, wantOutcome: backoffice.Failed, wantStatus: 200, wantEvents: 1, wantCalls: 1,
		}},
		"pending": {{
			result:    lock.Result{State: lock.LockPending, Vendor: "salto"},
			wantState: lock.LockPending, wantOutcome: backoffice.Unknown, wantStatus: 202, wantCalls: 1,
		}},
		"hangs": {first},
		"refused before the call": {{
			attestation: "mfa_none", wantState: lock.LockRefused, wantOutcome: backoffice.Denied, wantCode: bff.CodeMFAAttestationInvalid,
		}},
		"no second factor": {{attestation: "-", wantState: lock.LockRefused, wantOutcome: backoffice.Denied, wantCode: bff.CodeMFARequired}},
		// The door may have changed: nothing that happens before the second call makes the
		// first one never have been.
		"hangs, then refused before the call": {first, {
			attestation: "mfa_none", wantState: lock.LockUnknown, wantOutcome: backoffice.Unknown, wantCode: bff.CodeLockOutcomeUnknown, wantCalls: 1,
		}},
		"hangs, then never begun": {first, {
			result: lock.Result{State: lock.LockRefused}, failure: &bff.Error{Code: bff.CodeUpstreamUnavailable},
			wantState: lock.LockUnknown, wantOutcome: backoffice.Unknown, wantCode: bff.CodeLockOutcomeUnknown, wantCalls: 2,
		}},
		"hangs, then done": {
			first, {result: revoked, wantState: lock.LockRevoked, wantOutcome: backoffice.Succeeded, wantStatus: 200, wantEvents: 1, wantCalls: 2},
		},
		"settled meanwhile": {
			{result: revoked, wantState: lock.LockRevoked, wantOutcome: backoffice.Succeeded, wantStatus: 200, wantEvents: 1, wantCalls: 1},
			{wantState: lock.LockRevoked, wantOutcome: backoffice.Succeeded, wantStatus: 200, wantEvents: 1, wantCalls: 1},
		},
		"done, and not recorded": {{
			result: revoked, kept: errors.New("away"), wantState: lock.LockRevoked, wantOutcome: backoffice.Succeeded,
			wantCode: bff.CodeLockOutcomeUnknown, wantEvents: 1, wantCalls: 1,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Date(2026, 11, 17, 10, 0, 0, 0, time.UTC)
			d := &lockDesk{}
			locks := lock.NewLocks(lock.LocksConfig{
				Integration: d, Resources: d, Mutations: d, Attestations: d, News: backoffice.NewEnvelopes("test"), Now: func() time.Time { return now },
			})
			v, good := lockVisit(d, now)
			d.property = v.Property
			for i, a := range attempts {
				r := good
				switch a.attestation {
				case "":
				case "-":
					r.Attestation = ""
				default:
					r.Attestation = a.attestation
				}
				d.result, d.failure, d.kept = a.result, a.failure, a.kept
				answer, result, err := locks.Act(t.Context(), v, r, now.Add(time.Duration(i)*time.Second))
				end := d.finished[i]
				code := bff.Code("")
				if err != nil {
					code = bff.CodeOf(err)
				}
				settled := settlementOf(end)
				if result.State != a.wantState || settled.State != a.wantState || settled.ID != d.row.ID || end.Outcome != a.wantOutcome {
					t.Errorf("attempt %d: told %s, audit %s, activity %s; want %s, %s", i, result.State, settled.State, end.Outcome, a.wantState, a.wantOutcome)
				}
				if code != a.wantCode || answer.Status != a.wantStatus || len(settled.Events) != a.wantEvents || len(end.Events) != 0 || d.calls != a.wantCalls {
					t.Errorf("attempt %d: %d %v, %d events, %d calls", i, answer.Status, err, len(settled.Events), d.calls)
				}
				if a.wantCode != "" && a.kept == nil && end.Code != a.wantCode {
					t.Errorf("attempt %d: the activity has the code %s, want %s", i, end.Code, a.wantCode)
				}
			}
			if d.row.Attestation != d.attestation.ID.String() && attempts[0].attestation == "" || d.row.Reservation != good.Order.Reservation ||
				d.row.Request != "request" {
				t.Errorf("audit %+v", d.row)
			}
			for _, end := range d.finished {
				settled := settlementOf(end)
				for _, e := range settled.Events {
					checkLockEvent(t, e, v, d.row, settled.Result)
				}
			}
			if d.activity.Action != "revoke" || d.activity.Resource.ID != good.Order.Reservation.String() || d.activity.Tenant != v.Session.Tenant ||
				d.activity.Property != v.Property {
				t.Errorf("activity %+v", d.activity)
			}
		})
	}
	if status := bff.CodeLockOutcomeUnknown.Info().Status; status != 504 {
		t.Errorf("an unknown outcome is answered with %d", status)
	}
}

// The vendor is not called for a reservation that is elsewhere, or while that cannot be found
// out; the second factor is not used up for it either, and its audit says that nothing was done.
func TestLockActsHere(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 17, 10, 0, 0, 0, time.UTC)
	for _, action := range lock.LockActions() {
		for _, tc := range []struct {
			property bff.ID
			away     error
			want     bff.Code
		}{
			{bff.NewID(bff.PrefixProperty, now), nil, bff.CodeResourceNotFound},
			{bff.ID{}, bff.Errorf(bff.CodeResourceNotFound, "of another tenant"), bff.CodeResourceNotFound},
			{bff.ID{}, &bff.Error{Code: bff.CodeUpstreamUnavailable}, bff.CodeUpstreamUnavailable},
			{bff.ID{}, bff.Errorf(bff.CodeUpstreamTimeout, "late"), bff.CodeUpstreamUnavailable},
		} {
			d := &lockDesk{property: tc.property, away: tc.away}
			v, r := lockVisit(d, now)
			r.Order.Action = action
			locks := lock.NewLocks(lock.LocksConfig{
				Integration: d, Resources: d, Mutations: d, Attestations: d, News: backoffice.NewEnvelopes("test"), Now: func() time.Time { return now },
			})
			_, _, err := locks.Act(t.Context(), v, r, now)
			if bff.CodeOf(err) != tc.want || d.calls > 0 || d.attestation.UsedFor != "" || len(d.finished) != 1 || d.finished[0].Outcome != backoffice.Failed ||
				settlementOf(d.finished[0]).State != lock.LockRefused {
				t.Errorf("%s with %v: %v, %d calls, finished %+v", action, tc.away, err, d.calls, d.finished)
			}
		}
	}
}
