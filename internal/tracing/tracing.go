// Package tracing decides what is recorded as a trace and offers the spans to
// record it with. It knows nothing of what is traced: names and attributes are its
// callers', who put neither personal data nor keys, parameters or URL queries into
// them.
//
// The decision is made once, where work enters the process: a request, a delivery,
// a job. What is not recorded has no span in its context, and everything below asks
// [Of] for one before it does anything else.
package tracing

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Scope is the name under which spans are exported.
const Scope = "melmastoon.ghasi.io/bff"

// Tracer begins the traces of a process. A nil Tracer records nothing.
type Tracer struct {
	recorder *Recorder
	tracer   trace.Tracer // without a recorder
	bound    uint64       // of 2^63: the share of the draws that are recorded
}

// New returns a Tracer that records a share of what it is asked about; nil if
// that is nothing.
func New(recorder *Recorder, share float64) *Tracer {
	if share <= 0 {
		return nil
	}
	bound := uint64(1 << 63)
	if share < 1 {
		bound = uint64(share * math.MaxInt64)
	}
	return &Tracer{recorder: recorder, bound: bound}
}

// Over returns a Tracer whose spans are a provider's, as tests have them. The provider must sample
// everything that it is given.
func Over(provider trace.TracerProvider, share float64) *Tracer {
	t := New(nil, share)
	if t != nil {
		t.tracer = provider.Tracer(Scope)
	}
	return t
}

// Draw decides by chance whether a piece of work is recorded.
func (t *Tracer) Draw() bool {
	return t != nil && rand.Uint64()>>1 < t.bound //nolint:gosec // a share, not a secret
}

// Agrees decides by the id of a trace that another service began. Services with
// the same share then record the same traces, whole ones. It is for callers that
// may decide themselves: an id can be chosen.
func (t *Tracer) Agrees(id trace.TraceID) bool {
	return t != nil && binary.BigEndian.Uint64(id[8:])>>1 < t.bound
}

// Join begins a recorded span of a trace that another service began.
func (t *Tracer) Join(ctx context.Context, parent trace.SpanContext, name string, kind trace.SpanKind) (context.Context, trace.Span) {
	if t.recorder != nil {
		s := t.recorder.start(parent.WithRemote(true), name, kind)
		return Under(ctx, s), s
	}
	return known(t.tracer.Start(trace.ContextWithRemoteSpanContext(ctx, parent), name, trace.WithSpanKind(kind))) //nolint:spancheck // the caller ends it
}

// Begin begins a recorded span with a trace of its own, linked to the spans that
// caused it; those that are not valid are left out.
func (t *Tracer) Begin(ctx context.Context, name string, kind trace.SpanKind, causes ...trace.SpanContext) (context.Context, trace.Span) {
	if t.recorder != nil {
		s := t.recorder.start(trace.SpanContext{}, name, kind, causes...)
		return Under(ctx, s), s
	}
	links := make([]trace.Link, 0, len(causes))
	for _, sc := range causes {
		if sc.IsValid() {
			links = append(links, trace.Link{SpanContext: sc})
		}
	}
	return known(t.tracer.Start(ctx, name, trace.WithNewRoot(), trace.WithSpanKind(kind), trace.WithLinks(links...))) //nolint:spancheck // the caller ends it
}

// Key is that of a context's span. It is our own: a request's context knows its span and
// answers without asking those that it was made of, several times for each request.
type Key struct{}

// Of returns the span that ctx is recorded under, or nil. The span may have ended:
// work goes on after a response, and still belongs to its trace.
func Of(ctx context.Context) trace.Span {
	span, _ := ctx.Value(Key{}).(trace.Span)
	return span
}

// Under returns a context that is recorded under span, or ctx itself if span is
// nil.
func Under(ctx context.Context, span trace.Span) context.Context {
	if span == nil {
		return ctx
	}
	return context.WithValue(ctx, Key{}, span)
}

// known puts a provider's span where Of finds it.
func known(ctx context.Context, span trace.Span) (context.Context, trace.Span) {
	return Under(ctx, span), span
}

// Child begins a span below the one of ctx, which must be recorded: ask Of first.
func Child(ctx context.Context, name string, kind trace.SpanKind, attributes ...attribute.KeyValue) (context.Context, trace.Span) {
	parent := Of(ctx)
	if ours, is := parent.(*Span); is {
		s := ours.of.start(ours.context, name, kind)
		s.SetAttributes(attributes...)
		return Under(ctx, s), s
	}
	all := trace.WithAttributes(slices.Clone(attributes)...) // else all that are given would be on the heap
	tracer := parent.TracerProvider().Tracer(Scope)
	return known(tracer.Start(trace.ContextWithSpan(ctx, parent), name, trace.WithSpanKind(kind), all)) //nolint:spancheck // the caller ends it
}

// Describe names a span, and says more about it.
func Describe(span trace.Span, name string, attributes ...attribute.KeyValue) {
	if ours, is := span.(*Span); is {
		ours.describe(name, attributes)
		return
	}
	span.SetName(name)
	span.SetAttributes(slices.Clone(attributes)...)
}

// Fail marks a span as failed. The reason comes from a closed set: the text of an
// error may quote what it failed on.
func Fail(span trace.Span, reason string) {
	span.SetAttributes(attribute.String("error.type", reason))
	span.SetStatus(codes.Error, reason)
}
