package backoffice

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
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
	if errors.Is(err, ErrOutcomeUnknown) {
		return Unknown
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
	Pressed  time.Time // earlier than At, if it was taken down at a desk without a line; else zero
	Category string    // such as session, lock, folio
	Action   string    // such as check_in
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
	if !IsWord(r.ID) {
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
// the address and the client, which are all that the session knows of them. 128 bits tell
// them apart; every action keeps one for ninety days.
func ContextHash(ipHash, fingerprintHash string) string {
	sum := sha256.Sum256([]byte(ipHash + "|" + fingerprintHash))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// Activity is what the visitor begins to do.
func (v *Visit) Activity(category, action string, r Resource, now time.Time) Activity {
	a := v.Session.Activity(category, action, v.Member, now)
	a.Property, a.Resource, a.Context = v.Property, r, ContextHash(v.Caller.IPHash, v.Caller.FingerprintHash)
	return a
}

// Activity is what happens in a session. Member is nil where it is not the operator
// who acts.
func (s *Session) Activity(category, action string, m *Member, now time.Time) Activity {
	a := Activity{
		ID: bff.NewID(bff.PrefixActivity, now), Tenant: s.Tenant, Operator: s.Operator, Device: s.Device, Session: s.ID,
		At: now, Category: category, Action: action, Resource: Resource{"session", s.ID.String()}, Outcome: Succeeded,
		Context: ContextHash(s.IPHash, s.FingerprintHash),
	}
	if m != nil {
		for _, r := range m.Roles {
			a.Roles = append(a.Roles, string(r))
		}
	}
	return a
}

// recordTimeout caps the commit of a refusal, on the way of its answer.
const recordTimeout = 2 * time.Second

// Refuse records that an operator was not let do something, and returns the refusal
// once that is committed. Without it the request is to be repeated: an attempt that
// leaves no trace must not be told how it ended.
func Refuse(ctx context.Context, j Journal, did Activity, refusal error, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	if err := j.Record(ctx, []Activity{did.Ended(refusal, now)}); err != nil {
		return err
	}
	return refusal
}

// ErrOutcomeUnknown is wrapped by the failure of a call that may have had its effect.
var ErrOutcomeUnknown = errors.New("what was asked for may have been done")
