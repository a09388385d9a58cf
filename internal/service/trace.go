package service

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"melmastoon.ghasi.io/bff/internal/tracing"
)

// recorded returns the job with a span around each run. Every run is recorded,
// whatever the share: they are few, and no client causes them.
func (j Job) recorded(t *tracing.Tracer) Job {
	if t == nil {
		return j
	}
	run := j.Run
	j.Run = func(ctx context.Context, db *pgxpool.Pool, now time.Time) (int, error) {
		ctx, span := t.Begin(ctx, "job "+j.Name, trace.SpanKindInternal)
		defer span.End()
		rows, err := run(ctx, db, now)
		span.SetAttributes(attribute.Int("job.rows", rows))
		if err != nil {
			tracing.Fail(span, "failed")
		}
		return rows, err
	}
	return j
}
