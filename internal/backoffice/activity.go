package backoffice

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
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
	if !IsWord(r.ID) {
		return "malformed"
	}
	return r.ID
}

// ParseResource reads which resources are asked for: "kind", "kind:id", or ":id" of
// whatever kind. A kind has no colon.
func ParseResource(s string) (Resource, bool) {
	kind, id, one := strings.Cut(s, ":")
	return Resource{kind, id}, IsWord(kind) && IsWord(id) && one == (id != "") && kind+id != ""
}

// ActivityQuery is what is asked of the ledger; what is zero narrows nothing.
type ActivityQuery struct {
	Property bff.ID
	Resource Resource
	Operator string
	From, To time.Time // From is included, To is not
	Limit    int
	After    ActivityPosition // zero = from the newest
}

// OperatorToken reports whether a text may be an operator's id.
func OperatorToken(s string) bool { return IsWord(s) }

// ActivityPosition is a place in the ledger: behind the activity of that moment and id.
// Neither ever changes, nor does anything that a query asks for, so that no activity
// leaves a list or moves in it.
type ActivityPosition struct {
	At time.Time
	ID bff.ID
}

// ActivityPage is a part of the ledger, the newest first.
type ActivityPage struct {
	Items []Activity
	Next  *ActivityPosition // nil on the last page
}

// Activities reads the ledger.
type Activities interface {
	// ListActivities returns a page of a property's activities. Sessions, devices and
	// whatever else is about no single property are in none.
	ListActivities(ctx context.Context, tenant bff.ID, q ActivityQuery) (ActivityPage, error)
}

// ActivityRoles are those that may read what others did.
func ActivityRoles() []Role { return []Role{GeneralManager, Owner} }

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

// Categories of what this service records by itself.
const (
	categoryRequest = "request" // refused; the action is the route
	categorySession = "session"
	categoryMFA     = "mfa"

	categoryPreferences = "preferences"
	categoryLock        = "lock"
)

// Activity is what the visitor begins to do.
func (v *Visit) Activity(category, action string, r Resource, now time.Time) Activity {
	a := v.Session.activity(category, action, v.Member, now)
	a.Property, a.Resource, a.Context = v.Property, r, ContextHash(v.Caller.IPHash, v.Caller.FingerprintHash)
	return a
}

// activity is what happens in a session. Member is nil where it is not the operator
// who acts.
func (s *Session) activity(category, action string, m *Member, now time.Time) Activity {
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
func (a *Access) Refuse(ctx context.Context, did Activity, refusal error, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	if err := a.journal.Record(ctx, []Activity{did.Ended(refusal, now)}); err != nil {
		return err
	}
	return refusal
}

// RefuseRoute is Refuse for a route that the visitor may not use.
func (a *Access) RefuseRoute(ctx context.Context, v *Visit, route string, refusal error, now time.Time) error {
	return a.Refuse(ctx, v.Activity(categoryRequest, route, Resource{}, now), refusal, now)
}

// RefuseStepUp is Refuse for a second factor that was not given.
func (a *Access) RefuseStepUp(ctx context.Context, v *Visit, use Use, refusal error, now time.Time) error {
	return a.Refuse(ctx, v.Activity(categoryMFA, string(use.Scope), use.resource(), now), refusal, now)
}

func (u Use) resource() Resource { return Resource{ID: u.Resource} }
