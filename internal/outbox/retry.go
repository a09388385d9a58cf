package outbox

import (
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff/internal/pubsub"
)

const (
	// maxRetries is how many rows are tried again at once: few, because new rows
	// wait for the round trip that reads and writes them.
	maxRetries = 16
	// retryPause bounds the retries' share of the relay's time: after each round
	// trip of theirs there is none for so many times as long as it took.
	retryPause = 3
	// maxProbe is the longest time between two attempts on a topic that is down:
	// each costs one message, and its events should go out soon after it is back.
	maxProbe = 30 * time.Second
)

// lane is what order is kept within: a topic and a key, or one row without key.
type lane struct{ topic, key, id string }

func (w *row) lane() lane {
	if w.key == "" {
		return lane{topic: w.topic, id: w.id}
	}
	return lane{topic: w.topic, key: w.key}
}

// retries is the session's second pass: it tries again what the first one, over
// the rows that were never tried, has put aside. It knows the topics only; which
// lanes wait, and until when, stands in the table of retries.
type retries struct {
	topics map[string]*topic
	flight *flight   // published at the moment
	over   []lane    // tried; to be released or resumed
	after  time.Time // no attempt before
	pause  *pauser   // while Pub/Sub is away
	paused bool
}

// topic is one that lanes wait in.
type topic struct {
	next   time.Time // when a lane is due, or when a topic that is down is tried
	down   time.Time // since when it is missing or forbidden; zero means it is not
	probes int
}

// flight is a batch of retries that is being published.
type flight struct {
	lanes     []lane
	rows      []row
	answers   chan []error
	published uint64 // the relay's counter when it left
}

// at returns the topic's state, and a new one that is due at once if there is none.
func (t *retries) at(name string) *topic {
	s := t.topics[name]
	if s == nil {
		s = &topic{}
		t.topics[name] = s
	}
	return s
}

// look makes the next round trip ask for the topic's lanes: the table knows when
// they are due.
func (t *retries) look(name string) {
	if s := t.at(name); s.down.IsZero() {
		s.next = time.Time{}
	}
}

func (t *retries) down(name string) bool {
	s := t.topics[name]
	return s != nil && !s.down.IsZero()
}

// nextDue is when the retries may have their next round trip; not ok means that
// they need none, or that the answers which they wait for will wake the relay.
func (t *retries) nextDue() (at time.Time, ok bool) {
	switch {
	case t.flight != nil:
		ok = len(t.flight.answers) > 0
	case len(t.topics) > 0:
		at, ok = t.earliest(), true
	}
	if at.Before(t.after) {
		at = t.after
	}
	return at, ok
}

func (t *retries) earliest() (at time.Time) {
	first := true
	for _, s := range t.topics {
		if first || s.next.Before(at) {
			at, first = s.next, false
		}
	}
	return at
}

// due are the topics to ask for lanes and how many of each: one of a topic that
// is down, to see whether it still is.
func (t *retries) due(now time.Time, limit int) (names []string, lanes []int) {
	for name, s := range t.topics {
		if !s.next.After(now) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		n := max(1, limit/len(names))
		if t.down(name) {
			n = 1
		}
		lanes = append(lanes, n)
	}
	return names, lanes
}

// hold puts a row aside that must not be published yet.
func (s *session) hold(w row) {
	s.held = append(s.held, w)
	s.block(w.lane())
}

// block keeps the rows of a lane that were read already from overtaking the one
// that was just put aside. Of rows that are read from now on the table says it.
func (s *session) block(l lane) {
	s.blocked[l] = struct{}{}
	s.retries.look(l.topic)
}

// queueRetries adds to a round trip what has become of rows that failed or wait.
func (s *session) queueRetries(b *pgx.Batch) {
	sql := &s.r.cfg.Table.sql
	if len(s.failures) > 0 {
		var (
			ids, texts []string
			waits      []float64
			dead       []bool
			delayed    lanes
		)
		for _, f := range s.failures {
			ids, texts, waits, dead = append(ids, f.id), append(texts, f.text), append(waits, f.wait.Seconds()), append(dead, f.dead)
			if !f.dead {
				delayed.add(f.lane, f.wait)
			}
		}
		b.Queue(sql.fail, ids, texts, waits, dead)
		if len(delayed.topics) > 0 {
			b.Queue(sql.delay, delayed.topics, delayed.keys, delayed.ids, delayed.waits)
		}
	}
	if len(s.held) > 0 {
		var ids []string
		var waiting lanes
		for i := range s.held {
			ids = append(ids, s.held[i].id)
			waiting.add(s.held[i].lane(), 0)
		}
		b.Queue(sql.hold, ids)
		b.Queue(sql.wait, waiting.topics, waiting.keys, waiting.ids)
	}
	// Last: a lane that has just got another held row is not released.
	if len(s.retries.over) > 0 {
		var over lanes
		for _, l := range s.retries.over {
			over.add(l, 0)
		}
		b.Queue(sql.release, over.topics, over.keys, over.ids)
		b.Queue(sql.resume, over.topics, over.keys, over.ids)
	}
}

// retriesWritten forgets what a round trip has written.
func (s *session) retriesWritten() {
	for _, f := range s.failures {
		delete(s.inflight, f.id)
	}
	for i := range s.held {
		delete(s.inflight, s.held[i].id)
	}
	s.failures, s.held, s.retries.over = nil, nil, nil
}

// lanes are lanes as arrays, each once: an INSERT may not touch a row twice.
type lanes struct {
	topics, keys, ids []string
	waits             []float64
	seen              map[lane]struct{}
}

func (a *lanes) add(l lane, wait time.Duration) {
	if _, again := a.seen[l]; again {
		return
	}
	if a.seen == nil {
		a.seen = map[lane]struct{}{}
	}
	a.seen[l] = struct{}{}
	a.topics, a.keys, a.ids, a.waits = append(a.topics, l.topic), append(a.keys, l.key), append(a.ids, l.id), append(a.waits, wait.Seconds())
}

// dueReading is the answer to a read of lanes that are due.
type dueReading struct {
	*answerSize

	topics []string // that were asked
	lanes  []lane
	rows   []row
	next   map[string]time.Duration // of each topic that still has lanes
}

func (g *dueReading) queue(b *pgx.Batch, t *Table, r *retries, limit int) {
	var perTopic []int
	if g.topics, perTopic = r.due(time.Now(), limit); len(g.topics) == 0 {
		return
	}
	b.Queue(t.sql.retry, g.topics, perTopic, limit).Query(g.scan)
	b.Queue(t.sql.nextRetry, g.topics).Query(g.scanNext)
}

func (g *dueReading) scan(rows pgx.Rows) error {
	for rows.Next() {
		var (
			l        lane
			tx       *uint64
			id       *string
			attempts *int
			w        row
		)
		if err := rows.Scan(&l.topic, &l.key, &l.id, &tx, &id, &w.envelope, &w.payload, &attempts); err != nil {
			return err
		}
		if n := len(g.lanes); n == 0 || g.lanes[n-1] != l {
			g.lanes = append(g.lanes, l)
		}
		if id == nil { // the lane has no row any more
			continue
		}
		w.position, w.topic, w.key, w.attempts = position{*tx, *id}, l.topic, l.key, *attempts
		if err := g.add(&w); err != nil {
			return err
		}
		g.rows = append(g.rows, w)
	}
	return rows.Err()
}

func (g *dueReading) scanNext(rows pgx.Rows) error {
	g.next = map[string]time.Duration{}
	for rows.Next() {
		var name string
		var wait *float64
		if err := rows.Scan(&name, &wait); err != nil {
			return err
		}
		if wait != nil {
			g.next[name] = time.Duration(*wait * float64(time.Second))
		}
	}
	return rows.Err()
}

// depart publishes the lanes that are due, beside whatever the session does
// meanwhile: a topic that answers slowly delays no other.
func (s *session) depart(g dueReading) {
	now := time.Now()
	for _, name := range g.topics {
		t := s.retries.at(name)
		switch wait, ok := g.next[name]; {
		case !ok:
			delete(s.retries.topics, name)
			s.reportTopics()
		case t.down.IsZero():
			t.next = now.Add(wait)
		}
	}
	if len(g.lanes) == 0 {
		return
	}
	for i := range g.rows {
		if g.rows[i].tooLarge() {
			s.drop(g.rows[i])
		}
	}
	g.rows = slices.DeleteFunc(g.rows, func(w row) bool { return w.tooLarge() })
	f := &flight{lanes: g.lanes, rows: g.rows, answers: make(chan []error, 1), published: s.r.counters.published.Load()}
	s.retries.flight = f
	go func() {
		f.answers <- s.publish(f.rows)
		s.r.nudge()
	}()
}

// retry gives the retries a round trip if they need one and have not had their
// share of the time: it writes what has become of those under way and sends the
// next.
func (s *session) retry() error {
	start := time.Now()
	if at, ok := s.retries.nextDue(); !ok || at.After(start) {
		return nil
	}
	s.retries.paused = false
	if err := s.land(); err != nil || s.retries.paused {
		return err
	}
	if _, err := s.exchange(dueLanes); err != nil {
		return err
	}
	now := time.Now()
	s.retries.after = now.Add(retryPause * now.Sub(start))
	return nil
}

func (s *session) retryLimit() int { return max(1, min(maxRetries, s.r.cfg.Batch/4)) }

// land waits for the retries under way and settles them.
func (s *session) land() error {
	f := s.retries.flight
	if f == nil {
		return nil
	}
	s.retries.flight = nil
	return s.settleRetries(f, <-f.answers)
}

func (s *session) settleRetries(f *flight, answers []error) error {
	if err := complete(f.rows, answers); err != nil {
		return err
	}
	now := time.Now()
	waits := map[lane]bool{} // until a time that is known, or for its topic
	apart, rows, answers := s.topicsApart(f.rows, answers, now)
	for i := range apart {
		waits[apart[i].lane()] = true
	}
	// While other events go out, Pub/Sub is there and the failures are the rows'.
	err := outage(answers)
	if s.retries.paused = err != nil && s.r.counters.published.Load() == f.published; s.retries.paused {
		s.r.cfg.Logger.Warn("outbox retries pause: no event could be published", "table", s.r.cfg.Table.name, "events", len(rows), "error", err)
		s.retries.after = now.Add(s.retries.pause.next)
		s.retries.pause.grow()
		return nil
	}
	s.retries.pause.reset()
	done := mark{at: now, held: true}
	for i, err := range answers {
		switch {
		case err == nil:
			done.ids = append(done.ids, rows[i].id)
		case errors.Is(err, pubsub.ErrHeld):
			continue // it waits on
		default:
			waits[rows[i].lane()] = !s.fail(rows[i], err)
		}
		s.topicUp(rows[i].topic, now)
	}
	s.published(done)
	for _, l := range f.lanes {
		if !waits[l] {
			s.retries.over = append(s.retries.over, l)
			s.retries.look(l.topic)
		}
	}
	return nil
}

// topicsApart takes the rows out of a batch that failed because their topic is
// down: no fault of theirs, and nothing that says how Pub/Sub is.
func (s *session) topicsApart(batch []row, answers []error, now time.Time) (apart, rows []row, others []error) {
	for i, err := range answers {
		if pubsub.TopicUnavailable(err) {
			s.topicDown(batch[i].topic, err, now)
		}
	}
	for i, err := range answers {
		if s.retries.down(batch[i].topic) && (pubsub.TopicUnavailable(err) || pubsub.Transient(err)) {
			s.topicDown(batch[i].topic, err, now)
			apart = append(apart, batch[i])
			continue
		}
		rows, others = append(rows, batch[i]), append(others, err)
	}
	return apart, rows, others
}

// topicDown notes that a topic is missing or forbidden: its events wait without
// an attempt being counted, and one of them is tried from time to time.
func (s *session) topicDown(name string, err error, now time.Time) {
	t := s.retries.at(name)
	if t.down.IsZero() {
		t.down, t.probes = now, 0
		s.r.cfg.Logger.Error("outbox topic is missing or forbidden: its events wait until it can be published to",
			"table", s.r.cfg.Table.name, "topic", name, "error", err)
		s.reportTopics()
	} else if now.Before(t.next) {
		return // another row of the same batch
	}
	t.probes++
	t.next = now.Add(min(s.r.backoff(t.probes), maxProbe))
}

func (s *session) topicUp(name string, now time.Time) {
	t := s.retries.topics[name]
	if t == nil || t.down.IsZero() {
		return
	}
	s.r.cfg.Logger.Info("outbox topic can be published to again: its events go out",
		"table", s.r.cfg.Table.name, "topic", name, "away_ms", now.Sub(t.down).Milliseconds())
	t.down, t.next = time.Time{}, now
	s.reportTopics()
}

// reportTopics makes the topics that are down visible outside of the session.
func (s *session) reportTopics() {
	var names []string
	for name := range s.retries.topics {
		if s.retries.down(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	s.r.topicsDown.Store(&names)
}

// loadTopics learns which topics lanes wait in.
func (s *session) loadTopics(rows pgx.Rows) error {
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		s.retries.at(name)
	}
	return rows.Err()
}

// retrying reports whether retries are on their way or due now.
func (s *session) retrying(now time.Time) bool {
	if s.retries.flight != nil {
		return true
	}
	for _, t := range s.retries.topics {
		if !t.next.After(now) {
			return !s.retries.paused
		}
	}
	return false
}
