package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/pubsub"
)

// exchangeTimeout bounds one round trip to Postgres.
const exchangeTimeout = 30 * time.Second

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

// note is a mark that stands in the journal.
type note struct {
	mark
	seq int64
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
	found    int   // rows that the last step had
	lanes    lanes
	inflight map[string]struct{} // published, or about to be, and not yet marked
	marks    []mark
	failures []failure
	journal  []note // noted as published, rows still to be marked
}

func newSession(r *Relay, conn *pgx.Conn) *session {
	s := &session{r: r, conn: conn, inflight: map[string]struct{}{}, lanes: newLanes()}
	s.cursor.id = r.cfg.Table.first()
	s.marks, r.unmarked = r.unmarked, nil
	for _, m := range s.marks {
		s.remember(m)
	}
	return s
}

// remember keeps rows from being published again that a read may still return.
func (s *session) remember(m mark) {
	for _, id := range m.ids {
		s.inflight[id] = struct{}{}
	}
}

func (s *session) forget(m mark) {
	for _, id := range m.ids {
		delete(s.inflight, id)
	}
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
	// The server must notice within seconds that a leader's machine is gone, must
	// walk the drain index whatever its statistics say about a table that is empty
	// one minute and full the next, and must let the first read finish though it
	// may have to step over all that was published since the last vacuum.
	_, err := s.conn.Exec(ctx, `SELECT set_config(name, value, false) FROM (VALUES
		('tcp_keepalives_idle', '2'), ('tcp_keepalives_interval', '1'), ('tcp_keepalives_count', '3'),
		('enable_seqscan', 'off'), ('enable_bitmapscan', 'off'), ('jit', 'off'),
		('statement_timeout', $1)) AS v(name, value)`, strconv.FormatInt(exchangeTimeout.Milliseconds(), 10))
	if err != nil {
		return false, fmt.Errorf("take the lead: %w", err)
	}
	var b pgx.Batch
	b.Queue("LISTEN " + pgx.Identifier{s.r.cfg.Table.channel()}.Sanitize())
	// Rows restored from another server may carry transactions that this one has
	// not reached; no cursor could pass them.
	b.Queue(s.r.cfg.Table.sql.adopt)
	b.Queue(s.r.cfg.Table.sql.journal).Query(s.loadJournal)
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

// step publishes one batch. With a backlog, the batch before is noted as
// published and the next one read meanwhile, in one round trip.
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
	s.found = len(rows)
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
	return full, errors.Join(lost, s.settle(batch, <-answers))
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
