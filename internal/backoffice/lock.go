package backoffice

import (
	"time"

	"melmastoon.ghasi.io/bff"
)

// LockAction is what lock-integration is asked to do with the key of a reservation.
type LockAction string

// The actions there are.
const (
	IssueKey  LockAction = "issue"
	RevokeKey LockAction = "revoke"
	RebindKey LockAction = "rebind"
	ExtendKey LockAction = "extend"
)

// LockActions lists every action.
func LockActions() []LockAction { return []LockAction{IssueKey, RevokeKey, RebindKey, ExtendKey} }

// LockState is what became of a lock action.
type LockState string

// The states there are.
const (
	// LockUnknown: lock-integration was or will be called and has not answered.
	LockUnknown LockState = "unknown"
	// LockPending: the vendor has taken it and has yet to say how it ended.
	LockPending LockState = "pending"
	LockIssued  LockState = "issued"
	LockRevoked LockState = "revoked"
	// LockFailed: it did not happen, and will not.
	LockFailed LockState = "failed"
	// LockRefused: lock-integration was never called. Another attempt with the same
	// key is another row.
	LockRefused LockState = "refused"
)

// Settled reports whether the state is final.
func (s LockState) Settled() bool { return s != LockUnknown && s != LockPending }

// LockAudit is the row of a lock action in the regulated audit (DATA_MODEL §4.9). It
// is committed before lock-integration is called, as a failure whose outcome is
// unknown, and settled once. Tenant, property, operator, device and moment are those
// of the attempt's activity.
type LockAudit struct {
	ID          bff.ID // lap_…
	Action      LockAction
	Reservation bff.ID
	Request     string // the key of the action at lock-integration
	Attestation string // mfa_… that the request names; may be empty

	// LockResult is the row's: of a new one, that the outcome is unknown.
	LockResult
}

// LockResult is what became of a lock action.
type LockResult struct {
	State      LockState
	Vendor     string
	Credential string // lock-integration's id of the key; may be empty
	// Reason is why it failed: the vendor's word, or a code of ours.
	Reason  string
	Latency time.Duration // of the call
}

// Outcome is how the activity ended.
func (r LockResult) Outcome() Outcome {
	switch r.State {
	case LockIssued, LockRevoked:
		return Succeeded
	case LockFailed:
		return Failed
	case LockRefused:
		return OutcomeOf(&bff.Error{Code: bff.Code(r.Reason)})
	}
	return Unknown
}
