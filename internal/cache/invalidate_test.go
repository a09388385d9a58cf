package cache

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff/internal/testkit"
)

func TestInvalidateReachesOtherProcesses(t *testing.T) {
	t.Parallel()
	eachTopology(t, func(t *testing.T, urls []string) {
		t.Helper()
		fx := newFixture(t, 2, urls)
		src, other := newSource("old", "tenant:1"), newSource("kept", "tenant:2")
		for _, c := range fx.caches {
			read(t, c, fx.key("a"), src.fill)
			read(t, c, fx.key("b"), other.fill)
		}
		src.say("new")
		if err := fx.stores[0].Invalidate(t.Context(), "tenant:1"); err != nil {
			t.Fatal(err)
		}
		if got := read(t, fx.caches[0], fx.key("a"), src.fill); got.Body != "new" {
			t.Errorf("own memory: %+v", got)
		}
		testkit.Until(t, "new body in the other process", func() bool {
			return read(t, fx.caches[1], fx.key("a"), src.fill).Body == "new"
		})
		if got := read(t, fx.caches[1], fx.key("b"), other.fill); got != (answer{Body: "kept", Result: Hit}) {
			t.Errorf("entry of another tag: %+v", got)
		}
	})
}

// TestInvalidateDuringFill: a fill that began before an invalidation does not bring old data back.
func TestInvalidateDuringFill(t *testing.T) {
	t.Parallel()
	eachTopology(t, func(t *testing.T, urls []string) {
		t.Helper()
		fx := newFixture(t, 3, urls)
		k := fx.key("k")
		src := newSource("old", "tenant:1")
		begun, finish := make(chan struct{}), make(chan struct{})
		gotOld := make(chan answer)
		go func() {
			first := true
			gotOld <- read(t, fx.caches[0], k, func(ctx context.Context) (Fill, error) {
				f, err := src.fill(ctx)
				if first {
					first = false
					close(begun)
					<-finish
				}
				return f, err
			})
		}()
		<-begun
		src.say("new")
		// By another process than the one that fills.
		if err := fx.stores[1].Invalidate(t.Context(), "tenant:1"); err != nil {
			t.Fatal(err)
		}
		seq := fx.stores[1].tags.stamp().seq
		testkit.Until(t, "filler has read the log", func() bool { return fx.stores[0].tags.stamp().seq >= seq })
		close(finish)
		if got := <-gotOld; got.Body != "new" {
			t.Errorf("reader that waited across the invalidation: %+v", got)
		}
		for i, c := range fx.caches {
			if got := read(t, c, k, src.fill); got.Body != "new" {
				t.Errorf("process %d: %+v", i, got)
			}
		}
	})
}

// TestInvalidateBeforeStart: a process does not read what was invalidated before it started.
func TestInvalidateBeforeStart(t *testing.T) {
	t.Parallel()
	eachTopology(t, func(t *testing.T, urls []string) {
		t.Helper()
		fx := newFixture(t, 1, urls)
		k := fx.key("k")
		src := newSource("old", "tenant:1")
		read(t, fx.caches[0], k, src.fill)
		waitShared(t, fx.caches[0], k)
		src.say("new")
		if err := fx.stores[0].Invalidate(t.Context(), "tenant:1"); err != nil {
			t.Fatal(err)
		}
		s := newTestStore(t, slowMachine(dial(t, urls...), fx.prefix))
		if got := read(t, newTestCache(t, s), k, src.fill); got != (answer{Body: "new"}) {
			t.Errorf("got %+v", got)
		}
	})
}

func TestDelete(t *testing.T) {
	t.Parallel()
	eachTopology(t, func(t *testing.T, urls []string) {
		t.Helper()
		fx := newFixture(t, 2, urls)
		k := fx.key("k")
		src := newSource("old")
		for _, c := range fx.caches {
			read(t, c, k, src.fill)
		}
		src.say("new")
		if err := fx.caches[0].Delete(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, "deleted elsewhere", func() bool {
			return read(t, fx.caches[1], k, src.fill).Body == "new"
		})
	})
}

// TestExpire: an expired entry is served stale while it is refreshed.
func TestExpire(t *testing.T) {
	t.Parallel()
	eachTopology(t, func(t *testing.T, urls []string) {
		t.Helper()
		fx := newFixture(t, 2, urls)
		k := fx.key("k")
		src := newSource("old", "cell:8a")
		for _, c := range fx.caches {
			read(t, c, k, src.fill)
		}
		src.say("new")
		if err := fx.stores[0].Expire(t.Context(), "cell:8a"); err != nil {
			t.Fatal(err)
		}
		if got := read(t, fx.caches[0], k, src.fill); got != (answer{Body: "old", Result: Stale}) {
			t.Errorf("first read: %+v", got)
		}
		for _, c := range fx.caches {
			testkit.Until(t, "refreshed", func() bool {
				return read(t, c, k, src.fill) == answer{Body: "new", Result: Hit}
			})
		}
		if got := src.calls.Load(); got != 2 {
			t.Errorf("%d fills, want 2", got)
		}
	})
}

// TestInvalidateWithoutMessage: the log is read by the clock when the message is lost.
func TestInvalidateWithoutMessage(t *testing.T) {
	t.Parallel()
	eachTopology(t, func(t *testing.T, urls []string) {
		t.Helper()
		fx := newFixture(t, 2, urls)
		k := fx.key("k")
		src := newSource("old", "tenant:1")
		for _, c := range fx.caches {
			read(t, c, k, src.fill)
		}
		fx.stores[0].log.bell += "-to-nowhere"
		src.say("new")
		if err := fx.stores[0].Invalidate(t.Context(), "tenant:1"); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, "read from the log by the clock", func() bool {
			return read(t, fx.caches[1], k, src.fill).Body == "new"
		})
	})
}

// TestLogLost: a log that was lost is replaced, and what it may have held is refreshed.
func TestLogLost(t *testing.T) {
	t.Parallel()
	eachTopology(t, func(t *testing.T, urls []string) {
		t.Helper()
		fx := newFixture(t, 2, urls)
		k := fx.key("k")
		src := newSource("old", "tenant:1")
		if err := fx.stores[0].Invalidate(t.Context(), "tenant:1", "tenant:2", "tenant:3"); err != nil {
			t.Fatal(err)
		}
		seq := fx.stores[0].tags.stamp().seq
		testkit.Until(t, "both have read it", func() bool { return fx.stores[1].tags.stamp().seq == seq })
		for _, c := range fx.caches {
			read(t, c, k, src.fill)
		}
		before := fx.stores[0].tags.stamp().epoch
		client := fx.stores[0].link.client
		if err := client.Do(t.Context(), client.B().Del().Key(fx.stores[0].log.key).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		// Numbers begin anew: one that the other process takes for known
		// would never be read.
		if err := fx.stores[0].Invalidate(t.Context(), "tenant:9"); err != nil {
			t.Fatal(err)
		}
		src.say("new")
		for i, s := range fx.stores {
			testkit.Until(t, "new log", func() bool { return s.tags.stamp().epoch != before })
			// What may have been invalidated unheard is refreshed.
			testkit.Until(t, "refreshed", func() bool {
				return read(t, fx.caches[i], k, src.fill) == answer{Body: "new", Result: Hit}
			})
		}
		if a, b := fx.stores[0].tags.stamp().epoch, fx.stores[1].tags.stamp().epoch; a != b {
			t.Errorf("two logs: %x and %x", a, b)
		}
		at := fx.stores[1].tags.stamp()
		at.seq = 0
		if v, _ := fx.stores[1].tags.check(at, []string{"tenant:9"}); v != invalid {
			t.Errorf("first of the new log: verdict %d", v)
		}
	})
}

func TestLogLongerThanAPage(t *testing.T) {
	t.Parallel()
	eachTopology(t, func(t *testing.T, urls []string) {
		t.Helper()
		prefix := newPrefix()
		cfg := slowMachine(dial(t, urls...), prefix)
		cfg.MaxTags = 2*logPage + 100
		s := newTestStore(t, cfg)
		tags := make([]string, cfg.MaxTags+50)
		for i := range tags {
			tags[i] = "tag:" + string(body(20 + i%60)[i%10:])
			tags[i] = tags[i][:min(len(tags[i]), 60)] + ":" + time.Duration(i).String()
		}
		if err := s.Invalidate(t.Context(), tags...); err != nil {
			t.Fatal(err)
		}
		// A process that comes later reads it page by page.
		late := newTestStore(t, StoreConfig{
			Redis: dial(t, urls...), Prefix: prefix, MaxTags: cfg.MaxTags, WriteTimeout: slowTimeout,
		})
		at := late.tags.stamp()
		if diff := cmp.Diff(uint64(len(tags)), at.seq); diff != "" {
			t.Errorf("position (-want +got):\n%s", diff)
		}
		if v, _ := late.tags.check(stamp{epoch: at.epoch, seq: at.seq - 1}, tags[len(tags)-1:]); v != invalid {
			t.Errorf("newest tag: verdict %d", v)
		}
		// The oldest were cut: entries that may bear them are outdated.
		if v, _ := late.tags.check(stamp{epoch: at.epoch, seq: 0}, []string{"never seen"}); v != outdated {
			t.Errorf("before the cut: verdict %d", v)
		}
		if v, _ := late.tags.check(at, []string{"never seen"}); v != valid {
			t.Errorf("now: verdict %d", v)
		}
	})
}
