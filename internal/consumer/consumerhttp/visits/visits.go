// Package visits records in the background what answered requests left to be
// remembered: that a session was used, what it searched and saw, and sampled
// telemetry. Nothing of it was promised to a client, so that under load it may be
// dropped. It knows nothing of requests and answers.
package visits

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/memo"
	"melmastoon.ghasi.io/bff/internal/tracing"
	"melmastoon.ghasi.io/bff/internal/web"
)

// Bounds of what waits to be recorded.
const (
	maxRecords = 8192
	// batchRecords is the most that is written at once.
	batchRecords = 512
	// batchPause is the least time between the beginnings of two batches, and
	// busyPause after one of busyRecords or more: the busier the service, the more
	// guests share a round trip.
	batchPause  = 20 * time.Millisecond
	busyPause   = 50 * time.Millisecond
	busyRecords = 16
	batchBudget = 2 * time.Second
	// flushWithin is how long a request waits for the batches before its own.
	flushWithin = 100 * time.Millisecond
)

// Record is what is to be recorded of an answered request. Nothing of it was
// promised to a client.
type Record struct {
	Guest bff.ID
	Visit *consumer.Visit
	// Found is the session as the handler found it; nil = not looked for.
	Found  *consumer.FoundSession
	Search *consumer.SearchSession
	Viewed *consumer.RecentlyViewed
	// Fact is the event's payload, if the event is sampled.
	Fact     func(consumer.GuestSession) consumer.Fact
	Occasion consumer.Occasion
	Span     trace.Span // of the request; nil if it is not recorded
}

// Config says where what is recorded goes.
type Config struct {
	Sessions   consumer.Sessions
	Trails     consumer.Trails
	Journal    consumer.Journal
	Telemetry  *consumer.Telemetry
	Background *web.Background
}

// Recorder records visits in the background, many at a time: sessions are read in
// one pipeline, touched and extended in a second, and events committed together.
type Recorder struct {
	cfg Config
	// current are guests whose sessions were read a moment ago and had nothing to
	// change: a guest who clicks fast is not read again for each click.
	current *memo.Memo[[16]byte, currentSession]

	mu      sync.Mutex
	queue   []Record
	taken   uint64 // records ever queued
	written uint64 // records ever done with
	arrived *sync.Cond
	running bool
	closed  bool
	hurry   chan struct{} // a request waits
}

// currentSession is a session that is up to date: for which client, and until when.
type currentSession struct {
	fingerprint consumer.Hash
	noTracking  bool
	until       time.Time
}

// maxCurrent bounds how many sessions are known to be up to date.
const maxCurrent = 1 << 14

// New returns a recorder; Close ends it.
func New(cfg Config) *Recorder {
	r := &Recorder{cfg: cfg, current: memo.New[[16]byte, currentSession](maxCurrent), hurry: make(chan struct{}, 1)}
	r.arrived = sync.NewCond(&r.mu)
	return r
}

// Add queues a record. When the stores are slow, records are dropped and counted,
// and never pile up.
func (r *Recorder) Add(rec Record) {
	if rec.Search == nil && rec.Viewed == nil && rec.Fact == nil && r.upToDate(&rec) {
		return // nothing to write
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.queue) >= maxRecords {
		r.cfg.Background.Drop()
		return
	}
	r.queue = append(r.queue, rec)
	r.taken++
	if !r.running {
		r.running = true
		go r.run()
	}
}

// run writes batches until nothing is left.
func (r *Recorder) run() {
	var batch []Record
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
		n := min(len(r.queue), batchRecords)
		batch = append(batch[:0], r.queue[:n]...)
		r.queue = append(r.queue[:0], r.queue[n:]...)
		r.mu.Unlock()
		r.write(batch)
		clear(batch)
		if n < batchRecords {
			pause := batchPause
			if n >= busyRecords {
				pause = busyPause
			}
			select {
			case <-time.After(pause - time.Since(began)):
			case <-r.hurry:
			}
		}
	}
}

// Flush returns when everything added before has been written, so that a guest who
// asks what is remembered finds the last click too. When the stores are slow it
// does not wait for long.
func (r *Recorder) Flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushWithin)
	defer cancel()
	r.wait(ctx)
}

func (r *Recorder) wait(ctx context.Context) {
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

// Close takes no more records and returns when those it has are written.
func (r *Recorder) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.wait(ctx)
	return context.Cause(ctx)
}

// upToDate reports whether reading the session would change nothing.
func (r *Recorder) upToDate(n *Record) bool {
	m, ok := r.current.Get(n.Guest.Bytes())
	return ok && n.Visit.At.Before(m.until) && m.fingerprint == n.Visit.Fingerprint && m.noTracking == n.Visit.NoTracking && n.Visit.Campaign == nil
}

// write records a batch.
func (r *Recorder) write(batch []Record) {
	ctx, cancel := context.WithTimeout(context.Background(), batchBudget)
	defer cancel()
	ctx = tracing.Under(ctx, recordedSpan(batch))
	r.read(ctx, batch)
	steps := make([]consumer.Step, 0, len(batch))
	var events []bff.Event
	for i := range batch {
		n := &batch[i]
		step := consumer.Step{Guest: n.Guest, Search: n.Search, Viewed: n.Viewed}
		if n.Found != nil {
			if n.Found.Err != nil {
				continue // cleared, or unknown
			}
			if n.Found.Found {
				s, same := r.meet(n, &step)
				if !same {
					continue // another client's cookie: the visit is not the guest's
				}
				step.New = !s.Returned()
				events = r.appendEvent(events, n, s)
			} else {
				step.New = true // made up, or lost
				r.restore(n)
			}
		}
		steps = append(steps, step)
	}
	_ = r.cfg.Trails.Follow(ctx, steps) // memories, not promises
	if len(events) > 0 {
		r.cfg.Background.DoFor(ctx, func(ctx context.Context) { _ = r.cfg.Journal.Record(ctx, events...) }) // counted by the journal
	}
}

// recordedSpan is the span of the first request of a batch that is recorded, or nil.
// The batch is written once for all its requests, and shows in that one's trace.
func recordedSpan(batch []Record) trace.Span {
	for i := range batch {
		if batch[i].Span != nil {
			return batch[i].Span
		}
	}
	return nil
}

// context is for jobs that this one record causes: it belongs to its request's trace.
func (n *Record) context() context.Context { return tracing.Under(context.Background(), n.Span) }

// restore saves a session that was lost as the guest's card describes it, and tells
// of the visit: with a card, searches read no session that could be restored
// before the answer.
func (r *Recorder) restore(n *Record) {
	if n.Visit.Card.IsZero() || n.Found.Unread {
		return
	}
	visit, fact, told := n.Visit, n.Fact, n.Occasion
	r.cfg.Background.DoFor(n.context(), func(ctx context.Context) {
		s, cleared := visit.Card.Resolve(ctx, r.cfg.Sessions, visit.Client, visit.At)
		if cleared || s.Unread || r.cfg.Sessions.RestoreSession(ctx, s) != nil || fact == nil {
			return // restored with the next visit
		}
		if e, leaves, err := r.cfg.Telemetry.Event(s, fact(s), told, visit.At); err == nil && leaves {
			_ = r.cfg.Journal.Record(ctx, e) // counted by the journal
		}
	})
}

// read looks up the sessions that are not known to be up to date.
func (r *Recorder) read(ctx context.Context, batch []Record) {
	var ids []bff.ID
	at := map[bff.ID]int{}
	for i := range batch {
		n := &batch[i]
		if n.Found != nil || n.Fact == nil && r.upToDate(n) {
			continue
		}
		if _, ok := at[n.Guest]; !ok {
			at[n.Guest] = len(ids)
			ids = append(ids, n.Guest)
		}
	}
	if len(ids) == 0 {
		return
	}
	found := r.cfg.Sessions.FindSessions(ctx, ids)
	for i := range batch {
		if k, ok := at[batch[i].Guest]; ok && batch[i].Found == nil {
			batch[i].Found = &found[k]
		}
	}
}

// meet applies the visit to the guest's session, unless it is another client's. It
// leaves the cookie's age alone: whether the answer carried one is unknown here.
func (r *Recorder) meet(n *Record, step *consumer.Step) (consumer.GuestSession, bool) {
	change, same := n.Found.Meet(n.Visit.Client, n.Visit.At)
	change.CookieAt = time.Time{}
	if !same {
		return consumer.GuestSession{}, false
	}
	s := n.Found.Apply(change)
	if !r.upToDate(n) {
		step.Touch = change
		if change.Consent != nil { // the browser's header, which is sent again
			at := n.Visit.At
			r.cfg.Background.DoFor(n.context(), func(ctx context.Context) { _ = r.cfg.Sessions.AddRefusal(ctx, s, at) })
		}
	}
	if !s.Returned() { // its first return is worth a write, however soon
		return s, true
	}
	r.current.Put(n.Guest.Bytes(), currentSession{n.Visit.Fingerprint, n.Visit.NoTracking, s.LastSeenAt.Add(consumer.TouchAfter)})
	return s, true
}

func (r *Recorder) appendEvent(events []bff.Event, n *Record, s consumer.GuestSession) []bff.Event {
	if n.Fact == nil {
		return events
	}
	e, leaves, err := r.cfg.Telemetry.Event(s, n.Fact(s), n.Occasion, n.Visit.At)
	if err != nil || !leaves {
		return events
	}
	return append(events, e)
}
