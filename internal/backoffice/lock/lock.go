// Package lock has lock-integration act on the keys of reservations, audits every
// attempt and settles what was left without an outcome.
package lock

import (
	"context"
	"errors"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// Action is what lock-integration is asked to do with the key of a reservation.
type Action string

// The actions there are.
const (
	IssueKey  Action = "issue"
	RevokeKey Action = "revoke"
	RebindKey Action = "rebind"
	ExtendKey Action = "extend"
)

// LockActions lists every action.
func LockActions() []Action { return []Action{IssueKey, RevokeKey, RebindKey, ExtendKey} }

// State is what became of a lock action.
type State string

// The states there are.
const (
	// LockUnknown: lock-integration was or will be called and has not answered.
	LockUnknown State = "unknown"
	// LockPending: the vendor has taken it and has yet to say how it ended.
	LockPending State = "pending"
	LockIssued  State = "issued"
	LockRevoked State = "revoked"
	// LockFailed: it did not happen, and will not.
	LockFailed State = "failed"
	// LockRefused: lock-integration was never called. Another attempt with the same
	// key is another row.
	LockRefused State = "refused"
)

// Settled reports whether the state is final.
func (s State) Settled() bool { return s != LockUnknown && s != LockPending }

// Audit is the row of a lock action in the regulated audit (DATA_MODEL §4.9). It
// is committed before lock-integration is called, as a failure whose outcome is
// unknown, and settled once. Property, operator, device and moment are those of the
// attempt's activity.
type Audit struct {
	ID          bff.ID // lap_…
	Tenant      bff.ID
	Action      Action
	Reservation bff.ID
	Request     string // the key of the action at lock-integration
	Attestation string // mfa_… that the request names; may be empty

	// Result is the row's: of a new one, that the outcome is unknown.
	Result
}

// OfTenant implements backoffice.Effect.
func (a *Audit) OfTenant() bff.ID { return a.Tenant }

// Settlement is what became of a lock action: it is written into the action's row,
// unless that is settled already. Then its events are not published either: they were
// when the row was settled.
type Settlement struct {
	Result

	Tenant bff.ID
	ID     bff.ID // of the row
	// Attempted, if it is not zero, must be when the last attempt began.
	Attempted time.Time
	At        time.Time
	Events    []bff.Event
}

// OfTenant implements backoffice.Effect.
func (s Settlement) OfTenant() bff.ID { return s.Tenant }

// Result is what became of a lock action.
type Result struct {
	State      State
	Vendor     string
	Credential string // lock-integration's id of the key; may be empty
	// Reason is why it failed: the vendor's word, or a code of ours.
	Reason  string
	Latency time.Duration // of the call
}

// Outcome is how the activity ended.
func (r Result) Outcome() backoffice.Outcome {
	switch r.State {
	case LockIssued, LockRevoked:
		return backoffice.Succeeded
	case LockFailed:
		return backoffice.Failed
	case LockRefused:
		return backoffice.OutcomeOf(&bff.Error{Code: bff.Code(r.Reason)})
	}
	return backoffice.Unknown
}

// Order is a lock action that an operator asks for.
type Order struct {
	Tenant      bff.ID
	Property    bff.ID // lock-integration refuses a reservation of another one
	Reservation bff.ID
	Action      Action
	// ValidUntil is the moment up to which a key is extended; zero = the check-out.
	ValidUntil bff.Timestamp
	Request    string // the key of the action
}

// ErrNoLockAction says that lock-integration never received an action.
var ErrNoLockAction = errors.New("lock-integration has no such action")

// Integration is the service that speaks to the vendors of door locks.
type Integration interface {
	// ActOnKey asks for an action, once. The result says what is known of it with an
	// error as well: LockRefused that it was never begun, LockUnknown that it may have
	// been.
	ActOnKey(ctx context.Context, o Order) (Result, error)
	// FindLockAction says what became of an action, or ErrNoLockAction.
	FindLockAction(ctx context.Context, tenant bff.ID, request string) (Result, error)
}

// Locks has lock-integration act on the keys of reservations.
type Locks struct{ cfg LocksConfig }

// LocksConfig is what Locks work with.
type LocksConfig struct {
	Integration  Integration
	Resources    backoffice.Resources // says whose a reservation is
	Mutations    backoffice.Mutations
	Attestations backoffice.Attestations
	News         *backoffice.Envelopes
	Now          func() time.Time
}

// NewLocks returns Locks.
func NewLocks(cfg LocksConfig) *Locks { return &Locks{cfg} }

// Request is one request for a lock action.
type Request struct {
	Order       Order
	Once        backoffice.Once
	Attestation string // of the second factor, as it was sent; may be empty
}

// Act has a lock action done, once per key. What is committed before the call is a
// failure whose outcome is unknown; the outcome is written after it, once. Without an
// outcome the client is told so, and may ask again with the same key: lock-integration
// then answers as it did before.
func (l *Locks) Act(ctx context.Context, v *backoffice.Visit, r Request, now time.Time) (backoffice.Answer, Result, error) {
	audit := &Audit{
		ID: bff.NewID(bff.PrefixLockAudit, now), Tenant: v.Session.Tenant, Action: r.Order.Action, Reservation: r.Order.Reservation, Request: r.Order.Request,
		Result: Result{State: LockUnknown},
	}
	if id, err := bff.ParseID(bff.PrefixMFA, r.Attestation); err == nil && r.Order.Action == RevokeKey {
		audit.Attestation = id.String()
	}
	var (
		own    = audit.ID
		result Result
		done   bool
	)
	attempt := backoffice.Attempt{
		Activity: v.Activity("lock", string(r.Order.Action), backoffice.Resource{Kind: "reservation", ID: r.Order.Reservation.String()}, now),
		Once:     r.Once, Effect: audit,
	}
	answer, err := backoffice.Commit(ctx, l.cfg.Mutations, attempt, func() (backoffice.Finished, error) {
		var failure error
		if result = audit.Result; !result.State.Settled() { // else an earlier attempt was settled without a word to its client
			result, failure = l.call(ctx, v, r, now)
			if result.State == LockRefused && audit.ID != own {
				// An earlier attempt may have reached lock-integration: that this one did not is
				// no answer to what became of it.
				result, failure = audit.Result, lockUnknown(failure)
			}
		}
		done = failure == nil
		return l.finished(v, audit, result, failure)
	})
	if err != nil && done { // it was done, and that could not be recorded
		err = lockUnknown(err)
	}
	return answer, result, err
}

// call asks lock-integration for an action that is allowed.
func (l *Locks) call(ctx context.Context, v *backoffice.Visit, r Request, now time.Time) (Result, error) {
	if err := l.allow(ctx, v, r, now); err != nil {
		return Result{State: LockRefused, Reason: string(bff.CodeOf(err))}, err
	}
	// The call is not the client's: it goes on when the client is gone.
	return l.cfg.Integration.ActOnKey(context.WithoutCancel(ctx), r.Order)
}

// retryReservation is when reservation-service may be asked again.
const retryReservation = 2 * time.Second

// allow asks whose the reservation is, so that no vendor is called for one of another
// property or tenant, and then uses up the second factor that an action needs.
func (l *Locks) allow(ctx context.Context, v *backoffice.Visit, r Request, now time.Time) error {
	stay, _ := backoffice.FindAction(backoffice.CheckIn)
	err := stay.IsHere(ctx, l.cfg.Resources, v, r.Order.Reservation)
	switch {
	case bff.CodeOf(err) == bff.CodeResourceNotFound:
		return err
	case err != nil: // late or away: for the vendor it is the same, and nothing is unknown
		return &bff.Error{
			Code: bff.CodeUpstreamUnavailable, Detail: "it could not be found out whose the reservation is: nothing was done", RetryAfter: retryReservation, Err: err,
		}
	}
	if r.Order.Action != RevokeKey {
		return nil
	}
	use := backoffice.Use{Scope: backoffice.ScopeLockRevoke, Resource: r.Order.Reservation.String(), Once: r.Once}
	return backoffice.ConsumeAttestation(ctx, l.cfg.Attestations, v, r.Attestation, use, now)
}

// finished says how an attempt ended.
func (l *Locks) finished(v *backoffice.Visit, audit *Audit, result Result, failure error) (backoffice.Finished, error) {
	end := backoffice.Finished{At: l.cfg.Now(), Failure: failure, Outcome: result.Outcome(), Code: bff.Code(result.Reason)}
	if failure != nil {
		end.Outcome, end.Code = backoffice.OutcomeOf(failure), bff.CodeOf(failure)
	} else {
		end.Answer = result.answer(audit.ID)
	}
	settled := Settlement{Result: result, Tenant: audit.Tenant, ID: audit.ID, At: end.At}
	if result.State.Settled() && result.State != LockRefused {
		e, err := l.cfg.News.Event(audit.proxied(result, end.At), v.About(v.Property), v.Request, end.At)
		if err != nil {
			return backoffice.Finished{}, err
		}
		settled.Events = []bff.Event{e}
	}
	end.Effects = []backoffice.Effect{settled}
	return end, nil
}

// answer is what the client is told.
func (r Result) answer(audit bff.ID) backoffice.Answer {
	status := 200
	if !r.State.Settled() {
		status = 202
	}
	members := map[string]any{"state": string(r.State), "vendor": r.Vendor, "auditId": audit.String()}
	if r.Credential != "" {
		members["credentialId"] = r.Credential
	}
	if r.State == LockFailed {
		members["reason"] = r.Reason
	}
	return backoffice.Answer{Status: status, Receipt: backoffice.NewReceipt(members)}
}

// lockUnknown codes a failure after which no one can say what happened.
func lockUnknown(cause error) error {
	return &bff.Error{Code: bff.CodeLockOutcomeUnknown, Detail: LockUnknownDetail, Err: cause}
}

// LockUnknownDetail tells a client what to do without an outcome.
const LockUnknownDetail = "it is not known whether this was done: send the same request with the same key to learn it, or wait for the stream; do not send a new one"

// ActionProxied is the payload of lock_action.proxied.v1: one for each action that
// reached lock-integration, when its outcome is known.
type ActionProxied struct {
	AuditID       bff.ID             `json:"auditId"`
	Action        Action             `json:"action"`
	ReservationID bff.ID             `json:"reservationId"`
	Outcome       backoffice.Outcome `json:"outcome"`
	State         State              `json:"state"`
	Vendor        string             `json:"vendor"`
	CredentialID  string             `json:"credentialId,omitempty"`
	Reason        string             `json:"reason,omitempty"`
	SettledAt     bff.Timestamp      `json:"settledAt"`
}

// Subject implements backoffice.Fact.
func (ActionProxied) Subject() backoffice.Subject { return backoffice.SubjectLockActionProxied }

func (a *Audit) proxied(r Result, now time.Time) ActionProxied {
	return ActionProxied{
		AuditID: a.ID, Action: a.Action, ReservationID: a.Reservation, Outcome: r.Outcome(), State: r.State, Vendor: r.Vendor,
		CredentialID: r.Credential, Reason: r.Reason, SettledAt: bff.At(now),
	}
}
