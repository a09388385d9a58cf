package web

import (
	"sync"
	"time"
)

// outageEvery is how often requests that are refused for want of something are errors in
// the log, by their code.
const outageEvery = 10 * time.Second

// outages thins out what the log says of a lasting condition: while a server is away or
// full, every request is answered 503, and a line of each says nothing more than one. The
// others are ordinary lines; metrics count them all.
type outages struct {
	mu    sync.Mutex
	known map[string]outage // by code, of which there are few
}

type outage struct {
	told time.Time
	more int // since then
}

// report reports whether a refusal is to be an error in the log, and how many like it
// have not been since the last that was.
func (o *outages) report(code string, now time.Time) (alike int, due bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil {
		o.known = map[string]outage{}
	}
	was := o.known[code]
	if now.Sub(was.told) < outageEvery {
		was.more++
		o.known[code] = was
		return 0, false
	}
	o.known[code] = outage{told: now}
	return was.more, true
}
