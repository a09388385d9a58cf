package flags

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/goleak"
)

const someFlag = "some.flag.v1"

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"),              // started by being linked
		goleak.IgnoreAnyFunction("melmastoon.ghasi.io/bff/internal/local/stack.start.func1"), // the shared server
	)
}

// held is a source in memory.
type held struct {
	name string

	mu     sync.Mutex
	values map[string]string
	err    error
	slow   time.Duration
	bell   func()
}

func (h *held) Name() string { return h.name }

func (h *held) Load(ctx context.Context) (map[string]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.slow > 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return maps.Clone(h.values), h.err
}

func (h *held) set(values map[string]string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.values, h.err = values, err
}

// pushing is held that tells of changes.
type pushing struct{ held }

func (p *pushing) Watch(ctx context.Context, changed func()) {
	p.mu.Lock()
	p.bell = changed
	p.mu.Unlock()
	<-ctx.Done()
}

func newFlags(tb testing.TB, cfg Config) *Flags {
	tb.Helper()
	f, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

func TestTypes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text       string // "": no value
		wantBool   bool   // default true
		wantInt    int64  // default 7
		wantFloat  float64
		wantString string
	}{
		{"", true, 7, 0.5, "def"},
		{"false", false, 7, 0.5, "false"},
		{"TRUE", true, 7, 0.5, "TRUE"},
		{"off", false, 7, 0.5, "off"},
		{"0", false, 0, 0, "0"},
		{"1", true, 1, 1, "1"},
		{"-3", true, -3, -3, "-3"},
		{"1e3", true, 1000, 1000, "1e3"},
		{"2.5", true, 7, 2.5, "2.5"},
		{"NaN", true, 7, 0.5, "NaN"},
		{"1e400", true, 7, 0.5, "1e400"},
		{"9007199254740993", true, 9007199254740993, 9007199254740993, "9007199254740993"},
		{"blue", true, 7, 0.5, "blue"},
	}
	for _, tt := range tests {
		values := map[string]string{}
		if tt.text != "" {
			values["f"] = tt.text
		}
		f := newFlags(t, Config{Sources: []Source{&held{name: "memory", values: values}}})
		if err := f.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if b, i, fl, s := f.Bool("f", true), f.Int("f", 7), f.Float("f", 0.5), f.String("f", "def"); b != tt.wantBool || i != tt.wantInt || fl != tt.wantFloat ||
			s != tt.wantString {
			t.Errorf("%q: %v, %v, %v, %q; want %v, %v, %v, %q", tt.text, b, i, fl, s, tt.wantBool, tt.wantInt, tt.wantFloat, tt.wantString)
		}
	}
}

func TestLayers(t *testing.T) {
	t.Parallel()
	below := &held{name: "below", values: map[string]string{"a": "1", "b": "1"}}
	above := &held{name: "above", values: map[string]string{"b": "2", "c": "2"}}
	var logged bytes.Buffer
	reg := prometheus.NewRegistry()
	f := newFlags(t, Config{Sources: []Source{below, above}, Log: slog.New(slog.NewTextHandler(&logged, nil)), Metrics: reg, Namespace: "bff_test"})
	if f.Int("a", 9) != 9 {
		t.Error("not the default before the first refresh")
	}
	check := func(when string, wantErr bool, want [3]int64) {
		t.Helper()
		if err := f.Refresh(t.Context()); (err != nil) != wantErr {
			t.Errorf("%s: %v", when, err)
		}
		if got := [3]int64{f.Int("a", 0), f.Int("b", 0), f.Int("c", 0)}; got != want {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	check("both", false, [3]int64{1, 2, 2})
	check("nothing new", false, [3]int64{1, 2, 2})
	above.set(nil, errors.New("away"))
	check("one fails, its last good values stand", true, [3]int64{1, 2, 2})
	below.set(map[string]string{"a": "5", "b": "5"}, nil)
	check("the other goes on", true, [3]int64{5, 2, 2})
	if !strings.Contains(scrape(t, reg), `bff_test_flags_source_stale{source="above"} 1`) {
		t.Errorf("metrics:\n%s", scrape(t, reg))
	}
	above.set(map[string]string{"c": "2"}, nil)
	check("back, without b", false, [3]int64{5, 5, 2})
	above.set(make1001(), nil)
	check("too many", true, [3]int64{5, 5, 2})
	above.set(map[string]string{"c": strings.Repeat("x", maxValue+1)}, nil)
	check("too long", false, [3]int64{5, 5, 0})
	below.set(nil, nil)
	check("all gone", false, [3]int64{0, 0, 0})

	var changes []string
	for line := range strings.Lines(logged.String()) {
		if _, changed, ok := strings.Cut(line, `msg="flags changed" flags=`); ok {
			changes = append(changes, strings.TrimSpace(changed))
		}
	}
	if diff := cmp.Diff([]string{`"[a b c]"`, "[a]", "[b]", "[c]", `"[a b]"`}, changes); diff != "" {
		t.Errorf("changes that were logged (-want +got):\n%s", diff)
	}
	if n := strings.Count(logged.String(), "could not be read"); n != 2 {
		t.Errorf("%d outages logged, want 2:\n%s", n, &logged)
	}
	if f.Bool("c", true); strings.Contains(scrape(t, reg), "type_mismatch_total{") {
		t.Error("a missing flag counted as mistyped")
	}
}

func make1001() map[string]string {
	m := map[string]string{}
	for i := range maxFlags + 1 {
		m[strings.Repeat("x", i)] = "1"
	}
	return m
}

func scrape(tb testing.TB, reg *prometheus.Registry) string {
	tb.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequestWithContext(tb.Context(), http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// Run reads by the clock and when told; a source that hangs does not hold up anything
// for longer than its time, and everything ends with the context.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		polled := &held{name: "polled", values: map[string]string{"polled": "1"}}
		pushed := &pushing{held{name: "pushed"}}
		hanging := &held{name: "hanging", slow: time.Hour}
		f := newFlags(t, Config{Sources: []Source{polled, pushed, hanging}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- f.Run(ctx) }()
		sleep := func(d time.Duration) { // in synctest's time
			<-time.After(d)
			synctest.Wait()
		}
		sleep(2 * time.Second)
		if f.Int("polled", 0) != 1 {
			t.Error("not read at the start")
		}
		pushed.set(map[string]string{"pushed": "1"}, nil)
		pushed.bell()
		pushed.bell() // a second ring while the first is heard is kept
		sleep(2 * time.Second)
		if f.Int("pushed", 0) != 1 {
			t.Error("a push was not heard")
		}
		polled.set(map[string]string{"polled": "2"}, nil)
		sleep(10 * time.Second)
		if f.Int("polled", 0) != 2 {
			t.Error("not read by the clock")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestNewReportsFaults(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Sources: []Source{NewFile("a"), NewFile("b")}, Every: -1})
	if err == nil || !strings.Contains(err.Error(), "two sources") || !strings.Contains(err.Error(), "negative") {
		t.Errorf("got %v", err)
	}
}

// The cost of asking on every request.
func BenchmarkBool(b *testing.B) {
	f := newFlags(b, Config{Sources: []Source{&held{name: "memory", values: map[string]string{someFlag: "true"}}}})
	if err := f.Refresh(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if !f.Bool(someFlag, false) {
			b.Fatal("off")
		}
	}
}
