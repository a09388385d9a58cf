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
	"melmastoon.ghasi.io/bff/internal/pause"
	"melmastoon.ghasi.io/bff/internal/pubsub"
)

// exchangeTimeout bounds one round trip to Postgres.
const exchangeTimeout = 30 * time.Second

// errOutage says that all of a batch failed through no fault of its own.
var errOutage = errors.New("no event could be published")

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
	waits             bool // an earlier row of its lane is held
}

// tooLarge: the event is larger than any that Append takes, and was not read.
func (w *row) tooLarge() bool { return w.payload == nil || w.envelope == nil }

// errTooLarge is why such a row is dead-lettered.
var errTooLarge = fmt.Errorf("the event is larger than %d bytes as Postgres writes it", maxColumn)

// mark is a batch that was published and is still to be marked.
type mark struct {
	at   time.Time
	ids  []string
	held bool // the rows are out of the main scan: what says so must end with the mark
}

// note is a mark that stands in the journal.
type note struct {
	mark
	seq int64
}

// failure is an attempt that is still to be counted.
type failure struct {
	id, text string
	lane     lane
	wait     time.Duration
	dead     bool
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
	led  bool // holds the table's lock

	cursor   position
	holes    []uint64
	next     []row               // read ahead while the batch before was published
	more     bool                // the last read was cut off at its limit
	found    int                 // rows that the last step had
	inflight map[string]struct{} // read and not yet marked, counted or held in the table
	marks    []mark
	failures []failure
	held     []row             // passed over, to be put aside in the table
	blocked  map[lane]struct{} // lanes with rows in failures or held
	retries  retries
	journal  []note // noted as published, rows still to be marked
}

func newSession(r *Relay, conn *pgx.Conn) *session {
	conn.PgConn().Frontend().SetMaxBodyLen(maxMessage)
	s := &session{r: r, conn: conn, inflight: map[string]struct{}{}, blocked: map[lane]struct{}{}}
	s.retries = retries{topics: map[string]*topic{}, pause: r.pauses()}
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
	err := s.land()
	if !s.conn.IsClosed() {
		_, lost := s.exchange(nothing)
		err = errors.Join(err, lost)
	}
	s.r.unmarked = s.marks
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.led && !s.conn.IsClosed() {
		// The server would notice the closed connection a little later; until then
		// no other relay could lead.
		_, _ = s.conn.Exec(ctx, "SELECT pg_advisory_unlock_all()")
	}
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
	// may have to step over all that was published since the last vacuum. Joins are
	// of a batch with a table: one index probe for each row of the batch.
	_, err := s.conn.Exec(ctx, `SELECT set_config(name, value, false) FROM (VALUES
		('tcp_keepalives_idle', '2'), ('tcp_keepalives_interval', '1'), ('tcp_keepalives_count', '3'),
		('enable_seqscan', 'off'), ('enable_bitmapscan', 'off'), ('enable_hashjoin', 'off'), ('enable_mergejoin', 'off'), ('jit', 'off'),
		('statement_timeout', $1)) AS v(name, value)`, strconv.FormatInt(exchangeTimeout.Milliseconds(), 10))
	if err != nil {
		return false, fmt.Errorf("take the lead: %w", err)
	}
	var b pgx.Batch
	b.Queue("LISTEN " + pgx.Identifier{s.r.cfg.Table.channel()}.Sanitize())
	// Rows restored from another server may carry transactions that this one has
	// not reached; no cursor could pass them.
	b.Queue(s.r.cfg.Table.sql.adopt)
	b.Queue(s.r.cfg.Table.sql.adoptHeld)
	b.Queue(s.r.cfg.Table.sql.waitingTopics).Query(s.loadTopics)
	b.Queue(s.r.cfg.Table.sql.journal).Query(s.loadJournal)
	if err := s.conn.SendBatch(ctx, &b).Close(); err != nil {
		return false, fmt.Errorf("take the lead: %w", err)
	}
	s.led = true
	s.r.leading.Store(true)
	return true, nil
}

// idle waits for a wake-up from this process or another, for a row's next
// attempt, or for the poll.
func (s *session) idle(ctx context.Context) error {
	d := pause.Jitter(s.r.cfg.Poll)
	if due, ok := s.retries.nextDue(); ok {
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
		var err error
		if rows, err = s.exchange(newRows); err != nil {
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
	s.next, lost = s.exchange(newRows)
	return full, errors.Join(lost, s.settle(batch, <-answers))
}

// admit puts rows aside whose lane waits for an earlier row, or whose topic is
// down. Every row that a read returns is admitted, published or put aside before
// the next read: see the package documentation.
func (s *session) admit(rows []row) []row {
	batch := rows[:0]
	for i := range rows {
		if rows[i].tooLarge() {
			s.drop(rows[i])
			continue
		}
		_, blocked := s.blocked[rows[i].lane()]
		if blocked || rows[i].waits || s.retries.down(rows[i].topic) {
			s.hold(rows[i])
			continue
		}
		batch = append(batch, rows[i])
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

// settle sorts the answers into marks, failures and rows that wait.
func (s *session) settle(batch []row, answers []error) error {
	if err := complete(batch, answers); err != nil {
		return err
	}
	now := time.Now()
	apart, batch, answers := s.topicsApart(batch, answers, now)
	for i := range apart {
		s.hold(apart[i])
	}
	if err := outage(answers); err != nil {
		s.giveBack(batch)
		s.giveBack(s.next)
		s.next = nil
		return fmt.Errorf("%w: %w", errOutage, err)
	}
	done := mark{at: now}
	for i, err := range answers {
		switch {
		case err == nil:
			done.ids = append(done.ids, batch[i].id)
		case errors.Is(err, pubsub.ErrHeld):
			s.hold(batch[i])
		default:
			s.fail(batch[i], err)
		}
	}
	s.published(done)
	return nil
}

func complete(batch []row, answers []error) error {
	if len(answers) != len(batch) {
		return fmt.Errorf("publisher gave %d answers for %d messages", len(answers), len(batch))
	}
	return nil
}

// published notes rows that Pub/Sub has taken.
func (s *session) published(m mark) {
	if len(m.ids) > 0 {
		s.marks = append(s.marks, m)
		s.r.counters.published.Add(uint64(len(m.ids)))
	}
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

// giveBack forgets rows that were not published and moves the cursor back before
// them, to read them again.
func (s *session) giveBack(rows []row) {
	for i := range rows {
		if rows[i].compare(s.cursor) <= 0 {
			s.cursor = position{tx: rows[i].tx, id: s.r.cfg.Table.first()}
		}
		delete(s.inflight, rows[i].id)
	}
}

// fail counts an attempt and reports whether it was the last: the row is then
// dead-lettered, and what waits behind it may go.
func (s *session) fail(w row, err error) (dead bool) {
	s.r.counters.failed.Add(1)
	f := failure{id: w.id, lane: w.lane(), text: reason(err), wait: s.r.backoff(w.attempts + 1), dead: w.attempts+1 >= s.r.cfg.MaxAttempts}
	s.failures = append(s.failures, f)
	if f.dead {
		s.buried(w, err)
	}
	s.block(f.lane)
	return f.dead
}

// drop dead-letters a row that is too large, which no further attempt could change.
// What is behind it does not wait.
func (s *session) drop(w row) {
	s.r.counters.failed.Add(1)
	s.failures = append(s.failures, failure{id: w.id, lane: w.lane(), text: reason(errTooLarge), dead: true})
	s.buried(w, errTooLarge)
}

func (s *session) buried(w row, err error) {
	s.r.counters.dead.Add(1)
	s.r.cfg.Logger.Error("outbox event dead-lettered", "table", s.r.cfg.Table.name, "id", w.id, "topic", w.topic, "error", err)
}

// backoff is 2^n times the least wait, with jitter.
func (r *Relay) backoff(attempt int) time.Duration {
	d := r.cfg.MaxBackoff
	if attempt < 20 {
		d = min(d, r.cfg.MinBackoff<<(attempt-1))
	}
	return pause.Jitter(d)
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
