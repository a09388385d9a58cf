package web

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"go.opentelemetry.io/otel/trace"

	"melmastoon.ghasi.io/bff"
)

// Request is what the edge knows of a request beyond its bytes.
type Request struct {
	ID          bff.ID
	TraceParent string // the W3C header of this service's part of the trace
	ClientIP    netip.Addr
	Start       time.Time
	// MaxBody is the most bytes of a body that the route reads.
	MaxBody int64
	// Question: the body asks for something and changes nothing.
	Question bool
	// Span is where the request is recorded; nil where it is not.
	Span trace.Span
	// Local is what a service remembers of the request while it is answered.
	Local any

	name           string // the ID as text
	tailName, tail string // of the path's wildcard, if the table found the route
	attrs          []slog.Attr
}

// traceID is the trace's part of the header: version, trace, parent, flags.
func (req *Request) traceID() string { return req.TraceParent[len("00-"):][:32] }

type requestKey struct{}

// From returns the request that a context belongs to; outside one, an empty Request.
func From(ctx context.Context) *Request {
	if req, ok := ctx.Value(requestKey{}).(*Request); ok {
		return req
	}
	return &Request{}
}

// Note adds to the request's one log event. It is for the goroutine that
// answers the request, and never for personal data.
func (req *Request) Note(key string, value any) { req.attrs = append(req.attrs, slog.Any(key, value)) }

func (req *Request) readID(r *http.Request) error {
	given := Header(r.Header, "X-Request-Id")
	if given == "" {
		req.ID = bff.NewID(bff.PrefixRequest, req.Start)
		return nil
	}
	id, err := bff.ParseRequestID(given)
	if err != nil {
		req.ID = bff.NewID(bff.PrefixRequest, req.Start)
		return bff.FieldErrors{{Field: "X-Request-Id", Code: bff.FieldFormat}}.Err()
	}
	req.ID = id
	return nil
}

// Header is http.Header.Get for a name in its canonical form.
func Header(h http.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Asked hears of every member that a handler reads of a body or a query, by its path (dates.checkIn; metadata.* where all members are read),
// whether or not the client sent it, and of the words that it may have. The members of an object that is absent are not read.
type Asked func(path string, words []string)

type askedKey struct{}

// WithAsked returns a context whose requests tell it, for tests that hold handlers to the contract.
func WithAsked(ctx context.Context, asked Asked) context.Context {
	return context.WithValue(ctx, askedKey{}, asked)
}

func askedOf(ctx context.Context) Asked {
	asked, _ := ctx.Value(askedKey{}).(Asked)
	return asked
}
