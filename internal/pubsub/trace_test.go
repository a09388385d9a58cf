package pubsub_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"

	"melmastoon.ghasi.io/bff/internal/pubsub"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/internal/tracing"
	"melmastoon.ghasi.io/bff/internal/tracing/tracingtest"
)

// TestEventsAreLinked: a publish call is a span if it carries an event of a recorded
// request, and a delivery if this process draws it. Both have a trace of their own
// that is linked to the cause.
func TestEventsAreLinked(t *testing.T) {
	t.Parallel()
	host, project := testkit.PubSub(t)
	tracer, spans := tracingtest.New(1)
	c, err := pubsub.Open(t.Context(), pubsub.Config{ProjectID: project, EmulatorHost: host, Tracer: tracer})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	const cause = "4bf92f3577b34da6a3ce929d0e0e4736"
	event := func(flags, payload string) []byte {
		return []byte(`{"envelope":{"traceId":"00-` + cause + `-00f067aa0ba902b7-` + flags + `"},"payload":` + payload + `}`)
	}
	handled := make(chan trace.Span, 1)
	stop := subscribe(t, c, pubsub.Subscription{Name: "sub", Topic: "topic", DLQ: "letters", MaxAttempts: 1}, func(ctx context.Context, d pubsub.Delivery) error {
		handled <- tracing.Of(ctx)
		if string(d.Data) == string(event("01", `"bad"`)) {
			return errors.New("secret")
		}
		return nil
	})
	publish := func(data []byte) {
		t.Helper()
		if err := c.Publish(testkit.Context(t), []pubsub.Message{{Topic: "topic", Data: data}})[0]; err != nil {
			t.Fatal(err)
		}
		if span := receive(t, handled); span == nil {
			t.Error("the handler is not recorded")
		}
	}
	publish(event("00", `"unrecorded"`))
	publish(event("01", `"good"`))
	publish(event("01", `"bad"`))
	stop()
	if err := c.Publish(testkit.Context(t), []pubsub.Message{{Topic: "missing", Data: event("01", `"lost"`)}})[0]; err == nil {
		t.Error("a missing topic took an event")
	}

	const published, received = "publish topic: messaging.batch.message_count=1 messaging.destination.name=topic messaging.operation.name=publish messaging.system=gcp_pubsub",
		" messaging.destination.name=topic messaging.destination.subscription.name=sub messaging.operation.name=receive messaging.system=gcp_pubsub"
	want := map[string]int{
		published:                   2,
		"receive topic:" + received: 2,
		"receive topic: error.type=failed" + received: 1,
		"publish letters: messaging.batch.message_count=1 messaging.destination.name=letters messaging.operation.name=publish messaging.system=gcp_pubsub":                     1,
		"publish missing: error.type=NotFound messaging.batch.message_count=1 messaging.destination.name=missing messaging.operation.name=publish messaging.system=gcp_pubsub": 1,
	}
	got := map[string]int{}
	for _, span := range spans.Ended() {
		got[tracingtest.Line(span)]++
		if span.Parent().IsValid() || span.SpanContext().TraceID().String() == cause ||
			len(span.Links()) != 1 || span.Links()[0].SpanContext.TraceID().String() != cause {
			t.Errorf("%s: parent %v, links %v", span.Name(), span.Parent(), span.Links())
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
