package consumerd_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// otlpCollector takes spans over OTLP/HTTP as a collector does.
type otlpCollector struct {
	*httptest.Server
	t       *testing.T
	refuses atomic.Bool

	mu    sync.Mutex
	spans []*tracepb.Span
}

func newCollector(t *testing.T) *otlpCollector {
	t.Helper()
	c := &otlpCollector{t: t}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *otlpCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.refuses.Load() {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	body, err := io.ReadAll(r.Body)
	var req collectorpb.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &req) != nil {
		c.t.Errorf("%s: %v", r.URL.Path, err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range req.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (c *otlpCollector) all() []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// named are the spans of a name.
func (c *otlpCollector) named(name string) []*tracepb.Span {
	return slices.DeleteFunc(c.all(), func(s *tracepb.Span) bool { return s.GetName() != name })
}

// trace are the paths of names from the root of a trace to each of its spans, once
// no span is missing on the way.
func (c *otlpCollector) trace(id []byte) (paths map[string]*tracepb.Span, whole bool) {
	spans := map[string]*tracepb.Span{}
	for _, s := range c.all() {
		if bytes.Equal(s.GetTraceId(), id) {
			spans[string(s.GetSpanId())] = s
		}
	}
	paths = map[string]*tracepb.Span{}
	for _, s := range spans {
		path := s.GetName()
		for at := s; len(at.GetParentSpanId()) > 0; path = at.GetName() + " > " + path {
			if at = spans[string(at.GetParentSpanId())]; at == nil {
				return nil, false
			}
		}
		paths[path] = s
	}
	return paths, true
}

func attributeOf(s *tracepb.Span, key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() != key {
			continue
		}
		switch v := a.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			return v.StringValue
		case *commonpb.AnyValue_IntValue:
			return strconv.FormatInt(v.IntValue, 10)
		case *commonpb.AnyValue_BoolValue:
			return strconv.FormatBool(v.BoolValue)
		}
	}
	return ""
}

// exporting are the settings of a process that sends its spans to a collector.
func exporting(c *otlpCollector) map[string]string {
	settings := map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_BSP_SCHEDULE_DELAY": "20", "MELMASTOON_TRACE_SAMPLING": "1",
		"MELMASTOON_DRAIN_DELAY": "0s", "BFF_CONSUMER_LIMITS": "off",
	}
	maps.Copy(settings, everything)
	return settings
}

const (
	guestTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	guestParent = "00-" + guestTrace + "-00f067aa0ba902b7-01"
	searchRoute = "POST /bff/consumer/v1/search"
)

// TestTraces asks a process for all that the trace of a request shows, and takes its
// collector away.
func TestTraces(t *testing.T) {
	t.Parallel()
	w := testkit.NewWorld(t, nil)
	on := newCollector(t)
	recording := w.Start("bff-consumer", exporting(on))
	testColdSearch(t, recording, on)
	on.refuses.Store(true)
	v := &visitor{base: "http://" + recording.Public}
	for range 5 {
		v.ask(t, http.StatusOK, "GET", "/suggest?q=he&locale=en", nil)
	}
	f := &fleet{World: w, t: t, nodes: []*platform.Process{recording}, client: browser}
	until(t, "failed spans are counted", func() bool { return f.metric(0, `trace_spans_total{outcome="failed"}`) > 0 })
	if err := recording.Stop(time.Minute); err != nil {
		t.Errorf("a stop without a collector: %v", err)
	}
}

func testColdSearch(t *testing.T, p *platform.Process, c *otlpCollector) {
	t.Helper()
	v := &visitor{base: "http://" + p.Public}
	v.ask(t, http.StatusOK, "GET", "/session", nil)
	insert, publish := "postgres INSERT bff_consumer.outbox", "publish "+string(consumer.SubjectSearchExecuted)

	// The event is not promised: a service that could not read the session in time
	// answers without it. Then another search is as good.
	var paths map[string]*tracepb.Span
	var route *tracepb.Span
	found := false
	ctx := testkit.Context(t)
	cities := []string{"Kabul", "Herat", "Kandahar", "Mazar-i-Sharif", "Jalalabad"}
	for n := 0; !found && n < len(cities); n++ {
		body := kabul()
		body["geo"] = map[string]any{"mode": "city", "city": cities[n%len(cities)]}
		// Asked again, a search is no longer cold.
		a, err := v.try(ctx, "POST", "/search", map[string]string{"Traceparent": guestParent}, body)
		if err != nil || a.status != http.StatusOK {
			t.Logf("a search in vain: %v %d %s", err, a.status, a.body)
			continue
		}
		id := traceOf(t, a)
		found = within(ctx, 10*time.Second, func() bool {
			var whole bool
			if paths, whole = c.trace(id); !whole || paths[searchRoute] == nil || paths[searchRoute+" > "+insert] == nil {
				return false
			}
			route = paths[searchRoute]
			return slices.ContainsFunc(c.named(publish), func(s *tracepb.Span) bool { return linked(s, route.GetTraceId(), route.GetSpanId()) })
		})
		if named := strings.Split(a.header.Get("Traceparent"), "-")[2]; route != nil && hex.EncodeToString(route.GetSpanId()) != named {
			t.Errorf("the answer names span %s, the route's is %x", named, route.GetSpanId())
		}
	}
	if !found {
		t.Fatalf("the trace of a search is not whole: %q", slices.Sorted(maps.Keys(paths)))
	}
	guest, err := hex.DecodeString(guestTrace)
	if err != nil {
		t.Fatal(err)
	}
	if !linked(route, guest, nil) || route.GetKind() != tracepb.Span_SPAN_KIND_SERVER ||
		attributeOf(route, "http.route") != "/bff/consumer/v1/search" || attributeOf(route, "http.response.status_code") != "200" {
		t.Errorf("the request's span: %v", route)
	}
	// The path to what a cold search must do, whatever is cached between.
	for _, want := range [][]string{
		{searchRoute, "cache search-list", "upstream search-aggregation POST /", "POST /"},
		{searchRoute, "cache search-list", "upstream pricing POST /", "POST /"},
		{searchRoute, "cache search-list", "redis "},
	} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(paths)), func(path string) bool { return follows(path, want) }) {
			t.Errorf("no %q in %q", want, slices.Sorted(maps.Keys(paths)))
		}
	}
	for path, s := range paths {
		_, call, below := strings.Cut(path, " > upstream ")
		if !below || !strings.Contains(call, " > ") {
			continue
		}
		if attributeOf(s, "upstream.attempt") == "" || attributeOf(s, "upstream.hedge") == "" || attributeOf(s, "upstream.outcome") == "" {
			t.Errorf("%s: %v", path, s.GetAttributes())
		}
	}
	said := ""
	for _, s := range c.all() {
		said += prototext.MarshalOptions{}.Format(s) + "\n"
	}
	for _, secret := range append(cities, v.cookie, "gms_", "ka&locale", "127.0.0.1", "Firefox", "2077-") {
		if at := strings.Index(said, secret); at >= 0 {
			t.Errorf("spans tell %q: %s", secret, said[max(0, at-200):min(len(said), at+100)])
		}
	}
}

// traceOf returns the trace that an answer names, which must be recorded and ours.
func traceOf(t *testing.T, a answer) []byte {
	t.Helper()
	names := strings.Split(a.header.Get("Traceparent"), "-")
	if len(names) != 4 || names[1] == guestTrace || names[3] != "01" {
		t.Fatalf("Traceparent = %q, want a recorded trace of our own", names)
	}
	id, err := hex.DecodeString(names[1])
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// follows reports whether the steps of a path begin with these, others between.
func follows(path string, steps []string) bool {
	for step := range strings.SplitSeq(path, " > ") {
		if len(steps) > 0 && strings.HasPrefix(step, steps[0]) {
			steps = steps[1:]
		}
	}
	return len(steps) == 0
}

func linked(s *tracepb.Span, trace, span []byte) bool {
	return slices.ContainsFunc(s.GetLinks(), func(l *tracepb.Span_Link) bool {
		return bytes.Equal(l.GetTraceId(), trace) && (span == nil || bytes.Equal(l.GetSpanId(), span))
	})
}

// within polls a condition for a while and reports whether it came true.
func within(ctx context.Context, d time.Duration, done func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}
