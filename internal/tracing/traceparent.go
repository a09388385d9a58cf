package tracing

import (
	"bytes"
	"context"
	"encoding/hex"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// traceparentLength is that of a traceparent of version 00.
const traceparentLength = len("00-tttttttttttttttttttttttttttttttt-ssssssssssssssss-ff")

// Parse reads a W3C traceparent. An unreadable one is a SpanContext that is not
// valid. There is no tracestate: it is text that a stranger chooses, and would be
// kept with our spans.
func Parse(traceparent string) trace.SpanContext {
	if traceparent == "" {
		return trace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceparent})
	return trace.SpanContextFromContext(ctx)
}

// AppendTraceparent appends the W3C header of a span.
func AppendTraceparent(b []byte, sc trace.SpanContext) []byte {
	traceID, spanID := sc.TraceID(), sc.SpanID()
	b = append(b, "00-"...)
	b = append(hex.AppendEncode(b, traceID[:]), '-')
	b = append(hex.AppendEncode(b, spanID[:]), '-')
	return hex.AppendEncode(b, []byte{byte(sc.TraceFlags())})
}

var traceID = []byte(`"traceId"`)

// OfEnvelope returns the span that caused an event, from the member traceId of its
// envelope. It looks for the first member of that name instead of decoding: an
// envelope begins with its own members, and a wrong link does no harm.
func OfEnvelope(event []byte) trace.SpanContext {
	_, rest, found := bytes.Cut(event, traceID)
	if !found {
		return trace.SpanContext{}
	}
	rest = bytes.TrimLeft(rest, " :\n\t")
	if len(rest) < traceparentLength+2 || rest[0] != '"' || rest[traceparentLength+1] != '"' {
		return trace.SpanContext{}
	}
	return Parse(string(rest[1 : traceparentLength+1]))
}
