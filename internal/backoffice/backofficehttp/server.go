// Package backofficehttp is the staff service's HTTP surface. It reads requests, asks
// the domain and writes answers. Who sent a request, and that it may, it is told by a
// [backoffice.Visit].
package backofficehttp

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/issuer"
	"melmastoon.ghasi.io/bff/internal/web"
)

// Config is what the API works with.
type Config struct {
	Access       *backoffice.Access
	Attestations backoffice.Attestations
	Streams      *backoffice.Streams
	IAM          backoffice.IAM
	Devices      *backoffice.Devices
	Tokens       *issuer.Tokens // verifies what iam gives out
	Dashboards   *Dashboards
	Views        *Views
	Log          *slog.Logger
	Metrics      prometheus.Registerer
	Namespace    string
}

// API answers requests.
type API struct {
	cfg          Config
	attestations *prometheus.CounterVec
	heartbeats   *prometheus.CounterVec
	pushed       *prometheus.CounterVec // events to streams
}

// New returns the API.
func New(cfg Config) *API {
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: cfg.Namespace, Name: name, Help: help}, []string{label})
	}
	a := &API{
		cfg:          cfg,
		attestations: counter("mfa_attestation_total", "Second factors that were asked for, by outcome.", "outcome"),
		heartbeats:   counter("device_heartbeat_total", "Heartbeats of devices, by the status that was answered; unknown = not recorded.", "status"),
	}
	cfg.Metrics.MustRegister(a.attestations, a.heartbeats)
	a.streamMetrics()
	return a
}

// visitOf returns the visit that the guard made of a request. A request that did not
// pass the guard panics, and is answered with 500: nothing is known of its sender.
func visitOf(r *http.Request) *backoffice.Visit {
	v, ok := web.From(r.Context()).Local.(*backoffice.Visit)
	if !ok {
		panic("a request reached its handler without passing the guard")
	}
	return v
}

// now is when the request came.
func now(r *http.Request) time.Time { return web.From(r.Context()).Start }

// answer writes JSON that belongs to one operator.
func answer(w http.ResponseWriter, status int, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Cache-Control"] = []string{"private, no-store"}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	w.WriteHeader(status)
	_, _ = w.Write(b) // the peer has gone
	return nil
}
