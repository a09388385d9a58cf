package backoffice

import (
	"context"
	"time"

	"melmastoon.ghasi.io/bff"
)

// Visit is an admitted request: who sent it, in which session, with which rights.
type Visit struct {
	Caller  Caller
	Session Session
	Member  *Member
	// Property is the one that the request is about, within the scope; zero if the
	// route needs none.
	Property bff.ID
	// Request is what events say of the request.
	Request Occasion
	// Sent is what the device's clock showed, by the proof: a clock that may be wrong, and
	// is the one that the device makes keys by.
	Sent time.Time
}

// Needs is what a route demands of its caller, beyond being an operator with a
// session.
type Needs struct {
	// Proof alone: the caller has no access token, as at a refresh.
	ProofOnly bool
	// Roles of which the caller has at least one; empty = every operator.
	Roles []Role
	// Property: the request names a property, which is in the caller's scope.
	Property bool
	// OwnProperty: the query may name a property, which is then in the caller's scope.
	// The header X-Property-Id says where the device stands, and is not asked.
	OwnProperty bool
}

// Holder is a caller that has proved to hold a key, and no more: at a refresh the
// access token may be gone.
type Holder struct {
	Device   bff.ID
	KeyPrint string
	Proof    string // as it was sent, for iam to see
	// Vouched charges the request to the device's limit: iam has said whose it is.
	Vouched func(ctx context.Context, tenant string)
}
