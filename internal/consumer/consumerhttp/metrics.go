package consumerhttp

import (
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/web"
)

// counters of what the business asks about.
type counters struct {
	mint    *prometheus.CounterVec
	consume *prometheus.CounterVec
}

func newCounters(reg prometheus.Registerer, namespace string) counters {
	counter := func(name, help string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, []string{"outcome"})
		if reg != nil {
			reg.MustRegister(c)
		}
		c.WithLabelValues(outcomeOK) // there from the start: a rate needs a zero to rise from
		return c
	}
	return counters{
		mint:    counter("handoff_mint_total", "Hand-offs asked for, by outcome."),
		consume: counter("handoff_consume_total", "Hand-offs redeemed, by outcome."),
	}
}

const outcomeOK = "ok"

// counted counts how a handler ended: ok, or the last word of the error's code.
func counted(c *prometheus.CounterVec, next web.Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		err := next(w, r)
		outcome := outcomeOK
		if err != nil {
			code := string(bff.CodeOf(err))
			outcome = strings.ToLower(code[strings.LastIndexByte(code, '.')+1:])
		}
		c.WithLabelValues(outcome).Inc()
		return err
	}
}
