// Package stream tells devices what happens: what a received event means for them, the
// log of each device, and the open streams of an instance.
package stream

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

const (
	// PingEvery is how often a stream is compared with its log and its client is told
	// the heads.
	PingEvery = 15 * time.Second
	// TickEvery is how often Tick is called.
	TickEvery = time.Second
	slots     = int(PingEvery / TickEvery)
	// reauthAhead is how long before its token ends a device is asked for another one.
	reauthAhead = time.Minute
	// maxBatch is how many logs are read in one pipeline.
	maxBatch = 256
	// retryFull is when a client may try again that found no place for its stream.
	retryFull = 30 * time.Second
	// spreadRetry is over how much time clients come back whose streams end together.
	spreadRetry = 3 * time.Second
)

// Address is where a stream leads: one device of a tenant.
type Address struct{ Tenant, Device bff.ID }

// Cursor is how far a stream has read its log.
type Cursor struct {
	Caller backoffice.Caller
	From   EventID
}

// LogReading is what a log holds from a cursor on.
type LogReading struct {
	// Log begins with the entry at the cursor, or with the oldest one that is left.
	// Empty: the log is lost.
	Log []Entry
	// Refused: the caller was logged out, or its tenant is suspended.
	Refused bool
	Err     error
}

// Log keeps a short log per tenant and device in the session tier. What is
// appended is told at once to every instance that follows the device. It calls
// [Streams.Deliver] with what it hears, and [Streams.Resync] when it may have missed
// something.
type Log interface {
	// Append adds an entry to the logs of devices; those that had no stream within the hour
	// have none. A device whose log cannot be written does not hold up the others.
	Append(ctx context.Context, tenant bff.ID, devices []bff.ID, e Entry) error
	// Open adds EntryOpened and returns the whole log, which ends with it.
	Open(ctx context.Context, a Address) ([]Entry, error)
	// Read reads many logs, which then live on.
	Read(ctx context.Context, at []Cursor) []LogReading
	// Follow returns when this instance hears what is appended for the device.
	Follow(ctx context.Context, a Address) error
	Unfollow(ctx context.Context, devices []Address) error
	// Marks reads what concerns the streams of tenants, all in one pipeline.
	Marks(ctx context.Context, tenants []bff.ID) (Marks, error)
}

// Frame is one message to a client.
type Frame struct {
	ID    EventID // zero: none
	Event string
	Data  string
	Retry time.Duration // zero: unsaid
}

// Sink is a client's connection. Neither method waits for the client.
type Sink interface {
	// Send queues messages. A client that does not read them in time is disconnected.
	Send(frames ...Frame)
	// End queues messages and closes the connection after them.
	End(frames ...Frame)
}

// Streams are the open streams of one instance: at most one per device. Where the bus
// loses a message, the next one shows it by the entry that precedes it, and so does
// the comparison with the log every PingEvery.
type Streams struct {
	log Log
	max int
	// share is how many streams one tenant may have.
	share int

	mu       sync.Mutex
	open     map[Address]*Stream
	opening  int
	held     map[bff.ID]int // open and opening, by tenant
	draining bool
	slot     int
	next     int                  // slot of the next stream
	stale    map[*Stream]struct{} // their logs are to be read
	failed   []*Stream            // could not be read; tried again with the next Tick
	left     []Address            // may have to be unfollowed
	now      time.Time            // of the last Tick or Open
	counts   Counts
	ticks    int
	due      bool              // marks are to be compared
	server   string            // mark of the last comparison
	marks    map[bff.ID]string // by tenant with streams
	wake     chan struct{}
}

// NewStreams returns the streams of an instance that has room for so many, and for some
// of one tenant: devices of one must not take the place of all others.
func NewStreams(log Log, most, share int) *Streams {
	return &Streams{
		log: log, max: most, share: share, held: map[bff.ID]int{}, open: map[Address]*Stream{}, stale: map[*Stream]struct{}{}, wake: make(chan struct{}, 1),
	}
}

// Stream is what a device is told, and how far.
type Stream struct {
	streams *Streams
	at      Address
	slot    int
	member  *backoffice.Member // its rights when it was opened: when they change it ends
	opened  EventID            // its own entry

	mu       sync.Mutex
	out      Sink // nil until Start
	first    []Frame
	caller   backoffice.Caller
	expires  time.Time // of the token
	asked    bool      // for another token
	ended    bool
	pinging  bool // a ping is due after the next reading
	position EventID
	heads    Heads
}

// Open makes a stream for a visitor that has everything up to last, an event id or "".
// It is told nothing before Start. A stream that is not started must be removed.
func (ss *Streams) Open(ctx context.Context, v *backoffice.Visit, last string, now time.Time) (*Stream, error) {
	a := Address{v.Caller.Tenant, v.Caller.Device}
	if !ss.reserve(a, now) {
		return nil, &bff.Error{
			Code: bff.CodeServiceUnavailable, Detail: "this instance has no room for another stream: poll /alerts and /ai/suggestions, and try again later",
			RetryAfter: retryFull,
		}
	}
	s, err := ss.prepare(ctx, v, last, now)
	if err != nil {
		ss.release(a.Tenant)
		return nil, backoffice.Away(err)
	}
	return s, nil
}

func (ss *Streams) reserve(a Address, now time.Time) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.now = now
	if len(ss.open)+ss.opening >= ss.max || ss.held[a.Tenant] >= ss.share && ss.open[a] == nil {
		ss.counts.Full++
		return false
	}
	if ss.draining {
		return false
	}
	ss.opening++
	ss.held[a.Tenant]++
	return true
}

func (ss *Streams) release(tenant bff.ID) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.opening--
	ss.drop(tenant)
}

// drop takes one from what a tenant holds. It needs the lock.
func (ss *Streams) drop(tenant bff.ID) {
	if ss.held[tenant]--; ss.held[tenant] <= 0 {
		delete(ss.held, tenant)
	}
}

// prepare follows the device before it reads its log: what is appended after the
// reading is heard.
func (ss *Streams) prepare(ctx context.Context, v *backoffice.Visit, last string, now time.Time) (*Stream, error) {
	a := Address{v.Caller.Tenant, v.Caller.Device}
	if err := ss.learn(ctx); err != nil {
		return nil, err
	}
	if err := ss.log.Follow(ctx, a); err != nil {
		return nil, err
	}
	log, err := ss.log.Open(ctx, a)
	if err != nil {
		return nil, err
	}
	own := &log[len(log)-1]
	c := v.Caller
	s := &Stream{
		streams: ss, at: a, member: v.Member, opened: own.ID, position: own.ID, heads: own.After(), expires: c.TokenExpires,
		caller: backoffice.Caller{Tenant: c.Tenant, Operator: c.Operator, Device: c.Device, TokenHash: c.TokenHash, TokenIssued: c.TokenIssued},
	}
	s.first = s.replay(last, log, now)
	return s, nil
}

// replay is what a client gets first: what it missed, what follows, where it stands.
func (s *Stream) replay(last string, log []Entry, now time.Time) []Frame {
	var frames []Frame
	if last != "" {
		missed, rest := backoffice.Channels(), []Entry(nil)
		if id, ok := ParseEventID(last); ok {
			missed, rest = Replay(id, log)
		}
		if len(missed) > 0 {
			frames = append(frames, gapFrame(missed, rest, s.opened))
		}
		for i := range rest {
			// What ended an earlier stream says nothing of this one.
			if e := &rest[i]; s.may(e) && !e.ends() {
				frames = append(frames, e.frame())
			}
		}
	}
	return append(frames, Frame{ID: s.opened, Event: "ready", Data: headsData(s.opened.Epoch, &s.heads, now)})
}

// Start connects the stream with its client. An older one of the device ends.
func (s *Stream) Start(out Sink) {
	s.mu.Lock()
	s.out = out
	old, end := s.streams.enter(s)
	out.Send(s.first...) // before anything that is delivered from now on, which waits for the lock
	s.first = nil
	if end != nil {
		s.endLocked(*end)
	}
	s.mu.Unlock()
	if old != nil {
		old.end(supersededFrame)
	}
	s.streams.signal()
}

// enter adds a stream to the open ones. It returns the one in whose place it is, or why
// it ends at once.
func (ss *Streams) enter(s *Stream) (old *Stream, end *Frame) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.opening--
	old = ss.open[s.at]
	switch {
	case ss.draining:
		ss.drop(s.at.Tenant)
		drain := drainFrame()
		return nil, &drain
	case old != nil && s.opened.before(old.opened):
		ss.drop(s.at.Tenant)
		return nil, &supersededFrame
	case old != nil: // its place is taken
		ss.drop(s.at.Tenant)
	}
	s.slot, ss.next = ss.next, (ss.next+1)%slots
	ss.open[s.at] = s
	ss.stale[s] = struct{}{} // for what was appended since the log was read
	return old, nil
}

func (id EventID) before(other EventID) bool {
	return id.Epoch < other.Epoch || id.Epoch == other.Epoch && id.Seq < other.Seq
}

// Cancel gives the place of a stream back that was not started.
func (s *Stream) Cancel() {
	s.streams.release(s.at.Tenant)
	s.streams.forget(s)
}

// Gone removes a stream whose client has left.
func (s *Stream) Gone() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.streams.forget(s)
}

// end tells the client why the stream ends, and closes it.
func (s *Stream) end(frames ...Frame) {
	s.mu.Lock()
	s.endLocked(frames...)
	s.mu.Unlock()
}

// endLocked needs the stream's lock.
func (s *Stream) endLocked(frames ...Frame) {
	if !s.ended {
		s.ended = true
		s.out.End(frames...)
		s.streams.forget(s)
	}
}

func (ss *Streams) forget(s *Stream) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.stale, s)
	if ss.open[s.at] == s {
		delete(ss.open, s.at)
		ss.drop(s.at.Tenant)
	}
	if ss.open[s.at] == nil {
		ss.left = append(ss.left, s.at)
	}
}

// Len is how many streams are open.
func (ss *Streams) Len() int {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return len(ss.open)
}

// Deliver takes what was appended for a device.
func (ss *Streams) Deliver(a Address, e Entry) {
	ss.mu.Lock()
	s := ss.open[a]
	ss.mu.Unlock()
	if s == nil {
		return
	}
	s.mu.Lock()
	known := s.take(&e)
	s.mu.Unlock()
	if !known {
		ss.read(s)
	}
}

// Resync has all logs read: messages may have been missed.
func (ss *Streams) Resync() {
	ss.mu.Lock()
	for _, s := range ss.open {
		ss.stale[s] = struct{}{}
	}
	ss.mu.Unlock()
	ss.signal()
}

func (ss *Streams) read(s *Stream) {
	ss.mu.Lock()
	if ss.open[s.at] == s {
		ss.stale[s] = struct{}{}
	}
	ss.mu.Unlock()
	ss.signal()
}

func (ss *Streams) signal() {
	select {
	case ss.wake <- struct{}{}:
	default:
	}
}

// take hands the next entry on. It reports false if entries before it are missing. It
// needs the lock.
func (s *Stream) take(e *Entry) bool {
	switch {
	case s.ended, e.ID.Epoch == s.position.Epoch && e.ID.Seq <= s.position.Seq:
		return true
	case e.ID.Epoch != s.position.Epoch || e.Before.Last() != s.position.Seq:
		return false
	}
	s.position, s.heads = e.ID, e.After()
	switch {
	case e.Kind == EntryOpened:
		s.endLocked(supersededFrame)
	case e.Kind == EntryProved:
		if e.Operator == s.caller.Operator && e.Expires.After(s.expires) {
			s.expires, s.asked = e.Expires, false
			s.caller.TokenHash, s.caller.TokenIssued = e.Data, tokenIssued(e)
		}
	case !s.may(e):
	case e.ends():
		s.endLocked(e.frame())
	default:
		s.out.Send(e.frame())
	}
	return true
}

// may reports whether an entry is for this stream's client: it is checked here again,
// whatever was known when the entry was written.
func (s *Stream) may(e *Entry) bool {
	return e.Kind < numChannels && (e.Operator == "" || e.Operator == s.caller.Operator) &&
		(e.Property.IsZero() || s.member.Scope.Covers(e.Property))
}

// Work reads logs until the context ends.
func (ss *Streams) Work(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ss.wake:
		}
		for ss.step(ctx) {
		}
	}
}

// step reads one batch and reports whether there is more to do.
func (ss *Streams) step(ctx context.Context) bool {
	ss.compare(ctx)
	batch, left, now := ss.batch()
	if len(left) > 0 {
		_ = ss.log.Unfollow(ctx, left) // messages for streams that are not here are dropped
	}
	if len(batch) == 0 {
		return false
	}
	cursors := make([]Cursor, len(batch))
	for i, s := range batch {
		s.mu.Lock()
		cursors[i] = Cursor{s.caller, s.position}
		s.mu.Unlock()
	}
	for i, r := range ss.log.Read(ctx, cursors) {
		if !batch[i].apply(cursors[i].From, r, now) {
			ss.mu.Lock()
			ss.failed = append(ss.failed, batch[i])
			ss.mu.Unlock()
		}
	}
	return ctx.Err() == nil
}

// batch takes streams that are to be read, and devices without a stream.
func (ss *Streams) batch() (batch []*Stream, left []Address, now time.Time) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for s := range ss.stale {
		if len(batch) == maxBatch {
			break
		}
		batch = append(batch, s)
		delete(ss.stale, s)
	}
	for _, a := range ss.left {
		if ss.open[a] == nil {
			left = append(left, a)
		}
	}
	ss.left = nil
	return batch, left, ss.now
}

// apply brings a stream up to a reading that was asked for at a position. It reports
// false if the log is to be read once more.
func (s *Stream) apply(from EventID, r LogReading, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ping := s.pinging
	s.pinging = false
	switch moved := s.position != from; {
	case s.ended:
		return true
	case r.Err != nil:
		if ping { // alive, and nothing is known of the heads
			s.out.Send(Frame{Event: "ping", Data: `{"serverTime":` + strconv.Quote(bff.At(now).String()) + `}`})
		}
		return false
	case r.Refused: // and nothing in the log has said why
		if !moved && len(r.Log) > 0 && !s.follow(r.Log) {
			return true
		}
		s.streams.count(func(c *Counts) { c.Late++ })
		at := strconv.Quote(bff.At(now).String())
		s.endLocked(Frame{Event: string(backoffice.ChannelSession), Data: `{"type":"` + backoffice.SessionRevoked + `","at":` + at + `}`})
		return true
	case len(r.Log) == 0 && moved:
		return false
	case len(r.Log) == 0:
		s.lost()
		return true
	case !moved || s.position.before(r.Log[len(r.Log)-1].ID):
		if !s.follow(r.Log) {
			return true
		}
	}
	if ping {
		s.out.Send(Frame{ID: s.position, Event: "ping", Data: headsData(s.position.Epoch, &s.heads, now)})
	}
	return true
}

// follow hands on what comes after the position, and reports whether the stream goes
// on. It needs the lock.
func (s *Stream) follow(log []Entry) bool {
	missed, rest := Replay(s.position, log)
	// What concerned the stream itself may have been a reason to end it.
	if len(missed) > 0 && len(rest) == 0 || slices.Contains(missed, backoffice.ChannelSession) ||
		len(rest) > 0 && rest[0].Before[numChannels] > s.position.Seq {
		s.lost()
		return false
	}
	if len(missed) > 0 {
		gap := gapFrame(missed, rest, s.position)
		s.out.Send(gap)
		s.position = gap.ID
	}
	for i := range rest {
		s.take(&rest[i])
	}
	return !s.ended
}

// lost ends a stream whose log is not the one that it has read: it was lost, and with
// it perhaps the session. The client comes again. It needs the lock.
func (s *Stream) lost() {
	s.endLocked(Frame{Event: "gap", Data: channelsData(backoffice.Channels()), Retry: retryHint()})
}

// Tick asks for fresh tokens, ends what was not proved in time, and has one in fifteen
// of the logs read for a ping.
func (ss *Streams) Tick(now time.Time) {
	ss.mu.Lock()
	ss.now = now
	ss.slot = (ss.slot + 1) % slots
	ss.ticks++
	ss.due = ss.due || ss.ticks%markTicks == 0
	all := make([]*Stream, 0, len(ss.open))
	for _, s := range ss.open {
		all = append(all, s)
	}
	for _, s := range ss.failed {
		if ss.open[s.at] == s {
			ss.stale[s] = struct{}{}
		}
	}
	ss.failed = nil
	slot := ss.slot
	ss.mu.Unlock()
	for _, s := range all {
		if s.tick(now, s.slot == slot) {
			ss.read(s)
		}
	}
	ss.signal()
}

// tick reports whether the log is to be read for a ping.
func (s *Stream) tick(now time.Time, ping bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return false
	case !now.Before(s.expires):
		s.endLocked(Frame{Event: "end", Data: `{"reason":"token_expired"}`, Retry: TickEvery})
		return false
	case !s.asked && !now.Before(s.expires.Add(-reauthAhead)):
		s.asked = true
		s.out.Send(Frame{Event: "reauth", Data: `{"expiresAt":` + strconv.Quote(bff.At(s.expires).String()) + `}`})
	}
	s.pinging = s.pinging || ping
	return ping
}

// Reauth records that a device has proved itself anew: its stream goes on, whichever
// instance has it.
func (ss *Streams) Reauth(ctx context.Context, v *backoffice.Visit) error {
	c := &v.Caller
	return backoffice.Away(ss.log.Append(ctx, c.Tenant, []bff.ID{c.Device}, Entry{
		Kind: EntryProved, Operator: c.Operator, Type: strconv.FormatInt(c.TokenIssued.Unix(), 10), Data: c.TokenHash, Expires: c.TokenExpires,
	}))
}

func tokenIssued(e *Entry) time.Time {
	n, err := strconv.ParseInt(e.Type, 10, 64)
	if err != nil {
		return time.Time{} // every tombstone refuses it
	}
	return time.Unix(n, 0)
}

func retryHint() time.Duration {
	return TickEvery/4 + rand.N(spreadRetry) //nolint:gosec // no secret: it spreads clients
}
