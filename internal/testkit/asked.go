package testkit

import (
	"maps"
	"slices"
	"sync"
)

// Asked remembers which members handlers read of bodies and queries, by path, and the words that they may have. Several requests may use one
// at once.
type Asked struct {
	mu    sync.Mutex
	words map[string][]string // by path; nil = any
}

// Add is a web.Asked.
func (a *Asked) Add(path string, words []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.words == nil {
		a.words = map[string][]string{}
	}
	if words != nil || a.words[path] == nil {
		a.words[path] = slices.Sorted(slices.Values(words))
	}
}

// Paths are the members that were read, in alphabetical order.
func (a *Asked) Paths() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.words))
}

// Choices are the closed sets of words that were asked for, by path.
func (a *Asked) Choices() map[string][]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	sets := maps.Clone(a.words)
	maps.DeleteFunc(sets, func(_ string, words []string) bool { return words == nil })
	return sets
}
