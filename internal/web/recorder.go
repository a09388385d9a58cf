package web

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Recorder notes which members the handlers read of bodies and queries, by path
// (dates.checkIn; metadata.* where all members are read), whether or not the
// client sent them; the members of an object that is absent are not read. Tests
// compare them with the contract. A Recorder may be used by several requests at
// once.
type Recorder struct {
	mu      sync.Mutex
	paths   map[string]struct{}
	choices map[string][]string
}

type recorderKey struct{}

// WithRecorder returns a context whose requests are recorded.
func WithRecorder(ctx context.Context, r *Recorder) context.Context {
	return context.WithValue(ctx, recorderKey{}, r)
}

func recorderOf(ctx context.Context) *Recorder {
	r, _ := ctx.Value(recorderKey{}).(*Recorder)
	return r
}

func (r *Recorder) add(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.paths == nil {
		r.paths = map[string]struct{}{}
	}
	r.paths[path] = struct{}{}
}

// Paths are the members that were read, in alphabetical order.
func (r *Recorder) Paths() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.paths))
}

// offer notes the words that a member may have.
func (r *Recorder) offer(path string, allowed []string) {
	if r == nil { // outside of tests
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.choices == nil {
		r.choices = map[string][]string{}
	}
	r.choices[path] = slices.Sorted(slices.Values(allowed))
}

// Choices are the closed sets of words that were asked for, by path.
func (r *Recorder) Choices() map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.choices)
}
