package fairqueue

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// desk serves so many at once, and lets others wait.
type desk struct {
	mu     sync.Mutex
	free   int
	places int
	queue  *Queue[string]
	served []string
}

func newDesk(places, most int) *desk {
	return &desk{free: places, places: places, queue: New[string](most)}
}

// enter takes a place, and reports whether there was one in time.
func (d *desk) enter(ctx context.Context, key string, patience time.Duration) bool {
	d.mu.Lock()
	if d.free > 0 && d.queue.Len() == 0 {
		d.free--
		d.queue.Passed()
		d.served = append(d.served, key)
		d.mu.Unlock()
		return true
	}
	w := d.queue.Join(key, time.Now(), patience, d.places)
	d.mu.Unlock()
	if w == nil {
		return false
	}
	late := w.Wait(ctx, patience)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.queue.Leave(w, time.Now(), late) {
		return false
	}
	d.served = append(d.served, key)
	return true
}

func (d *desk) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free++
	if d.queue.Call(time.Now()) {
		d.free--
	}
}

// arrive has callers enter one after the other; each stays for as long as service takes.
func (d *desk) arrive(ctx context.Context, wg *sync.WaitGroup, patience, service time.Duration, keys ...string) *sync.Map {
	refused := &sync.Map{}
	for i, key := range keys {
		wg.Go(func() {
			if !d.enter(ctx, key, patience) {
				refused.Store(i, key)
				return
			}
			<-time.After(service)
			d.leave()
		})
		synctest.Wait()
	}
	return refused
}

// look is how many wait, in how many lines, and whether that is overload.
func (d *desk) look() (waiters, lines int, overload bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.queue.Len(), len(d.queue.lines), d.queue.overload
}

func count(m *sync.Map) (n int) {
	m.Range(func(any, any) bool { n++; return true })
	return n
}

// TestTurns: each line keeps the order of arrival, and lines take turns, so that a caller with
// many requests delays only its own.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(1, 100)
		var wg sync.WaitGroup
		refused := d.arrive(t.Context(), &wg, time.Hour, time.Second, strings.Split("a1 a a a a b b c", " ")...)
		wg.Wait()
		if want := strings.Split("a1 a b c a b a a", " "); !slices.Equal(d.served, want) || count(refused) != 0 {
			t.Errorf("served %v, want %v", d.served, want)
		}
		if waiters, lines, _ := d.look(); waiters != 0 || lines != 0 || d.free != 1 {
			t.Errorf("left behind: %d waiters, %d lines, %d places", waiters, lines, d.free)
		}
	})
}

// TestBurst: what arrives at once is served to the last, if there is time for it, however long
// the queue is for a while.
func TestBurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(4, 1000)
		var wg sync.WaitGroup
		refused := d.arrive(t.Context(), &wg, time.Second, 10*time.Millisecond, slices.Repeat([]string{"a", "b"}, 200)...)
		wg.Wait()
		if count(refused) != 0 || len(d.served) != 400 { // in a second
			t.Errorf("served %d, refused %d, want all", len(d.served), count(refused))
		}
	})
}

// TestOutOfTime: a caller is refused when it could no longer be served, and not before; one
// that has no time does not wait.
func TestOutOfTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(1, 100)
		var wg sync.WaitGroup
		d.arrive(t.Context(), &wg, 0, 3*time.Second, "a")
		begin := time.Now()
		if d.enter(t.Context(), "b", 0) || time.Since(begin) != 0 {
			t.Errorf("without time: answered after %v", time.Since(begin))
		}
		if d.enter(t.Context(), "c", 2*time.Second) || time.Since(begin) != 2*time.Second {
			t.Errorf("refused after %v, want 2s", time.Since(begin))
		}
		wg.Wait()
		if waiters, _, _ := d.look(); waiters != 0 {
			t.Errorf("%d still wait", waiters)
		}
	})
	for _, tt := range []struct{ left, usual, want time.Duration }{
		{4 * time.Second, 0, 3 * time.Second},
		{4 * time.Second, 100 * time.Millisecond, 3 * time.Second},
		{4 * time.Second, time.Second, 2 * time.Second},
		{time.Second, time.Second, -time.Second},
	} {
		if got := Patience(tt.left, tt.usual); got != tt.want {
			t.Errorf("Patience(%v, %v) = %v, want %v", tt.left, tt.usual, got, tt.want)
		}
	}
}

// TestGone: a caller that goes away leaves the queue at once, and its place in the line to the
// next one. That is no sign of overload.
func TestGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(1, 100)
		var wg sync.WaitGroup
		d.arrive(t.Context(), &wg, 0, time.Second, "a")
		ctx, cancel := context.WithCancel(t.Context())
		gone := d.arrive(ctx, &wg, time.Hour, time.Second, "b", "c", "b")
		d.arrive(t.Context(), &wg, time.Hour, time.Second, "d")
		cancel()
		synctest.Wait()
		if waiters, lines, overload := d.look(); count(gone) != 3 || waiters != 1 || lines != 1 || overload {
			t.Errorf("%d gone, %d wait in %d lines, overload %v", count(gone), waiters, lines, overload)
		}
		wg.Wait()
		if want := []string{"a", "d"}; !slices.Equal(d.served, want) {
			t.Errorf("served %v, want %v", d.served, want)
		}
	})
}

// TestRoom: the room is bounded, and one key leaves a third of it to others.
func TestRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(1, 30)
		var wg sync.WaitGroup
		hog := d.arrive(t.Context(), &wg, time.Hour, time.Second, slices.Repeat([]string{"a"}, 100)...)
		if waiters, _, _ := d.look(); waiters != 20 || count(hog) != 79 {
			t.Errorf("one key: %d wait, %d refused", waiters, count(hog))
		}
		others := make([]string, 20)
		for i := range others {
			others[i] = string(rune('b' + i))
		}
		refused := d.arrive(t.Context(), &wg, time.Hour, time.Second, others...)
		if waiters, _, _ := d.look(); waiters != 30 || count(refused) != 10 {
			t.Errorf("full: %d wait, %d refused", waiters, count(refused))
		}
		wg.Wait()
		if got := len(d.served); got != 31 {
			t.Errorf("%d served", got)
		}
	})
}

// flood sends twice what a desk can serve, under one key.
func (d *desk) flood(ctx context.Context, wg *sync.WaitGroup, lasting time.Duration) {
	for begin := time.Now(); time.Since(begin) < lasting; {
		d.arrive(ctx, wg, time.Second, 160*time.Millisecond, "flood")
		<-time.After(5 * time.Millisecond) // 16 places and 160 ms: 100 a second
	}
}

// TestOverload: a queue that keeps growing is cut, long before its waiters run out of time, and
// kept short until the overload is over. Others than those who flood still find a place.
func TestOverload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(16, 1000)
		var wg sync.WaitGroup
		d.flood(t.Context(), &wg, 500*time.Millisecond)
		if waiters, _, overload := d.look(); overload || waiters < 30 {
			t.Errorf("half of a waiter's time: overload %v, %d wait", overload, waiters)
		}
		d.flood(t.Context(), &wg, time.Second)
		if waiters, _, overload := d.look(); !overload || waiters > 2 {
			t.Errorf("overload %v, %d wait, want 2", overload, waiters)
		}
		wg.Go(func() { d.flood(t.Context(), &wg, 5*time.Second) })
		for range 20 {
			<-time.After(200 * time.Millisecond)
			begin := time.Now()
			if !d.enter(t.Context(), "guest", time.Second) || time.Since(begin) > 160*time.Millisecond {
				t.Errorf("a guest was refused, or had to wait for %v", time.Since(begin))
				continue
			}
			d.leave()
		}
		wg.Wait()

		<-time.After(calmFor)
		refused := d.arrive(t.Context(), &wg, time.Second, 10*time.Millisecond, slices.Repeat([]string{"a"}, 100)...)
		wg.Wait()
		if count(refused) != 0 {
			t.Errorf("%d of a burst refused after the overload", count(refused))
		}
	})
}

// TestFullRoomIsOverload: a queue that cannot grow, since the room is full, is overload as well.
func TestFullRoomIsOverload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(16, 15)
		var wg sync.WaitGroup
		d.flood(t.Context(), &wg, time.Second)
		if waiters, _, overload := d.look(); !overload || waiters > 2 {
			t.Errorf("overload %v, %d wait, want 2", overload, waiters)
		}
		wg.Wait()
	})
}

// TestOverloadEndsUnderLoad: a desk that is busy and refuses hardly a caller is not overloaded.
func TestOverloadEndsUnderLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(16, 1000)
		var wg sync.WaitGroup
		d.flood(t.Context(), &wg, 2*time.Second)
		for i := range 400 { // 80 a second, and now and then one without time
			d.arrive(t.Context(), &wg, time.Second, 160*time.Millisecond, "a")
			if i%60 == 0 {
				d.mu.Lock()
				d.queue.Join("b", time.Now(), 0, d.places)
				d.mu.Unlock()
			}
			<-time.After(12500 * time.Microsecond)
		}
		if _, _, overload := d.look(); overload {
			t.Error("still overloaded")
		}
		wg.Wait()
	})
}

// TestLateMeansOverload: once a waiter ran out of time, newcomers are not let into the same wait.
func TestLateMeansOverload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(8, 100)
		var wg sync.WaitGroup
		d.arrive(t.Context(), &wg, 0, 5*time.Second, slices.Repeat([]string{"a"}, 8)...)
		waiting := d.arrive(t.Context(), &wg, 10*time.Second, time.Second, "b", "c", "d")
		if d.enter(t.Context(), "e", time.Second) {
			t.Error("a place where there is none")
		}
		begin := time.Now()
		if d.enter(t.Context(), "f", 10*time.Second) || time.Since(begin) != 0 {
			t.Errorf("a newcomer was refused after %v", time.Since(begin))
		}
		wg.Wait()
		if count(waiting) != 0 {
			t.Errorf("%d of those with time were refused", count(waiting))
		}
	})
}
