package backoffice

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
)

// Once names a mutation: all attempts at it have the same key.
type Once struct {
	Key    string    // the client's, a ULID
	Digest [32]byte  // of method, path and canonical body
	Sent   time.Time // what the clock showed by which the key was made; zero = that is not known
}

const (
	// KeyMemory is how old a key may be to have something done. Services behind need not
	// know keys any longer either.
	KeyMemory = 24 * time.Hour
	// keyAhead is how much younger than its request's proof a key may be: a proof says its
	// time in seconds, and a clock may be set a little while a button is pressed.
	keyAhead = time.Minute
)

// Young reports whether the key was made within the last KeyMemory. Key and proof say
// what the same clock shows, so that it need not be right. That it was set in between
// shows only if it is by more than the key is old: what was done before is for the
// ledger to say.
func (o Once) Young() bool {
	id, err := bff.ParseID(bff.PrefixRequest, string(bff.PrefixRequest)+"_"+o.Key)
	age := o.Sent.Sub(id.Time())
	return err == nil && !o.Sent.IsZero() && age >= -keyAhead && age < KeyMemory
}

// NoTrace is the outcome of a mutation of which the ledger has no entry.
const NoTrace = "none"

// ErrKeyExpired refuses a key that is too old to have something done with it, or was
// used too long ago, and says what is known of it; nil = nothing.
func ErrKeyExpired(known *bff.Known) error {
	e := bff.Errorf(bff.CodeStaffIdempotencyExpired, "this key is too old, and nothing was done now: see what is known of it before you send a new one")
	if e.Known = known; known == nil {
		e.Known = &bff.Known{Outcome: NoTrace}
	}
	return e
}

// Mutations lets what another service carries out happen once, and records every
// attempt at it in the ledger.
type Mutations interface {
	// BeginMutation claims a mutation before the service that carries it out is
	// called: the claim, and the activity with an unknown outcome, are committed when
	// it returns. An attempt that was made before is answered as it was then. An
	// attempt under way is refused, unless it is so old that its process must have
	// died; then the same key lets the service behind answer as it did before. A key that
	// is not young, or was first used longer than KeyMemory ago, and has no answer any more
	// is refused with ErrKeyExpired.
	BeginMutation(ctx context.Context, a Attempt) (Mutation, *Answer, error)
}

// Attempt is one try at a mutation, made when its activity began.
type Attempt struct {
	Activity Activity
	Once     Once
	// Effect is committed with the claim; nil = the activity alone is. One that an
	// earlier attempt with the key has left is read into it: it is a pointer.
	Effect Effect
}

// Effect is what a use case decides and the store commits with its answer: a row, or a
// copy of what another service has. The file of its noun in the store writes it. What
// may be there already says at its type what becomes of the attempt then, and has the
// events that are published only if it was not.
type Effect interface {
	// OfTenant is whose it is. One of another tenant than the attempt's is refused.
	OfTenant() bff.ID
}

// Mutation is a claimed attempt.
type Mutation interface {
	// Finish commits how the attempt ended, all in one transaction. It returns what
	// the client is to be told: this attempt's answer or failure, or the answer of a
	// later attempt that has taken over and was quicker.
	Finish(ctx context.Context, f Finished) (Answer, error)
	// Release gives up an attempt that was not finished. It may always be called.
	Release()
}

// Finished is how an attempt at a mutation ended.
type Finished struct {
	At time.Time
	// Answer is kept for repeated requests, and so is a failure, unless another
	// attempt may end otherwise.
	Answer  Answer
	Failure error // what the client will be told; nil = success with the answer
	// Events are published whatever becomes of the effects.
	Events  []bff.Event
	Effects []Effect
	// Outcome of the activity, where neither answer nor failure says it: an action that
	// was accepted and is not done yet is Unknown. Empty = by the failure.
	Outcome Outcome
	Code    bff.Code // with an Outcome: why it is no success
}

// Commit has a use case happen once: what it decides is committed with its answer, in
// one transaction. It is not asked if an earlier attempt with the key was answered, and
// its own error leaves the attempt to the next one.
func Commit(ctx context.Context, ms Mutations, a Attempt, decide func() (Finished, error)) (Answer, error) {
	m, earlier, err := ms.BeginMutation(ctx, a)
	switch {
	case err != nil:
		return Answer{}, err
	case earlier != nil:
		return *earlier, nil
	}
	defer m.Release()
	f, err := decide()
	if err != nil {
		return Answer{}, err
	}
	return m.Finish(ctx, f)
}

// Answer is what the client is told of a mutation. A repeated request is told the
// same.
type Answer struct {
	Status   int
	Receipt  Receipt
	Replayed bool
}

// Receipt is the body of a mutation's answer, cut down to what may be stored: ids,
// status, version and moments. It holds nothing of a guest.
type Receipt struct{ members map[string]any }

// NewReceipt keeps what may be stored of the members and drops the rest.
func NewReceipt(members map[string]any) Receipt {
	r := Receipt{members: map[string]any{}}
	for name, v := range members {
		if storable(name, v) {
			r.members[name] = v
		}
	}
	return r
}

// MarshalJSON writes the members.
func (r Receipt) MarshalJSON() ([]byte, error) {
	if r.members == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(r.members)
}

// UnmarshalJSON reads members and keeps what may be stored of them.
func (r *Receipt) UnmarshalJSON(b []byte) error {
	var members map[string]any
	if err := json.Unmarshal(b, &members); err != nil {
		return err
	}
	*r = NewReceipt(members)
	return nil
}

// storable accepts members that name a thing, its state or a moment, with values
// that are tokens or numbers: no text that a person has typed.
func storable(name string, v any) bool {
	switch name {
	case "pullCursor", "pushAck": // sync-service's own marks, which mean nothing elsewhere
		text, ok := v.(string)
		return ok && cursor(text)
	case "id", "status", "state", "outcome", "version", "vendor", "reason":
	default:
		if !strings.HasSuffix(name, "Id") && !strings.HasSuffix(name, "At") && !strings.HasSuffix(name, "Version") {
			return false
		}
	}
	switch v := v.(type) {
	case string:
		return IsWord(v)
	case bff.ID, bff.Timestamp, bool, int, int32, int64, float64:
		return true
	}
	return false
}

// maxCursor bounds marks of sync-service.
const maxCursor = 256

// cursor reports whether a text can be a mark of sync-service: printable, without
// spaces.
func cursor(s string) bool {
	if len(s) > maxCursor {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// maxToken bounds ids of other services.
const maxToken = 128

// IsWord reports whether a text is an id, a word of a closed set or a moment.
func IsWord(s string) bool {
	if len(s) > maxToken {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("_-.:+", rune(c)) {
			return false
		}
	}
	return true
}
