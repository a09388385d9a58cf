package upstream

import "sync"

// allowance bounds extra calls to a share of the calls: each call earns a
// share of a token, an extra call costs one.
type allowance struct {
	share, most float64

	mu     sync.Mutex
	tokens float64
}

func newAllowance(share, most, start float64) *allowance {
	return &allowance{share: share, most: most, tokens: start}
}

func (a *allowance) earn() {
	a.mu.Lock()
	a.tokens = min(a.tokens+a.share, a.most)
	a.mu.Unlock()
}

func (a *allowance) spend() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tokens < 1 {
		return false
	}
	a.tokens--
	return true
}
