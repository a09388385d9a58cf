// Package web is the edge's way of speaking HTTP: handlers that return errors,
// one problem document for every failure, one log event for every request,
// limits on everything that comes from outside. It knows no hotels.
package web

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/tracing"
)

// Handler answers a request or returns the error that Server turns into a
// problem document. A Handler that has begun to write must not return one.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Config says how a Server behaves.
type Config struct {
	Log     *slog.Logger
	Metrics *prometheus.Registry
	// Namespace is the first part of the metrics' names.
	Namespace string
	// Label is a further label of the counters; nil = none. Servers of one process have
	// the same.
	Label  Label
	Tracer *tracing.Tracer // nil records nothing
	// JoinTraces continues every caller's trace: for a listener that only our own
	// services reach.
	JoinTraces bool
	// TrustedProxies are the only peers whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	// Budget caps a request's time; no route may say more.
	Budget time.Duration
	// Codes are the service's own.
	Codes Codes
	// Origins are the others whose pages may use the routes that are not internal,
	// and Headers those of the service that they may send and read.
	Origins Origins
	Headers Headers
	// Home is where GET / leads; empty = 404. For development: people open a server's
	// address before they know its paths.
	Home string
	// Now is the clock of requests, for tests; nil = the time.
	Now func() time.Time
}

// Server routes requests to Handlers.
type Server struct {
	cfg            Config
	log            slog.Handler
	mux            *http.ServeMux
	table          table
	unmatchedRoute *route // labels the mux's own 404s and 405s
	// sharing is nil while all routes are internal: no browser calls them.
	sharing *sharing
	metrics metrics
	outages outages
}

// NewServer returns a Server without routes.
func NewServer(cfg Config) *Server {
	s := &Server{
		cfg: cfg, log: cfg.Log.Handler(), mux: http.NewServeMux(), table: newTable(), metrics: newMetrics(cfg.Metrics, cfg.Namespace, cfg.Label),
	}
	s.unmatchedRoute = &route{name: "unmatched", metrics: s.metrics.of("unmatched")}
	return s
}

// dispatch has the request's route serve it. A route that the mux finds calls serve.
func (s *Server) dispatch(w *response, r *http.Request) {
	if rt, tail := s.table.find(r); rt != nil {
		w.req.tailName, w.req.tail = rt.tail, tail
		s.serve(rt, w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
	if !w.claimed {
		s.unmatched(w, r)
	}
}

func (s *Server) serve(rt *route, w *response, r *http.Request) {
	w.claimed = true
	w.route = rt
	w.req.MaxBody, w.req.Question = rt.body, rt.question
	w.ctx.deadline = w.began.Add(rt.budget)
	if w.err == nil {
		w.err = rt.check(w, r)
	}
	if w.err == nil {
		w.err = s.call(rt.handle, w, r)
	}
	if w.err != nil {
		w.err = w.fail(s.cfg.Codes, w.err)
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w := &response{ResponseWriter: rw, route: s.unmatchedRoute, began: time.Now()}
	parent := r.Context()
	if s.cfg.Tracer != nil {
		parent, w.req.Span = s.startSpan(r)
		w.detailed = tracing.Detailed(w.req.Span)
	}
	w.ctx.parent, w.ctx.req = parent, &w.req //nolint:fatcontext // the response is this request's own
	*r = *r.WithContext(&w.ctx)              // in place: the copy that it makes otherwise is 5 % of the garbage of a warm answer
	w.req.Start = s.at(w.began)
	var readable bool
	if w.req.ClientIP, readable = clientIP(r, s.cfg.TrustedProxies); !readable {
		s.metrics.unreadable.Inc()
		w.req.Note("forwardedFor", "unreadable")
	}
	w.err = w.req.readID(r)
	w.nameRequest(r)
	if s.sharing != nil {
		w.shared = s.sharing.answer(w.Header(), r)
	}

	s.metrics.inflight.Inc()
	defer s.leave(w)
	s.dispatch(w, r)
	s.finish(w, r)
}

// at is a time of the system's clock, or that of the configured one.
func (s *Server) at(now time.Time) time.Time {
	if s.cfg.Now != nil {
		return s.cfg.Now()
	}
	return now
}

// leave ends what the request began, also if the handler panicked.
func (s *Server) leave(w *response) {
	w.ctx.end()
	s.metrics.inflight.Dec()
	if w.req.Span != nil {
		w.req.Span.End()
	}
}

func (s *Server) call(h Handler, w *response, r *http.Request) (err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares it the same way
			panic(p)
		}
		s.cfg.Log.ErrorContext(r.Context(), "handler panicked: the request is answered with 500",
			"route", w.route.name, "requestId", w.req.name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		err = bff.Wrap(bff.CodeInternal, fmt.Errorf("panic: %v", p))
	}()
	return h(w, r)
}

// unmatched turns the mux's own 404 and 405 into problem documents; its
// redirects to the clean form of a path stay what they are.
func (s *Server) unmatched(w *response, r *http.Request) {
	status := w.status
	w.claimed, w.status = true, 0
	w.Header().Del("Content-Type")
	switch {
	case w.err != nil: // the request id was refused
	case status == http.StatusMethodNotAllowed && s.sharing != nil && isPreflight(r):
		if w.shared {
			s.sharing.preflight(w)
			return
		}
		w.Header().Del("Allow")
		w.err = errOrigin()
	case status == http.StatusMethodNotAllowed: // Allow is set already
		w.err = bff.Errorf(bff.CodeMethodNotAllowed, "this path does not take %s", safeMethod(r.Method))
	case status >= http.StatusMultipleChoices && status < http.StatusBadRequest:
		w.WriteHeader(status)
		return
	case s.cfg.Home != "" && r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		w.Header().Set("Location", s.cfg.Home)
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusFound)
		return
	default:
		w.err = bff.Errorf(bff.CodeResourceNotFound, "there is nothing at this path")
	}
	w.err = w.fail(s.cfg.Codes, w.err)
}

func safeMethod(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return m
	}
	return "this method"
}

// finish records the request once: one log event, one observation, one span.
func (s *Server) finish(w *response, r *http.Request) {
	status, err := w.status, w.err
	if status == 0 {
		status = http.StatusOK
	}
	level, code := slog.LevelInfo, ""
	var (
		alike int
		due   bool
	)
	if err != nil {
		code = string(bff.CodeOf(err))
		if status >= http.StatusInternalServerError {
			level = slog.LevelError
		}
		if status == http.StatusServiceUnavailable {
			if alike, due = s.outages.report(code, time.Now()); !due {
				level = slog.LevelInfo
			}
		}
		if w.ctx.left() {
			status, level, code = statusClientGone, slog.LevelInfo, "client_gone"
		}
	}
	now := s.at(time.Now())
	took := now.Sub(w.req.Start)
	w.route.metrics.observe(&w.req, status, code, took)
	if w.req.Span != nil {
		w.describe(r, status, code)
	}

	if !s.log.Enabled(&w.ctx, level) {
		return
	}
	// Neither the address nor the user agent nor the URL: a query may hold what
	// a guest typed. The record is made by hand, without the line of source:
	// finding that costs as much as writing the event.
	event := slog.NewRecord(now, level, "request", 0)
	event.AddAttrs(
		slog.String("method", safeMethod(r.Method)), slog.String("route", w.route.name),
		slog.Int("status", status), slog.Float64("ms", float64(took.Microseconds())/1000),
		slog.Int64("bytes", w.bytes), slog.String("requestId", w.req.name), slog.String("traceparent", w.req.TraceParent))
	if code != "" {
		event.AddAttrs(slog.String("code", code))
		if level == slog.LevelError {
			event.AddAttrs(slog.String("error", err.Error()))
		}
		if alike > 0 {
			event.AddAttrs(slog.Int("alike", alike))
		}
	}
	event.AddAttrs(w.req.attrs...)
	_ = s.log.Handle(&w.ctx, event) // a log that cannot be written has nowhere to say so
}

// statusClientGone is what logs show for a client that left before its answer.
const statusClientGone = 499
