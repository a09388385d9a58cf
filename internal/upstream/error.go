package upstream

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
)

// Reason says why a call brought nothing. The values are closed: they are
// labels of metrics and part of the answers to clients.
type Reason string

// The reasons.
const (
	Timeout Reason = "timeout" // the upstream used up its own cap
	Failed  Reason = "error"   // it could not be reached, broke off, or answered with a status that is no success
	Breaker Reason = "breaker" // not called: it failed too often just now
	Budget  Reason = "budget"  // the caller had no time left
	Shed    Reason = "shed"    // too many calls under way, here or (429) there
	Garbage Reason = "garbage" // it answered with something that is not what was agreed
)

// Error is a failed call. It holds no URL, no body and no header, so that it
// can be logged as it stands.
type Error struct {
	Upstream string
	Route    string // the pattern, never the path
	Reason   Reason
	// Status is the upstream's HTTP status, 0 if there was none.
	Status int
	// Code is the upstream's own error code of a 4xx, "" if it sent none. Only
	// letters, digits, dots, dashes and underscores: anything else is dropped.
	Code string
	// Detail is one of a few fixed phrases.
	Detail string

	transient bool // another try may well succeed
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("upstream ")
	b.WriteString(e.Upstream)
	b.WriteByte(' ')
	b.WriteString(e.Route)
	b.WriteString(": ")
	b.WriteString(string(e.Reason))
	if e.Status != 0 {
		b.WriteString(", status ")
		b.WriteString(strconv.Itoa(e.Status))
	}
	if e.Code != "" {
		b.WriteString(", code ")
		b.WriteString(e.Code)
	}
	if e.Detail != "" {
		b.WriteString(", ")
		b.WriteString(e.Detail)
	}
	return b.String()
}

// Unwrap lets errors.Is find the deadline. The transport's own error is never
// kept: it quotes the URL.
func (e *Error) Unwrap() error {
	if e.Reason == Timeout || e.Reason == Budget {
		return context.DeadlineExceeded
	}
	return nil
}

// DegradedReason implements bff.Reasoner.
func (e *Error) DegradedReason() string { return string(e.Reason) }

// Refused reports whether the upstream understood the call and declined it: a
// 4xx other than "too many requests".
func (e *Error) Refused() bool {
	return e.Status >= 400 && e.Status < 500 && e.Status != http.StatusTooManyRequests
}

// NotSent reports whether the upstream has certainly seen nothing of the call: it was
// held back here, or there was no connection.
func (e *Error) NotSent() bool {
	return e.Reason == Breaker || e.Reason == Shed && e.Status == 0 || e.Detail == refusedConnection
}

const refusedConnection = "connection refused"

// NotFound reports whether the upstream does not know the thing asked for.
func NotFound(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == http.StatusNotFound
}

// ReasonOf returns the reason in err, "" for nil. A deadline or a cancellation
// from elsewhere is [Budget]; anything else is [Failed].
func ReasonOf(err error) Reason {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return Budget
	}
	return Failed
}
