package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ask says what a round trip reads.
type ask int

const (
	nothing  ask = iota
	newRows      // the main scan
	dueLanes     // what is to be tried again
)

// exchange marks what was published, writes what failed or waits and reads on,
// in one round trip and one transaction. It reads last, so that the table says of
// each new row whether its lane waits.
func (s *session) exchange(a ask) ([]row, error) {
	var b pgx.Batch
	marked := s.queueMarks(&b)
	s.queueRetries(&b)
	ctx, cancel := context.WithTimeout(context.Background(), exchangeTimeout)
	defer cancel()
	size := answerSize{enough: cancel}
	got, due := reading{answerSize: &size}, dueReading{answerSize: &size}
	switch a {
	case newRows:
		b.Queue(s.readStatement(), s.cursor.tx, s.cursor.id, s.limit(), s.holes).Query(got.scan)
	case dueLanes:
		due.queue(&b, s.r.cfg.Table, &s.retries, s.retryLimit())
	}
	if b.Len() == 0 {
		return nil, nil
	}
	if err := s.conn.SendBatch(ctx, &b).Close(); err != nil {
		if a == newRows {
			s.r.careful = carefulReads
		}
		return nil, fmt.Errorf("mark and read: %w", cmp.Or(size.err, err))
	}
	marked()
	s.retriesWritten()
	switch a {
	case newRows:
		clear(s.blocked) // what was read before is admitted, what is read now says it itself
		s.r.scanned.Add(uint64(len(got.rows)))
		fresh, err := s.advance(got)
		s.calm(&got)
		return fresh, err
	case dueLanes:
		s.depart(due)
	}
	return nil, nil
}

// calm ends careful reading once it has passed what made the fast read fail.
func (s *session) calm(got *reading) {
	switch {
	case !s.more:
		s.r.careful = 0
	case got.tooLarge():
		s.r.careful = carefulReads
	default:
		s.r.careful = max(0, s.r.careful-1)
	}
}

// readStatement asks for each row's lane only if there are lanes that wait.
func (s *session) readStatement() string {
	from := &s.r.cfg.Table.sql.fast
	if s.r.careful > 0 {
		from = &s.r.cfg.Table.sql.careful
	}
	if len(s.retries.topics) == 0 {
		return from.read
	}
	return from.readPastHeld
}

// limit is half of the window: one half is published while the other is marked.
func (s *session) limit() int {
	limit := max(1, s.r.cfg.Batch/2)
	if s.r.careful > 0 {
		limit = min(limit, carefulRows)
	}
	return limit
}

const (
	// maxColumn bounds a payload or an envelope as Postgres writes it, which is with more
	// blanks than [Table.Append] counts.
	maxColumn = 2 * maxEvent
	// maxMessage bounds what the server may send in one piece, a row for instance.
	maxMessage = 4 << 20
	// maxAnswer bounds the rows of one read together.
	maxAnswer = 16 << 20
	// carefulRows is how many rows a careful read takes: together no more than maxAnswer.
	carefulRows = maxAnswer / (2 * maxColumn)
	// carefulReads is how many careful reads without a row that is too large are enough:
	// more rows than a fast read has by default.
	carefulReads = 20
)

// errAnswer says that the rows of a read are too large to be held together.
var errAnswer = errors.New("too many bytes for one read")

// answerSize ends a read whose rows are too large together. What is on its way is not
// worth waiting for: the connection is given up with it.
type answerSize struct {
	bytes  int
	enough func()
	err    error
}

// add counts a row, whose event is dropped if it is too large.
func (a *answerSize) add(w *row) error {
	a.bytes += len(w.envelope) + len(w.payload)
	if len(w.envelope) > maxColumn || len(w.payload) > maxColumn {
		w.envelope, w.payload = nil, nil
	}
	if a.bytes > maxAnswer {
		a.err = errAnswer
		a.enough()
	}
	return a.err
}

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
	if got.holes == limit { // more than fits: walk over them again, and take nothing before them that comes after
		to = position{tx: slices.Min(s.holes), id: s.r.cfg.Table.first()}
		got.rows = slices.DeleteFunc(got.rows, func(w row) bool { return w.compare(s.cursor) > 0 })
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
	*answerSize

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
			waits          bool
			w              row
		)
		if err := rows.Scan(&g.snapshot, &hole, &tx, &id, &topic, &key, &w.envelope, &w.payload, &attempts, &waits); err != nil {
			return err
		}
		if hole == nil { // the snapshot alone
			continue
		}
		w.position = position{*tx, *id}
		w.topic, w.key, w.attempts, w.waits = *topic, *key, *attempts, waits
		if err := g.add(&w); err != nil {
			return err
		}
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

// tooLarge reports whether a row is to be dead-lettered for its size.
func (g *reading) tooLarge() bool {
	return slices.ContainsFunc(g.rows, func(w row) bool { return w.tooLarge() })
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
