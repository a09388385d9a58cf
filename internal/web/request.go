package web

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
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
	// Local is what a surface remembers of the request while it is answered.
	Local any

	route string
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
	given := r.Header.Get("X-Request-Id")
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

// startTrace continues the caller's trace or begins one. An unreadable
// traceparent is ignored, as the W3C recommendation says.
func (req *Request) startTrace(r *http.Request, tracer trace.Tracer) (context.Context, trace.Span) {
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := tracer.Start(ctx, "request", trace.WithSpanKind(trace.SpanKindServer))
	sc := span.SpanContext()
	if !sc.IsValid() { // nothing records here and the caller sent no trace: still name one
		var ids [24]byte
		_, _ = rand.Read(ids[:]) // never fails
		req.TraceParent = "00-" + hex.EncodeToString(ids[:16]) + "-" + hex.EncodeToString(ids[16:]) + "-00"
		return ctx, span
	}
	req.TraceParent = "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-" + sc.TraceFlags().String()
	return ctx, span
}

// clientIP returns the address of the client. X-Forwarded-For is read from the
// right and only through proxies we trust: what stands left of the first
// stranger could have been written by anyone.
func clientIP(r *http.Request, trusted []netip.Prefix) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	addr = addr.Unmap().WithZone("")
	if !within(addr, trusted) {
		return addr
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, h := range slices.Backward(hops) {
		hop, err := netip.ParseAddr(strings.TrimSpace(h))
		if err != nil {
			return addr
		}
		addr = hop.Unmap().WithZone("")
		if !within(addr, trusted) {
			return addr
		}
	}
	return addr
}

func within(addr netip.Addr, prefixes []netip.Prefix) bool {
	for _, p := range prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
