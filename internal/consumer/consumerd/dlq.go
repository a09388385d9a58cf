package consumerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/postgres"
)

// dlq is for the events that could not be published and were given up.
type dlq struct {
	List   dlqList   `cmd:"" help:"Show events that could not be published."`
	Replay dlqReplay `cmd:"" help:"Publish them after all."`
	Drop   dlqDrop   `cmd:"" help:"Delete them: they will never be published."`
}

// database is the part of the configuration that a command on the database needs.
type database struct{ Config }

// Validate accepts a configuration that is enough to reach the database.
func (d *database) Validate() error {
	if d.PostgresURL == "" {
		return errors.New("postgres-url: is required")
	}
	return d.Settings.Validate()
}

// with runs work on the database.
func (d *database) with(ctx context.Context, work func(*pgxpool.Pool) error) error {
	db, err := postgres.Open(ctx, postgres.Config{URL: d.PostgresURL.Reveal(), ApplicationName: name, MaxConns: 2})
	if err != nil {
		return err
	}
	defer db.Close()
	return work(db)
}

// dlqBatch bounds one statement: a replay of thousands must not hold its rows
// against the relay for long.
const dlqBatch = 500

type dlqList struct {
	database
	Limit int `name:"limit" default:"100" help:"At most so many, the newest first."`
}

// Run shows what was given up, and why.
func (c *dlqList) Run(ctx context.Context) error {
	return c.with(ctx, func(db *pgxpool.Pool) error {
		letters, err := deadLetters(ctx, db, c.Limit)
		if err != nil {
			return err
		}
		return printDeadLetters(os.Stdout, letters)
	})
}

type deadLetter struct {
	ID        string
	Topic     string
	Attempts  int
	CreatedAt time.Time
	LastError string
}

func deadLetters(ctx context.Context, db *pgxpool.Pool, limit int) ([]deadLetter, error) {
	rows, err := db.Query(ctx, `SELECT id, topic, attempts, created_at, coalesce(last_error, '') FROM `+outbox.Consumer().Name()+`
		WHERE dlq = true AND published_at IS NULL ORDER BY created_at DESC LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	letters, err := pgx.CollectRows(rows, pgx.RowToStructByPos[deadLetter])
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	return letters, nil
}

func printDeadLetters(w io.Writer, letters []deadLetter) error {
	if len(letters) == 0 {
		_, err := fmt.Fprintln(w, "there are no dead letters")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "ID\tTOPIC\tATTEMPTS\tCREATED\tERROR") // Flush reports
	for _, l := range letters {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\n", l.ID, l.Topic, l.Attempts, bff.At(l.CreatedAt), firstLine(l.LastError))
	}
	return table.Flush()
}

const maxShownError = 120

func firstLine(s string) string {
	for i, r := range s {
		if r == '\n' || i >= maxShownError {
			return s[:i]
		}
	}
	return s
}

// chosen names dead letters: some by their ids, or all.
type chosen struct {
	IDs []string `arg:"" optional:"" name:"id" help:"Ids as 'dlq list' shows them."`
	All bool     `name:"all" help:"Every dead letter."`
}

// read checks that exactly one of the two was given: a forgotten id must not
// mean all.
func (c chosen) read() ([]bff.ID, error) {
	if c.All == (len(c.IDs) > 0) {
		return nil, errors.New("give ids, or --all")
	}
	ids := make([]bff.ID, 0, len(c.IDs))
	var errs []error
	for _, s := range c.IDs {
		id, err := bff.ParseID(bff.PrefixEvent, s)
		if err != nil {
			errs = append(errs, fmt.Errorf("%q: %w", s, err))
		}
		ids = append(ids, id)
	}
	return ids, errors.Join(errs...)
}

type dlqReplay struct {
	database
	chosen
}

// Run gives dead letters another life; a relay takes them within its poll.
func (c *dlqReplay) Run(ctx context.Context) error {
	ids, err := c.read()
	if err != nil {
		return err
	}
	return c.with(ctx, func(db *pgxpool.Pool) error {
		n, err := replay(ctx, db, ids)
		_, printErr := fmt.Fprintf(os.Stdout, "%d events will be published\n", n)
		return errors.Join(err, printErr)
	})
}

func replay(ctx context.Context, db *pgxpool.Pool, ids []bff.ID) (int, error) {
	table, total := outbox.Consumer(), 0
	if len(ids) > 0 {
		return table.Replay(ctx, db, len(ids), ids...)
	}
	for {
		n, err := table.Replay(ctx, db, dlqBatch)
		total += n
		if err != nil || n < dlqBatch {
			return total, err
		}
	}
}

type dlqDrop struct {
	database
	chosen
}

// Run deletes dead letters.
func (c *dlqDrop) Run(ctx context.Context) error {
	ids, err := c.read()
	if err != nil {
		return err
	}
	return c.with(ctx, func(db *pgxpool.Pool) error {
		n, err := drop(ctx, db, ids)
		_, printErr := fmt.Fprintf(os.Stdout, "%d events are gone\n", n)
		return errors.Join(err, printErr)
	})
}

// drop deletes the named dead letters; without names, all that there were when
// it began.
func drop(ctx context.Context, db *pgxpool.Pool, ids []bff.ID) (int, error) {
	table := outbox.Consumer()
	if len(ids) > 0 {
		return table.Drop(ctx, db, ids...)
	}
	for total, before := 0, time.Now(); ; {
		n, err := table.PruneDLQ(ctx, db, before, dlqBatch)
		total += n
		if err != nil || n < dlqBatch {
			return total, err
		}
	}
}
