package pubsub

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/status"

	"melmastoon.ghasi.io/bff/internal/tracing"
)

// beginPublish begins the span of one publish call, or returns nil. A call carries
// events of many requests, long after they were answered: it has a trace of its own,
// linked to the recorded requests among them, and is recorded if there is one.
func (c *Client) beginPublish(ctx context.Context, messages []Message, chunk []int) (context.Context, trace.Span) {
	if c.cfg.Tracer == nil {
		return ctx, nil
	}
	var causes []trace.SpanContext
	for _, i := range chunk {
		if cause := tracing.RecordedCause(messages[i].Data); cause.IsValid() {
			causes = append(causes, cause)
		}
	}
	if len(causes) == 0 {
		return ctx, nil
	}
	topic := messages[chunk[0]].Topic
	ctx, span := c.cfg.Tracer.Begin(ctx, "publish "+topic, trace.SpanKindProducer, causes...)
	span.SetAttributes(attribute.String("messaging.system", system), attribute.String("messaging.operation.name", "publish"),
		attribute.String("messaging.destination.name", topic), attribute.Int("messaging.batch.message_count", len(chunk)))
	return ctx, span
}

const system = "gcp_pubsub"

func endPublish(span trace.Span, err error) {
	if span == nil {
		return
	}
	if err != nil {
		tracing.Fail(span, status.Code(err).String()) // the message names the project
	}
	span.End()
}

// beginReceive begins the span of one delivery, or returns nil. Whether it is
// recorded is this process's decision, as for requests; the event's cause is linked.
func (r *receiver) beginReceive(ctx context.Context, d Delivery) (context.Context, trace.Span) {
	t := r.client.cfg.Tracer
	if !t.Draw() {
		return ctx, nil
	}
	ctx, span := t.Begin(ctx, "receive "+d.Topic, trace.SpanKindConsumer, tracing.Cause(d.Data))
	span.SetAttributes(attribute.String("messaging.system", system), attribute.String("messaging.operation.name", "receive"),
		attribute.String("messaging.destination.name", d.Topic), attribute.String("messaging.destination.subscription.name", r.sub.Name))
	return ctx, span
}

func endReceive(span trace.Span, err error) {
	if span == nil {
		return
	}
	if err != nil {
		tracing.Fail(span, "failed")
	}
	span.End()
}
