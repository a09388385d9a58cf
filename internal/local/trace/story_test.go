package trace_test

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/local/trace"
	"melmastoon.ghasi.io/bff/internal/pause"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// TestStoreIsBounded: the oldest stories are forgotten, and what is no export is refused.
func TestStoreIsBounded(t *testing.T) {
	t.Parallel()
	store := trace.New(trace.Config{})
	post := func(body []byte, encoding string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/traces", bytes.NewReader(body))
		r.Header.Set("Content-Encoding", encoding)
		w := httptest.NewRecorder()
		store.ServeHTTP(w, r)
		return w.Code
	}
	id := func(n int) []byte { return fmt.Appendf(nil, "%016d", n) }
	const sent, most = 4100, 4000
	var spans []*tracepb.Span
	for n := range sent {
		spans = append(spans, &tracepb.Span{TraceId: id(n), SpanId: id(n)[8:], Name: "GET /x", Kind: tracepb.Span_SPAN_KIND_SERVER})
	}
	b, err := proto.Marshal(&collectorpb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{Spans: spans}}}}})
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	_, _ = zip.Write(b) // a buffer takes everything
	_ = zip.Close()
	if status := post(packed.Bytes(), "gzip"); status != http.StatusOK {
		t.Fatal(status)
	}
	for n, want := range map[int]bool{0: false, sent - most - 1: false, sent - most: true, sent - 1: true} {
		if _, known := store.Find(hex.EncodeToString(id(n))); known != want {
			t.Errorf("trace %d is known: %v", n, known)
		}
	}
	if post([]byte("\xff"), "") != http.StatusBadRequest || post([]byte("no gzip"), "gzip") != http.StatusBadRequest {
		t.Error("what is no export was taken")
	}
}

// TestProofStoriesNameTheirFaults: of random searches and pages under random faults, the
// story names the fault that struck, and has the calls that the simulator counted.
func TestProofStoriesNameTheirFaults(t *testing.T) {
	t.Parallel()
	requests := testkit.Proof(40, 300)
	w := testkit.NewWorld(t, nil)
	store := trace.New(trace.Config{Met: w.Sim.Met})
	receiver := httptest.NewServer(store)
	t.Cleanup(receiver.Close)
	settings := platform.Traced(receiver.URL)
	settings["BFF_CONSUMER_BOT_DEFENCE"], settings["BFF_CONSUMER_LIMITS"] = "watch", "off"
	p := w.Start("bff-consumer", settings)
	half := 0.5
	faults := []sim.Fault{
		{LatencyMs: 50, JitterMs: 50},
		{Status: http.StatusServiceUnavailable},
		{ErrorRate: &half, Status: http.StatusInternalServerError},
		{Garbage: true},
		{Hang: true},
	}
	upstreams := []string{"pricing", "theme-config", "search-aggregation", "property", "tenant"}
	properties, rng := w.Sim.Catalog().Properties, rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a drill
	struck, named, miscounted := 0, 0, 0
	for n := range requests {
		fault := faults[rng.IntN(len(faults))]
		fault.Upstream = upstreams[rng.IntN(len(upstreams))]
		if err := w.Sim.SetFault(fault); err != nil {
			t.Fatal(err)
		}
		house := properties[rng.IntN(len(properties))]
		id := ask(t, "http://"+p.Public+"/bff/consumer/v1", house, n)
		hits := w.Sim.Faults()[0].Hits
		w.Sim.ClearFaults()

		// Each of its calls that came to the simulator is in the story, once: what goes on
		// after the response ends later.
		var story *trace.Story
		whole := soon(t, func() (known bool) {
			story, known = store.Find(id)
			return known && called(story) == w.Sim.Came(story.TraceID)
		})
		if story == nil {
			t.Fatalf("request %d has no story", n)
		}
		if !whole {
			miscounted++
			t.Logf("%d calls in the story, %d at the simulator\n%s", called(story), w.Sim.Came(story.TraceID), story.Text)
		}
		if hits == 0 {
			continue
		}
		struck++
		if b, _ := json.Marshal(story.Faults); strings.Contains(string(b), fault.Upstream+": fault ") && strings.Contains(story.Text, fault.String()) {
			named++
		} else {
			t.Logf("%s: %s struck %d calls and is not named\n%s", fault.Upstream, fault, hits, story.Text)
		}
	}
	t.Logf("%d requests, %d struck, %d stories name the fault, %d miscounted", requests, struck, named, miscounted)
	if struck < requests/4 || named*100 < struck*99 || miscounted > 0 {
		t.Errorf("%d of %d name their fault, %d of %d miscount their calls", named, struck, miscounted, requests)
	}
}

// called is how many calls of a story came to an upstream.
func called(s *trace.Story) (n int) {
	for _, c := range s.Calls {
		for _, a := range c.Attempts {
			n += a.Came
		}
	}
	return n
}

// soon reports whether something becomes true in the time that a busy machine may need.
func soon(t *testing.T, done func() bool) bool {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); pause.For(t.Context(), 10*time.Millisecond) {
		if done() {
			return true
		}
	}
	return false
}

// ask sends a request that no earlier one has the answer of, and returns its id.
func ask(t *testing.T, base string, house sim.CatalogProperty, n int) string {
	t.Helper()
	in := time.Now().AddDate(0, 0, 7+n)
	req, err := http.NewRequestWithContext(testkit.Context(t), http.MethodPost, base+"/search", strings.NewReader(fmt.Sprintf(
		`{"geo":{"mode":"city","city":%q},"dates":{"checkIn":%q,"checkOut":%q},"occupancy":{"adults":2,"children":0,"rooms":1}}`,
		house.City, in.Format(time.DateOnly), in.AddDate(0, 0, 2).Format(time.DateOnly),
	)))
	if n%2 == 0 {
		req, err = http.NewRequestWithContext(testkit.Context(t), http.MethodGet, base+"/hotels/"+house.PropertyID, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := new(http.Client).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close() // its id is wanted
	return res.Header.Get("X-Request-Id")
}
