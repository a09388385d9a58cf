package backofficehttp

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/stream"
	"melmastoon.ghasi.io/bff/internal/sse"
)

const (
	maxEventID = 64
	// retryOff is when an app asks again for a stream after they were switched off.
	retryOff = time.Minute
)

// stream opens the device's stream of events.
func (a *API) stream(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet { // a mux takes HEAD for GET, and a stream has no head alone
		w.Header().Set("Allow", http.MethodGet)
		return bff.Errorf(bff.CodeMethodNotAllowed, "a stream is opened with GET")
	}
	last := r.Header["Last-Event-Id"]
	if len(last) > 1 || len(last) == 1 && len(last[0]) > maxEventID {
		return bff.FieldErrors{{Field: "Last-Event-ID", Code: bff.FieldLength}}.Err()
	}
	position := ""
	if len(last) == 1 {
		position = last[0]
	}
	v := visitOf(r)
	if !a.cfg.Flags.On(backoffice.FeatureStream, v.Member) {
		return &bff.Error{
			Code: bff.CodeServiceUnavailable, Detail: "streams are switched off: poll /alerts and /ai/suggestions", RetryAfter: retryOff,
		}
	}
	s, err := a.cfg.Streams.Open(r.Context(), v, position, now(r))
	if err != nil {
		return err
	}
	h := w.Header()
	h["Cache-Control"] = []string{"private, no-store"}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	conn, err := sse.Accept(w, r, func(slow bool) {
		if slow {
			a.slow.Inc()
		}
		s.Gone()
	})
	if err != nil {
		s.Cancel()
		return nil //nolint:nilerr // the client has left
	}
	s.Start(outlet{conn, a.pushed})
	a.firstEvent.Observe(time.Since(now(r)).Seconds())
	conn.Wait()
	return nil
}

// reauth lets the device's stream go on with the token that the request carries.
func (a *API) reauth(w http.ResponseWriter, r *http.Request) error {
	if err := a.cfg.Streams.Reauth(r.Context(), visitOf(r)); err != nil {
		return err
	}
	w.Header()["Cache-Control"] = []string{"private, no-store"}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// outlet is a connection, as the domain knows it.
type outlet struct {
	conn   *sse.Conn
	pushed *prometheus.CounterVec
}

// Send implements stream.Sink.
func (o outlet) Send(frames ...stream.Frame) { o.conn.Send(o.events(frames)...) }

// End implements stream.Sink.
func (o outlet) End(frames ...stream.Frame) { o.conn.End(o.events(frames)...) }

func (o outlet) events(frames []stream.Frame) []sse.Event {
	events := make([]sse.Event, len(frames))
	for i, f := range frames {
		events[i] = sse.Event{Name: f.Event, Data: f.Data, Retry: f.Retry}
		if f.ID != (stream.EventID{}) {
			events[i].ID = f.ID.String()
		}
		o.pushed.WithLabelValues(f.Event).Inc()
	}
	return events
}

// streamMetrics are those of the streams. All series are there from the start, so that
// the first of a kind counts as an increase.
func (a *API) streamMetrics() {
	a.pushed = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: a.cfg.Namespace, Name: "sse_events_pushed_total", Help: "Events that were sent to streams, by their name.",
	}, []string{"event"})
	for _, name := range stream.FrameNames() {
		a.pushed.WithLabelValues(name)
	}
	a.slow = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: a.cfg.Namespace, Name: "sse_slow_consumers_total", Help: "Streams that were cut because their client did not read.",
	})
	a.firstEvent = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: a.cfg.Namespace, Name: "sse_first_event_seconds", Help: "Time from a request for a stream to its first event.", Buckets: firstBuckets(),
	})
	counts := func() stream.Counts {
		if a.cfg.Streams == nil {
			return stream.Counts{}
		}
		return a.cfg.Streams.Counts()
	}
	counter := func(name, help string, value func() uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: a.cfg.Namespace, Name: name, Help: help}, func() float64 { return float64(value()) })
	}
	a.cfg.Metrics.MustRegister(a.pushed, a.slow, a.firstEvent,
		counter("sse_full_total", "Streams that were refused because the instance had no room.", func() uint64 { return counts().Full }),
		counter("sse_late_logouts_total", "Streams whose session had ended without their being told; the comparison with the session tier ended them.",
			func() uint64 { return counts().Late }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: a.cfg.Namespace, Name: "sse_active_connections", Help: "Open streams.",
		}, func() float64 {
			if a.cfg.Streams == nil {
				return 0
			}
			return float64(a.cfg.Streams.Len())
		}))
}

// firstBuckets are those of times to a first byte; 200 ms is their objective.
func firstBuckets() []float64 { return []float64{.005, .01, .025, .05, .1, .2, .4, .8, 1.5, 3} }
