package tracing_test

import (
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"melmastoon.ghasi.io/bff/internal/tracing"
	"melmastoon.ghasi.io/bff/internal/tracing/tracingtest"
)

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// TestShare: chance and ids are measured against the same share.
func TestShare(t *testing.T) {
	t.Parallel()
	high, middle := trace.TraceID{8: 0xff, 15: 1}, trace.TraceID{8: 0x7f, 15: 1}
	for _, tt := range []struct {
		share                            float64
		wantNever, wantMiddle, wantHighs bool
	}{
		{share: 0, wantNever: true},
		{share: 1e-15, wantNever: true},
		{share: 0.5, wantMiddle: true},
		{share: 1, wantMiddle: true, wantHighs: true},
	} {
		tracer, _ := tracingtest.New(tt.share)
		drawn := 0
		for range 1000 {
			if tracer.Draw() {
				drawn++
			}
		}
		if tt.wantNever && drawn > 0 || tt.share == 1 && drawn < 1000 || tt.share == 0.5 && (drawn < 300 || drawn > 700) {
			t.Errorf("share %v: %d of 1000", tt.share, drawn)
		}
		if tracer.Agrees(middle) != tt.wantMiddle || tracer.Agrees(high) != tt.wantHighs {
			t.Errorf("share %v: agrees with middle %v, high %v", tt.share, tracer.Agrees(middle), tracer.Agrees(high))
		}
	}
}

// TestOf: nothing is recorded below nothing, and after a response work still
// belongs to its trace.
func TestOf(t *testing.T) {
	t.Parallel()
	tracer, spans := tracingtest.New(1)
	if tracing.Of(t.Context()) != nil {
		t.Error("an empty context is recorded")
	}
	ctx, root := tracer.Begin(t.Context(), "root", trace.SpanKindServer)
	root.End()
	if tracing.Of(ctx) != root {
		t.Fatal("what began before the root ended is not recorded")
	}
	_, child := tracing.Child(ctx, "child", trace.SpanKindInternal)
	child.End()
	ended := spans.Ended()
	if len(ended) != 2 || ended[1].Parent().SpanID() != root.SpanContext().SpanID() {
		t.Errorf("spans: %v", spans.Lines())
	}
	if tracing.Of(tracing.Under(t.Context(), root)) != root || tracing.Of(tracing.Under(t.Context(), nil)) != nil {
		t.Error("Under puts another span into its context")
	}
}

// TestTraceparentOfEvents in both spellings: as it is sent and as Postgres keeps it.
func TestTraceparentOfEvents(t *testing.T) {
	t.Parallel()
	for event, want := range map[string]string{
		`{"envelope":{"eventId":"evt_1","traceId":"` + traceparent + `"},"payload":{}}`:       traceparent,
		`{"eventId": "evt_1", "traceId": "` + traceparent + `", "version": 1}`:                traceparent,
		`{"eventId": "evt_1", "traceId": null}`:                                               "",
		`{"eventId": "evt_1"}`:                                                                "",
		`{"traceId": "` + strings.Repeat("z", len(traceparent)) + `"}`:                        "",
		`{"traceId": "` + traceparent:                                                         "",
		`{"traceId": "00-00000000000000000000000000000000-00f067aa0ba902b7-01", "version":1}`: "",
	} {
		sc := tracing.Cause([]byte(event))
		if recorded := tracing.RecordedCause([]byte(event)); recorded.IsValid() != (want != "") {
			t.Errorf("%s: recorded %v", event, recorded)
		}
		got := ""
		if sc.IsValid() {
			got = string(tracing.AppendTraceparent(nil, sc))
		}
		if got != want {
			t.Errorf("%s: %q, want %q", event, got, want)
		}
	}
	unrecorded := []byte(`{"traceId": "` + traceparent[:len(traceparent)-1] + `0"}`)
	if !tracing.Cause(unrecorded).IsValid() || tracing.RecordedCause(unrecorded).IsValid() {
		t.Error("a cause that was not recorded counts as one")
	}
}
