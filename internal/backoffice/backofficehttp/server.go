// Package backofficehttp is the staff service's HTTP surface. It reads requests, asks
// the domain and writes answers. Who sent a request, and that it may, it is told by a
// [backoffice.Visit].
package backofficehttp

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/action"
	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/backoffice/inbox"
	"melmastoon.ghasi.io/bff/internal/backoffice/lock"
	"melmastoon.ghasi.io/bff/internal/backoffice/stream"
	"melmastoon.ghasi.io/bff/internal/issuer"
	"melmastoon.ghasi.io/bff/internal/memo"
	"melmastoon.ghasi.io/bff/internal/web"
)

// Config is what the API works with.
type Config struct {
	Access       *identity.Access
	Activities   audit.Activities
	Attestations backoffice.Attestations
	Streams      *stream.Streams
	Flags        *identity.Flags
	IAM          identity.IAM
	Devices      *device.Devices
	Properties   board.Properties
	Hotels       backoffice.Lists[[]board.Property]  // the properties of tenants
	Names        backoffice.Lists[map[string]string] // of operators, by their ids
	Patience     time.Duration                       // of answers that can do without a list; a quarter of a second unless said
	Inboxes      *inbox.Inboxes
	InboxActions *inbox.Actions
	Proxy        *action.Proxy
	Replays      *action.Replays
	Settings     *device.Settings
	Locks        *lock.Locks
	Shortcuts    device.ShortcutMaps
	Sync         *device.Sync
	SyncBaseURL  string         // where devices reach sync-service
	Tokens       *issuer.Tokens // verifies what iam gives out
	Calendar     *board.Calendar
	Turns        *board.Turns
	Dashboards   *Dashboards
	Views        *Views
	Viewings     *board.Viewings
	Background   *web.Background // takes reports of viewings
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
	unreported   prometheus.Counter     // viewings
	slow         prometheus.Counter     // streams that were cut
	firstEvent   prometheus.Histogram   // of streams
	locks        *lockCount
	taken        *memo.Memo[[2]bff.ID, time.Time] // packs, by session and property: their last entry in the ledger
}

// New returns the API.
func New(cfg Config) *API {
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: cfg.Namespace, Name: name, Help: help}, []string{label})
	}
	a := &API{
		cfg: cfg, taken: memo.New[[2]bff.ID, time.Time](maxTaken),
		attestations: counter("mfa_attestation_total", "Second factors that were asked for, by outcome.", "outcome"),
		heartbeats:   counter("device_heartbeat_total", "Heartbeats of devices, by the status that was answered; unknown = not recorded.", "status"),
	}
	a.unreported = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: cfg.Namespace, Name: "viewing_lost_total", Help: "Reports of what operators looked at that could not be recorded.",
	})
	a.locks = newLockCount(cfg.Namespace)
	cfg.Metrics.MustRegister(a.attestations, a.heartbeats, a.unreported, a.locks.total)
	// All series are there from the start: the first failure counts as an increase.
	for _, o := range outcomes() {
		a.attestations.WithLabelValues(o)
	}
	for _, s := range []device.Status{device.DeviceOnline, device.DeviceUnknown} {
		a.heartbeats.WithLabelValues(string(s))
	}
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

// today returns the request's property on the day that its clocks show, and its zone for
// other days.
func (a *API) today(r *http.Request) (board.Place, board.Zone, error) {
	v := visitOf(r)
	at, zone, err := a.cfg.Calendar.Today(r.Context(), v.Caller.Tenant, v.Property, now(r))
	if err == nil {
		a.cfg.Turns.Watch(at)
	}
	return at, zone, err
}

// tagOf is a strong ETag of a body for one operator: another's says nothing about it,
// not even that both see the same.
func tagOf(v *backoffice.Visit, body []byte) string {
	h := sha256.New()
	_, _ = h.Write([]byte(v.Session.Tenant.String() + " " + v.Session.Operator + "\n")) // a hash takes everything
	_, _ = h.Write(body)
	return `"` + hex.EncodeToString(h.Sum(nil)[:12]) + `"`
}

// answerTagged writes JSON that belongs to one operator, or 304 if the client has it
// already. The client may keep it, and asks each time whether it has changed.
func answerTagged(w http.ResponseWriter, r *http.Request, etag string, body []byte) error {
	h := w.Header()
	h["Etag"] = []string{etag}
	h["Cache-Control"] = []string{"private, no-cache"}
	if r.Method == http.MethodGet && tagged(r.Header["If-None-Match"], etag) {
		h["X-Content-Type-Options"] = []string{"nosniff"}
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return web.WriteBytes(w, http.StatusOK, body)
}

// tagged reports whether a tag is in If-None-Match, whose comparison is weak (RFC 9110
// §13.1.2).
func tagged(lines []string, etag string) bool {
	for _, line := range lines {
		for given := range strings.SplitSeq(line, ",") {
			given = strings.TrimSpace(given)
			if given == "*" || strings.TrimPrefix(given, "W/") == etag {
				return true
			}
		}
	}
	return false
}
