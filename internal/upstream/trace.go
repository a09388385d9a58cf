package upstream

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"melmastoon.ghasi.io/bff/internal/tracing"
)

// begin begins the call's span if its caller is recorded. What the call waits for
// before it is sent, and between attempts, shows between the spans of its attempts.
func (c *Client) begin(ctx context.Context, call *call) context.Context {
	if tracing.Of(ctx) == nil {
		return ctx
	}
	ctx, call.span = tracing.Child(ctx, "upstream "+c.name+" "+call.method+" "+call.route, trace.SpanKindInternal,
		attribute.String("upstream.name", c.name), attribute.String("upstream.route", call.route))
	return ctx
}

// end ends the call's span with the outcome that metrics count.
func (c *call) end(err error) {
	if c.span == nil {
		return
	}
	outcome := outcomeOf(err)
	c.mu.Lock()
	c.span.SetAttributes(attribute.String("upstream.outcome", outcome), attribute.Int("upstream.attempts", c.attempts))
	c.mu.Unlock()
	if failed(outcome) {
		tracing.Fail(c.span, outcome)
	}
	c.span.End()
}

// failed tells failures from a caller that left and an upstream that declined.
func failed(outcome string) bool {
	return outcome != outcomeOK && outcome != outcomeRefused && outcome != outcomeCancelled
}

// met notes what the breaker said to the call.
func (c *call) met(b *breaker, p pass, admitted bool) {
	if c.span == nil {
		return
	}
	state := closed.String()
	switch {
	case !admitted:
		state = b.state()
	case p.probe:
		state = halfOpen.String()
	}
	c.span.SetAttributes(attribute.String("upstream.breaker", state))
}

// beginAttempt begins the span of one attempt. The upstream's own spans come below
// it: its traceparent names this one.
func (c *call) beginAttempt(ctx context.Context, hedge bool) context.Context {
	if c.span == nil {
		return ctx
	}
	c.mu.Lock()
	c.attempts++
	n := c.attempts
	c.mu.Unlock()
	ctx, _ = tracing.Child(ctx, c.method+" "+c.route, trace.SpanKindClient,
		attribute.String("http.request.method", c.method), attribute.Int("upstream.attempt", n), attribute.Bool("upstream.hedge", hedge))
	return ctx
}

// endAttempt ends it. An attempt that its twin has beaten is cancelled, not failed.
func (c *Client) endAttempt(ctx context.Context, call *call, err error) {
	if call.span == nil {
		return
	}
	if err != nil && ctx.Err() != nil {
		err = c.ended(ctx, call, err)
	}
	span, outcome := tracing.Of(ctx), outcomeOf(err)
	span.SetAttributes(attribute.String("upstream.outcome", outcome))
	if failed(outcome) {
		tracing.Fail(span, outcome)
	}
	span.End()
}

// answered notes the status of an attempt's answer.
func (c *call) answered(ctx context.Context, status int) {
	if c.span != nil {
		tracing.Of(ctx).SetAttributes(attribute.Int("http.response.status_code", status))
	}
}

// name puts the attempt's span into its header; it runs under mu, because a hedge
// copies the header of the first attempt.
func (c *call) name(ctx context.Context, h http.Header) {
	if c.span != nil {
		h["Traceparent"] = []string{string(tracing.AppendTraceparent(nil, tracing.Of(ctx).SpanContext()))}
	}
}
