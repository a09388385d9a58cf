package cache

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestInvalidate(t *testing.T) {
	t.Parallel()
	for name, start := range topologies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			urls := start(t)
			t.Run("reaches another process's memory", func(t *testing.T) {
				w := newWorld(t, 2, urls)
				src, other := newSource("old", "tenant:1"), newSource("kept", "tenant:2")
				for _, c := range w.caches {
					read(t, c, w.key("a"), src.fill)
					read(t, c, w.key("b"), other.fill)
				}
				src.say("new")
				if err := w.stores[0].Invalidate(t.Context(), "tenant:1"); err != nil {
					t.Fatal(err)
				}
				if got := read(t, w.caches[0], w.key("a"), src.fill); got.Body != "new" {
					t.Errorf("own memory: %+v", got)
				}
				eventually(t, "new body in the other process", func() bool {
					return read(t, w.caches[1], w.key("a"), src.fill).Body == "new"
				})
				if got := read(t, w.caches[1], w.key("b"), other.fill); got != (answer{Body: "kept", Result: Hit}) {
					t.Errorf("entry of another tag: %+v", got)
				}
			})

			t.Run("fill under way does not resurrect", func(t *testing.T) {
				w := newWorld(t, 3, urls)
				k := w.key("k")
				src := newSource("old", "tenant:1")
				begun, finish := make(chan struct{}), make(chan struct{})
				gotOld := make(chan answer)
				go func() {
					first := true
					gotOld <- read(t, w.caches[0], k, func(ctx context.Context) (Fill, error) {
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
				if err := w.stores[1].Invalidate(t.Context(), "tenant:1"); err != nil {
					t.Fatal(err)
				}
				seq := w.stores[1].tags.stamp().seq
				eventually(t, "filler has heard", func() bool { return w.stores[0].tags.stamp().seq >= seq })
				close(finish)
				if got := <-gotOld; got.Body != "new" {
					t.Errorf("reader that waited across the invalidation: %+v", got)
				}
				for i, c := range w.caches {
					if got := read(t, c, k, src.fill); got.Body != "new" {
						t.Errorf("process %d: %+v", i, got)
					}
				}
			})

			t.Run("old entry in redis is not read by a new process", func(t *testing.T) {
				w := newWorld(t, 1, urls)
				k := w.key("k")
				src := newSource("old", "tenant:1")
				read(t, w.caches[0], k, src.fill)
				waitShared(t, w.caches[0], k)
				src.say("new")
				if err := w.stores[0].Invalidate(t.Context(), "tenant:1"); err != nil {
					t.Fatal(err)
				}
				s := newTestStore(t, patient(dial(t, urls...), w.prefix))
				if got := read(t, newTestCache(t, s), k, src.fill); got != (answer{Body: "new"}) {
					t.Errorf("got %+v", got)
				}
			})

			t.Run("delete", func(t *testing.T) {
				w := newWorld(t, 2, urls)
				k := w.key("k")
				src := newSource("old")
				for _, c := range w.caches {
					read(t, c, k, src.fill)
				}
				src.say("new")
				if err := w.caches[0].Delete(t.Context(), k); err != nil {
					t.Fatal(err)
				}
				eventually(t, "deleted elsewhere", func() bool {
					return read(t, w.caches[1], k, src.fill).Body == "new"
				})
			})

			t.Run("expire refreshes and does not wait", func(t *testing.T) {
				w := newWorld(t, 2, urls)
				k := w.key("k")
				src := newSource("old", "cell:8a")
				for _, c := range w.caches {
					read(t, c, k, src.fill)
				}
				src.say("new")
				if err := w.stores[0].Expire(t.Context(), "cell:8a"); err != nil {
					t.Fatal(err)
				}
				if got := read(t, w.caches[0], k, src.fill); got != (answer{Body: "old", Result: Stale}) {
					t.Errorf("first read: %+v", got)
				}
				for _, c := range w.caches {
					eventually(t, "refreshed", func() bool {
						return read(t, c, k, src.fill) == answer{Body: "new", Result: Hit}
					})
				}
				if got := src.calls.Load(); got != 2 {
					t.Errorf("%d fills, want 2", got)
				}
			})

			t.Run("bell not heard", func(t *testing.T) {
				w := newWorld(t, 2, urls)
				k := w.key("k")
				src := newSource("old", "tenant:1")
				for _, c := range w.caches {
					read(t, c, k, src.fill)
				}
				w.stores[0].log.bell += "-to-nowhere"
				src.say("new")
				if err := w.stores[0].Invalidate(t.Context(), "tenant:1"); err != nil {
					t.Fatal(err)
				}
				eventually(t, "read from the log by the clock", func() bool {
					return read(t, w.caches[1], k, src.fill).Body == "new"
				})
			})

			t.Run("log lost", func(t *testing.T) {
				w := newWorld(t, 2, urls)
				k := w.key("k")
				src := newSource("old", "tenant:1")
				if err := w.stores[0].Invalidate(t.Context(), "tenant:1", "tenant:2", "tenant:3"); err != nil {
					t.Fatal(err)
				}
				seq := w.stores[0].tags.stamp().seq
				eventually(t, "both have read it", func() bool { return w.stores[1].tags.stamp().seq == seq })
				for _, c := range w.caches {
					read(t, c, k, src.fill)
				}
				before := w.stores[0].tags.stamp().epoch
				client := w.stores[0].link.client
				if err := client.Do(t.Context(), client.B().Del().Key(w.stores[0].log.key).Build()).Error(); err != nil {
					t.Fatal(err)
				}
				// Numbers begin anew: one that the other process takes for known
				// would never be read.
				if err := w.stores[0].Invalidate(t.Context(), "tenant:9"); err != nil {
					t.Fatal(err)
				}
				src.say("new")
				for i, s := range w.stores {
					eventually(t, "new log", func() bool { return s.tags.stamp().epoch != before })
					// What may have been invalidated unheard is refreshed.
					eventually(t, "refreshed", func() bool {
						return read(t, w.caches[i], k, src.fill) == answer{Body: "new", Result: Hit}
					})
				}
				if a, b := w.stores[0].tags.stamp().epoch, w.stores[1].tags.stamp().epoch; a != b {
					t.Errorf("two logs: %x and %x", a, b)
				}
				at := w.stores[1].tags.stamp()
				at.seq = 0
				if v, _ := w.stores[1].tags.check(at, []string{"tenant:9"}); v != invalid {
					t.Errorf("first of the new log: verdict %d", v)
				}
			})

			t.Run("many tags", func(t *testing.T) {
				prefix := newPrefix()
				cfg := patient(dial(t, urls...), prefix)
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
					Redis: dial(t, urls...), Prefix: prefix, MaxTags: cfg.MaxTags, WriteTimeout: 2 * time.Second,
				})
				at := late.tags.stamp()
				if diff := cmp.Diff(uint64(len(tags)), at.seq); diff != "" {
					t.Errorf("position (-want +got):\n%s", diff)
				}
				if v, _ := late.tags.check(stamp{epoch: at.epoch, seq: at.seq - 1}, tags[len(tags)-1:]); v != invalid {
					t.Errorf("newest tag: verdict %d", v)
				}
				// The oldest were cut: whoever might bear them is outdated.
				if v, _ := late.tags.check(stamp{epoch: at.epoch, seq: 0}, []string{"never seen"}); v != outdated {
					t.Errorf("before the cut: verdict %d", v)
				}
				if v, _ := late.tags.check(at, []string{"never seen"}); v != valid {
					t.Errorf("now: verdict %d", v)
				}
			})
		})
	}
}
