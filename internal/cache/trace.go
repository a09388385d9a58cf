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
