package daemon

import (
	"context"
	"fmt"
	"os"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.26.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Tracer returns a tracer that exports over OTLP when
// OTEL_EXPORTER_OTLP_ENDPOINT is set, and one that records nothing otherwise.
// The exporter is flushed when the daemon stops.
func (d *Daemon) Tracer(ctx context.Context, service string) (trace.Tracer, error) {
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return noop.NewTracerProvider().Tracer(service), nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("trace exporter: %w", err)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(d.settings.TraceSampling))),
		sdktrace.WithResource(resource.NewSchemaless(
			semconv.ServiceName(service),
			semconv.ServiceInstanceID(d.settings.InstanceName(service)),
			semconv.DeploymentEnvironment(d.settings.Environment),
		)),
	)
	d.Add("traces", nil, provider.Shutdown)
	return provider.Tracer(service), nil
}
