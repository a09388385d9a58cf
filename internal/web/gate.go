package web

import (
	"errors"
	"fmt"
	"net/http"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/loadshed"
)

// Guard is what a service demands of its callers, in front of its routes.
type Guard interface {
	Protect(routes []Route) ([]Route, error)
}

// Assemble returns the routes behind the guard, and the guard behind the load gates that
// the routes name. A gate that there is not is an error.
//
// The order is the same in every service: gate, then guard. A gate refuses what could
// not be answered in time, which is our fault and not the caller's: nothing is charged
// to a limit for it, no proof is used up and no session is opened, and the same request can
// be sent again. The price is that strangers take places, too. They have them for as long
// as the guard needs to refuse them, and wait in the line of their own network
// ([loadshed.Gate.Admit]).
func Assemble(routes []Route, gates *loadshed.Shedder, guard Guard) ([]Route, error) {
	guarded, err := guard.Protect(routes)
	errs := []error{err}
	for i := range guarded {
		rt := &guarded[i]
		gate, err := gates.Gate(string(rt.Gate))
		if err != nil {
			errs = append(errs, fmt.Errorf("route %q: %w", rt.Pattern, err))
			continue
		}
		rt.Handle = behindGate(gates, gate, rt.Handle)
	}
	return guarded, errors.Join(errs...)
}

func behindGate(gates *loadshed.Shedder, gate *loadshed.Gate, next Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request) (err error) {
		pass, ok := gate.Admit(r.Context(), From(r.Context()).ClientIP)
		if !ok {
			return &bff.Error{
				Code: bff.CodeServiceUnavailable, Detail: "too many requests are being answered right now: retry later",
				RetryAfter: gates.RetryAfter(),
			}
		}
		answered := false
		// Deferred: a handler that panics gives its place back.
		defer func() { pass.Leave(answered && err == nil) }()
		err = next(w, r)
		answered = true
		return err
	}
}
