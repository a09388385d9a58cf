package tracing_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"melmastoon.ghasi.io/bff/internal/tracing"
)

// TestRecorder: what is written by hand is what OTLP's own library reads, whatever the lengths.
func TestRecorder(t *testing.T) {
	t.Parallel()
	var ended []*tracepb.Span
	tracer := tracing.New(tracing.NewRecorder(true, func(b []byte) {
		var span tracepb.Span
		if err := proto.Unmarshal(b, &span); err != nil {
			t.Error(err)
		}
		ended = append(ended, &span)
	}), 1)
	cause := tracing.Parse(traceparent)
	long := strings.Repeat("long ", 5000)
	ctx, root := tracer.Begin(t.Context(), "unnamed", trace.SpanKindServer, trace.SpanContext{}, cause)
	tracing.Detail(ctx).Note("limit", attribute.String("limit.name", "search"), attribute.Int("limit.left", -1))
	root.SetName("GET /hotels")
	root.SetAttributes(attribute.String("long", long), attribute.Float64("score", 0.5), attribute.StringSlice("tags", []string{"", "\xfftag"}))
	_, child := tracing.Child(ctx, "child", trace.SpanKindInternal, attribute.Bool("shared", true))
	child.End()
	_, joined := tracer.Join(t.Context(), cause, "joined", trace.SpanKindServer)
	joined.End()
	tracing.Fail(root, "failed")
	for range 10 {
		root.SetAttributes(attribute.String("more", long)) // what has no room is left out
	}
	root.End()
	root.End()
	root.SetAttributes(attribute.Bool("late", true))
	slices.SortFunc(ended, func(a, b *tracepb.Span) int { return strings.Compare(a.GetName(), b.GetName()) })
	if len(ended) != 3 {
		t.Fatalf("%d spans", len(ended))
	}
	whole, below, remote := ended[0], ended[1], ended[2]
	if !slices.Equal(below.GetParentSpanId(), whole.GetSpanId()) || !slices.Equal(below.GetTraceId(), whole.GetTraceId()) ||
		tracing.Of(ctx).SpanContext().SpanID() != trace.SpanID(whole.GetSpanId()) || !below.GetAttributes()[0].GetValue().GetBoolValue() {
		t.Errorf("child %v of %v", below, whole.GetSpanId())
	}
	if id := cause.SpanID(); !slices.Equal(remote.GetParentSpanId(), id[:]) || remote.GetFlags() != 0x301 || whole.GetFlags() != 0x101 {
		t.Errorf("joined %v", remote)
	}
	if link := whole.GetLinks(); len(link) != 1 || trace.TraceID(link[0].GetTraceId()) != cause.TraceID() {
		t.Errorf("links %v", link)
	}
	if whole.GetStartTimeUnixNano() == 0 || whole.GetEndTimeUnixNano() < whole.GetStartTimeUnixNano() || proto.Size(whole) > 64<<10 {
		t.Errorf("from %d to %d, %d bytes", whole.GetStartTimeUnixNano(), whole.GetEndTimeUnixNano(), proto.Size(whole))
	}
	got := map[string]any{}
	for _, a := range append(whole.GetAttributes(), whole.GetEvents()[0].GetAttributes()...) {
		switch v := a.GetValue(); {
		case v.GetArrayValue() != nil:
			got[a.GetKey()] = v.GetArrayValue().GetValues()[1].GetStringValue()
		case v.GetStringValue() != "":
			got[a.GetKey()] = v.GetStringValue()
		default:
			got[a.GetKey()] = v.GetDoubleValue() + float64(v.GetIntValue())
		}
	}
	want := map[string]any{"long": long, "more": long, "score": 0.5, "tags": "\uFFFDtag", "error.type": "failed", "limit.name": "search", "limit.left": -1.0}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&tracepb.Status{Message: "failed", Code: tracepb.Status_STATUS_CODE_ERROR}, whole.GetStatus(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}
