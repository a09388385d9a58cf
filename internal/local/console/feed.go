package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// feed keeps the latest of something that is numbered, and streams it to who watches.
type feed[T any] struct {
	name string // of its SSE events

	mu    sync.Mutex
	items []item[T]
	more  chan struct{} // closed with the next item
}

type item[T any] struct {
	seq   uint64
	value T
}

// maxItems is how many are kept; a watcher that fell further behind misses some.
const maxItems = 1000

func newFeed[T any](name string) *feed[T] { return &feed[T]{name: name, more: make(chan struct{})} }

// add appends what make returns for its number.
func (f *feed[T]) add(seq uint64, value T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.items = append(f.items, item[T]{seq, value})
	if len(f.items) > 2*maxItems {
		f.items = append(f.items[:0:0], f.items[len(f.items)-maxItems:]...)
	}
	close(f.more)
	f.more = make(chan struct{})
}

// newest are the latest values, the newest first.
func (f *feed[T]) newest(most int) []T {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []T{}
	for i := len(f.items) - 1; i >= 0 && len(out) < most; i-- {
		out = append(out, f.items[i].value)
	}
	return out
}

// since are the values behind a number, and what tells of the next one.
func (f *feed[T]) since(seq uint64) ([]item[T], <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := len(f.items)
	for i > 0 && f.items[i-1].seq > seq {
		i--
	}
	return append([]item[T](nil), f.items[max(i, len(f.items)-maxItems):]...), f.more
}

func (f *feed[T]) last() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.items) == 0 {
		return 0
	}
	return f.items[len(f.items)-1].seq
}

// serveList answers with the newest.
func (f *feed[T]) serveList(w http.ResponseWriter, r *http.Request) {
	most, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil || most < 1 || most > maxItems {
		most = maxItems
	}
	answer(w, http.StatusOK, f.newest(most))
}

// beat keeps a stream's connection, and has a reader that left noticed.
const beat = 15 * time.Second

// serveStream answers with what comes, from behind Last-Event-ID on.
func (f *feed[T]) serveStream(w http.ResponseWriter, r *http.Request) {
	seq, err := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64)
	if err != nil {
		seq = f.last()
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	flush := http.NewResponseController(w)
	beats := time.NewTicker(beat)
	defer beats.Stop()
	_, err = fmt.Fprint(w, ": \n\n")
	for err == nil {
		items, more := f.since(seq)
		for _, it := range items {
			b, _ := json.Marshal(it.value) // our own types encode
			if _, err = fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", it.seq, f.name, b); err != nil {
				return
			}
			seq = it.seq
		}
		if err = flush.Flush(); err != nil {
			return
		}
		select {
		case <-more:
		case <-beats.C:
			_, err = fmt.Fprint(w, ": \n\n")
		case <-r.Context().Done():
			return
		}
	}
}
