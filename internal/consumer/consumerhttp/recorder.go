package consumerhttp

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/web"
)

// Bounds of what waits to be remembered.
const (
	maxNotes = 8192
	// batchNotes is the most that is written at once.
	batchNotes = 512
	// batchPause is the least time between the beginnings of two batches, and
	// busyPause after one of busyNotes or more: the busier the service, the more
	// guests share a round trip.
	batchPause  = 20 * time.Millisecond
	busyPause   = 50 * time.Millisecond
	busyNotes   = 16
	batchBudget = 2 * time.Second
	// settleWithin is how long somebody waits for the batches before theirs.
	settleWithin = 100 * time.Millisecond
)

// note is what is to be remembered of an answered request. Nothing of it was
// promised to anybody.
type note struct {
	guest bff.ID
	visit *visit
	// found is the session as the handler found it; nil = not looked for.
	found  *consumer.FoundSession
	search *consumer.SearchSession
	viewed *consumer.RecentlyViewed
	// fact is what telemetry says of it, if it is sampled.
	fact     func(consumer.GuestSession) consumer.Fact
	occasion consumer.Occasion
	at       time.Time
}

// recorder remembers visits behind the answers, many at a time: sessions are
// read in one pipeline, touched and extended in a second, and events committed
// together.
type recorder struct {
	api     *API
	dropped prometheus.Counter
	// met are guests whose sessions were read a moment ago and had nothing to
	// change: a guest who clicks fast is not read again for each click.
	met *memo[[16]byte, meeting]

	mu      sync.Mutex
	queue   []note
	taken   uint64 // notes ever queued
	written uint64 // notes ever done with
	arrived *sync.Cond
	running bool
	closed  bool
	hurry   chan struct{} // somebody waits
}

// meeting is with whom, how, and until when it counts.
type meeting struct {
	fingerprint consumer.Hash
	noTracking  bool
	until       time.Time
}

// knownGuests bounds how many meetings are remembered.
const knownGuests = 1 << 14

func newRecorder(a *API, dropped prometheus.Counter) *recorder {
	r := &recorder{api: a, dropped: dropped, met: newMemo[[16]byte, meeting](knownGuests), hurry: make(chan struct{}, 1)}
	r.arrived = sync.NewCond(&r.mu)
	return r
}

// add queues a note. When the stores are slow, notes are dropped and counted,
// and never pile up.
func (r *recorder) add(n note) {
	if n.search == nil && n.viewed == nil && n.fact == nil && r.settled(&n) {
		return // nothing that is not known
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.queue) >= maxNotes {
		r.dropped.Inc()
		return
	}
	r.queue = append(r.queue, n)
	r.taken++
	if !r.running {
		r.running = true
		go r.run()
	}
}

// run writes batches until nothing is left.
func (r *recorder) run() {
	var batch []note
	for {
		began := time.Now()
		r.mu.Lock()
		r.written += uint64(len(batch))
		r.arrived.Broadcast()
		if len(r.queue) == 0 {
			r.running = false
			r.mu.Unlock()
			return
		}
		n := min(len(r.queue), batchNotes)
		batch = append(batch[:0], r.queue[:n]...)
		r.queue = append(r.queue[:0], r.queue[n:]...)
		r.mu.Unlock()
		r.write(batch)
		clear(batch)
		if n < batchNotes {
			pause := batchPause
			if n >= busyNotes {
				pause = busyPause
			}
			select {
			case <-time.After(pause - time.Since(began)):
			case <-r.hurry:
			}
		}
	}
}

// settle returns when everything noted before has been written, so that a guest
// who asks what is remembered finds the last click too. When the stores are slow
// it is not waited for.
func (r *recorder) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	r.wait(ctx)
}

func (r *recorder) wait(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.arrived.Broadcast()
	})()
	for upTo := r.taken; r.written < upTo && ctx.Err() == nil; {
		select {
		case r.hurry <- struct{}{}:
		default:
		}
		r.arrived.Wait()
	}
}

// close takes no more notes and returns when those it has are written.
func (r *recorder) close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.wait(ctx)
	return context.Cause(ctx)
}

// settled reports whether reading the session could change nothing.
func (r *recorder) settled(n *note) bool {
	m, ok := r.met.get(n.guest.Bytes())
	return ok && n.at.Before(m.until) && m.fingerprint == n.visit.Fingerprint && m.noTracking == n.visit.NoTracking && n.visit.Campaign == nil
}

// write remembers a batch.
func (r *recorder) write(batch []note) {
	ctx, cancel := context.WithTimeout(context.Background(), batchBudget)
	defer cancel()
	r.read(ctx, batch)
	steps := make([]consumer.Step, 0, len(batch))
	var events []bff.Event
	for i := range batch {
		n := &batch[i]
		step := consumer.Step{Guest: n.guest, Search: n.search, Viewed: n.viewed}
		if n.found != nil {
			if n.found.Err != nil {
				continue // cleared, or nobody knows
			}
			if n.found.Found {
				s, same := r.meet(n, &step)
				if !same {
					continue // somebody else's cookie: the guest's way is not theirs
				}
				events = r.tell(events, n, s)
			}
		}
		steps = append(steps, step)
	}
	_ = r.api.cfg.Trails.Follow(ctx, steps) // memories, not promises
	if len(events) > 0 {
		r.api.behind(func(ctx context.Context) { _ = r.api.cfg.Journal.Record(ctx, events...) }) // counted by the journal
	}
}

// read looks up the sessions that somebody must look at.
func (r *recorder) read(ctx context.Context, batch []note) {
	var ids []bff.ID
	at := map[bff.ID]int{}
	for i := range batch {
		n := &batch[i]
		if n.found != nil || n.fact == nil && r.settled(n) {
			continue
		}
		if _, ok := at[n.guest]; !ok {
			at[n.guest] = len(ids)
			ids = append(ids, n.guest)
		}
	}
	if len(ids) == 0 {
		return
	}
	found := r.api.cfg.Sessions.FindSessions(ctx, ids)
	for i := range batch {
		if k, ok := at[batch[i].guest]; ok && batch[i].found == nil {
			batch[i].found = &found[k]
		}
	}
}

// meet notes the visit in the guest's session, unless it is another's. The
// cookie's age is not its business: it does not know whether the answer carried
// one.
func (r *recorder) meet(n *note, step *consumer.Step) (consumer.GuestSession, bool) {
	change, same := n.found.Meet(n.visit.Visitor, n.at)
	change.CookieAt = time.Time{}
	if !same {
		return consumer.GuestSession{}, false
	}
	s := n.found.Apply(change)
	if !r.settled(n) {
		step.Touch = change
	}
	r.met.put(n.guest.Bytes(), meeting{n.visit.Fingerprint, n.visit.NoTracking, s.LastSeenAt.Add(consumer.TouchAfter)})
	return s, true
}

func (r *recorder) tell(events []bff.Event, n *note, s consumer.GuestSession) []bff.Event {
	if n.fact == nil {
		return events
	}
	e, leaves, err := r.api.telemetry.Event(s, n.fact(s), n.occasion, n.at)
	if err != nil || !leaves {
		return events
	}
	return append(events, e)
}

// occasion is what an event says of the request that caused it.
func occasion(r *http.Request) consumer.Occasion {
	req := web.From(r.Context())
	return consumer.Occasion{RequestID: req.ID, TraceParent: req.TraceParent}
}
