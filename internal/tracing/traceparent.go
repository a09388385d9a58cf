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

// Cause returns the span that caused an event, from the member traceId of its
// envelope. It looks for the first member of that name instead of decoding: an
// envelope stands before its payload, and a wrong link does no harm.
func Cause(event []byte) trace.SpanContext { return Parse(string(causeOf(event))) }

// RecordedCause is Cause for events of this service: it leaves out spans that were
// not recorded, without reading them further.
func RecordedCause(event []byte) trace.SpanContext {
	cause := causeOf(event)
	if len(cause) == 0 || cause[len(cause)-1]&byte(trace.FlagsSampled) == 0 { // a digit's lowest bit is its value's
		return trace.SpanContext{}
	}
	return Parse(string(cause))
}

// causeOf finds what should be a traceparent.
func causeOf(event []byte) []byte {
	_, rest, found := bytes.Cut(event, traceID)
	if !found {
		return nil
	}
	rest = bytes.TrimLeft(rest, " :\n\t")
	if len(rest) < traceparentLength+2 || rest[0] != '"' || rest[traceparentLength+1] != '"' {
		return nil
	}
	return rest[1 : traceparentLength+1]
}
