package web

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"time"

	"go.opentelemetry.io/otel/propagation"
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
	// Local is what a service remembers of the request while it is answered.
	Local any

	name  string // the ID as text
	attrs []slog.Attr
}

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
	given := first(r.Header["X-Request-Id"])
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

// first is what http.Header.Get does for a canonical name.
func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// startSpan continues the caller's trace or begins one.
func startSpan(r *http.Request, tracer trace.Tracer) (context.Context, trace.Span) {
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	return tracer.Start(ctx, "request", trace.WithSpanKind(trace.SpanKindServer)) //nolint:spancheck // the Server ends it when it leaves the request
}

// appendTraceparent appends the W3C header of this service's part of the trace.
// Where nothing records, the caller's own is passed on: a span that is named and
// never written would be a gap in its trace. An unreadable one is ignored, as
// the recommendation says, and then the trace begins here.
func (req *Request) appendTraceparent(b []byte, r *http.Request, span trace.Span) []byte {
	var sc trace.SpanContext
	if span != nil {
		sc = span.SpanContext()
	} else if given := first(r.Header["Traceparent"]); given != "" {
		if isTraceparent(given) {
			return append(b, given...)
		}
		// Of another version, or nonsense: a case for the library.
		ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(r.Header))
		sc = trace.SpanContextFromContext(ctx)
	}
	traceID, spanID := sc.TraceID(), sc.SpanID()
	if !sc.IsValid() {
		// A trace's name must be rare and need not be secret.
		binary.NativeEndian.PutUint64(traceID[:8], rand.Uint64())   //nolint:gosec // see above
		binary.NativeEndian.PutUint64(traceID[8:], rand.Uint64()|1) //nolint:gosec // see above; never all zero
		binary.NativeEndian.PutUint64(spanID[:], rand.Uint64()|1)   //nolint:gosec // see above
	}
	b = append(b, "00-"...)
	b = append(hex.AppendEncode(b, traceID[:]), '-')
	b = append(hex.AppendEncode(b, spanID[:]), '-')
	return hex.AppendEncode(b, []byte{byte(sc.TraceFlags())})
}

// isTraceparent reports whether s is a traceparent of version 00 as we would
// write it ourselves.
func isTraceparent(s string) bool {
	const form = "00-tttttttttttttttttttttttttttttttt-ssssssssssssssss-0f"
	if len(s) != len(form) {
		return false
	}
	var traceBits, spanBits byte
	for i := range len(form) {
		c := s[i]
		switch form[i] {
		case 't':
			traceBits |= c - '0'
		case 's':
			spanBits |= c - '0'
		case 'f': // sampled and random are the flags that version 00 knows
			return c >= '0' && c <= '3' && traceBits != 0 && spanBits != 0
		default:
			if c != form[i] {
				return false
			}
			continue
		}
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return false
}
