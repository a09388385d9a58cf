package consumerhttp

import (
	"net/http"
	"strings"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/loadshed"
	"melmastoon.ghasi.io/bff/internal/web"
)

// Classes of requests, in the order in which they are served when not all can
// be: a guest on the way to a hotel before one who looks around before what we
// want to know of them.
const (
	classHandoff   = "handoff"
	classHotel     = "hotel"
	classSearch    = "search"
	classTelemetry = "telemetry"
)

// A process certainly can hold roomy requests of a class that wait for the same
// fill: below that many the gates stay open, however slow an upstream is.
const (
	roomy = 1500
	most  = 4000
)

// Classes lists the gates that the surface needs.
func Classes() []loadshed.Class {
	return []loadshed.Class{
		{Name: classHandoff, Rank: 0, Min: roomy, Max: most},
		{Name: classHotel, Rank: 1, Min: roomy, Max: most},
		{Name: classSearch, Rank: 2, Min: roomy, Max: most},
		{Name: classTelemetry, Rank: 3, Min: roomy, Max: most},
	}
}

func classOf(pattern string) string {
	switch {
	case strings.Contains(pattern, "/handoff"), strings.Contains(pattern, "/wishlist"), strings.Contains(pattern, "/session"):
		return classHandoff
	case strings.Contains(pattern, "/hotels"):
		return classHotel
	case strings.Contains(pattern, "/telemetry"):
		return classTelemetry
	}
	return classSearch
}

// gated refuses what the process could not serve in time, before anything is
// spent on it.
func (a *API) gated(pattern string, next web.Handler) web.Handler {
	if a.cfg.Gates == nil {
		return next
	}
	gate, err := a.cfg.Gates.Gate(classOf(pattern))
	if err != nil { // Classes has them all
		panic(err)
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		pass, ok := gate.Admit()
		if !ok {
			return &bff.Error{
				Code: bff.CodeServiceUnavailable, Detail: "too many requests are being answered right now",
				RetryAfter: a.cfg.Gates.RetryAfter(),
			}
		}
		err := next(w, r)
		pass.Leave(err == nil)
		return err
	}
}
