package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.26.0"

	"melmastoon.ghasi.io/bff/internal/tracing"
)

const (
	// maxSpans bounds the spans in memory that are not exported yet: a few seconds
	// of all requests, a few megabytes.
	maxSpans = 4096
	// exportTimeout bounds one export with its retries, and flushTimeout the last
	// one at a stop: a collector that hangs must not use up the drain budget.
	exportTimeout = 10 * time.Second
	flushTimeout  = 2 * time.Second
)

// Tracer returns a tracer that exports over OTLP when OTEL_EXPORTER_OTLP_ENDPOINT
// is set, and nil, which records nothing, otherwise. What is recorded by then is
// exported when the daemon stops.
func (d *Daemon) Tracer(ctx context.Context, service string) (*tracing.Tracer, error) {
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" || d.settings.TraceSampling == 0 {
		return nil, nil
	}
	exporter, err := newSpanExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("trace exporter: %w", err)
	}
	spans := newSpanQueue(exporter, maxSpans, d.Log)
	d.Metrics.MustRegister(spans.outcomes)
	// The tracer decides before a span is begun.
	sampler := sdktrace.AlwaysSample()
	if d.settings.TraceDetail {
		sampler = tracing.Detailed()
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(spans),
		sdktrace.WithSampler(sampler),
		sdktrace.WithResource(resource.NewSchemaless(
			semconv.ServiceName(service),
			semconv.ServiceInstanceID(d.settings.InstanceName(service)),
			semconv.DeploymentEnvironment(d.settings.Environment),
		)),
	)
	d.Add("traces", nil, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, flushTimeout)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			d.Log.WarnContext(ctx, "last trace spans were not exported", "error", err.Error())
		}
		return nil // a stop that loses spans is a good stop
	})
	return tracing.New(provider, d.settings.TraceSampling), nil
}

// Protocols of OTLP, as OpenTelemetry names them.
const (
	protocolGRPC = "grpc"
	protocolHTTP = "http/protobuf"
)

// spanProtocol is how spans travel. OpenTelemetry's http/json is refused: the library
// does not speak it, and would send protobuf without a word.
func spanProtocol() (string, error) {
	protocol := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), protocolHTTP)
	if protocol != protocolGRPC && protocol != protocolHTTP {
		return "", errors.New("OTEL_EXPORTER_OTLP_PROTOCOL: must be " + protocolHTTP + " or " + protocolGRPC)
	}
	return protocol, nil
}

// newSpanExporter reads the other OTEL_EXPORTER_OTLP_… variables. It connects when
// there is something to send.
func newSpanExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	protocol, err := spanProtocol()
	switch {
	case err != nil:
		return nil, err
	case protocol == protocolGRPC:
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx)
}

// spanQueue hands ended spans to an exporter in the background. While the collector
// is away, spans beyond a bound are dropped and counted: no request waits for it.
type spanQueue struct {
	sdktrace.SpanProcessor // the library's, which batches
	most                   int64
	waiting                atomic.Int64 // ended and not exported yet
	outcomes               *prometheus.CounterVec
	dropped                prometheus.Counter
}

func newSpanQueue(exporter sdktrace.SpanExporter, most int, log *slog.Logger) *spanQueue {
	q := &spanQueue{most: int64(most), outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "trace_spans_total", Help: "Recorded spans: exported, failed (the collector did not take them) or dropped (too many waited).",
	}, []string{"outcome"})}
	q.dropped = q.outcomes.WithLabelValues("dropped")
	q.SpanProcessor = sdktrace.NewBatchSpanProcessor(&spanExporter{
		SpanExporter: exporter, queue: q, log: log,
		exported: q.outcomes.WithLabelValues("exported"), failed: q.outcomes.WithLabelValues("failed"),
	}, sdktrace.WithMaxQueueSize(most), sdktrace.WithExportTimeout(exportTimeout))
	return q
}

// OnEnd implements sdktrace.SpanProcessor.
func (q *spanQueue) OnEnd(span sdktrace.ReadOnlySpan) {
	if q.waiting.Add(1) > q.most {
		q.waiting.Add(-1)
		q.dropped.Inc()
		return
	}
	q.SpanProcessor.OnEnd(span)
}

// spanExporter counts what becomes of a queue's spans. It logs an outage once, where
// the library would log each batch.
type spanExporter struct {
	sdktrace.SpanExporter
	queue            *spanQueue
	log              *slog.Logger
	exported, failed prometheus.Counter
	failing          bool
}

// ExportSpans implements sdktrace.SpanExporter; it is not called concurrently.
func (e *spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.queue.waiting.Add(-int64(len(spans)))
	was := e.failing
	e.failing = err != nil
	if err != nil {
		e.failed.Add(float64(len(spans)))
		if !was {
			e.log.WarnContext(ctx, "trace spans cannot be exported and are dropped until they can", "error", err.Error())
		}
		return nil
	}
	e.exported.Add(float64(len(spans)))
	if was {
		e.log.InfoContext(ctx, "trace spans are exported again")
	}
	return nil
}
