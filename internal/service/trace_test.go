package service

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff/internal/tracing"
	"melmastoon.ghasi.io/bff/internal/tracing/tracingtest"
)

// TestJobsAreSpans: each run is recorded, however small the share, with what it does
// below it.
func TestJobsAreSpans(t *testing.T) {
	t.Parallel()
	tracer, spans := tracingtest.New(1e-15)
	var failure error
	inside := 0
	job := Job{Name: "prune", Run: func(ctx context.Context, _ *pgxpool.Pool, _ time.Time) (int, error) {
		if tracing.Of(ctx) != nil {
			inside++
		}
		return 3, failure
	}}
	run := func(j Job) (int, error) { return j.Run(t.Context(), nil, time.Time{}) }
	if n, err := run(job.recorded(nil)); n != 3 || err != nil || inside != 0 {
		t.Errorf("without a tracer: %d, %v, recorded %d times", n, err, inside)
	}
	if n, err := run(job.recorded(tracer)); n != 3 || err != nil {
		t.Error(n, err)
	}
	failure = errors.New("secret")
	if _, err := run(job.recorded(tracer)); !errors.Is(err, failure) {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"job prune: job.rows=3", "job prune: error.type=failed job.rows=3"}, spans.Lines()); diff != "" || inside != 2 {
		t.Error(inside, diff)
	}
}
