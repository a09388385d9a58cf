package outbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// maxJournal bounds the marks that may be owed: what a relay that takes over
// has to read, and the memory for it.
const maxJournal = 1000

// Marking a row published means writing it anew, which costs several times what
// reading and publishing it does. While there is a backlog the relay therefore
// notes each batch in a journal, with one insert, and marks the rows when the
// backlog is gone. A row is published if it is marked or in the journal.

// queueMarks adds the marks to a round trip and returns what to do once it is
// through.
func (s *session) queueMarks(b *pgx.Batch) (done func()) {
	t, marks := s.r.cfg.Table, s.marks
	notes := make([]note, 0, len(marks))
	for _, m := range marks {
		if m.held || !s.more || len(s.journal)+len(notes) >= maxJournal {
			b.Queue(t.sql.mark, m.at, m.ids)
			continue
		}
		notes = append(notes, note{mark: m})
		seq := &notes[len(notes)-1].seq
		b.Queue(t.sql.note, m.at, m.ids).QueryRow(func(r pgx.Row) error { return r.Scan(seq) })
	}
	return func() {
		for _, m := range marks {
			s.forget(m)
		}
		for _, n := range notes {
			s.remember(n.mark)
		}
		s.journal = append(s.journal, notes...)
		s.marks = nil
	}
}

// payOff marks the rows of the oldest note and reports whether there was one.
func (s *session) payOff() (bool, error) {
	if len(s.journal) == 0 {
		return false, nil
	}
	e := s.journal[0]
	ctx, cancel := context.WithTimeout(context.Background(), exchangeTimeout)
	defer cancel()
	var b pgx.Batch
	b.Queue(s.r.cfg.Table.sql.mark, e.at, e.ids)
	b.Queue(s.r.cfg.Table.sql.strike, e.seq)
	if err := s.conn.SendBatch(ctx, &b).Close(); err != nil {
		return true, fmt.Errorf("mark from the journal: %w", err)
	}
	s.forget(e.mark)
	s.journal = s.journal[1:]
	return true, nil
}

// loadJournal takes over what a leader before has left unmarked.
func (s *session) loadJournal(rows pgx.Rows) error {
	s.journal = nil
	for rows.Next() {
		var e note
		if err := rows.Scan(&e.seq, &e.at, &e.ids); err != nil {
			return err
		}
		s.journal = append(s.journal, e)
		s.remember(e.mark)
	}
	return rows.Err()
}
