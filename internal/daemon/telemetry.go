package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"

	"melmastoon.ghasi.io/bff/internal/tracing"
)

const (
	// maxSpans bounds the bytes of spans in memory that are not exported yet: some seconds
	// of all requests.
	maxSpans = 3 << 20 // a collector over gRPC takes 4 MB in one piece
	// exportDelay is how long spans wait for others, unless OTEL_BSP_SCHEDULE_DELAY says
	// how many milliseconds.
	exportDelay = 5 * time.Second
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
	client, err := newSpanClient()
	if err == nil {
		err = client.Start(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("trace exporter: %w", err)
	}
	delay := exportDelay
	if ms, err := strconv.Atoi(os.Getenv("OTEL_BSP_SCHEDULE_DELAY")); err == nil && ms > 0 {
		delay = time.Duration(ms) * time.Millisecond
	}
	spans := newSpanQueue(client, maxSpans, delay, d.Log, map[string]string{
		"service.name": service, "service.instance.id": d.settings.InstanceName(service), "deployment.environment": d.settings.Environment,
	})
	d.Metrics.MustRegister(spans.outcomes)
	d.Add("traces", nil, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, flushTimeout)
		defer cancel()
		if err := spans.close(ctx); err != nil {
			d.Log.WarnContext(ctx, "last trace spans were not exported", "error", err.Error())
		}
		return nil // a stop that loses spans is a good stop
	})
	return tracing.New(tracing.NewRecorder(d.settings.TraceDetail, spans.add), d.settings.TraceSampling), nil
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

// newSpanClient reads the other OTEL_EXPORTER_OTLP_… variables. It connects when
// there is something to send.
func newSpanClient() (otlptrace.Client, error) {
	protocol, err := spanProtocol()
	switch {
	case err != nil:
		return nil, err
	case protocol == protocolGRPC:
		return otlptracegrpc.NewClient(), nil
	}
	return otlptracehttp.NewClient(), nil
}

// spanQueue sends ended spans in the background. While the collector is away, spans
// beyond a bound are dropped and counted: no request waits for it. An outage is logged
// once, and not with each export.
type spanQueue struct {
	client   otlptrace.Client
	resource *resourcepb.Resource
	most     int
	log      *slog.Logger

	outcomes                  *prometheus.CounterVec
	exported, failed, dropped prometheus.Counter

	mu            sync.Mutex
	waiting       []byte // spans as they stand in a message of a scope
	n, bytes      int    // of those that wait, and of all that are in memory
	spare         []byte
	many          chan struct{} // half of what may wait does
	sending       sync.Mutex
	failing       bool
	stop, stopped chan struct{}
}

func newSpanQueue(client otlptrace.Client, most int, delay time.Duration, log *slog.Logger, about map[string]string) *spanQueue {
	q := &spanQueue{
		client: client, most: most, log: log, resource: new(resourcepb.Resource),
		many: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "trace_spans_total", Help: "Recorded spans: exported, failed (the collector did not take them) or dropped (too many waited).",
		}, []string{"outcome"}),
	}
	for key, v := range about {
		text := &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: v}}
		q.resource.Attributes = append(q.resource.Attributes, &commonpb.KeyValue{Key: key, Value: text})
	}
	q.exported, q.failed, q.dropped = q.outcomes.WithLabelValues("exported"), q.outcomes.WithLabelValues("failed"), q.outcomes.WithLabelValues("dropped")
	go func() {
		defer close(q.stopped)
		for tick := time.NewTicker(delay); ; {
			select {
			case <-tick.C:
			case <-q.many:
			case <-q.stop:
				tick.Stop()
				return
			}
			ctx, cancel := context.WithTimeout(context.Background(), exportTimeout)
			_ = q.flush(ctx) // was said
			cancel()
		}
	}()
	return q
}

// add queues the message of a span that has ended.
func (q *spanQueue) add(span []byte) {
	const spans = 2 // the field of a scope
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bytes+len(span) > q.most {
		q.dropped.Inc()
		return
	}
	before := len(q.waiting)
	q.waiting = protowire.AppendBytes(protowire.AppendTag(q.waiting, spans, protowire.BytesType), span)
	q.n, q.bytes = q.n+1, q.bytes+len(q.waiting)-before
	if len(q.waiting) > q.most/2 {
		select {
		case q.many <- struct{}{}:
		default:
		}
	}
}

// flush sends what waits.
func (q *spanQueue) flush(ctx context.Context) error {
	q.sending.Lock()
	defer q.sending.Unlock()
	q.mu.Lock()
	b, n := q.waiting, q.n
	if n > 0 {
		q.waiting, q.n, q.spare = q.spare[:0], 0, nil
	}
	q.mu.Unlock()
	if n == 0 {
		return nil
	}
	// Spans are written already: as what this program does not know of a scope, they go as they are.
	scope := &tracepb.ScopeSpans{Scope: &commonpb.InstrumentationScope{Name: tracing.Scope}}
	scope.ProtoReflect().SetUnknown(b)
	err := q.client.UploadTraces(ctx, []*tracepb.ResourceSpans{{Resource: q.resource, ScopeSpans: []*tracepb.ScopeSpans{scope}}})
	q.mu.Lock()
	q.spare, q.bytes = b, q.bytes-len(b)
	q.mu.Unlock()
	was := q.failing
	q.failing = err != nil
	switch {
	case err != nil && !was:
		q.log.WarnContext(ctx, "trace spans cannot be exported and are dropped until they can", "error", err.Error())
	case err == nil && was:
		q.log.InfoContext(ctx, "trace spans are exported again")
	}
	if err != nil {
		q.failed.Add(float64(n))
		return err
	}
	q.exported.Add(float64(n))
	return nil
}

// close sends the last spans.
func (q *spanQueue) close(ctx context.Context) error {
	close(q.stop)
	select {
	case <-q.stopped:
	case <-ctx.Done():
		return ctx.Err()
	}
	return errors.Join(q.flush(ctx), q.client.Stop(ctx))
}
