package console_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"melmastoon.ghasi.io/bff/internal/local/console"
	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// TestConsole: what is done from a page is seen there, and what it cannot do is said.
func TestConsole(t *testing.T) {
	t.Parallel()
	w := testkit.NewWorld(t, nil)
	consumer := outbox.NewTable(outbox.Shape{Name: "bff_consumer.outbox", Topic: "topic", Envelope: "headers", Created: "created_at"})
	backoffice := outbox.NewTable(outbox.Shape{Name: "bff_backoffice.outbox", UUID: true, Topic: "subject", Envelope: "envelope", Created: "enqueued_at"})
	bus := "test:console:bus:" + t.Name() + ":"
	services := []console.Service{
		{Name: "bff-consumer", Namespace: "bff_consumer", Flags: "test:console:flags:" + t.Name(), Outbox: consumer},
		{Name: "bff-backoffice", Namespace: "bff_backoffice", Outbox: backoffice, Streams: bus, Receives: []string{"melmastoon.tenant.suspended.v1"}},
	}
	tenant := w.Sim.Catalog().Tenants[3]
	up, err := console.New(t.Context(), console.Config{
		Sim: w.Sim, Environment: w.Env(), Services: services, Files: os.DirFS("../../../deploy"), Rungs: []string{"none", "campaign", "brand"},
		RungFlag: console.Flag{Service: "bff-consumer", Name: "rung"}, CampaignFlag: console.Flag{Service: "bff-consumer", Name: "campaign"},
		Trigger: func(ctx context.Context, e console.Trigger) error {
			if e.Event != "tenant.suspended" {
				return errors.New("no such event")
			}
			_, _, err := w.Sim.Emit(ctx, "melmastoon.tenant.suspended.v1", json.RawMessage(`{"tenantId":"`+tenant.TenantID+`"}`))
			return err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := up.Close(); err != nil {
			t.Error(err)
		}
	})
	server := httptest.NewServer(up)
	t.Cleanup(server.Close)
	call := func(method, path, body string, want int, into any) {
		t.Helper()
		req, err := http.NewRequestWithContext(testkit.Context(t), method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := new(http.Client).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		if res.StatusCode != want {
			t.Fatalf("%s %s: %d, want %d", method, path, res.StatusCode, want)
		}
		if into != nil {
			if err := json.NewDecoder(res.Body).Decode(into); err != nil {
				t.Fatal(err)
			}
		}
	}

	for _, value := range []string{"brand", ""} {
		call("POST", "/_up/flags", `{"service":"bff-consumer","name":"rung","value":"`+value+`"}`, http.StatusOK, nil)
		var world console.World
		call("GET", "/_up/world", "", http.StatusOK, &world)
		if world.Rung.Held != value || len(world.Upstreams) == 0 || len(world.Upstreams[0].Controls) == 0 {
			t.Errorf("held rung: %+v", world.Rung)
		}
	}
	call("POST", "/_up/flags", `{"service":"tea","name":"rung","value":"x"}`, http.StatusBadRequest, nil)
	call("POST", "/_up/flags", `{"tea":1}`, http.StatusBadRequest, nil)
	call("POST", "/_up/trigger", `{"event":"tea"}`, http.StatusBadRequest, nil)

	var events []console.Event
	call("GET", "/_up/events", "", http.StatusOK, &events) // from now on it listens
	testkit.Until(t, "the event is seen", func() bool {
		call("POST", "/_up/trigger", `{"event":"tenant.suspended"}`, http.StatusOK, nil)
		call("GET", "/_up/events?limit=1", "", http.StatusOK, &events)
		return len(events) == 1
	})
	if e := events[0]; e.Subject != "melmastoon.tenant.suspended.v1" || e.Producer != "upstreams" || len(e.ReceivedBy) != 1 || !bytes.Contains(e.Data, []byte(tenant.TenantID)) {
		t.Errorf("event: %+v", e)
	}
	var world console.World
	call("GET", "/_up/world", "", http.StatusOK, &world)
	if one := world.Tenants[3]; one.TenantID != tenant.TenantID || !one.Suspended || one.Control.Name != "reinstate" {
		t.Errorf("tenant: %+v", one)
	}
	var boxes []console.Outbox
	call("GET", "/_up/outbox", "", http.StatusOK, &boxes)
	var boards []console.Dashboard
	call("GET", "/_up/dashboards", "", http.StatusOK, &boards)
	if len(boxes) != 2 || len(boards) != 3 {
		t.Errorf("%d outboxes, %d dashboards", len(boxes), len(boards))
	}
	for _, b := range boards { // each query is understood
		var figures console.Figures
		call("GET", "/_up/dashboards/"+b.Name+"?minutes=1", "", http.StatusOK, &figures)
		if len(figures.Panels) != len(b.Panels) {
			t.Errorf("%s: %d of %d panels", b.Name, len(figures.Panels), len(b.Panels))
		}
	}
	call("GET", "/_up/dashboards/tea", "", http.StatusNotFound, nil)
	call("GET", "/_up/requests/req_tea", "", http.StatusNotFound, nil)

	seesStreams(t, w, up, bus, func() (now console.World) {
		call("GET", "/_up/world", "", http.StatusOK, &now)
		return now
	})

	// A request that ends is streamed at once.
	req, err := http.NewRequestWithContext(testkit.Context(t), http.MethodGet, server.URL+"/_up/requests/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := new(http.Client).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	up.Traces.Add(&collectorpb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{
		Spans: []*tracepb.Span{{TraceId: make([]byte, 16), SpanId: make([]byte, 8), Name: "GET /tea", Kind: tracepb.Span_SPAN_KIND_SERVER}},
	}}}}})
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if !strings.Contains(data, `"method":"GET"`) {
				t.Error(data)
			}
			break
		}
	}
}

// seesStreams: a device's stream is there while an instance listens for it, with what its
// request said, and so is the limit that decided about that.
func seesStreams(t *testing.T, w *testkit.World, up *console.Console, bus string, world func() console.World) {
	t.Helper()
	const device = "dev_01M7S191CZNW7N7FN5Z7Y40NAT"
	text := func(key, value string) *commonpb.KeyValue {
		return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
	}
	up.Traces.Add(&collectorpb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{{
		TraceId: bytes.Repeat([]byte{1}, 16), SpanId: bytes.Repeat([]byte{1}, 8), Name: "GET /x/sse/stream", Kind: tracepb.Span_SPAN_KIND_SERVER,
		StartTimeUnixNano: 1e18, Attributes: []*commonpb.KeyValue{
			text("http.route", "/x/sse/stream"), text("http.response.status_code", "200"), text("caller.device", device), text("caller.name", "opt_1"),
		},
		Events: []*tracepb.Span_Event{{Name: "limit", Attributes: []*commonpb.KeyValue{
			text("limit.name", "stream-ip"), text("limit.count", "60"), text("limit.left", "58"),
		}}},
	}}}}}}})
	if now := world(); len(now.Devices) != 0 {
		t.Errorf("no stream is open: %+v", now.Devices)
	}
	client, err := redis.Open(redis.Config{URL: w.Env()["MELMASTOON_REDIS_URL"], Tier: "test", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_ = client.Receive(ctx, client.B().Subscribe().Channel(bus+device+":channel:session").Build(), func(rueidis.PubSubMessage) {}) // until it is cancelled
	}()
	var now console.World
	testkit.Until(t, "the stream is seen", func() bool {
		now = world()
		return len(now.Devices) == 1 && now.Devices[0].Stream != nil
	})
	if d := now.Devices[0]; d.DeviceID != device || d.Stream.Since.Unix() != 1e9 || !strings.HasSuffix(d.Stream.Control.Command, "--operator opt_1 --set deviceId="+device) {
		t.Errorf("device %+v with the stream %+v", d, d.Stream)
	}
	if len(now.Limits) != 1 || now.Limits[0].Scope != "ip" || now.Limits[0].Remaining != 58 || now.Limits[0].RefillMs != 1000 || now.Limits[0].FullAt.Unix() != 1e9+2 {
		t.Errorf("limits %+v", now.Limits)
	}
}
