package tracing

import (
	"bytes"
	"context"
	"encoding/json"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// detailing is set for good by the first sampler of detail: a process without one, as
// every deployment is, pays for no question about it.
var detailing atomic.Bool

// detailed samples every span and marks it, and all below it.
type detailed struct{ state trace.TraceState }

// Detailed is a sampler for development: spans may then hold ids, targets of requests
// and cache keys, so that one request can be told from all others.
func Detailed() sdktrace.Sampler {
	detailing.Store(true)
	state, _ := trace.ParseTraceState("melmastoon=detail") // a constant
	return detailed{state}
}

// ShouldSample implements sdktrace.Sampler.
func (d detailed) ShouldSample(sdktrace.SamplingParameters) sdktrace.SamplingResult {
	return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample, Tracestate: d.state}
}

// Description implements sdktrace.Sampler.
func (detailed) Description() string { return "Detailed" }

// Detail returns the span that ctx is recorded under if it takes detail, or nil.
func Detail(ctx context.Context) trace.Span {
	if !detailing.Load() {
		return nil
	}
	if span := Of(ctx); TakesDetail(span) {
		return span
	}
	return nil
}

// TakesDetail reports whether a span, which may be nil, takes detail.
func TakesDetail(span trace.Span) bool {
	return detailing.Load() && span != nil && span.SpanContext().TraceState().Len() > 0
}

// MissingKey is the attribute with what an answer says is missing in it, and why.
const MissingKey = "answer.missing"

var degraded = []byte(`"degraded":[{`)

// Missing reads what an answer in JSON says is missing in it, such as "rates: timeout".
func Missing(answer []byte) (missing []string) {
	for {
		at := bytes.Index(answer, degraded)
		if at < 0 {
			return missing
		}
		answer = answer[at+len(degraded)-2:]
		var parts []struct{ Part, Reason string }
		if json.NewDecoder(bytes.NewReader(answer)).Decode(&parts) != nil {
			return missing
		}
		for _, p := range parts {
			missing = append(missing, p.Part+": "+p.Reason)
		}
		answer = answer[2:]
	}
}
