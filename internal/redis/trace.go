package redis

import (
	"context"
	"errors"

	"github.com/redis/rueidis"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"melmastoon.ghasi.io/bff/internal/tracing"
)

// traced is a client whose round trips are spans, below what is recorded.
type traced struct{ rueidis.Client }

// WithTraces returns the client with a span for each call of Do and DoMulti that is
// made below a recorded one. A span has the command's name: keys and values hold
// ids and what guests do.
func WithTraces(c rueidis.Client) rueidis.Client { return &traced{c} }

// Do implements rueidis.Client.
func (t *traced) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if tracing.Of(ctx) == nil {
		return t.Client.Do(ctx, cmd)
	}
	name := cmd.Commands()[0] // before Do, which gives the command back
	ctx, span := start(ctx, name)
	defer span.End()
	res := t.Client.Do(ctx, cmd)
	note(span, res)
	return res
}

// DoMulti implements rueidis.Client: several commands in one round trip.
func (t *traced) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	if tracing.Of(ctx) == nil || len(multi) == 0 {
		return t.Client.DoMulti(ctx, multi...)
	}
	name := multi[0].Commands()[0]
	for _, cmd := range multi {
		if cmd.Commands()[0] != name {
			name = ""
			break
		}
	}
	operation := "PIPELINE"
	if name != "" {
		operation += " " + name
	}
	ctx, span := start(ctx, operation, attribute.Int("db.operation.batch.size", len(multi)))
	defer span.End()
	all := t.Client.DoMulti(ctx, multi...)
	for _, res := range all {
		if note(span, res) {
			break
		}
	}
	return all
}

func start(ctx context.Context, operation string, more ...attribute.KeyValue) (context.Context, trace.Span) {
	return tracing.Child(ctx, "redis "+operation, trace.SpanKindClient,
		append(more, attribute.String("db.system.name", "redis"), attribute.String("db.operation.name", operation))...)
}

// note marks the span of a call that failed, and reports whether it did. An absent
// key is an answer.
func note(span trace.Span, res rueidis.RedisResult) bool {
	err := res.Error()
	var reason string
	switch {
	case err == nil, rueidis.IsRedisNil(err):
		return false
	case errors.Is(err, ErrAway):
		reason = "away"
	case errors.Is(err, context.DeadlineExceeded):
		reason = "timeout"
	case errors.Is(err, context.Canceled):
		reason = "cancelled"
	case isRefusal(err):
		reason = "refused"
	default:
		reason = "connection"
	}
	tracing.Fail(span, reason)
	return true
}

// isRefusal reports whether Redis answered with an error; its text may quote the
// command.
func isRefusal(err error) bool {
	_, refused := rueidis.IsRedisErr(err)
	return refused
}
