package backoffice

import (
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

// Away gives a failure of the session tier its code: closed, not open.
func Away(err error) error {
	if err == nil {
		return nil
	}
	return &bff.Error{
		Code: bff.CodeServiceUnavailable, Detail: "sessions cannot be checked right now: try again shortly", RetryAfter: retryAway, Err: err,
	}
}

// retryAway is when a client may try again what a store could not do.
const retryAway = 2 * time.Second
