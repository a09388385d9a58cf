package batch_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace"

	"melmastoon.ghasi.io/bff/internal/batch"
	"melmastoon.ghasi.io/bff/internal/tracing"
	"melmastoon.ghasi.io/bff/internal/tracing/tracingtest"
)

var errBad = errors.New("bad item")

// ledger remembers each write; negative items are refused.
type ledger struct {
	mu     sync.Mutex
	writes [][]int
	last   time.Time // of a write
	took   time.Duration
}

func (l *ledger) write(ctx context.Context, items []int) error {
	select {
	case <-time.After(l.took):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if slices.Min(items) < 0 {
		return errBad
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes, l.last = append(l.writes, slices.Clone(items)), time.Now()
	return nil
}

func (l *ledger) writer(size, most int) *batch.Writer[int] {
	return batch.New(batch.Config[int]{
		Write: l.write, Refused: func(err error) bool { return errors.Is(err, errBad) }, Size: size, Most: most, Timeout: time.Minute,
	})
}

func TestCallersShareWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{took: time.Second}
		w := l.writer(4, 100)
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				if err := w.Add(t.Context(), i); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		var sizes, all []int
		for _, items := range l.writes {
			sizes = append(sizes, len(items))
			all = append(all, items...)
		}
		slices.Sort(all)
		if !slices.Equal(sizes, []int{1, 4, 4, 1}) || !slices.Equal(all, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
			t.Errorf("writes %v", l.writes)
		}
	})
}

// One refused item fails its own caller alone.
func TestRefusedItemFailsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{took: time.Second}
		w := l.writer(10, 100)
		got := make([]error, 4)
		var wg sync.WaitGroup
		for i, item := range []int{1, 2, -1, 3} {
			wg.Go(func() { got[i] = w.Add(t.Context(), item) })
			synctest.Wait()
		}
		wg.Wait()
		for i, err := range got {
			if want := i == 2; errors.Is(err, errBad) != want {
				t.Errorf("item %d: %v", i, err)
			}
		}
		if len(l.writes) != 3 {
			t.Errorf("writes %v", l.writes)
		}
	})
}

// A caller that goes does not take the others' items along, nor its own: what was
// accepted is written once.
func TestCallerThatGoesLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{took: time.Second}
		w := l.writer(10, 100)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for item := 1; item <= 2; item++ { // one is being written, the other waits
			wg.Go(func() {
				if err := w.Add(ctx, item); !errors.Is(err, context.Canceled) {
					t.Errorf("cancelled, item %d: %v", item, err)
				}
			})
			synctest.Wait()
		}
		wg.Go(func() {
			if err := w.Add(t.Context(), 3); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		cancel()
		wg.Wait()
		var all []int
		for _, items := range l.writes {
			all = append(all, items...)
		}
		slices.Sort(all)
		if !slices.Equal(all, []int{1, 2, 3}) {
			t.Errorf("writes %v", l.writes)
		}
	})
}

// No caller waits longer than it has time for while the write hangs, the first one
// included; what they brought is written once, when it can be.
func TestCallersLeaveAWriteThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{took: 30 * time.Second}
		w := l.writer(10, 100)
		var wg sync.WaitGroup
		for i, patience := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				began := time.Now()
				err := w.Add(ctx, i)
				if took := time.Since(began); took != patience || !errors.Is(err, batch.ErrLate) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("caller %d has %v and left after %v: %v", i, patience, took, err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		l.mu.Lock()
		written := len(l.writes)
		l.mu.Unlock()
		if written != 0 {
			t.Fatal("the write did not hang")
		}
		if err := w.Add(t.Context(), 9); err != nil {
			t.Errorf("after it: %v", err)
		}
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
		all := slices.Sorted(slices.Values(slices.Concat(l.writes...)))
		if !slices.Equal(all, []int{0, 1, 2, 9}) {
			t.Errorf("writes %v", l.writes)
		}
	})
}

func TestFullAndClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{took: time.Second}
		w := l.writer(10, 2)
		var wg sync.WaitGroup
		for i := range 3 { // one is written, two wait
			wg.Go(func() {
				if err := w.Add(t.Context(), i); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		if err := w.Add(t.Context(), 9); !errors.Is(err, batch.ErrFull) {
			t.Errorf("one too many: %v", err)
		}
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if err := w.Add(t.Context(), 9); !errors.Is(err, batch.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
		if n := len(slices.Concat(l.writes...)); n != 3 {
			t.Errorf("%d items written, want 3", n)
		}
	})
}

// TestWritesBelongToATrace of a caller that is recorded, also if another one writes.
func TestWritesBelongToATrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tracer, _ := tracingtest.New(1)
		ctx, span := tracer.Begin(t.Context(), "request", trace.SpanKindServer)
		var got []trace.Span
		w := batch.New(batch.Config[int]{Size: 4, Most: 100, Timeout: time.Minute, Write: func(ctx context.Context, _ []int) error {
			<-time.After(time.Second)
			got = append(got, tracing.Of(ctx))
			return nil
		}})
		var wg sync.WaitGroup
		for _, caller := range []context.Context{t.Context(), t.Context(), ctx} { // one write alone, then the others together
			wg.Go(func() {
				if err := w.Add(caller, 1); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if len(got) != 2 || got[0] != nil || got[1] != span {
			t.Errorf("writes are recorded under %v, want nothing and %v", got, span)
		}
	})
}

// Items that no caller waits for gather for a while; a caller that waits, a full write
// or the end does not let them.
func TestPutGathers(t *testing.T) {
	t.Parallel()
	const pause = 20 * time.Millisecond
	for name, tc := range map[string]struct {
		then     func(ctx context.Context, w *batch.Writer[int]) error // after the second item
		wantTook time.Duration                                         // until both are written
		want     [][]int
	}{
		"nothing": {wantTook: pause, want: [][]int{{1}, {2}}},
		"flush":   {then: func(ctx context.Context, w *batch.Writer[int]) error { return w.Flush(ctx) }, want: [][]int{{1}, {2}}},
		"add":     {then: func(ctx context.Context, w *batch.Writer[int]) error { return w.Add(ctx, 3) }, want: [][]int{{1}, {2, 3}}},
		"full":    {then: func(_ context.Context, w *batch.Writer[int]) error { return w.Put(nil, 3) }, wantTook: pause, want: [][]int{{1}, {2, 3}}},
		"close":   {then: func(ctx context.Context, w *batch.Writer[int]) error { return w.Close(ctx) }, want: [][]int{{1}, {2}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := &ledger{}
				w := batch.New(batch.Config[int]{
					Write: l.write, Size: 2, Most: 3, Timeout: time.Minute, Pause: func(items int) time.Duration { return time.Duration(items) * pause },
				})
				if err := w.Flush(t.Context()); err != nil {
					t.Errorf("with nothing to write: %v", err)
				}
				began := time.Now()
				for i := 1; i <= 2; i++ {
					if err := w.Put(nil, i); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				if tc.then != nil {
					if err := tc.then(t.Context(), w); err != nil {
						t.Fatal(err)
					}
				}
				<-time.After(time.Second)
				if took := l.last.Sub(began); took != tc.wantTook || !slices.EqualFunc(l.writes, tc.want, slices.Equal) {
					t.Errorf("%v after %v, want %v after %v", l.writes, took, tc.want, tc.wantTook)
				}
			})
		})
	}
}

// An item that no caller waits for is refused beyond the bound, and a caller gives a write up that hangs.
func TestPutIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{took: time.Second}
		w := batch.New(batch.Config[int]{Write: l.write, Size: 2, Most: 2, Timeout: time.Minute, Pause: func(int) time.Duration { return 0 }})
		for i := range 3 { // one is written, two wait
			if err := w.Put(nil, i); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if err := w.Put(nil, 9); !errors.Is(err, batch.ErrFull) {
			t.Errorf("one too many: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := w.Flush(ctx); !errors.Is(err, batch.ErrLate) {
			t.Errorf("flush of a write that hangs: %v", err)
		}
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if n := len(slices.Concat(l.writes...)); n != 3 {
			t.Errorf("%d items written, want 3", n)
		}
	})
}
