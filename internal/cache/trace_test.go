package cache

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"

	"melmastoon.ghasi.io/bff/internal/pause"
	"melmastoon.ghasi.io/bff/internal/tracing"
	"melmastoon.ghasi.io/bff/internal/tracing/tracingtest"
)

// TestFlightsAreSpans: what a fill does is below the read that began it, also if it
// goes on behind that read; a hit has no span.
func TestFlightsAreSpans(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTestCache(t, newMemoryStore(t))
		tracer, spans := tracingtest.New(1)
		ctx, request := tracer.Begin(t.Context(), "request", trace.SpanKindServer)
		src := newSource("one")
		fill := func(ctx context.Context) (Fill, error) {
			_, span := tracing.Child(ctx, "call", trace.SpanKindClient)
			defer span.End()
			pause.For(ctx, time.Second)
			return src.fill(ctx)
		}
		get := func(key string) { _, _, _ = c.Get(ctx, key, fill) }
		var wg sync.WaitGroup
		wg.Go(func() { get("k") })
		synctest.Wait() // the flight is under way
		get("k")
		wg.Wait()
		get("k") // from memory
		pause.For(t.Context(), 90*time.Second)
		get("k") // in grace: refreshed behind the read
		request.End()
		pause.For(t.Context(), 2*time.Second)
		src.failWith(errors.New("secret"))
		get("other")

		parents := map[trace.SpanID]string{request.SpanContext().SpanID(): "request"}
		for _, span := range spans.Ended() {
			parents[span.SpanContext().SpanID()] = span.Name()
		}
		var got []string
		for _, span := range spans.Ended() {
			if span.Name() != "request" {
				got = append(got, parents[span.Parent().SpanID()]+" > "+tracingtest.Line(span))
			}
		}
		slices.Sort(got)
		want := []string{
			"cache refresh test > call:",
			"cache test > call:",
			"cache test > call:",
			"request > cache refresh test:",
			"request > cache test: cache.collapsed=false cache.result=MISS cache.shared=false",
			"request > cache test: cache.collapsed=true cache.result=MISS cache.shared=false",
			"request > cache test: error.type=fill",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}
