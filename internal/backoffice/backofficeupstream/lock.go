package backofficeupstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/lock"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// Lock is lock-integration-service: it speaks to the vendors of door locks.
type Lock struct{ client *upstream.Client }

var _ lock.Integration = (*Lock)(nil)

const (
	prefixCredential bff.Prefix = "lck"
	// requester names this service to lock-integration, whose events repeat it.
	requester = "bff-backoffice"
)

// keyState is what lock-integration says of an action.
type keyState struct {
	CredentialID  string `json:"credentialId"`
	ReservationID string `json:"reservationId"`
	State         string `json:"state" upstream:"required"`
	Vendor        string `json:"vendor" upstream:"required"`
	Reason        string `json:"reason"`
}

// ActOnKey implements lock.Integration. It is sent once: an action that
// runs twice may lock a guest out.
func (l *Lock) ActOnKey(ctx context.Context, o lock.Order) (lock.Result, error) {
	const route = "/api/v1/reservations/{reservationId}/keys/{action}"
	d := dialectOf(backoffice.UpstreamLock)
	in := struct {
		PropertyID  string         `json:"propertyId"`
		ValidUntil  *bff.Timestamp `json:"validUntil,omitempty"`
		RequestedBy string         `json:"requestedBy"`
	}{PropertyID: d.write(o.Property), RequestedBy: requester}
	if !o.ValidUntil.IsZero() {
		in.ValidUntil = &o.ValidUntil
	}
	var out keyState
	start := time.Now()
	err := l.client.Post(ctx, route, upstream.Path(route, d.write(o.Reservation), string(o.Action)), in, &out, d.of(o.Tenant), upstream.Header(d.key, o.Request))
	took := time.Since(start)
	var result lock.Result
	if err == nil {
		result, err = out.read(o.Action)
		if err == nil && out.ReservationID != "" && out.ReservationID != d.write(o.Reservation) {
			result, err = lock.Result{State: lock.LockUnknown}, errors.New("lock-integration answered about another reservation")
		}
		if err != nil { // it was done, and what it was cannot be read
			err = unknownLock(err)
		}
	} else {
		result, err = declinedLock(err)
	}
	result.Latency = max(took, time.Millisecond)
	return result, err
}

// FindLockAction implements lock.Integration.
func (l *Lock) FindLockAction(ctx context.Context, tenant bff.ID, request string) (lock.Result, error) {
	const route = "/api/v1/requests/{requestKey}"
	var out struct {
		keyState

		Action string `json:"action" upstream:"required"`
	}
	err := l.client.Get(ctx, route, upstream.Path(route, request), nil, &out, dialectOf(backoffice.UpstreamLock).of(tenant))
	if upstream.NotFound(err) {
		return lock.Result{}, lock.ErrNoLockAction
	}
	if err != nil {
		return lock.Result{}, failed(err)
	}
	return out.read(lock.Action(out.Action))
}

// vendorForm is what a vendor's name or reason may be: it is stored, told and counted.
var vendorForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$`)

func word(s string) string {
	if !vendorForm.MatchString(s) {
		return "other"
	}
	return s
}

// read says it in our words. A state that cannot follow from the action is none.
func (k *keyState) read(action lock.Action) (lock.Result, error) {
	r := lock.Result{Vendor: word(k.Vendor)}
	if id, err := bff.IDFromUUID(prefixCredential, k.CredentialID); err == nil { // anything else could be text, and is not kept
		r.Credential = id.String()
	}
	switch state := lock.State(k.State); {
	case state == lock.LockPending,
		state == lock.LockIssued && action != lock.RevokeKey,
		state == lock.LockRevoked && action == lock.RevokeKey:
		r.State = state
	case state == lock.LockFailed:
		r.State, r.Reason = state, word(k.Reason)
	default:
		return lock.Result{State: lock.LockUnknown}, fmt.Errorf("lock-integration says %q of the action %s", word(k.State), action)
	}
	return r, nil
}

func unknownLock(cause error) error {
	return &bff.Error{Code: bff.CodeLockOutcomeUnknown, Detail: lock.LockUnknownDetail, Err: cause}
}

// declinedLock says what a failed call means: that the action was not begun, that it
// did not happen and will not, or nothing at all.
func declinedLock(err error) (lock.Result, error) {
	unknown := lock.Result{State: lock.LockUnknown}
	e, ok := errors.AsType[*upstream.Error](err)
	switch {
	case !ok:
		return unknown, unknownLock(err)
	case e.NotSent(), e.Status == http.StatusTooManyRequests:
		return lock.Result{State: lock.LockRefused, Reason: string(bff.CodeUpstreamUnavailable)},
			&bff.Error{Code: bff.CodeUpstreamUnavailable, Detail: "nothing was done: try again shortly", RetryAfter: retryUpstream, Err: err}
	case e.Status == http.StatusNotFound:
		return refusedLock(bff.CodeResourceNotFound), &bff.Error{Code: bff.CodeResourceNotFound, Detail: "there is no such reservation at this property", Err: err}
	case e.Status == http.StatusBadRequest, e.Status == http.StatusUnprocessableEntity:
		return refusedLock(bff.CodeValidationFailed), &bff.Error{Code: bff.CodeValidationFailed, Detail: "lock-integration refuses this request", Err: err}
	case e.Refused():
		return lock.Result{State: lock.LockFailed, Vendor: "none", Reason: word(e.Code)}, nil
	}
	return unknown, unknownLock(err)
}

// refusedLock: lock-integration has looked at it and does nothing.
func refusedLock(code bff.Code) lock.Result {
	return lock.Result{State: lock.LockFailed, Vendor: "none", Reason: string(code)}
}
