package web

import (
	"errors"
	"fmt"
	"net/http"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/loadshed"
)

// Gated returns the routes behind the load gates that they name: a gate refuses
// what the process could not serve in time, before anything is spent on it. A
// gate that there is not is an error; without gates the routes stay as they are.
func Gated(gates *loadshed.Shedder, routes []Route) ([]Route, error) {
	if gates == nil {
		return routes, nil
	}
	gated := make([]Route, 0, len(routes))
	var errs []error
	for _, rt := range routes {
		if rt.Gate != "" {
			gate, err := gates.Gate(string(rt.Gate))
			if err != nil {
				errs = append(errs, fmt.Errorf("route %q: %w", rt.Pattern, err))
				continue
			}
			rt.Handle = behindGate(gates, gate, rt.Handle)
		}
		gated = append(gated, rt)
	}
	return gated, errors.Join(errs...)
}

func behindGate(gates *loadshed.Shedder, gate *loadshed.Gate, next Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request) (err error) {
		pass, ok := gate.Admit()
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
