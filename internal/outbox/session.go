package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/pubsub"
)

// exchangeTimeout bounds one round trip to Postgres.
const exchangeTimeout = 15 * time.Second

// errOutage says that all of a batch failed through no fault of its own.
var errOutage = errors.New("nothing could be published")

// position is a place in the drain order.
type position struct {
	tx uint64
	id string
}

func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(p.tx, q.tx), cmp.Compare(p.id, q.id))
}

type row struct {
	position
	topic, key        string
	envelope, payload []byte
	attempts          int
	wait              time.Duration // until it may be tried again
}

// mark is a batch that was published and is still to be marked.
type mark struct {
	at  time.Time
	ids []string
}

// failure is an attempt that is still to be counted.
type failure struct {
	id, text string
	wait     time.Duration
}

// state says what a step found.
type state int

const (
	idle    state = iota // nothing to do
	partial              // published what there was
	full                 // there is more
)

// session is a relay's work on one connection; see the package documentation
// for why the cursor and the holes lose no row.
type session struct {
	r    *Relay
	conn *pgx.Conn

	cursor   position
	holes    []uint64
	next     []row // read ahead while the batch before was published
	more     bool  // the last read was cut off at its limit
	lanes    lanes
	inflight map[string]struct{} // published, or about to be, and not yet marked
	marks    []mark
	failures []failure
}

func newSession(r *Relay, conn *pgx.Conn) *session {
	s := &session{r: r, conn: conn, inflight: map[string]struct{}{}, lanes: newLanes()}
	s.cursor.id = r.cfg.Table.first()
	s.marks, r.unmarked = r.unmarked, nil
	for _, m := range s.marks {
		for _, id := range m.ids {
			s.inflight[id] = struct{}{}
		}
	}
	return s
}

// close marks what is left and hangs up. What can not be marked is left to the
// next session of this relay.
func (s *session) close() error {
	var err error
	if !s.conn.IsClosed() && (len(s.marks) > 0 || len(s.failures) > 0) {
		_, err = s.exchange(false)
	}
	s.r.unmarked = s.marks
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.conn.Close(ctx) // nothing more is wanted of it
	return err
}

// tryLead takes the table's lock if it is free.
func (s *session) tryLead(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	var led bool
	if err := s.conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", s.r.cfg.Table.lock()).Scan(&led); err != nil {
		return false, fmt.Errorf("try to lead: %w", err)
	}
	if !led {
		return false, nil
	}
	var b pgx.Batch
	// The server must notice within seconds that a leader's machine is gone, and
	// must walk the drain index whatever its statistics say about a table that is
	// empty one minute and full the next.
	b.Queue(`SELECT set_config(name, value, false) FROM (VALUES
		('tcp_keepalives_idle', '2'), ('tcp_keepalives_interval', '1'), ('tcp_keepalives_count', '3'),
		('enable_seqscan', 'off'), ('enable_bitmapscan', 'off'), ('jit', 'off')) AS v(name, value)`)
	b.Queue("LISTEN " + pgx.Identifier{s.r.cfg.Table.channel()}.Sanitize())
	// Rows restored from another server may carry transactions that this one has
	// not reached; no cursor could pass them.
	b.Queue(s.r.cfg.Table.sql.adopt)
	if err := s.conn.SendBatch(ctx, &b).Close(); err != nil {
		return false, fmt.Errorf("take the lead: %w", err)
	}
	s.r.leading.Store(true)
	return true, nil
}

// idle waits for a wake-up from this process or another, for a row's next
// attempt, or for the poll.
func (s *session) idle(ctx context.Context) error {
	d := jitter(s.r.cfg.Poll)
	if due, ok := s.lanes.nextDue(); ok {
		d = min(d, max(time.Until(due), time.Millisecond))
	}
	waiting, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	s.r.poke.Store(&cancel)
	defer s.r.poke.Store(nil)
	// A Wake after this finds the cancel; one before it is seen here.
	if !s.r.woken.Load() && !s.notified() {
		_, err := s.conn.WaitForNotification(waiting)
		if s.conn.IsClosed() {
			return fmt.Errorf("wait: %w", err)
		}
	}
	s.r.woken.Store(false)
	return nil
}

// notified takes the notifications that came in with other answers. They pile
// up in a busy relay, and each would end a wait of its own.
func (s *session) notified() bool {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	seen := false
	for {
		if _, err := s.conn.WaitForNotification(ended); err != nil {
			return seen
		}
		seen = true
	}
}

// step publishes one batch. While it is on its way, the batch before is marked
// and the next one read, in one round trip.
func (s *session) step() (state, error) {
	rows := s.next
	s.next = nil
	if len(rows) == 0 {
		now := time.Now()
		if s.lanes.due(now) {
			s.cursor = s.lanes.rewind(now, s.cursor, s.r.cfg.Table.first())
		} else if s.lanes.crowded() {
			_, err := s.exchange(false)
			return idle, err
		}
		var err error
		if rows, err = s.exchange(true); err != nil {
			return idle, err
		}
		if len(rows) == 0 && !s.more {
			return idle, nil
		}
	}
	batch := s.admit(rows)
	if !s.more {
		return partial, s.settle(batch, s.publish(batch))
	}
	answers := make(chan []error, 1)
	go func() { answers <- s.publish(batch) }()
	var lost error
	// A key that is due must first have its older rows read again: nothing may be
	// read ahead that would then overtake them.
	s.next, lost = s.exchange(!s.lanes.due(time.Now()))
	err := s.settle(batch, <-answers)
	return full, errors.Join(lost, err)
}

// admit holds back rows whose key waits for an earlier row.
func (s *session) admit(rows []row) []row {
	now := time.Now()
	batch := rows[:0]
	for i, w := range rows {
		if w.wait > 0 {
			s.lanes.block(w.lane(), now.Add(w.wait))
		}
		if s.lanes.blocked(w.lane()) {
			s.giveBack(rows[i : i+1])
			continue
		}
		batch = append(batch, w)
	}
	return batch
}

func (s *session) publish(batch []row) []error {
	if len(batch) == 0 {
		return nil
	}
	// The batch under way outlives a stop: it is cheaper to finish than to repeat.
	ctx, cancel := context.WithTimeout(context.Background(), s.r.cfg.PublishTimeout)
	defer cancel()
	stamp := bff.At(time.Now()).String()
	messages := make([]pubsub.Message, len(batch))
	for i := range batch {
		messages[i] = batch[i].message(stamp)
	}
	return s.r.cfg.Publisher.Publish(ctx, messages)
}

// settle sorts the answers into marks, failures and keys that wait.
func (s *session) settle(batch []row, answers []error) error {
	if len(answers) != len(batch) {
		return fmt.Errorf("publisher gave %d answers for %d messages", len(answers), len(batch))
	}
	now := time.Now()
	if err := outage(answers); err != nil {
		s.giveBack(batch)
		s.giveBack(s.next)
		s.next = nil
		s.cursor = s.lanes.rewind(now, s.cursor, s.r.cfg.Table.first())
		return fmt.Errorf("%w: %w", errOutage, err)
	}
	done := mark{at: now}
	for i, err := range answers {
		if err == nil {
			done.ids = append(done.ids, batch[i].id)
		} else {
			s.fail(batch[i], err, now)
		}
	}
	if len(done.ids) > 0 {
		s.marks = append(s.marks, done)
		s.r.counters.published.Add(uint64(len(done.ids)))
	}
	return nil
}

// outage returns a cause if every answer lays the blame on Pub/Sub.
func outage(answers []error) error {
	for _, err := range answers {
		if err == nil || !pubsub.Transient(err) {
			return nil
		}
	}
	if len(answers) == 0 {
		return nil
	}
	return answers[0]
}

// giveBack forgets rows that were not published. The cursor has passed them, so
// it must come back: a row that nobody remembers would be lost.
func (s *session) giveBack(rows []row) {
	for i := range rows {
		s.lanes.hold(rows[i].position)
		delete(s.inflight, rows[i].id)
	}
}

func (s *session) fail(w row, err error, now time.Time) {
	if errors.Is(err, pubsub.ErrHeld) { // the row that failed has blocked the key
		s.giveBack([]row{w})
		return
	}
	s.lanes.hold(w.position)
	s.r.counters.failed.Add(1)
	wait := s.r.backoff(w.attempts + 1)
	s.failures = append(s.failures, failure{id: w.id, text: reason(err), wait: wait})
	if w.attempts+1 >= s.r.cfg.MaxAttempts {
		s.r.counters.dead.Add(1)
		s.r.cfg.Logger.Error("outbox event dead-lettered", "table", s.r.cfg.Table.name, "id", w.id, "topic", w.topic, "error", err)
		wait = 0 // what waited behind it may go
	}
	s.lanes.block(w.lane(), now.Add(wait))
}

// backoff is 2^n times the least wait, with jitter.
func (r *Relay) backoff(attempt int) time.Duration {
	d := r.cfg.MaxBackoff
	if attempt < 20 {
		d = min(d, r.cfg.MinBackoff<<(attempt-1))
	}
	return jitter(d)
}

// reason is what an operator reads in last_error.
func reason(err error) string {
	const most = 500
	text := strings.ToValidUTF8(strings.ReplaceAll(err.Error(), "\x00", ""), "?")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// exchange marks what was published, counts what failed and reads on, in one
// round trip and one transaction.
func (s *session) exchange(read bool) ([]row, error) {
	t := s.r.cfg.Table
	var b pgx.Batch
	for _, m := range s.marks {
		b.Queue(t.sql.mark, m.at, m.ids)
	}
	if n := len(s.failures); n > 0 {
		ids, texts, waits := make([]string, n), make([]string, n), make([]float64, n)
		for i, f := range s.failures {
			ids[i], texts[i], waits[i] = f.id, f.text, f.wait.Seconds()
		}
		b.Queue(t.sql.fail, ids, texts, waits, s.r.cfg.MaxAttempts)
	}
	var got reading
	if read {
		b.Queue(t.sql.read, s.cursor.tx, s.cursor.id, s.limit(), s.holes).Query(got.scan)
	}
	if b.Len() == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), exchangeTimeout)
	defer cancel()
	if err := s.conn.SendBatch(ctx, &b).Close(); err != nil {
		return nil, fmt.Errorf("mark and read: %w", err)
	}
	for _, m := range s.marks {
		for _, id := range m.ids {
			delete(s.inflight, id)
		}
	}
	for _, f := range s.failures {
		delete(s.inflight, f.id)
	}
	s.marks, s.failures = nil, nil
	if !read {
		return nil, nil
	}
	return s.advance(got)
}

// limit is half of the window: one half is published while the other is marked.
func (s *session) limit() int { return max(1, s.r.cfg.Batch/2) }

// advance moves the cursor over what was read and returns what is new of it.
func (s *session) advance(got reading) ([]row, error) {
	snap, err := parseSnapshot(got.snapshot)
	if err != nil {
		return nil, err
	}
	limit := s.limit()
	s.more = got.ahead == limit || got.holes == limit
	to := position{tx: snap.xmax, id: s.r.cfg.Table.first()}
	if got.ahead == limit && got.last.compare(to) < 0 {
		to = got.last
	}
	if got.holes == limit { // more than fits: walk over them again
		to = position{tx: slices.Min(s.holes), id: s.r.cfg.Table.first()}
	}
	s.cursor = to
	s.holes = snap.behind(to.tx)

	slices.SortFunc(got.rows, func(a, b row) int { return a.compare(b.position) })
	fresh := got.rows[:0]
	for _, w := range got.rows {
		if _, again := s.inflight[w.id]; again {
			continue
		}
		s.inflight[w.id] = struct{}{}
		fresh = append(fresh, w)
	}
	return fresh, nil
}

// reading is the answer to one read.
type reading struct {
	snapshot     string
	rows         []row
	ahead, holes int // rows beyond the cursor, rows in holes
	last         position
}

func (g *reading) scan(rows pgx.Rows) error {
	for rows.Next() {
		var (
			hole           *bool
			tx             *uint64
			id, topic, key *string
			attempts       *int
			wait           *float64
			w              row
		)
		if err := rows.Scan(&g.snapshot, &hole, &tx, &id, &topic, &key, &w.envelope, &w.payload, &attempts, &wait); err != nil {
			return err
		}
		if hole == nil { // the snapshot alone
			continue
		}
		w.position = position{*tx, *id}
		w.topic, w.key, w.attempts = *topic, *key, *attempts
		w.wait = time.Duration(*wait * float64(time.Second))
		g.rows = append(g.rows, w)
		if *hole {
			g.holes++
			continue
		}
		g.ahead++
		g.last = w.position
	}
	return rows.Err()
}

// snapshot is Postgres' own: what was in progress when a read ran.
type snapshot struct {
	xmax       uint64
	inProgress []uint64
}

// parseSnapshot reads the text form xmin:xmax:xip,xip,….
func parseSnapshot(text string) (snapshot, error) {
	var s snapshot
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return s, fmt.Errorf("malformed snapshot %q", text)
	}
	var err error
	if s.xmax, err = strconv.ParseUint(parts[1], 10, 64); err != nil {
		return s, fmt.Errorf("malformed snapshot %q", text)
	}
	for x := range strings.SplitSeq(parts[2], ",") {
		if x == "" {
			continue
		}
		n, err := strconv.ParseUint(x, 10, 64)
		if err != nil {
			return s, fmt.Errorf("malformed snapshot %q", text)
		}
		s.inProgress = append(s.inProgress, n)
	}
	return s, nil
}

// behind are the transactions in progress that a cursor would leave behind.
func (s snapshot) behind(cursor uint64) []uint64 {
	return slices.DeleteFunc(s.inProgress, func(x uint64) bool { return x >= cursor })
}

// message wraps envelope and payload as they stand, with the one field that only
// the relay knows spliced in.
func (w *row) message(stamp string) pubsub.Message {
	envelope := w.envelope
	for len(envelope) > 0 && envelope[len(envelope)-1] != '}' {
		envelope = envelope[:len(envelope)-1]
	}
	data := make([]byte, 0, len(envelope)+len(w.payload)+len(stamp)+48)
	data = append(data, `{"envelope":`...)
	data = append(data, envelope[:max(0, len(envelope)-1)]...)
	if len(envelope) > 2 {
		data = append(data, ',')
	}
	data = append(data, `"publishedAt":"`...)
	data = append(data, stamp...)
	data = append(data, `"},"payload":`...)
	data = append(data, w.payload...)
	data = append(data, '}')
	return pubsub.Message{Topic: w.topic, Key: w.key, Data: data, Attributes: map[string]string{"eventId": w.eventID(), "subject": w.topic}}
}

// eventID is the id on the wire, whichever form the column has.
func (w *row) eventID() string {
	if id, err := bff.IDFromUUID(bff.PrefixEvent, w.id); err == nil {
		return id.String()
	}
	return w.id
}
