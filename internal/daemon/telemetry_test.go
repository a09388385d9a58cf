package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// collector is a client that answers once it is open, and fails while err is set.
type collector struct {
	open chan struct{}
	err  error
}

func (c *collector) UploadTraces(context.Context, []*tracepb.ResourceSpans) error {
	<-c.open
	return c.err
}

func (c *collector) Start(context.Context) error { return nil }
func (c *collector) Stop(context.Context) error  { return nil }

// TestSpansAreBounded: while the collector is away spans wait up to a bound, then
// they are dropped; all are counted, and an outage is logged once.
func TestSpansAreBounded(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	away := &collector{open: make(chan struct{}), err: errors.New("connection refused")}
	const each = 100 // and two bytes around it
	q := newSpanQueue(away, 4*(each+2), time.Hour, slog.New(slog.NewTextHandler(&logged, nil)), nil)
	reg := prometheus.NewRegistry()
	reg.MustRegister(q.outcomes)
	spans := func(n int) {
		for range n {
			q.add(make([]byte, each))
		}
	}
	flush := func() { _ = q.flush(t.Context()) } // or the queue has by itself: half of what may wait is enough
	want := func(when string, want map[string]float64) {
		t.Helper()
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, m := range families[0].GetMetric() {
			got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
	}
	spans(10)
	want("while nothing is exported", map[string]float64{"exported": 0, "failed": 0, "dropped": 6})
	close(away.open)
	flush()
	want("after a failed export", map[string]float64{"exported": 0, "failed": 4, "dropped": 6})
	spans(2)
	flush()
	away.err = nil
	spans(3)
	flush()
	want("after the collector is back", map[string]float64{"exported": 3, "failed": 6, "dropped": 6})
	if err := q.close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := strings.Count(logged.String(), "\n"); n != 2 || !strings.Contains(logged.String(), "cannot be exported") ||
		!strings.Contains(logged.String(), "exported again") {
		t.Errorf("log: %s", &logged)
	}
}

// TestSpansLeaveSoon: a span waits for others as long as was said, and no longer.
func TestSpansLeaveSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const delay = 250 * time.Millisecond // as `melmastoon up` has it
		there := &collector{open: make(chan struct{})}
		close(there.open)
		q := newSpanQueue(there, 1000, delay, slog.New(slog.DiscardHandler), nil)
		q.add([]byte("span"))
		time.Sleep(delay) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		if q.mu.Lock(); q.bytes != 0 {
			t.Errorf("%d bytes still wait", q.bytes)
		}
		q.mu.Unlock()
		if err := q.close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestTracesAreOff without an endpoint, and with a share of nothing.
func TestTracesAreOff(t *testing.T) {
	for _, tt := range []struct {
		endpoint string
		share    float64
		want     bool
	}{
		{"", 1, false},
		{"http://127.0.0.1:1", 0, false},
		{"http://127.0.0.1:1", 1, true},
	} {
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", tt.endpoint)
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
		d := New(Settings{Environment: "test", TraceSampling: tt.share, DrainBudget: time.Minute}, slog.New(slog.DiscardHandler))
		tracer, err := d.Tracer(t.Context(), "service")
		if err != nil || (tracer != nil) != tt.want {
			t.Errorf("endpoint %q, share %v: %v, %v", tt.endpoint, tt.share, tracer, err)
		}
		for _, p := range d.parts {
			if err := p.stop(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

// receiver takes spans over gRPC as a collector does.
type receiver struct {
	collectorpb.UnimplementedTraceServiceServer
	names chan string
}

func (r *receiver) Export(_ context.Context, req *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	for _, resource := range req.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				r.names <- span.GetName()
			}
		}
	}
	return new(collectorpb.ExportTraceServiceResponse), nil
}

// TestSpansOverGRPC: a collector that takes only gRPC gets the spans.
func TestSpansOverGRPC(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got := &receiver{names: make(chan string, 8)}
	server := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(server, got)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+listener.Addr().String())
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "600000")
	d := New(Settings{Environment: "test", TraceSampling: 1, DrainBudget: time.Minute}, slog.New(slog.DiscardHandler))
	tracer, err := d.Tracer(t.Context(), "service")
	if err != nil {
		t.Fatal(err)
	}
	_, span := tracer.Begin(t.Context(), "GET /hotels", trace.SpanKindServer)
	span.End()
	for _, p := range d.parts {
		if err := p.stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	select {
	case name := <-got.names:
		if name != "GET /hotels" {
			t.Errorf("got span %q", name)
		}
	default:
		t.Error("no span arrived")
	}
}

// TestSpanProtocol: one that cannot be spoken is refused at start, and by "check".
func TestSpanProtocol(t *testing.T) {
	for _, tt := range []struct{ all, traces, want string }{
		{"", "", "http/protobuf"}, {"grpc", "", "grpc"}, {"grpc", "http/protobuf", "http/protobuf"}, {"http/json", "", ""}, {"", "GRPC", ""},
	} {
		t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", tt.all)
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", tt.traces)
		got, err := spanProtocol()
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%+v: %q, %v", tt, got, err)
		}
		if refused := (Settings{Environment: "test", DrainBudget: time.Minute}).Validate(); (refused == nil) != (err == nil) {
			t.Errorf("%+v: settings: %v", tt, refused)
		}
	}
}
