package backoffice

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"melmastoon.ghasi.io/bff"
)

// Outcome is how an action ended.
type Outcome string

// The outcomes there are.
const (
	Succeeded Outcome = "success"
	Failed    Outcome = "failure"
	// Denied: the operator was not allowed to.
	Denied Outcome = "denied"
	// Unknown: it may have happened or not. What another service carries out is
	// unknown until that service has answered.
	Unknown Outcome = "unknown"
)

// OutcomeOf says how an action ended that an error ended.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Succeeded
	}
	code := bff.CodeOf(err)
	switch code {
	case bff.CodeUpstreamTimeout, bff.CodeLockOutcomeUnknown:
		return Unknown
	}
	switch code.Info().Status {
	case 401, 403:
		return Denied
	}
	return Failed
}

// Activity is an entry of the ledger: who did what to which resource, and how it
// ended. It names resources by their ids and holds nothing personal (DATA_MODEL
// §4.6, §11).
type Activity struct {
	ID       bff.ID // act_…
	Tenant   bff.ID
	Property bff.ID // zero = the action is about no single property
	Operator string
	Device   bff.ID
	Session  bff.ID
	Roles    []string // of the operator, at that moment
	At       time.Time
	Category string // such as session, lock, folio
	Action   string // such as check_in
	Resource Resource
	Outcome  Outcome
	Latency  time.Duration
	Code     bff.Code // why it did not succeed
	// Context is where it was done from: see ContextHash.
	Context string
}

// Resource is what an action is about.
type Resource struct{ Kind, ID string }

// StoredID is the id as the ledger keeps it: what a client has made up instead of an
// id may be anything, and is not kept.
func (r Resource) StoredID() string {
	if !token(r.ID) {
		return "malformed"
	}
	return r.ID
}

// Ended returns the activity with its outcome.
func (a Activity) Ended(err error, now time.Time) Activity {
	a.Outcome, a.Latency = OutcomeOf(err), now.Sub(a.At)
	if err != nil {
		a.Code = bff.CodeOf(err)
	}
	return a
}

// ContextHash is where an action was done from: one hash over the peppered hashes of
// the address and the client, which are all that the session knows of them.
func ContextHash(ipHash, fingerprintHash string) string {
	sum := sha256.Sum256([]byte(ipHash + "|" + fingerprintHash))
	return hex.EncodeToString(sum[:])
}

// Ledger is the record of what operators did, and tried to do.
type Ledger interface {
	// AddActivity returns nil only after the entry is committed, together with the
	// events that tell of it. The caller answers its client after that: an action
	// that cannot be recorded is not taken.
	AddActivity(ctx context.Context, a Activity, events ...bff.Event) error
}
