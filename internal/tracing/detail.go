package tracing

import (
	"bytes"
	"context"
	"encoding/json"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"
)

// detailing is set for good by the first Recorder of detail: a process without one, as
// every deployment is, pays for no question about it.
var detailing atomic.Bool

// Detail returns the span that ctx is recorded under if it takes detail, or nil. In
// development alone spans hold ids, targets of requests and cache keys, so that one
// request can be told from all others.
func Detail(ctx context.Context) *Span {
	if !detailing.Load() {
		return nil
	}
	return Detailed(Of(ctx))
}

// Detailed returns a span, which may be nil, if it takes detail, or nil.
func Detailed(s trace.Span) *Span {
	if ours, is := s.(*Span); is && ours.of.detail {
		return ours
	}
	return nil
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
