package web

import (
	"cmp"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"melmastoon.ghasi.io/bff/internal/tracing"
)

// startSpan begins the request's span if the request is recorded; else the span is
// nil and nothing is allocated.
//
// Whether it is recorded is our decision: a stranger who sends "sampled" with every
// request would otherwise fill our trace store. A stranger's trace is linked to ours
// and not continued, because its ids are whatever the stranger likes, those of
// another client's trace included. A trusted proxy's trace is continued, but not its
// decision, and chance decides instead of the trace's id: most proxies pass on
// the header that their client sent. Callers on an internal listener
// are our own services; there the id decides, as it does for them.
func (s *Server) startSpan(r *http.Request) (context.Context, trace.Span) {
	ctx, t := r.Context(), s.cfg.Tracer
	if s.cfg.JoinTraces {
		if caller := tracing.Parse(Header(r.Header, "Traceparent")); caller.IsValid() {
			if !t.Agrees(caller.TraceID()) {
				return ctx, nil
			}
			return t.Join(ctx, caller, unnamed, trace.SpanKindServer)
		}
	}
	if !t.Draw() {
		return ctx, nil
	}
	caller := tracing.Parse(Header(r.Header, "Traceparent"))
	if caller.IsValid() && trustedPeer(r, s.cfg.TrustedProxies) {
		return t.Join(ctx, caller, unnamed, trace.SpanKindServer)
	}
	return t.Begin(ctx, unnamed, trace.SpanKindServer, caller)
}

// unnamed is a span's name until its route is known.
const unnamed = "request"

func trustedPeer(r *http.Request, trusted []netip.Prefix) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && within(peer.Addr().Unmap().WithZone(""), trusted)
}

// describe names the span by its route and says how the request ended. The path
// and its query are left out: they hold ids and what a guest typed.
func (w *response) describe(r *http.Request, status int, code string) {
	about := append(make([]attribute.KeyValue, 0, 8),
		attribute.String("http.request.method", safeMethod(r.Method)), attribute.Int("http.response.status_code", status))
	if _, path, matched := strings.Cut(w.route.name, " "); matched {
		about = append(about, attribute.String("http.route", path))
	}
	if code != "" && status < http.StatusInternalServerError {
		about = append(about, attribute.String("error.type", code))
	}
	if w.detailed != nil {
		about = w.detail(about, r)
	}
	tracing.Describe(w.req.Span, w.route.name, about...)
	if status >= http.StatusInternalServerError {
		tracing.Fail(w.req.Span, cmp.Or(code, strconv.Itoa(status)))
	}
}

// maxMissing bounds what is noted of a stream that goes on without some part.
const maxMissing = 32

// detail adds what tells the request from all others, for development.
func (w *response) detail(about []attribute.KeyValue, r *http.Request) []attribute.KeyValue {
	about = append(about, attribute.String("request.id", w.req.name), attribute.String("url.target", r.URL.RequestURI()))
	for _, h := range [...][2]string{{"answer.result", "X-Cache"}, {"answer.brownout", "X-Brownout"}} {
		if said := Header(w.Header(), h[1]); said != "" {
			about = append(about, attribute.String(h[0], said))
		}
	}
	if len(w.missing) > 0 {
		about = append(about, attribute.StringSlice(tracing.MissingKey, w.missing))
	}
	for _, note := range w.req.attrs {
		about = append(about, attribute.String("note."+note.Key, note.Value.String()))
	}
	return about
}

// appendTraceparent appends the W3C header of this service's part of the trace. Its
// flag says whether the request is recorded here, whatever the caller's said: it goes
// on to upstreams and into events, which decide by it.
//
// Where nothing records, the caller's ids are passed on: a span that is named and
// never written would be a gap in its trace. An unreadable header is ignored, as
// the recommendation says, and then the trace begins here.
func (req *Request) appendTraceparent(b []byte, r *http.Request) []byte {
	if req.Span != nil {
		return tracing.AppendTraceparent(b, req.Span.SpanContext())
	}
	given := Header(r.Header, "Traceparent")
	if isTraceparent(given) {
		b = append(b, given...)
		b[len(b)-1] &^= byte(trace.FlagsSampled) // a digit's lowest bit is its value's
		return b
	}
	// Of another version, or nonsense: a case for the library.
	sc := tracing.Parse(given)
	if !sc.IsValid() {
		sc = newSpanContext()
	}
	return tracing.AppendTraceparent(b, sc.WithTraceFlags(sc.TraceFlags()&^trace.FlagsSampled))
}

// newSpanContext names a trace that is not recorded. The name must be rare and need
// not be secret.
func newSpanContext() trace.SpanContext {
	var c trace.SpanContextConfig
	binary.NativeEndian.PutUint64(c.TraceID[:8], rand.Uint64())   //nolint:gosec // see above
	binary.NativeEndian.PutUint64(c.TraceID[8:], rand.Uint64()|1) //nolint:gosec // see above; never all zero
	binary.NativeEndian.PutUint64(c.SpanID[:], rand.Uint64()|1)   //nolint:gosec // see above
	return trace.NewSpanContext(c)
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
