// Package visits records in the background what answered requests left to be
// remembered: that a session was used, what it searched and saw, and sampled
// telemetry. Nothing of it was promised to a client, so that under load it may be
// dropped. It knows nothing of requests and answers.
package visits

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/batch"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
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
	// Decision is the handler's, carried out but for the touch; nil = it is made here.
	Decision *guest.Decision
	Search   *consumer.SearchSession
	Viewed   *guest.RecentlyViewed
	// Fact is the event's payload, if the event is sampled.
	Fact     func(consumer.GuestSession) consumer.Fact
	Occasion consumer.Occasion
	Span     trace.Span // of the request; nil if it is not recorded
}

// Config says where what is recorded goes.
type Config struct {
	Sessions   guest.Sessions
	Trails     guest.Trails
	Journal    consumer.Journal
	Telemetry  *consumer.Telemetry
	Background *web.Background
}

// Recorder records visits in the background, many at a time: sessions are read in
// one pipeline, touched and extended in a second, and events committed together.
type Recorder struct {
	cfg   Config
	queue *batch.Writer[Record]
	// current says of sessions that were read or written a moment ago until when there
	// is nothing to change: a guest who clicks fast is not read again for each click.
	current *memo.Memo[sameVisit, time.Time]
}

// sameVisit is what two visits have in common of which the second changes nothing.
type sameVisit struct {
	guest       [16]byte
	fingerprint consumer.Hash
	noTracking  bool
}

// maxCurrent bounds how many sessions are known to be up to date.
const maxCurrent = 1 << 14

// New returns a recorder; Close ends it.
func New(cfg Config) *Recorder {
	r := &Recorder{cfg: cfg, current: memo.New[sameVisit, time.Time](maxCurrent)}
	r.queue = batch.New(batch.Config[Record]{Write: r.write, Size: batchRecords, Most: maxRecords, Timeout: batchBudget, Pause: pause})
	return r
}

func pause(records int) time.Duration {
	if records >= busyRecords {
		return busyPause
	}
	return batchPause
}

// Add queues a record. When the stores are slow, records are dropped and counted,
// and never pile up.
func (r *Recorder) Add(rec Record) {
	if rec.Search == nil && rec.Viewed == nil && rec.Fact == nil && r.upToDate(&rec) {
		return // nothing to write
	}
	if r.queue.Put(rec.Span, rec) != nil {
		r.cfg.Background.Drop()
	}
}

// Flush returns when everything added before has been written, so that a guest who
// asks what is remembered finds the last click too. When the stores are slow it
// does not wait for long.
func (r *Recorder) Flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushWithin)
	defer cancel()
	_ = r.queue.Flush(ctx)
}

// Close takes no more records and returns when those it has are written.
func (r *Recorder) Close(ctx context.Context) error { return r.queue.Close(ctx) }

func (n *Record) same() sameVisit {
	return sameVisit{n.Guest.Bytes(), n.Visit.Fingerprint, n.Visit.NoTracking}
}

// upToDate reports whether reading the session would change nothing.
func (r *Recorder) upToDate(n *Record) bool {
	until, ok := r.current.Get(n.same())
	return ok && n.Visit.At.Before(until) && n.Visit.Campaign == nil
}

// write records a batch.
func (r *Recorder) write(ctx context.Context, records []Record) error {
	found := r.find(ctx, records)
	steps := make([]guest.Step, 0, len(records))
	var events []bff.Event
	for i := range records {
		n := &records[i]
		step := guest.Step{Guest: n.Guest, Search: n.Search, Viewed: n.Viewed}
		d := n.Decision
		if stored := found[n.Guest]; d == nil && stored != nil {
			made := r.decide(n, stored)
			d = &made
		}
		if d != nil {
			if d.ID.IsZero() {
				continue // the session is gone, unknown, or not the guest's
			}
			r.touch(n, d, &step)
			events = r.appendEvent(events, n, d)
		}
		steps = append(steps, step)
	}
	_ = r.cfg.Trails.Follow(ctx, steps) // memories, not promises
	if len(events) > 0 {
		r.cfg.Background.DoFor(ctx, func(ctx context.Context) { _ = r.cfg.Journal.Record(ctx, events...) }) // counted by the journal
	}
	return nil
}

// context is for jobs that this one record causes: it belongs to its request's trace.
func (n *Record) context() context.Context { return tracing.Under(context.Background(), n.Span) }

// find looks up the sessions that no handler resolved and that are not known to be up
// to date.
func (r *Recorder) find(ctx context.Context, records []Record) map[bff.ID]*guest.FoundSession {
	var ids []bff.ID
	found := map[bff.ID]*guest.FoundSession{}
	for i := range records {
		n := &records[i]
		if n.Decision != nil || n.Fact == nil && r.upToDate(n) {
			continue
		}
		if _, twice := found[n.Guest]; !twice {
			found[n.Guest] = nil
			ids = append(ids, n.Guest)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	for i, f := range r.cfg.Sessions.FindSessions(ctx, ids) {
		found[ids[i]] = &f
	}
	return found
}

// decide resolves the session of a visit as it was found. Jobs of its own are begun:
// one that was lost is restored, and a browser's refusal kept, which is sent again.
func (r *Recorder) decide(n *Record, stored *guest.FoundSession) guest.Decision {
	known := guest.Known{Stored: stored}
	d := guest.Resolve(n.Visit, known, guest.Record)
	if d.Needs == guest.NeedKept {
		r.restore(n, known)
	}
	for _, e := range d.Effects {
		if e.Do == guest.Refuse && !r.upToDate(n) {
			at := n.Visit.At
			r.cfg.Background.DoFor(n.context(), func(ctx context.Context) { _ = r.cfg.Sessions.AddRefusal(ctx, e.Session, at) })
		}
	}
	return d
}

// restore saves a session that was lost as the guest's card describes it, and tells
// of the visit: with a card, searches read no session that could be restored
// before the answer.
func (r *Recorder) restore(n *Record, known guest.Known) {
	visit, fact, cause := n.Visit, n.Fact, n.Occasion
	r.cfg.Background.DoFor(n.context(), func(ctx context.Context) {
		d := guest.Decide(ctx, r.cfg.Sessions, visit, known, guest.Record)
		for _, e := range d.Effects {
			if e.Do != guest.Restore || r.cfg.Sessions.RestoreSession(ctx, e.Session) != nil || fact == nil {
				continue // restored with the next visit
			}
			if e, leaves, err := r.cfg.Telemetry.Event(e.Session, fact(e.Session), cause, visit.At); err == nil && leaves {
				_ = r.cfg.Journal.Record(ctx, e) // counted by the journal
			}
		}
	})
}

// touch has it written that the session was used, unless that was done a moment ago.
func (r *Recorder) touch(n *Record, d *guest.Decision, step *guest.Step) {
	step.New = d.Session.Unread || !d.Session.Returned() // made up, lost, or opened just now
	touch := d.Touch()
	if !r.upToDate(n) {
		step.Touch = touch
	}
	switch {
	case step.New: // its first return is worth a write, however soon
	case !touch.SeenAt.IsZero():
		r.current.Put(n.same(), touch.SeenAt.Add(consumer.TouchAfter))
	case n.Decision == nil: // as it was found
		r.current.Put(n.same(), d.Session.LastSeenAt.Add(consumer.TouchAfter))
	}
}

func (r *Recorder) appendEvent(events []bff.Event, n *Record, d *guest.Decision) []bff.Event {
	if n.Fact == nil || !d.Resolved() {
		return events
	}
	e, leaves, err := r.cfg.Telemetry.Event(d.Session, n.Fact(d.Session), n.Occasion, n.Visit.At)
	if err != nil || !leaves {
		return events
	}
	return append(events, e)
}
