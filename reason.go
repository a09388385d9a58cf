package bff

import (
	"context"
	"errors"
)

// Reason says why a part of an answer is missing or old.
type Reason string

// The closed set of reasons.
const (
	ReasonTimeout Reason = "timeout"
	ReasonError   Reason = "error"
	ReasonBreaker Reason = "breaker"
	ReasonBudget  Reason = "budget"
	ReasonStale   Reason = "stale"
	ReasonShed    Reason = "shed"
)

// Reasoner is an upstream failure that knows its reason.
type Reasoner interface {
	error
	DegradedReason() string
}

// ReasonOf returns why a failure left a part out. One that does not know its reason is a
// timeout if the wait for it ended, and an error otherwise.
func ReasonOf(err error) Reason {
	if r, ok := errors.AsType[Reasoner](err); ok {
		switch got := Reason(r.DegradedReason()); got {
		case ReasonTimeout, ReasonBreaker, ReasonBudget, ReasonShed:
			return got
		}
		return ReasonError
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return ReasonTimeout
	}
	return ReasonError
}
