package cache

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"melmastoon.ghasi.io/bff/internal/tracing"
)

// recorded is load with a span. What the flight does is below it if this read began
// the flight, though the flight may outlive the read: it is the work that the read
// caused. A read that waits for another's flight says so, and shows how long.
func (c *Cache) recorded(ctx context.Context, key string, fill FillFunc) (*Entry, Status, error) {
	ctx, span := tracing.Child(ctx, "cache "+c.name, trace.SpanKindInternal)
	defer span.End()
	e, st, err := c.load(ctx, key, fill)
	switch {
	case err != nil:
		tracing.Fail(span, "fill")
	default:
		span.SetAttributes(attribute.String("cache.result", st.Result.String()),
			attribute.Bool("cache.shared", st.Shared), attribute.Bool("cache.collapsed", st.Collapsed))
		if detailed := tracing.Detailed(span); detailed != nil {
			d := e.detail()
			detailed.SetAttributes(d[0], d[1], d[2], attribute.StringSlice("cache.tags", e.Tags()))
		}
	}
	return e, st, err
}

// refreshing begins the span of a flight that no read waits for.
func (c *Cache) refreshing(ctx context.Context) (context.Context, func()) {
	if tracing.Of(ctx) == nil {
		return ctx, nothing
	}
	ctx, span := tracing.Child(ctx, "cache refresh "+c.name, trace.SpanKindInternal)
	return ctx, func() { span.End() }
}

// detail is what tells an entry from all others, for development. Its tags, which may be
// hundreds, are told when it is filled.
func (e *Entry) detail() [3]attribute.KeyValue {
	return [...]attribute.KeyValue{
		attribute.String("cache.key", e.tags[len(e.tags)-1][1:]),
		attribute.Int64("cache.number", int64(e.stamp.seq)), attribute.Int64("cache.age_ms", e.Age().Milliseconds()), //nolint:gosec // counts up from one
	}
}

// noteReady notes a read that memory answered, which has no span of its own.
func (e *Entry) noteReady(ctx context.Context, st Status) {
	if span := tracing.Detail(ctx); span != nil {
		d := e.detail()
		span.Note("cache "+e.cache.name, d[0], d[1], d[2], attribute.String("cache.result", st.Result.String()))
	}
}

// noteServed notes of an answer that is sent as it is kept how it was found, which its head
// may say in finished lines alone, and what is missing in it: its body is looked at here,
// where it is not compressed.
func (e *Entry) noteServed(ctx context.Context, st Status) {
	span := tracing.Detail(ctx)
	if span == nil {
		return
	}
	missing := e.missing.Load()
	if missing == nil { // looked for once, in what may be long
		found := tracing.Missing(e.Body())
		missing = &found
		e.missing.Store(missing)
	}
	result := attribute.String("answer.result", st.Result.String())
	if len(*missing) == 0 {
		span.SetAttributes(result)
		return
	}
	span.SetAttributes(result, attribute.StringSlice(tracing.MissingKey, *missing))
}
