// Package tracingtest records spans in memory; only tests import it.
package tracingtest

import (
	"slices"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"melmastoon.ghasi.io/bff/internal/tracing"
)

// Spans are what a tracer has recorded.
type Spans struct{ *tracetest.SpanRecorder }

// New returns a tracer that records a share of what it is asked about in memory.
func New(share float64) (*tracing.Tracer, Spans) {
	spans := Spans{tracetest.NewSpanRecorder()}
	return tracing.Over(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans), sdktrace.WithSampler(sdktrace.AlwaysSample())), share), spans
}

// Lines are the ended spans, each with everything that it would tell a reader of
// traces, in the order in which they ended.
func (s Spans) Lines() []string {
	var lines []string
	for _, span := range s.Ended() {
		lines = append(lines, Line(span))
	}
	return lines
}

// Line is a span's name, its status if it failed and its attributes in alphabetical
// order.
func Line(span sdktrace.ReadOnlySpan) string {
	var attributes []string
	for _, a := range span.Attributes() {
		attributes = append(attributes, string(a.Key)+"="+a.Value.String())
	}
	slices.Sort(attributes)
	return strings.Join(append([]string{span.Name() + ":"}, attributes...), " ")
}
