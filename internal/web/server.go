// Package web is the edge's way of speaking HTTP: handlers that return errors,
// one problem document for every failure, one log event for every request,
// limits on everything that comes from outside. It knows no hotels.
package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"melmastoon.ghasi.io/bff"
)

// Handler answers a request or returns the error that Server turns into a
// problem document. A Handler that has begun to write must not return one.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Config says how a Server behaves.
type Config struct {
	Log     *slog.Logger
	Metrics *prometheus.Registry
	// Namespace is the first part of the metrics' names, such as bff_consumer.
	Namespace string
	Tracer    trace.Tracer
	// TrustedProxies are the only peers whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	// Budget caps a request's time unless its route says less.
	Budget time.Duration
	Now    func() time.Time
}

// Server routes requests to Handlers.
type Server struct {
	cfg     Config
	mux     *http.ServeMux
	metrics metrics
}

// NewServer returns a Server without routes.
func NewServer(cfg Config) *Server {
	return &Server{cfg: cfg, mux: http.NewServeMux(), metrics: newMetrics(cfg.Metrics, cfg.Namespace)}
}

// Route is one pattern of the API with its handler.
type Route struct {
	Pattern string        // as http.ServeMux has it
	Handle  Handler       //
	Budget  time.Duration // at most this long; zero = the server's
}

// Handle adds a route.
func (s *Server) Handle(rt Route) {
	if rt.Budget == 0 {
		rt.Budget = s.cfg.Budget
	}
	s.mux.HandleFunc(rt.Pattern, func(rw http.ResponseWriter, r *http.Request) {
		w, ours := rw.(*response)
		if !ours { // only ServeHTTP dispatches through the mux
			return
		}
		w.claimed = true
		w.req.route = rt.Pattern
		ctx, cancel := context.WithTimeoutCause(r.Context(), rt.Budget, errBudget)
		defer cancel()
		if w.err == nil {
			w.err = s.call(rt.Handle, w, r.WithContext(ctx))
		}
		if w.err != nil {
			w.err = s.fail(ctx, w, r, w.err)
		}
	})
}

// errBudget is the cause of a context that a route's budget ended.
var errBudget = errors.New("the request's time budget is spent")

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	req := &Request{Start: s.cfg.Now(), ClientIP: clientIP(r, s.cfg.TrustedProxies), route: "unmatched"}
	w := &response{ResponseWriter: rw, req: req}
	w.err = req.readID(r)
	ctx, span := req.startTrace(r, s.cfg.Tracer)
	defer span.End()
	ctx = context.WithValue(ctx, requestKey{}, req)
	w.Header().Set("X-Request-Id", req.ID.ULID())
	w.Header().Set("Traceparent", req.TraceParent)

	s.metrics.inflight.Inc()
	defer s.metrics.inflight.Dec()

	r = r.WithContext(ctx)
	s.mux.ServeHTTP(w, r)
	if !w.claimed {
		s.unmatched(ctx, w, r)
	}
	s.finish(ctx, w, r, span)
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
		s.cfg.Log.ErrorContext(r.Context(), "panic", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		err = bff.Wrap(bff.CodeInternal, fmt.Errorf("panic: %v", p))
	}()
	return h(w, r)
}

// unmatched turns the mux's own 404 and 405 into problem documents; its
// redirects to the clean form of a path stay what they are.
func (s *Server) unmatched(ctx context.Context, w *response, r *http.Request) {
	status := w.status
	w.claimed, w.status = true, 0
	w.Header().Del("Content-Type")
	switch {
	case w.err != nil: // the request id was refused
	case status == http.StatusMethodNotAllowed: // Allow is set already
		w.err = bff.Errorf(bff.CodeMethodNotAllowed, "this path does not take %s", safeMethod(r.Method))
	case status >= http.StatusMultipleChoices && status < http.StatusBadRequest:
		w.WriteHeader(status)
		return
	default:
		w.err = bff.Errorf(bff.CodeResourceNotFound, "there is nothing at this path")
	}
	w.err = s.fail(ctx, w, r, w.err)
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
func (s *Server) finish(ctx context.Context, w *response, r *http.Request, span trace.Span) {
	status, req, err := w.status, w.req, w.err
	if status == 0 {
		status = http.StatusOK
	}
	level, code := slog.LevelInfo, ""
	if err != nil {
		code = string(bff.CodeOf(err))
		if status >= http.StatusInternalServerError {
			level = slog.LevelError
			span.SetStatus(codes.Error, code)
		}
		if clientGone(r) {
			status, level, code = statusClientGone, slog.LevelInfo, "client_gone"
		}
	}
	took := s.cfg.Now().Sub(req.Start)
	s.metrics.observe(req.route, status, code, took)
	span.SetAttributes(attribute.String("http.route", req.route), attribute.Int("http.response.status_code", status))

	if !s.cfg.Log.Enabled(ctx, level) {
		return
	}
	// Neither the address nor the user agent nor the URL: a query may hold what
	// a guest typed.
	attrs := make([]slog.Attr, 0, 8+len(req.attrs))
	attrs = append(attrs,
		slog.String("method", safeMethod(r.Method)), slog.String("route", req.route),
		slog.Int("status", status), slog.Float64("ms", float64(took.Microseconds())/1000),
		slog.Int64("bytes", w.bytes), slog.String("requestId", req.ID.String()), slog.String("traceparent", req.TraceParent))
	if code != "" {
		attrs = append(attrs, slog.String("code", code))
		if level == slog.LevelError {
			attrs = append(attrs, slog.String("error", err.Error()))
		}
	}
	s.cfg.Log.LogAttrs(ctx, level, "request", append(attrs, req.attrs...)...)
}

// statusClientGone is what logs show for a client that left before its answer.
const statusClientGone = 499

func clientGone(r *http.Request) bool { return errors.Is(r.Context().Err(), context.Canceled) }

// response is the ResponseWriter that handlers see. Until one of our routes
// claims the request, what the mux writes by itself is only noted.
type response struct {
	http.ResponseWriter
	req     *Request
	claimed bool
	err     error
	status  int
	bytes   int64
}

func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	if w.claimed {
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if !w.claimed {
		return len(b), nil
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

type metrics struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inflight prometheus.Gauge
	errors   *prometheus.CounterVec
}

func newMetrics(reg *prometheus.Registry, ns string) metrics {
	m := metrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: ns, Name: "request_total", Help: "Requests by route and status.",
		}, []string{"route", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: ns, Name: "request_duration_seconds", Help: "Time from the first byte read to the last written.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, .6, 1.1, 2.5, 5, 25},
		}, []string{"route"}),
		inflight: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: ns, Name: "request_inflight", Help: "Requests being answered now.",
		}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: ns, Name: "errors_total", Help: "Failed requests by code of the error registry.",
		}, []string{"route", "code"}),
	}
	// Two servers of one process (public and internal) share the series.
	m.total = register(reg, m.total)
	m.duration = register(reg, m.duration)
	m.inflight = register(reg, m.inflight)
	m.errors = register(reg, m.errors)
	return m
}

func register[C prometheus.Collector](reg *prometheus.Registry, c C) C {
	if err := reg.Register(c); err != nil {
		if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
			if existing, same := already.ExistingCollector.(C); same {
				return existing
			}
		}
		panic(err) // a wrong metric definition is a programming error, seen at start
	}
	return c
}

func (m metrics) observe(route string, status int, code string, took time.Duration) {
	m.total.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.duration.WithLabelValues(route).Observe(took.Seconds())
	if code != "" {
		m.errors.WithLabelValues(route, code).Inc()
	}
}
