package cache

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrBusy says that there was nothing to serve and no room to fetch it:
	// too many fills under way, or the limiter refused the last resort.
	ErrBusy = errors.New("cache: busy")
	// ErrNotKept says that [Cache.Kept] found nothing.
	ErrNotKept = errors.New("cache: not kept")
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("cache: closed")
)

// LeaderError is a failure that another process met when it filled the key. Its
// text stays there, where it was logged; the code is what crosses.
type LeaderError struct{ Code string }

func (e *LeaderError) Error() string { return "cache: fill failed in another process: " + e.Code }

// PanicError is what a fill left behind that panicked. Fills run apart from the
// request that asked for them: without this the panic would end the process.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("cache: fill panicked: %v", e.Value) }

// Negative marks err as an answer, such as "there is no such property", and not
// a failure to get one: it is not papered over with a stale entry, which it
// removes, and it is remembered for d by this process and, where the cache is
// shared, by all others.
func Negative(err error, d time.Duration) error { return &negativeError{err: err, hold: d} }

type negativeError struct {
	err  error
	hold time.Duration
}

func (e *negativeError) Error() string { return e.err.Error() }
func (e *negativeError) Unwrap() error { return e.err }

// negativeMark begins the code of an answer, as against a failure.
const negativeMark = "-"

// failureCode is what other processes learn of an error.
func (s *Store) failureCode(err error) string {
	if n, ok := errors.AsType[*negativeError](err); ok {
		return negativeMark + s.encodeError(n.err)
	}
	return s.encodeError(err)
}

// failure is the error that another process's code stands for.
func (s *Store) failure(code string, left time.Duration) error {
	if answer, ok := strings.CutPrefix(code, negativeMark); ok {
		return Negative(s.decodeError(answer), left)
	}
	return s.decodeError(code)
}

// defaultEncodeError names a failure without repeating its text, which may hold
// what must not travel.
func defaultEncodeError(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "timeout"
	}
	return "error"
}

func defaultDecodeError(code string) error {
	if code == "timeout" {
		return fmt.Errorf("%w (%w)", &LeaderError{Code: code}, context.DeadlineExceeded)
	}
	return &LeaderError{Code: code}
}
