package bot

import "sync"

// Ration lets so many verdicts be logged in a second: a flood of made-up clients
// must not become one of rows. It may be used concurrently.
type Ration struct {
	most int

	mu     sync.Mutex
	second int64
	n      int
}

// maxLogged is how many verdicts a process logs in a second.
const maxLogged = 50

// NewRation returns the ration of a process.
func NewRation() *Ration { return &Ration{most: maxLogged} }

// Take reports whether one more may be logged in this second.
func (r *Ration) Take(nowMS int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := nowMS / second; s != r.second {
		r.second, r.n = s, 0
	}
	r.n++
	return r.n <= r.most
}
