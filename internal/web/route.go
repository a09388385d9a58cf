package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
)

// Kind is what a route does. It decides how a service guards the route: a
// client that may read a cached answer may still be refused a change.
type Kind string

// The kinds there are. The zero Kind is none of them, and no server mounts it.
const (
	PublicRead  Kind = "public read"  // the same answer for every client; a cache may give it
	PrivateRead Kind = "private read" // reads what belongs to one session
	Change      Kind = "change"       // writes what belongs to one session
	Telemetry   Kind = "telemetry"    // takes what a page reports by itself
	Challenge   Kind = "challenge"    // lets a refused client prove itself: answered whatever the verdict on it
	Internal    Kind = "internal"     // for other services, on a listener of its own
)

// Limit names a rate-limit class: routes of one class share a client's limit.
type Limit string

// Gate names a load gate: routes of one gate share its places.
type Gate string

// NoBody is the Body of a route whose method could have one and that reads none.
const NoBody = -1

// Route is one row of a service's route table: everything that is said of a
// pattern is said here, and a Server refuses a row that leaves something out.
type Route struct {
	Pattern string // a method and a path, as http.ServeMux has them
	Handle  Handler
	Kind    Kind
	// Budget is the longest time that an answer may take.
	Budget time.Duration
	// Body is the most bytes of a body that are read, or NoBody; zero for methods
	// that have none.
	Body int64
	// Limit and Gate are required of every route but an internal one.
	Limit Limit
	Gate  Gate

	// Needs is what the service's own guard demands of a caller, in the service's own
	// words; nil = nothing beyond the kind.
	Needs any

	// Repeats: one action of a user causes many requests, such as typing or
	// dragging a map.
	Repeats bool
	// CDN: a CDN keeps the answer, which must therefore say nothing of one client.
	CDN bool
	// KeepsAnswers: the answer to a change is kept under its idempotency key, and
	// a repeated request gets it again.
	KeepsAnswers bool
	// Previews: people share links to this page, and programs fetch them for a
	// preview.
	Previews bool
}

// Method is the method of the pattern.
func (rt *Route) Method() string {
	method, _, _ := strings.Cut(rt.Pattern, " ")
	return method
}

// validate reports everything that the row leaves out or contradicts; longest is
// the server's budget.
func (rt *Route) validate(longest time.Duration) error {
	var errs []error
	refuse := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	method, path, ok := strings.Cut(rt.Pattern, " ")
	refuse(!ok || method != safeMethod(method) || !strings.HasPrefix(path, "/"), "pattern: want a method and a path")
	refuse(rt.Handle == nil, "handle: missing")
	refuse(rt.Budget <= 0, "budget: missing")
	refuse(rt.Budget > longest, "budget: %v is longer than the server's %v", rt.Budget, longest)

	hasBody := method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
	refuse(hasBody && rt.Body == 0, "body: missing: want a number of bytes or NoBody")
	refuse(!hasBody && rt.Body != 0 || rt.Body < NoBody, "body: %d does not fit %s", rt.Body, method)

	reads := method == http.MethodGet || method == http.MethodHead
	switch rt.Kind {
	case PublicRead:
		// A long question travels in the body of a POST.
		refuse(!reads && method != http.MethodPost, "kind: %s is no method of a %s", method, rt.Kind)
	case PrivateRead, Challenge:
		refuse(!reads, "kind: %s is no method of a %s", method, rt.Kind)
	case Change, Telemetry:
		refuse(reads, "kind: %s is no method of a %s", method, rt.Kind)
	case Internal:
	default:
		refuse(true, "kind: %q: want a kind: what is not classified is not served", rt.Kind)
	}
	refuse(rt.Kind != Internal && rt.Limit == "", "limit: missing")
	refuse(rt.Kind != Internal && rt.Gate == "", "gate: missing")
	refuse(rt.Kind == Internal && rt.Limit != "", "limit: an internal route has none")
	refuse(rt.Kind != Change && rt.KeepsAnswers, "only the answer to a change is kept")
	refuse(rt.Kind != PublicRead && (rt.CDN || rt.Previews), "only a public read is kept by a CDN or fetched for previews")
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("route %q: %w", rt.Pattern, err)
	}
	return nil
}

// route is a Route that is mounted, with its own series of the metrics.
type route struct {
	name     string
	tail     string // the wildcard that is the last segment, if there is no other
	handle   Handler
	budget   time.Duration
	body     int64
	question bool
	internal bool
	metrics  *routeMetrics
}

// check refuses what no handler should see: a change that a page of another site
// makes, and a body that does not say that it is JSON. Forms and scripts of other
// sites can send every other body without asking first.
func (rt *route) check(w *response, r *http.Request) error {
	if !changes(r.Method) {
		return nil
	}
	if !rt.internal && !w.shared {
		if err := checkSite(r); err != nil {
			return err
		}
	}
	if r.ContentLength != 0 && !isJSON(Header(r.Header, "Content-Type")) {
		return bff.Errorf(bff.CodeUnsupportedMediaType, "a body must have the content type application/json")
	}
	return nil
}

// Mount adds routes, before the first request. It reports everything that is
// wrong with them, and then adds none.
func (s *Server) Mount(routes ...Route) error {
	var errs []error
	for i := range routes {
		errs = append(errs, routes[i].validate(s.cfg.Budget))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i := range routes {
		errs = append(errs, s.mount(&routes[i]))
	}
	return errors.Join(errs...)
}

// mount adds one route. A pattern that another one contradicts, or repeats, is an
// error: http.ServeMux panics with it.
func (s *Server) mount(rt *Route) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("route %q: %v", rt.Pattern, p)
		}
	}()
	added := &route{
		name: rt.Pattern, handle: rt.Handle, budget: rt.Budget, body: max(rt.Body, 0), question: rt.Kind == PublicRead, internal: rt.Kind == Internal,
		metrics: s.metrics.of(rt.Pattern),
	}
	if !added.internal && s.sharing == nil {
		s.sharing = newSharing(s.cfg.Origins, s.cfg.Headers)
	}
	s.mux.HandleFunc(rt.Pattern, func(rw http.ResponseWriter, r *http.Request) {
		if w, ours := rw.(*response); ours { // only ServeHTTP dispatches through the mux
			s.serve(added, w, r)
		}
	})
	s.table.add(rt.Pattern, added)
	return nil
}
