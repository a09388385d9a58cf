package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
)

// Stats is what the dashboards and alerts look at.
type Stats struct {
	Depth       int           // rows to be published
	DLQ         int           // rows given up
	Lag         time.Duration // age of the oldest row to be published
	MaxAttempts int           // failures of the worst row to be published
	Held        int           // rows that wait for another attempt or for their topic
}

// Stats reads the state of the table.
func (t *Table) Stats(ctx context.Context, db *pgxpool.Pool) (Stats, error) {
	var s Stats
	var lag float64
	if err := db.QueryRow(ctx, t.sql.stats).Scan(&s.Depth, &s.DLQ, &lag, &s.MaxAttempts, &s.Held); err != nil {
		return Stats{}, fmt.Errorf("outbox stats: %w", err)
	}
	s.Lag = time.Duration(max(0, lag) * float64(time.Second))
	return s, nil
}

// DeadLetter is an event that was given up.
type DeadLetter struct {
	ID        string
	Topic     string
	Attempts  int
	CreatedAt time.Time
	LastError string
}

// DeadLetters lists the events that were given up, the newest first.
func (t *Table) DeadLetters(ctx context.Context, db *pgxpool.Pool, limit int) ([]DeadLetter, error) {
	return listDeadLetters(ctx, db, t.sql.dead, limit)
}

// ArchivedDeadLetters lists those that [Table.CompactDLQ] has moved to the archive.
func (t *Table) ArchivedDeadLetters(ctx context.Context, db *pgxpool.Pool, limit int) ([]DeadLetter, error) {
	if t.archive == "" {
		return nil, nil
	}
	return listDeadLetters(ctx, db, t.sql.dug, limit)
}

func listDeadLetters(ctx context.Context, db *pgxpool.Pool, sql string, limit int) ([]DeadLetter, error) {
	rows, err := db.Query(ctx, sql, limit)
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	letters, err := pgx.CollectRows(rows, pgx.RowToStructByPos[DeadLetter])
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	for i := range letters {
		letters[i].ID = (&row{position: position{id: letters[i].ID}}).eventID()
	}
	return letters, nil
}

// Replay gives dead-lettered rows another life, the oldest first, and returns how
// many. Without ids it takes up to limit of them all, but none from the archive; a
// named one comes back from there. Wake a relay afterwards.
func (t *Table) Replay(ctx context.Context, db *pgxpool.Pool, limit int, ids ...bff.ID) (int, error) {
	var only []string // nil means all
	for _, id := range ids {
		only = append(only, t.id(id))
	}
	if len(only) > 0 && t.archive != "" {
		if _, err := db.Exec(ctx, t.sql.restore, only); err != nil {
			return 0, fmt.Errorf("take from the archive of the outbox: %w", err)
		}
	}
	tag, err := db.Exec(ctx, t.sql.replay, only, limit)
	if err != nil {
		return 0, fmt.Errorf("replay outbox: %w", err)
	}
	return int(tag.RowsAffected()), nil
}

// Drop deletes dead-lettered rows.
func (t *Table) Drop(ctx context.Context, db *pgxpool.Pool, ids ...bff.ID) (int, error) {
	only := make([]string, len(ids))
	for i, id := range ids {
		only[i] = t.id(id)
	}
	tag, err := db.Exec(ctx, t.sql.drop, only)
	if err != nil {
		return 0, fmt.Errorf("drop from outbox: %w", err)
	}
	return int(tag.RowsAffected()), nil
}

// Prune removes rows that were published before the given moment, at most limit,
// and returns how many; where the table has an archive they move there. Call it
// until it returns less than limit. Ids carry their time, so the primary key
// finds the rows; those that do not, because the column's default made them, seem
// to be of centuries ahead.
func (t *Table) Prune(ctx context.Context, db *pgxpool.Pool, before time.Time, limit int) (int, error) {
	removed := 0
	for _, ids := range []struct{ sql, cut string }{{t.sql.prune, t.cut(before)}, {t.sql.pruneRandom, t.cut(farAhead(before))}} {
		if removed >= limit {
			break
		}
		tag, err := db.Exec(ctx, ids.sql, ids.cut, before, limit-removed)
		if err != nil {
			return removed, fmt.Errorf("prune outbox: %w", err)
		}
		removed += int(tag.RowsAffected())
	}
	return removed, nil
}

// PruneDLQ deletes dead-lettered rows that were written before the given moment.
func (t *Table) PruneDLQ(ctx context.Context, db *pgxpool.Pool, before time.Time, limit int) (int, error) {
	tag, err := db.Exec(ctx, t.sql.pruneDLQ, before, limit)
	if err != nil {
		return 0, fmt.Errorf("prune dead letters: %w", err)
	}
	return int(tag.RowsAffected()), nil
}

// CompactDLQ moves dead-lettered rows that were written before the given moment to
// the archive, whole and still marked as dead letters.
func (t *Table) CompactDLQ(ctx context.Context, db *pgxpool.Pool, before time.Time, limit int) (int, error) {
	if t.archive == "" {
		return 0, fmt.Errorf("archive dead letters: %s has no archive", t.name)
	}
	tag, err := db.Exec(ctx, t.sql.compact, before, limit)
	if err != nil {
		return 0, fmt.Errorf("archive dead letters: %w", err)
	}
	return int(tag.RowsAffected()), nil
}

// CountPublished counts what Prune would remove, up to a million.
func (t *Table) CountPublished(ctx context.Context, db *pgxpool.Pool, before time.Time) (n int, err error) {
	if err := db.QueryRow(ctx, t.sql.aged, t.cut(before), before, t.cut(farAhead(before))).Scan(&n); err != nil {
		return 0, fmt.Errorf("count published events: %w", err)
	}
	return n, nil
}

// CountDLQ counts what PruneDLQ or CompactDLQ would remove, up to a million.
func (t *Table) CountDLQ(ctx context.Context, db *pgxpool.Pool, before time.Time) (n int, err error) {
	if err := db.QueryRow(ctx, t.sql.agedDLQ, before).Scan(&n); err != nil {
		return 0, fmt.Errorf("count dead letters: %w", err)
	}
	return n, nil
}

// farAhead is later than the moment of any id of ours.
func farAhead(before time.Time) time.Time { return before.AddDate(1, 0, 0) }

// cut is the smallest id of a moment: its time with no random bits.
func (t *Table) cut(at time.Time) string {
	ms := uint64(max(0, at.UnixMilli()))
	var b [16]byte
	for i := range 6 {
		b[i] = byte(ms >> (8 * (5 - i)) & 0xff)
	}
	return t.id(bff.IDFromBytes(bff.PrefixEvent, b))
}
