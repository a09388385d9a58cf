package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// reader is the reader of the log. It can stop reading.
type reader struct {
	mu     sync.Mutex
	text   bytes.Buffer
	writes int
	hold   chan struct{} // a write waits until it is closed
	fails  error
}

func (r *reader) Write(b []byte) (int, error) {
	r.mu.Lock()
	hold := r.hold
	r.mu.Unlock()
	if hold != nil {
		<-hold
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes++
	if r.fails != nil {
		return 0, r.fails
	}
	return r.text.Write(b)
}

func (r *reader) stop() (goOn func()) {
	hold := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hold = hold
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.hold = nil
		close(hold)
	}
}

func (r *reader) read() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func (r *reader) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.writes
}

func TestLogIsCollected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r reader
		log := NewLogger(&r, settings(), "test")
		log.Info("before")
		if !strings.Contains(r.read(), "before") {
			t.Fatal("without a running daemon a line must be out at once")
		}
		stop := buffered(log)
		for i := range 100 {
			log.Info("line", "i", i)
		}
		synctest.Wait()
		if r.count() != 1 {
			t.Errorf("%d writes before the delay, want the first line's", r.count())
		}
		<-time.After(logDelay + time.Millisecond)
		synctest.Wait()
		if got := strings.Count(r.read(), "\n"); r.count() != 2 || got != 101 {
			t.Errorf("after the delay %d lines in %d writes, want 101 in 2", got, r.count())
		}
		for _, level := range []slog.Level{slog.LevelWarn, slog.LevelError} {
			log.Info("leads to it")
			log.Log(t.Context(), level, "itself", "of", level.String())
			if !strings.Contains(r.read(), `"of":"`+level.String()) { // a kill here would lose nothing of it
				t.Errorf("%v is not out when the call returns", level)
			}
		}
		log.With("group", "x").WithGroup("g").Error("through slog", "a\n", 1)
		if !strings.Contains(r.read(), "through slog") {
			t.Error("an error that slog encodes is not out when the call returns")
		}
		writes := r.count()
		log.Info("large", "text", strings.Repeat("x", logBatch))
		synctest.Wait()
		if r.count() != writes+1 {
			t.Error("a full batch must not wait for the delay")
		}
		log.Info("last")
		stop()
		if !strings.HasSuffix(r.read(), "}\n") || !strings.Contains(r.read(), `"msg":"last"`) {
			t.Error("the last line is not out after the end")
		}
		log.Info("after")
		if !strings.Contains(r.read(), `"msg":"after"`) {
			t.Error("a line after the end must be out at once")
		}
	})
}

func TestBlockedLogBlocksNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r reader
		log := NewLogger(&r, settings(), "test")
		stop := buffered(log)
		defer stop()
		goOn := r.stop()
		begin := time.Now()
		log.Error("blocked")
		if took := time.Since(begin); took != logTimeout {
			t.Errorf("an error waited %v for a reader who does not read", took)
		}
		const line, n = 1000, 3 * logWaiting / 1000
		for range n {
			log.Error("x", "text", strings.Repeat("x", line))
		}
		if took := time.Since(begin); took != logTimeout {
			t.Errorf("later errors waited as well: %v", took)
		}
		goOn()
		synctest.Wait()
		<-time.After(logDelay)
		synctest.Wait()
		kept, dropped := 0, 0
		for l := range strings.Lines(r.read()) {
			var event struct {
				Msg     string `json:"msg"`
				Service string `json:"service"`
				Dropped int    `json:"dropped"`
			}
			if err := json.Unmarshal([]byte(l), &event); err != nil || event.Service != "test" {
				t.Fatalf("%q: %v", l, err)
			}
			if event.Dropped > 0 {
				dropped += event.Dropped
			} else {
				kept++
			}
		}
		if dropped == 0 || kept+dropped != n+1 {
			t.Errorf("%d lines kept and %d said to be dropped, want %d in all", kept, dropped, n+1)
		}
		log.Error("again")
		if !strings.Contains(r.read(), "again") {
			t.Error("an error is not out at once although the reader reads again")
		}
	})
}

func TestLogCountsWhatCouldNotBeWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r reader
		log := NewLogger(&r, settings(), "test")
		stop := buffered(log)
		r.fails = errors.New("no space left")
		log.Error("one")
		log.Error("two")
		synctest.Wait()
		r.mu.Lock()
		r.fails = nil
		r.mu.Unlock()
		log.Error("three")
		stop()
		if got := r.read(); !strings.Contains(got, "three") || !strings.Contains(got, `"dropped":2`) {
			t.Errorf("log: %s", got)
		}
	})
}

func TestStopDoesNotWaitForABlockedLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r reader
		log := NewLogger(&r, settings(), "test")
		goOn := r.stop()
		d := New(settings(), log)
		begin := time.Now()
		stop := buffered(log)
		d.Log.Info("x")
		stop()
		if took := time.Since(begin); took != logTimeout {
			t.Errorf("the stop took %v", took)
		}
		log.Info("still blocks nobody")
		goOn()
		synctest.Wait()
	})
}

func TestDaemonFlushesItsLog(t *testing.T) {
	t.Parallel()
	var r reader
	d := New(settings(), NewLogger(&r, settings(), "test"))
	ctx, cancel := context.WithCancel(t.Context())
	d.Add("x", func(context.Context) error { d.Log.Info("part started"); cancel(); return nil }, nil)
	if err := d.Run(ctx); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"part started", `"msg":"ready"`, `"msg":"stopped"`} {
		if !strings.Contains(r.read(), want) {
			t.Errorf("%s is not in the log:\n%s", want, r.read())
		}
	}
}

func TestTextLog(t *testing.T) {
	t.Parallel()
	var r reader
	s := settings()
	s.LogFormat, s.Instance = "text", "i"
	log := NewLogger(&r, s, "test")
	log.Info("hello", "a", "b c")
	if got := r.read(); !strings.Contains(got, `msg=hello service=test instance=i a="b c"`) {
		t.Errorf("log: %s", got)
	}
}

func nasty() []string {
	return []string{
		"", "plain", `quote " and \ backslash`, "line\nbreak", "tab\t", "\x00\x01\x1f\x7f", "\u0080", "é", "دری", "\u2028\u2029", "\xff\xfe", "a\xc3", "<script>&'", "\u200b", "😀",
		"\ud7ff\ue000\ufffd", "~", "!", strings.Repeat("x", 5000),
	}
}

// sameAsSlog compares a logger's line with what slog.JSONHandler writes.
func sameAsSlog(t *testing.T, with []any, group string, level slog.Level, at time.Time, msg string, attrs ...slog.Attr) {
	t.Helper()
	var want, got bytes.Buffer
	opts := &slog.HandlerOptions{Level: slog.LevelDebug}
	s := newSink(&got, nil)
	for _, h := range []slog.Handler{slog.NewJSONHandler(&want, opts), &logHandler{Handler: slog.NewJSONHandler(s, opts), sink: s, plain: true}} {
		h = slog.New(h).With(with...).Handler()
		if group != "" {
			h = h.WithGroup(group)
		}
		r := slog.NewRecord(at, level, msg, 0)
		r.AddAttrs(attrs...)
		if err := h.Handle(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if got.String() != want.String() {
		t.Errorf("got  %s\nwant %s", &got, &want)
	}
}

func TestLogIsWhatSlogWrites(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 4, 22, 12, 0, 0, 123456789, time.FixedZone("", 16200))
	for _, s := range nasty() {
		sameAsSlog(t, []any{"service", "x"}, "", slog.LevelInfo, noon, "request", slog.String("a", s), slog.Int("b", 1))
		sameAsSlog(t, []any{"service", s}, "", slog.LevelInfo, noon, "request", slog.String("a", "x"))
		sameAsSlog(t, nil, "", slog.LevelInfo, noon, s, slog.String("a", "x"))
		sameAsSlog(t, nil, "", slog.LevelInfo, noon, "request", slog.String(s, "x"), slog.Int("b", 1))
		sameAsSlog(t, []any{s, "x"}, s, slog.LevelInfo, noon, "request", slog.String("a", "x"))
	}
	for _, f := range []float64{
		0, math.Copysign(0, -1), 1, -1, 0.001, 12.345, 1e-6, 9.9e-7, 1e20, 1e21, 1e22, -1e21, 123456789.125, math.MaxFloat64, math.SmallestNonzeroFloat64,
		math.Inf(1), math.Inf(-1), math.NaN(), 1.0 / 3,
	} {
		sameAsSlog(t, nil, "", slog.LevelInfo, noon, "x", slog.Float64("f", f))
	}
	for _, at := range []time.Time{
		{},
		noon, noon.UTC(), time.Now(), time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		sameAsSlog(t, nil, "", slog.LevelWarn, at, "x", slog.Time("t", at))
	}
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelError, slog.LevelInfo + 1, -100, 100} {
		sameAsSlog(t, []any{"k", level}, "", level, noon, "x")
	}
	sameAsSlog(t, []any{"n", 1, slog.Group("g", "a", 1)}, "group", slog.LevelInfo, noon, "x",
		slog.Int64("i", math.MinInt64), slog.Uint64("u", math.MaxUint64), slog.Bool("b", true), slog.Duration("d", time.Second))
	sameAsSlog(t, nil, "", slog.LevelInfo, noon, "x",
		slog.Int64("i", math.MinInt64), slog.Uint64("u", math.MaxUint64), slog.Bool("b", true), slog.Duration("d", time.Second), slog.Attr{},
		slog.Any("nil", nil), slog.Any("err", io.EOF), slog.Any("secret", Secret("hunter2")), slog.Any("map", map[string]int{"a": 1}), slog.Group("g", "a", 1), slog.Group("empty"))
	sameAsSlog(t, nil, "", slog.LevelInfo, noon, "x")
}

func FuzzLog(f *testing.F) {
	for _, s := range nasty() {
		f.Add(s, s, s, 1.5, int64(1), int64(0))
	}
	f.Fuzz(func(t *testing.T, msg, key, value string, float float64, i, at int64) {
		sameAsSlog(t, []any{"service", value}, "", slog.LevelInfo, time.Unix(at, i).UTC(), msg,
			slog.String(key, value), slog.Float64("f", float), slog.Int64("i", i))
	})
}

func TestLogConcurrently(t *testing.T) {
	t.Parallel()
	var r reader
	log := NewLogger(&r, settings(), "test")
	stop := buffered(log)
	const callers, each = 8, 200
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				log.Info("line", "name", fmt.Sprintf("%d.%d", c, i), "text", "a\nb")
				if i%50 == 0 {
					log.Warn("flush")
				}
			}
		})
	}
	wg.Wait()
	stop()
	seen := map[string]bool{}
	for l := range strings.Lines(r.read()) {
		var event struct {
			Name string `json:"name"`
		}
		if err := json.Unmarshal([]byte(l), &event); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		seen[event.Name] = true
	}
	if len(seen) != callers*each+1 {
		t.Errorf("%d different lines, want %d", len(seen), callers*each+1)
	}
}

// BenchmarkLog writes a request's event as slog does and as we do.
func BenchmarkLog(b *testing.B) {
	names := []slog.Attr{slog.String("service", "bff-consumer"), slog.String("instance", "bff-consumer-vm-29435")}
	s := newSink(io.Discard, nil)
	for _, bm := range []struct {
		name    string
		handler slog.Handler
	}{
		{"slog", slog.NewJSONHandler(s, nil)},
		{"ours", &logHandler{Handler: slog.NewJSONHandler(s, nil), sink: s, plain: true}},
	} {
		h := bm.handler.WithAttrs(names)
		b.Run(bm.name, func(b *testing.B) {
			now := time.Now()
			b.ReportAllocs()
			for b.Loop() {
				r := slog.NewRecord(now, slog.LevelInfo, "request", 0)
				r.AddAttrs(slog.String("method", "GET"), slog.String("route", "GET /bff/consumer/v1/hotels/{propertyId}"), slog.Int("status", 200),
					slog.Float64("ms", 0.592), slog.Int64("bytes", 2523), slog.String("requestId", "req_01M7H7GHJSDJX01R53VZPR37TR"),
					slog.String("traceparent", "00-91155a74b00a27a12f0f5875abb6069d-69efda457e84f8dd-00"))
				_ = h.Handle(b.Context(), r)
			}
		})
	}
}
